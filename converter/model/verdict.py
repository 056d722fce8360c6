"""Results of a verification.

They contain the errors of each output, and the differences that are not explained by rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from converter.errors import CheckError
from converter.ir.complex_pairs import is_complex, pack_complex
from converter.ir.dtypes import to_float64


@dataclass(frozen=True)
class Errors:
    """Errors of one output against the reference.

    Arguments:
        max_abs: largest absolute difference; infinite if an infinity or NaN is not the same in both
            arrays.
        max_rel: ``max_abs`` divided by the largest magnitude of the reference, or ``max_abs`` if
            the reference has only zeros.
        cosine: cosine similarity of the flattened arrays; NaN if ``max_abs`` is infinite because of
            an infinity or NaN.
    """

    max_abs: float
    max_rel: float
    cosine: float


def compare(got: np.ndarray, expected: np.ndarray) -> Errors:
    """Return the errors of an output against the reference.

    Arguments:
        got: the output of the file. Integers are subtracted exactly, not as floats.
        expected: the reference. It may be complex if ``got`` is, or if ``got`` contains the real
            and imaginary parts on its last axis.

    Returns:
        The errors. They are infinite unless both arrays have the same infinities and NaN at the
        same positions, which are then left out. If no numbers are left, the errors are zero and the
        cosine similarity is one.

    Raises:
        CheckError: the shapes or dtypes differ.
    """
    reference = expected if is_complex(got.dtype) else pack_complex(expected)
    if got.shape != reference.shape or got.dtype != reference.dtype:
        raise CheckError(
            f"an output is {got.dtype}{list(got.shape)} in ONNX Runtime and "
            f"{expected.dtype}{list(expected.shape)} in JAX"
        )
    if got.dtype.kind in "biu":
        return _integer_errors(got, expected)
    # Real and imaginary parts are compared as separate numbers.
    a, b = (to_float64(np.atleast_1d(pack_complex(x))).ravel() for x in (got, reference))
    finite = np.isfinite(b)
    same = np.array_equal(a[~finite], b[~finite], equal_nan=True) and np.isfinite(a[finite]).all()
    if not same:
        return Errors(float("inf"), float("inf"), float("nan"))
    return _float_errors(a[finite], b[finite])


def _integer_errors(got: np.ndarray, expected: np.ndarray) -> Errors:
    """Return the errors of integers or Booleans.

    The integers are subtracted before they are rounded to float64, where 2**53 and 2**53 + 1 are
    the same.
    """
    a, b = (x[got != expected].astype(object) for x in (got, expected))
    worst = float(max(abs(a - b), default=0))
    return _float_errors(got.astype(np.float64).ravel(), expected.astype(np.float64).ravel(), worst)


def _float_errors(a: np.ndarray, b: np.ndarray, max_abs: float | None = None) -> Errors:
    """Return the errors of finite numbers ``a`` against ``b``.

    ``max_abs`` is the largest absolute difference, if it is known exactly; None to compute it.
    """
    if not a.size:
        return Errors(0.0, 0.0, 1.0)
    with np.errstate(over="ignore"):
        worst = float(np.abs(a - b).max()) if max_abs is None else max_abs
    scale = float(np.abs(b).max())
    # The numbers are scaled before they are squared, because the squares of the largest float64
    # numbers overflow.
    u, v = (x / (np.abs(x).max() or 1.0) for x in (a, b))
    norms = float(np.linalg.norm(u) * np.linalg.norm(v))
    cosine = float(u @ v) / norms if norms else float(np.array_equal(a, b))
    return Errors(worst, worst / scale if scale else worst, cosine)


def larger_errors(first: Errors | None, second: Errors) -> Errors:
    """Return the larger of two errors for each measure; for the cosine similarity, the smaller one.

    The cosine similarity is NaN if one of both is NaN. If ``first`` is None, return ``second``.
    """
    if first is None:
        return second
    return Errors(
        max(first.max_abs, second.max_abs),
        max(first.max_rel, second.max_rel),
        float(np.minimum(first.cosine, second.cosine)),
    )


Level: TypeAlias = Literal["disabled", "basic", "extended", "all"]
"""Optimization level of ONNX Runtime."""

LEVELS: tuple[Level, ...] = ("disabled", "basic", "extended", "all")


@dataclass(frozen=True)
class Difference:
    """Element of an output that differs by more than its rounding error, or that is open.

    Arguments:
        sample: name of the sample.
        level: optimization level of ONNX Runtime.
        output: name of the output.
        index: position of the element.
        got: the number of the file.
        expected: the number of JAX.
        open: whether the difference could be explained by rounding, without evidence that it is.
        inputs: the arrays of the sample, for ``converter.bisect`` for example.
    """

    sample: str
    level: Level
    output: str
    index: tuple[int, ...]
    got: str
    expected: str
    open: bool = False
    inputs: Sequence[Any] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        suffix = f"; it is open: {OPEN_TEXT}" if self.open else ""
        return (
            f"{self.output}{list(self.index)} is {self.got} in ONNX Runtime and {self.expected} in "
            f"JAX, on {self.sample} inputs at optimisation level '{self.level}'{suffix}"
        )


OPEN_TEXT = (
    "rounding decides whether this element is finite and the result in float64 does not settle it, "
    "or JAX itself has several results there"
)
"""Reason why an element is open."""

EITHER_TEXT = "where roundings decide between a number and infinity or NaN"
"""Reason why an element is right without a finite error."""


@dataclass(frozen=True)
class Elements:
    """Number of compared elements of an output, in all runs together.

    Arguments:
        judged: elements that are right or wrong.
        rounding_decides: judged elements that are right although, for example, the file has a
            number and JAX an infinity or NaN, because rounding decides which it is.
        open: elements that could not be judged.
    """

    judged: int = 0
    rounding_decides: int = 0
    open: int = 0

    def __add__(self, other: Elements) -> Elements:
        """Return the sum of each of the three counts."""
        return Elements(
            self.judged + other.judged,
            self.rounding_decides + other.rounding_decides,
            self.open + other.open,
        )


class Verdict(dict[str, Errors]):
    """Result of a verification: the largest errors by output, and the differences that rounding
    does not explain.

    ``differences`` contains, for each output in each run, the first wrong element and the first
    open element that is not accepted. ``elements`` contains the number of judged and open elements
    by output. Errors exclude open elements that are accepted, and right elements for which rounding
    decides whether they are finite (``Elements.rounding_decides``), so that a file that passed has
    no infinite error. ``samples`` is the number of inputs that were tried. ``untaken`` contains a
    sentence for each branch, number of loop iterations and index bound that none of them reached,
    and for each sample that was left out because a loop does not end on it. The file is not
    verified there.
    """

    def __init__(self, samples: int = 0, untaken: Sequence[str] = ()) -> None:
        super().__init__()
        self.differences: list[Difference] = []
        self.elements: dict[str, Elements] = {}
        self.samples = samples
        self.untaken = list(untaken)

    @property
    def passed(self) -> bool:
        """True if no element differs by more than its rounding error, and every open element is
        accepted."""
        return not self.differences

    def __repr__(self) -> str:
        lines = ["passed"]
        if not self.passed:
            first = self.differences[0]
            lines = [f"not passed, {len(self.differences)} differences: {first}"]
        for name, e in self.items():
            lines.append(f"{name}: off by at most {e.max_abs:.3g}, {e.max_rel:.3g} of the largest")
            count = self.elements[name]
            lines[-1] += f"; {count.judged:,} elements judged"
            if count.rounding_decides:
                lines[-1] += f", {count.rounding_decides:,} of them {EITHER_TEXT}"
            if count.open:
                lines[-1] += f"; {count.open:,} open, not judged: {OPEN_TEXT}"
        return "\n".join([*lines, *(f"not verified: {sentence}" for sentence in self.untaken)])
