"""Files and folders that were built: manifests, loading (`zoo.load`), `zoo pull` and `zoo push`.

`python -m zoo.artifacts` prints the JSON Schema of manifests (`docs/manifest.schema.json`).
"""
