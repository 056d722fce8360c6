"""Print the JSON Schema of manifests (`python -m zoo.artifacts`), for
`docs/manifest.schema.json`."""

from zoo.artifacts.read import to_text
from zoo.artifacts.schema import Manifest
from zoo.common.terminal import print_stdout

DIALECT = "https://json-schema.org/draft/2020-12/schema"

if __name__ == "__main__":
    print_stdout(to_text({"$schema": DIALECT, **Manifest.model_json_schema()}), end="")
