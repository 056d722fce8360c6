"""Rules from graph operations to ONNX, by name and by the opset that first allows them.

A rule is a function of the builder, the ONNX values of the operands and the node's parameters by
keyword. It returns the ONNX value of each output; the walker stamps names, dtypes and shapes.
Several rules for one operation differ in ``since``: the newest that the opset allows is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from converter.errors import Unsupported
from converter.graph import Node
from converter.trace import source_line

Lowering = Callable[..., Any]
OLDEST = 17

_rules: dict[str, dict[int, Lowering]] = {}


def rule(*ops: str, since: int = OLDEST) -> Callable[[Lowering], Lowering]:
    """Register a rule for one or more operations."""

    def register(lowering: Lowering) -> Lowering:
        for op in ops:
            _rules.setdefault(op, {})[since] = lowering
        return lowering

    return register


def table(rows: dict[str, str], since: int = OLDEST) -> None:
    """Register operations that are ONNX operators under another name."""
    for op, onnx_op in rows.items():
        rule(op, since=since)(lambda b, *xs, _name=onnx_op, **_: b.op(_name, *xs))


def find(node: Node, opset: int) -> Lowering:
    """The newest rule for the node at this opset."""
    allowed = [since for since in _rules.get(node.op, {}) if since <= opset]
    if not allowed:
        raise unsupported(node, opset)
    return _rules[node.op][max(allowed)]


def supported() -> frozenset[str]:
    """Every operation that has a rule."""
    return frozenset(_rules)


def unsupported(node: Node, opset: int, why: str = "") -> Unsupported:
    """The error for a node that cannot be written, with all that a user needs to find it."""
    types = ", ".join(_type(v) for v in node.inputs)
    needed = [since for since in _rules.get(node.op, {}) if since > opset]
    newer = f"it needs opset {min(needed)} or newer" if needed else "there is no rule for it"
    hint = why or newer
    return Unsupported(
        f"primitive '{node.op}' ({types}) cannot be written at opset {opset}: {hint} "
        f"[{source_line(node)}]"
    )


def _type(value: Any) -> str:
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"
