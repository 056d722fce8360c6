"""TIPS by Equimo, and by transformers' DINOv2 with one register, which is the same network."""

from tests.references.dinov2 import by_equimo, by_transformers
from tests.references.running import both

REFERENCES = both(by_equimo, by_transformers, tips_vits14_hr="tips_vits14_hr")
