"""Checkpoints as Google DeepMind publishes TIPS: an `.npz` with the keys of Meta's DINOv2."""

from weights import meta
from weights.mapping import Naming

TIPS_VIT = Naming("google", meta.DINOV2_VIT.rules)
