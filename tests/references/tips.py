"""TIPS by Equimo, and by transformers' DINOv2 with one register, which is the same network."""

from functools import partial

from tests.references import Reference
from tests.references.dinov2 import by_equimo, by_transformers

REFERENCES: dict[str, dict[str, Reference]] = {
    "tips_vits14_hr": {
        "equimo": partial(by_equimo, "tips_vits14_hr"),
        "transformers": by_transformers,
    }
}
