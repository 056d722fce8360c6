"""The one manifest of files and folders: its schema, how it is read and how it is written.

`python -m zoo.manifest` prints its JSON Schema, which is kept in `docs/manifest.schema.json`.
"""
