"""Define the precisions of files: limits of their errors, operators and file names."""

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
    """Limit that the difference of an output from JAX has to keep.

    Arguments:
        measure: how the difference is measured: `max_abs`, `max_rel` or `cosine`.
        value: the largest allowed error, or for `cosine` the smallest allowed cosine similarity.
    """

    measure: Measure
    value: float

    def allows(self, comparison: Comparison) -> bool:
        """Return whether the difference of an output is within the limit. False if the difference
        is NaN or infinite."""
        error = comparison.error(self.measure)
        if error is None:
            return False
        return error >= self.value if self.measure == "cosine" else error <= self.value

    def find_worst(self, comparisons: Sequence[Comparison]) -> Comparison:
        """Return the comparison with the largest error, or for `cosine` the smallest similarity.

        A comparison whose error is NaN or infinite counts as the worst. `comparisons` must not be
        empty.
        """
        sign = -1 if self.measure == "cosine" else 1

        def error_size(comparison: Comparison) -> float:
            """Return a number that is larger for a larger error, or for a smaller cosine."""
            error = comparison.error(self.measure)
            return inf if error is None else sign * error

        return max(comparisons, key=error_size)


@dataclass(frozen=True)
class PrecisionTraits:
    """Properties of a precision.

    Arguments:
        file: name of the file in a built folder, without its suffix.
        limit: largest allowed difference of the outputs from float32 in JAX.
        bits: average number of bits for each parameter, to estimate file sizes.
        opset: opset of the file in a built folder.
        half: floating-point type of the computations, or None for float32.
        integers: format of the matrices if they are stored as integers: a scale for each column
            (`columns`) or for each block of 32 numbers (`blocks`). None if they are floating-point
            numbers.
        operator: operator that multiplies by an integer matrix; empty if matrices are not integers.
        activation_operator: operator that converts activations to integers with fixed ranges or row
            by row; empty if activations stay floating-point numbers.
        min_opset: oldest opset that the file can have in a built folder.
        on_cpu: whether ONNX Runtime has kernels of this precision for CPUs. Without them a file is
            emulated there.
        web_rank: rank among the precisions that WebAssembly runs, 1 for the best, or None if it
            does not run this precision.
    """

    file: str
    limit: Limit
    bits: float
    opset: int = 18
    half: Literal["float16", "bfloat16"] | None = None
    integers: Integers | None = None
    operator: str = ""
    activation_operator: str = ""
    min_opset: int = OPSETS[0]
    on_cpu: bool = True
    web_rank: int | None = None

    @property
    def scales_activations(self) -> bool:
        """Whether activations are quantized to integers too."""
        return bool(self.activation_operator)


# Opset 18 is supported by all runtimes of recent years.
PRECISIONS: dict[Precision, PrecisionTraits] = {
    # Ten times the rounding error of float32, for outputs of magnitude 1.
    "fp32": PrecisionTraits("model", Limit("max_abs", 1e-4), bits=32, web_rank=1),
    # A hundred successive roundings, of relative size 2^-11 and 2^-8, reduce the cosine by 1e-5 and
    # 8e-4. Weights of 7 bits and activations of 8 bits reduce it by about 5e-4 for twelve blocks.
    "fp16": PrecisionTraits(
        "model_fp16", Limit("cosine", 0.9999), bits=16, half="float16", web_rank=4
    ),
    # ONNX allows bfloat16 in convolutions from opset 22 on.
    "bf16": PrecisionTraits(
        "model_bf16",
        Limit("cosine", 0.999),
        bits=16,
        opset=23,
        half="bfloat16",
        min_opset=23,
        on_cpu=False,
    ),
    # Integer products are fast, so that the other operators take a larger share of the time: opset
    # 23 has one `Attention` in place of several operators and transpositions.
    # transformers.js downloads a file of this name in a browser.
    "int8": PrecisionTraits(
        "model_quantized",
        Limit("cosine", 0.99),
        bits=8,
        opset=23,
        integers="columns",
        operator="MatMulInteger",
        activation_operator="QuantizeLinear",
    ),
    # Rounding to four bits has an error of 7e-3 of the squared norm of a matrix, for about fifty
    # matrices. Every 32 numbers have a scale of 32 or 16 bits. The files are for GPUs, and some
    # runtimes there have no operator for attention.
    "q4": PrecisionTraits(
        "model_q4",
        Limit("cosine", 0.99),
        bits=5,
        integers="blocks",
        operator="MatMulNBits",
        web_rank=2,
    ),
    "q4f16": PrecisionTraits(
        "model_q4f16",
        Limit("cosine", 0.99),
        bits=4.5,
        half="float16",
        integers="blocks",
        operator="MatMulNBits",
        web_rank=3,
    ),
}
"""Properties of each precision, in the order in which they are listed to users."""
