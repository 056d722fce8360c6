"""`python -m zoo.manifest`: the JSON Schema of manifests, for `docs/manifest.schema.json`."""

from weights.terminal import say
from zoo.manifest.read import to_text
from zoo.manifest.schema import Manifest

DIALECT = "https://json-schema.org/draft/2020-12/schema"

if __name__ == "__main__":
    say(to_text({"$schema": DIALECT, **Manifest.model_json_schema()}), end="")
