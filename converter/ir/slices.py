"""What slices take of their axes."""

from __future__ import annotations

from converter.ir import dims, ops
from converter.ir.nodes import Node


def cut_axes(node: Node) -> list[int]:
    """The axes that a slice shortens."""
    pairs = enumerate(zip(node.inputs[0].shape, node.out.shape, strict=True))
    return [i for i, (whole, part) in pairs if not dims.same(whole, part)]


def has_strides(node: Node) -> bool:
    """Whether a slice leaves out some of what lies between its ends."""
    strides = node.params["strides"]
    return strides is not None and any(s != 1 for s in strides)


def known_cut(node: Node) -> int | None:
    """The one axis that a slice without strides shortens, where sizes are known."""
    if node.op is not ops.slice or has_strides(node):
        return None
    cut = cut_axes(node)
    known = len(cut) == 1 and dims.all_static(
        (node.inputs[0].shape[cut[0]], node.out.shape[cut[0]])
    )
    return cut[0] if known else None
