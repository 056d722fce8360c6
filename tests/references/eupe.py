"""EUPE by Equimo, and by transformers' DINOv3, whose network it is; at any size."""

from functools import partial

from tests.references import Reference
from tests.references.dinov2 import by_equimo
from tests.references.dinov3 import by_transformers

REFERENCES: dict[str, dict[str, Reference]] = {
    "eupe_vitt16": {
        "equimo": partial(by_equimo, "eupe_vitt16"),
        "transformers": by_transformers,
    }
}
