"""The names of what is recognised, by which a user chooses (``to_onnx(…, fuse=[…])``)."""

from __future__ import annotations

from collections.abc import Mapping

from converter.fuse.activations import ACTIVATIONS
from converter.fuse.registry import named

STRUCTURES = (
    *("attention", "rotary", "softmax", "log_softmax", "gelu", "resize"),
    *("layer_norm", "rms_norm", "group_norm", "batch_norm", "recurrent"),
)

NEEDS: Mapping[str, tuple[str, ...]] = {"attention": ("softmax",), "group_norm": ("layer_norm",)}
"""What has to be recognised for others to be."""


def names() -> tuple[str, ...]:
    """Every name, those of activations and of what is registered from outside too."""
    ours = (*STRUCTURES, *(spelling.op for spelling in ACTIVATIONS))
    return tuple(dict.fromkeys((*ours, *named())))
