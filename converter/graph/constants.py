"""Numbers that are known while converting."""

from __future__ import annotations

from converter.graph.nodes import Value


def scalar(value: Value) -> float | int | bool | None:
    """The number behind a constant scalar, seen through broadcasts; ``None`` if it is not one."""
    while value.node is not None and value.node.op in ("broadcast_in_dim", "reshape"):
        value = value.node.inputs[0]
    if value.kind != "const" or value.const is None or value.const.size != 1:
        return None
    return value.const.item() if value.dtype.kind in "biufV" else None
