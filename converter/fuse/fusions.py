"""The names of what is recognised, by which a user chooses (``to_onnx(…, fuse=[…])``)."""

from __future__ import annotations

from converter.fuse.user_recognisers import registered_names
from converter.ir import ops

NEEDS = {op.structure: op.needs for op in ops.stated() if op.needs}
"""What has to be recognised for others to be."""


def names() -> tuple[str, ...]:
    """Every name, those of activations and of what is registered from outside too."""
    ours = (op.structure for op in ops.stated() if op.structure)
    return tuple(dict.fromkeys((*ours, *registered_names())))
