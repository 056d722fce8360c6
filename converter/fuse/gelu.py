"""GELU, exact (erf, erfc) and tanh-approximated [Hendrycks & Gimpel, arXiv:1606.08415]."""

from __future__ import annotations

import math
from collections.abc import Callable

from converter.fuse.match import (
    NearMiss,
    Recogniser,
    View,
    close,
    materialise,
    operand,
    operands,
    product,
)
from converter.graph import Node, Value
from converter.graph.constants import scalar
from converter.graph.rewrite import Editor

SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def _gelu(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    if node.out.dtype.kind not in "fV":
        return None
    root = View(node.out, tuple(range(node.out.rank)))
    parts = product(root, editor)
    if len(parts.factors) != 2 or parts.divisors:
        return None
    for x, gate in (parts.factors, parts.factors[::-1]):
        found = _phi(gate, x, editor)
        if found is not None and close(parts.coefficient * found[0], 0.5, node.out.dtype):
            value = materialise(editor, x, node.out.shape, node.out.dtype)
            return editor.add(
                "gelu", [value], node.out.shape, node.out.dtype, {"approximate": found[1]}
            )
    return None


def _phi(gate: View, x: View, editor: Editor) -> tuple[float, bool] | None:
    """(c, approximate) where ``gate = c * 2 * Phi(x)``."""
    if gate.op() == "erfc":
        return (1.0, False) if _is_scaled(operand(gate, 0), x, -SQRT_HALF, editor) else None
    if gate.op() != "add":
        return None
    left, right = operands(gate)
    for number, other in ((scalar(left.base), right), (scalar(right.base), left)):
        if number is None:
            continue
        inner = product(other, editor)
        if len(inner.factors) != 1 or inner.divisors:
            continue
        dtype = gate.base.dtype
        if not close(inner.coefficient, float(number), dtype):
            continue
        for op, test in _GATES.items():
            if inner.factors[0].op() == op and test(operand(inner.factors[0], 0), x, editor):
                return float(number), op == "tanh"
    return None


def _is_scaled(view: View, x: View, factor: float, editor: Editor) -> bool:
    parts = product(view, editor)
    return (
        parts.factors == [x]
        and not parts.divisors
        and close(parts.coefficient, factor, x.base.dtype)
    )


def _is_erf_argument(view: View, x: View, editor: Editor) -> bool:
    return _is_scaled(view, x, SQRT_HALF, editor)


def _is_tanh_argument(view: View, x: View, editor: Editor) -> bool:
    """sqrt(2/pi) (x + 0.044715 x^3), or the same with x taken out."""
    outer = product(view, editor, powers=True)
    dtype = x.base.dtype
    if outer.divisors or not close(outer.coefficient, SQRT_2_OVER_PI, dtype):
        return False
    total = outer.pop(lambda f: f.op() == "add")
    if total is None or outer.factors not in ([], [x]):
        return False
    outside = len(outer.factors)
    terms = sorted(
        (len(p.factors), p.coefficient, p)
        for p in (product(t, editor, powers=True) for t in operands(total))
    )
    (low, one, first), (high, cubic, second) = terms
    same = all(f == x for p in (first, second) for f in p.factors)
    plain = not (first.divisors or second.divisors)
    degrees = (low + outside, high + outside) == (1, 3)
    return same and plain and degrees and close(one, 1, dtype) and close(cubic, CUBIC, dtype)


_GATES: dict[str, Callable[[View, View, Editor], bool]] = {
    "erf": _is_erf_argument,
    "tanh": _is_tanh_argument,
}
GELU = Recogniser(("mul",), _gelu)
