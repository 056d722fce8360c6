"""The precisions of a file: how near to JAX each has to be, what it takes, and where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal

from converter.opsets import OPSETS
from zoo.artifacts.choices import Precision

if TYPE_CHECKING:
    from zoo.artifacts.measured import Comparison, Measure

Integers = Literal["columns", "blocks"]


@dataclass(frozen=True)
class Limit:
    """Limit of an output: an error of at most `value`, or at least that cosine."""

    measure: Measure
    value: float

    def holds(self, comparison: Comparison) -> bool:
        """Whether these errors are within it. One that is not finite never is."""
        error = comparison.error(self.measure)
        if error is None:
            return False
        return error >= self.value if self.measure == "cosine" else error <= self.value

    def worst(self, comparisons: Sequence[Comparison]) -> Comparison:
        """The comparison with the largest error, or the least cosine; first what is no number."""
        sign = -1 if self.measure == "cosine" else 1

        def size(each: Comparison) -> float:
            error = each.error(self.measure)
            return inf if error is None else sign * error

        return max(comparisons, key=size)


@dataclass(frozen=True)
class PrecisionTraits:
    """Facts of a precision.

    A folder has its `file`, which is written at an `opset`. A number takes so many `bits`.
    Matrices may be held in `integers`, of which an `operator` makes products; the rest is computed
    in a `half` precision, or else in float32. With an `activation_operator` activations are
    integers as well, and that scales them by row or in measured ranges. Files of a folder need
    `least_opset` at least. Without `on_cpu` ONNX Runtime has no kernels for CPUs, and a file is run
    there in an emulation. Those that WebAssembly runs have a `rank` there, the best of them 1.
    """

    file: str
    limit: Limit
    bits: float
    opset: int = 18
    half: Literal["float16", "bfloat16"] | None = None
    integers: Integers | None = None
    operator: str = ""
    activation_operator: str = ""
    least_opset: int = OPSETS[0]
    on_cpu: bool = True
    rank: int | None = None

    @property
    def scales_activations(self) -> bool:
        """Whether activations are integers, too."""
        return bool(self.activation_operator)


# Opset 18 holds nothing that a runtime of the last years does not know.
PRECISIONS: dict[Precision, PrecisionTraits] = {
    # Ten times what float32 rounding explains, in outputs of unit size.
    "fp32": PrecisionTraits("model", Limit("max_abs", 1e-4), bits=32, rank=1),
    # A hundred roundings in a row, of relative size 2^-11 and 2^-8, take 1e-5 and 8e-4 off the
    # cosine; the 7 bits of a weight and 8 of an activation about 5e-4 for each dozen of blocks.
    "fp16": PrecisionTraits("model_fp16", Limit("cosine", 0.9999), bits=16, half="float16", rank=4),
    # Convolutions take bfloat16 from opset 22 on.
    "bf16": PrecisionTraits(
        "model_bf16",
        Limit("cosine", 0.999),
        bits=16,
        opset=23,
        half="bfloat16",
        least_opset=23,
        on_cpu=False,
    ),
    # On a CPU what is no product counts twice as much beside products of integers: one operator
    # instead of several, and no transpositions around attention.
    # transformers.js asks for a file of this name in a browser.
    "int8": PrecisionTraits(
        "model_quantized",
        Limit("cosine", 0.99),
        bits=8,
        opset=23,
        integers="columns",
        operator="MatMulInteger",
        activation_operator="QuantizeLinear",
    ),
    # Rounding to four bits takes 7e-3 of the square of a matrix, some fifty times. There is a scale
    # of 32 bits, or of 16, for every 32 numbers. For GPUs, some of whose runtimes have no operator
    # for attention.
    "q4": PrecisionTraits(
        "model_q4",
        Limit("cosine", 0.99),
        bits=5,
        integers="blocks",
        operator="MatMulNBits",
        rank=2,
    ),
    "q4f16": PrecisionTraits(
        "model_q4f16",
        Limit("cosine", 0.99),
        bits=4.5,
        half="float16",
        integers="blocks",
        operator="MatMulNBits",
        rank=3,
    ),
}
