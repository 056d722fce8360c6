"""EUPE by Equimo, at any size."""

from functools import partial

from tests.references import Reference
from tests.references.dinov2 import by_equimo

REFERENCES: dict[str, dict[str, Reference]] = {
    "eupe_vitt16": {"equimo": partial(by_equimo, "eupe_vitt16")}
}
