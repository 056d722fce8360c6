"""EUPE by Equimo, and by transformers' DINOv3, which is the same network; at any size."""

from tests.references.dinov2 import by_equimo
from tests.references.dinov3 import by_transformers
from tests.references.running import both

REFERENCES = both(by_equimo, by_transformers, eupe_vitt16="eupe_vitt16")
