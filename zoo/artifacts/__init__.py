"""Files and folders that were built: their manifest, `zoo.load`, `pull` and `push`.

`python -m zoo.artifacts` prints the JSON Schema of manifests (`docs/manifest.schema.json`).
"""
