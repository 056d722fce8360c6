"""`python -m zoo.manifest`: the JSON Schema of manifests, for `docs/manifest.schema.json`."""

from zoo.manifest.schema import Manifest
from zoo.manifest.text import to_text

DIALECT = "https://json-schema.org/draft/2020-12/schema"

if __name__ == "__main__":
    print(to_text({"$schema": DIALECT, **Manifest.model_json_schema()}), end="")
