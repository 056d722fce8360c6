"""Checkpoints as Google DeepMind publishes TIPS: an `.npz` with the keys of Meta's DINOv2."""

from weights.mapping import Naming
from weights.namings import meta_names

TIPS_VIT = Naming("google", meta_names.DINOV2_VIT.rules)
