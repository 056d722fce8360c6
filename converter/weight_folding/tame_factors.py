"""Which factors and divisors may go into weights: finite weights have to stay finite."""

from __future__ import annotations

import numpy as np

from converter.ir import Value, ops
from converter.ir.evaluation import compute
from converter.ir.origins import sources
from converter.ir.scalars import scalar

LARGEST = 2.0**20
"""Constants between this and its inverse may be multiplied with others: nothing overflows."""


def is_tame(value: Value, divides: bool) -> bool:
    """Whether a constant is far from the ends of what floats hold; saving looks at parameters."""
    number = scalar(value)
    if number is None and value.kind != "const":
        return True
    sizes = np.abs(np.asarray(value.const if number is None else number, np.float64))
    within = (sizes >= 1 / LARGEST) & (sizes <= LARGEST)
    return bool(np.all(within | (sizes == 0) & (not divides)))


def keeps_finite(value: Value, divides: bool) -> bool:
    """Whether finite weights stay finite, by the numbers that there are or as they are written."""
    leaves = sources(value).values()
    if any(leaf.kind == "param" and leaf.bound is None for leaf in leaves):
        return not divides or _is_kept_from_zero(value)
    numbers = compute(value, lambda leaf: leaf.bound if leaf.kind == "param" else leaf.const)
    return not np.any(numbers == 0 if divides else np.isinf(numbers))


def _is_kept_from_zero(value: Value) -> bool:
    """A sum with a positive number, or the root of one: ``sqrt(variance + epsilon)``."""
    node = value.node
    while node is not None and (node.op.moves or node.op is ops.sqrt):
        node = node.inputs[0].node
    numbers = map(scalar, node.inputs) if node is not None and node.op in (ops.add, ops.max) else ()
    return any(number is not None and number > 0 for number in numbers)
