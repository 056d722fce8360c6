"""What a conversion asks of the runtime that a file is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from converter.graph import ops
from converter.graph.op import Op

Detour = Mapping[str, str]

AttentionLayout: TypeAlias = Literal["4d", "3d"]
"""Operands of ``Attention``: [batch, heads, positions, width], or heads side by side."""


@dataclass(frozen=True)
class Missing:
    """Dtypes without a (right) kernel, and the dtypes to compute in instead, without loss.

    The operands from the ``first`` on are converted and, if ``back``, so is the result. Where the
    ``order`` of numbers matters, uint64 becomes int64 by moving 2**63 to 0.
    """

    detour: Detour
    first: int = 0
    back: bool = True
    order: bool = False


@dataclass(frozen=True)
class Target:
    """A runtime: what it has kernels for, and where it errs.

    ``kernels`` says by operation of the graph which dtypes take a detour; ``without_float64`` names
    operators. ``bfloat16`` has the operations that take it; without, all do. With
    ``rounds_reductions`` sums, products and extremes of integers are written so that they stay
    exact in a runtime that reduces in floats; with ``rewrites`` products and pads so that an
    optimiser that moves transpositions and zeros leaves them right. ``attention_layout`` is what it
    runs best of what it takes.
    """

    name: str
    kernels: Mapping[Op, Missing]
    without_float64: frozenset[str] = frozenset()
    bfloat16: frozenset[Op] | None = None
    rounds_reductions: bool = False
    rewrites: bool = False
    attention_layout: AttentionLayout = "4d"

    def has_kernel(self, operator: str, dtype: Any) -> bool:
        """Whether the operator takes a dtype; asked where a formula can stand in for it."""
        return not (dtype == np.float64 and operator in self.without_float64)


NARROW: Detour = dict.fromkeys(("int8", "int16", "uint8", "uint16"), "int32")
UNSIGNED: Detour = {"uint32": "int64", "uint64": "int64"}
BOOL: Detour = {"bool": "int32"}
SHORT: Detour = dict.fromkeys(("int16", "uint16"), "int32")
HALF: Detour = dict.fromkeys(("float16", "bfloat16"), "float32")
FLOATS: Detour = dict.fromkeys(("float16", "bfloat16", "float32"), "float64")

FORMULAS: Mapping[Op, Missing] = {
    # Of several steps: in half precision each of them would be seen.
    **dict.fromkeys(
        (ops.atan2, ops.cbrt, ops.erf_inv, ops.erfc, ops.expm1, ops.log1p, ops.exp2),
        Missing(HALF),
    ),
    # Near their zeros what their formulas add up cancels.
    **dict.fromkeys((ops.digamma, ops.lgamma), Missing(FLOATS)),
}
"""What is written as several operators, wherever it runs."""
