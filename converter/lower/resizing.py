"""``Resize``: half-pixel positions, which are JAX's, in every mode."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from converter.ir import dims, ops
from converter.ir.formulas import ResizeKind
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers

# JAX leaves out what lies outside and normalises the rest, PyTorch's cubic repeats the edge.
ATTRIBUTES: dict[ResizeKind, dict[str, Any]] = {
    ("nearest", False): {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    ("linear", False): {"mode": "linear"},
    ("linear", True): {"mode": "linear", "antialias": 1, "exclude_outside": 1},
    ("cubic", True): {"mode": "cubic", "antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5},
    ("cubic-pytorch", False): {"mode": "cubic", "antialias": 1},
}
# Exact for whole multiples of the size, whatever it is, and measured to be the fastest.
REPEATED = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@lowers(ops.resize)
def _(b: Builder, x: ir.Value, *, axes: tuple[int, ...], sizes: Any, kinds: Any) -> ir.Value:
    """All sizes, not ``axes`` and theirs (opset 18): an optimiser that moves transposes through
    ``Resize`` takes every one of the sizes for an axis of its own as it does.
    """
    del sizes
    before, after = b.operand().shape, b.out.shape
    whole = all(dims.divides(before[i], after[i]) is not None for i in axes)
    repeated = REPEATED if whole and kinds[0][0] == "nearest" else {}
    return b.op("Resize", x, None, None, b.shape(after), **(ATTRIBUTES[kinds[0]] | repeated))
