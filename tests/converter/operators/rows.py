"""Compare formulas of activations in JAX with the operators that files have in their place."""

import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import converter
from converter.fuse.activations import SPELLINGS_OF_ACTIVATIONS
from converter.fuse.spelling import Spelling
from converter.ir import ops
from converter.ir.activation_row import ActivationForm
from converter.legalize.deviations import deviations
from converter.model.results import Export
from converter.model.verdict import Level
from converter.opsets import DEFAULT_TARGET
from converter.targets import find_target
from converter.verify.sessions import run, session
from tests.arrays import FLUSHED, count_units

ROWS = (
    *SPELLINGS_OF_ACTIVATIONS,
    *(
        Spelling(op, ActivationForm(None, example))
        for op, row in ops.ACTIVATIONS.items()
        for example in row.examples
        if op not in {spelling.op for spelling in SPELLINGS_OF_ACTIVATIONS}
    ),
    Spelling(ops.softplus, ActivationForm(None, lambda x: jnp.log1p(jnp.exp(-jnp.abs(x))))),
    # lax.logistic has further parameters.
    Spelling(ops.logistic, ActivationForm(None, lambda x: lax.logistic(x))),
)
"""The table of spellings of activations, and formulas that other recognisers match."""

PARAMETERS = (0.25, -0.5, 2.0, 0.0, 1.0, 1e-30, 2.0**20, -(2.0**20), -1e30, np.inf, -np.inf, np.nan)
"""Values of parameters; each row uses the values that it accepts."""

ORDINARY = (1.5, -0.25, 0.75, -2.0, 0.125)
LENGTHS = (1, 3, 17, 64)
"""Lengths of inputs. Kernels compute full SIMD vectors and the remainder by different code."""

ROUNDED = 16
"""Largest error in units in the last place."""

CANCELS = frozenset({ops.gelu, ops.hard_sigmoid, ops.hard_swish})
"""Operations whose formula adds numbers that nearly cancel: 1 and tanh(x), or x / 6 and 1 / 2.
Small results have few correct digits in JAX and in the file."""

TOLERATED = {ops.gelu: (64, "half a unit of x moves erfc(x) by as many as x squared")}
"""Larger limits in units in the last place by operation, with reasons."""

DEVIATIONS = deviations(find_target(DEFAULT_TARGET))
OFF_BY = re.compile(r"off by up to (\S+?),? ")

OVERFLOWS: dict[Any, Callable[[np.ndarray, float], np.ndarray]] = {
    ops.hard_swish: lambda x, largest: 6 * x > largest
}
"""Functions by operation that mark the inputs for which the formula overflows in an intermediate
result and the operator does not. The sentence of the operation's deviation says so."""

Numbers = dict[str, float]


def edges(dtype: str) -> np.ndarray:
    """Return NaN, infinities, both zeros, subnormal numbers, limits of the range, and others."""
    limits = jnp.finfo(dtype)
    sizes = [0.0, 1e-3, 0.1, 0.5, 1, 2.5, 3, 6, 10, 12, 17, 50, 88, 100, 300, 1e4, np.inf]
    ends = (limits.smallest_subnormal, limits.smallest_normal, limits.eps, limits.max)
    sizes += [*map(float, ends), float(limits.max) / 2]
    with np.errstate(over="ignore"):
        return np.array([*sizes, *(-x for x in sizes), np.nan, -np.nan]).astype(dtype)


def accepted_params(row: Spelling, dtype: str) -> list[Numbers]:
    """Return all combinations of parameters that the row accepts, rounded to the dtype."""
    names = [name for name in inspect.signature(row.form.formula).parameters if name != "x"]
    with np.errstate(over="ignore"):
        numbers = dict.fromkeys(np.array(PARAMETERS).astype(dtype).astype(float).tolist())
    products = itertools.product(numbers, repeat=len(names))
    candidates = [dict(zip(names, values, strict=True)) for values in products]
    return [params for params in candidates if row.form.condition.accepts(**params)]


def arrangements(count: int) -> Iterator[np.ndarray]:
    """Yield index arrays into ``numbers``, whose first ``count`` elements are edges.

    Each edge is alone, among other edges, and first and last among ordinary numbers.
    """
    ordinary = np.arange(count, count + len(ORDINARY))
    for length in LENGTHS:
        yield from np.resize(np.arange(count), (-(-count // length), length))
        for edge in range(count) if length > 1 else ():
            among = np.resize(ordinary, length)
            among[0] = edge
            yield among
            yield among[::-1].copy()


def numbers(dtype: str) -> np.ndarray:
    """Return the edges, followed by the ordinary numbers."""
    return np.concatenate([edges(dtype), np.array(ORDINARY).astype(dtype)])


@dataclass(frozen=True)
class Judge:
    """Decides which results of a row are right: those near JAX's in the dtype or in float32.

    Operators of half precision may compute intermediate results in float32. ``reported`` are the
    deviations that the report of the file names.
    """

    row: Spelling
    x: np.ndarray
    reported: Sequence[str]

    @property
    def reach(self) -> float:
        """The error for numbers of size one that the reported deviation of the row allows."""
        deviation = DEVIATIONS.get(self.row.op)
        if deviation is None or not any(s.startswith(deviation.sentence) for s in self.reported):
            return 0.0
        limit_in_text = OFF_BY.search(deviation.sentence)
        return float(limit_in_text[1]) if limit_in_text else 0.0

    def wrong(
        self,
        positions: np.ndarray,
        jax_results: Sequence[np.ndarray],
        params: Numbers,
        actual: np.ndarray,
    ) -> np.ndarray:
        """Return a mask of the results at these positions that differ from all of `expected`."""
        x = self.x[positions]
        is_wrong = np.logical_and.reduce(
            [self._differs(x, y[positions], params, actual) for y in jax_results]
        )
        if self.reach and self.row.op in OVERFLOWS:
            is_wrong &= ~OVERFLOWS[self.row.op](x.astype(np.float64), float(jnp.finfo(x.dtype).max))
        return is_wrong

    def _differs(
        self, x: np.ndarray, jax_results: np.ndarray, params: Numbers, actual: np.ndarray
    ) -> np.ndarray:
        is_half = x.dtype.itemsize == 2
        tiny = float(jnp.finfo(np.float32 if is_half else x.dtype).smallest_normal)
        magnitudes = np.abs(x.astype(np.float64))
        size = np.where(np.isfinite(magnitudes), np.maximum(magnitudes, 1), 1)
        with np.errstate(over="ignore"):
            size *= max([1.0, *(abs(n) for n in params.values() if math.isfinite(n))])
        unit = float(jnp.finfo(np.float32 if is_half else x.dtype).eps) * (self.row.op in CANCELS)
        tolerance = (
            2 * tiny + unit + self.reach
        ) * size  # XLA flushes numbers below `tiny` to zero
        limit = TOLERATED.get(self.row.op, (ROUNDED, ""))[0]
        with np.errstate(invalid="ignore"):
            difference = np.abs(actual.astype(np.float64) - jax_results.astype(np.float64))
        return (count_units(actual, jax_results, FLUSHED) > limit) & ~(difference <= tolerance)


@cache
def jax_results(row: Spelling, dtype: str) -> list[list[np.ndarray]]:
    """Return the results of JAX for each choice of parameters: in the dtype, and for half precision
    also in float32."""
    x, params, results = numbers(dtype), accepted_params(row, dtype), []
    for compute_dtype in (x.dtype, *([np.dtype(np.float32)] if x.dtype.itemsize == 2 else ())):
        with np.errstate(over="ignore"):
            outputs = jax.jit(partial(_apply_all, row, params))(x.astype(compute_dtype))
            results.append([np.asarray(y).astype(x.dtype) for y in outputs])
    return [list(arrays) for arrays in zip(*results, strict=True)]


def convert_row(row: Spelling, dtype: str, opset: int, strict: bool = False) -> Export:
    """Convert a row to a file that has an output for each choice of parameters."""
    params = accepted_params(row, dtype)
    return converter.to_onnx(partial(_apply_all, row, params), [(("N",), dtype)], opset=opset,
                             strict=strict)  # fmt: skip


def _apply_all(row: Spelling, params: Sequence[Numbers], x: jax.Array) -> list[jax.Array]:
    numbers = ({name: np.asarray(n, x.dtype) for name, n in values.items()} for values in params)
    return [row.form.formula(x, **values) for values in numbers]


def differences(
    row: Spelling, dtype: str, opset: int, levels: Sequence[Level], strict: bool = False
) -> list[str]:
    """Return sentences about numbers for which the file differs from JAX without reporting it."""
    export, choices_of_row, x = (
        convert_row(row, dtype, opset, strict),
        accepted_params(row, dtype),
        numbers(dtype),
    )
    judge = Judge(row, x, export.report.deviations)
    references, sentences = jax_results(row, dtype), dict[str, str]()
    parts = [*arrangements(len(edges(dtype)))]
    positions = np.concatenate(parts)
    for level in levels:
        model = session(export, level=level)
        runs = [run(model, [x[part]]).values() for part in parts]
        for parameters, reference, results in zip(
            choices_of_row, references, zip(*runs, strict=True), strict=True
        ):
            actual = np.concatenate(results)
            for i in np.flatnonzero(judge.wrong(positions, reference, parameters, actual)):
                case = f"{row.op}({x[positions[i]]}, {parameters}) at opset {opset}"
                sentence = f"{case} is {actual[i]}, not {reference[0][positions[i]]} ({level})"
                sentences.setdefault(case, sentence)
    return list(sentences.values())
