"""Formulas of one number, compared with the operator that a file has in their place."""

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
from converter.legalize.deviations import deviations
from converter.model.results import Export
from converter.model.verdict import Level
from converter.opsets import DEFAULT_TARGET
from converter.targets import find_target
from converter.verify.sessions import run, session
from tests.converter.test_edges import units

ROWS = (
    *SPELLINGS_OF_ACTIVATIONS,
    Spelling(ops.gelu, None, lambda x: jax.nn.gelu(x, approximate=False)),
    Spelling(ops.gelu, None, lambda x: jax.nn.gelu(x, approximate=True)),
    Spelling(ops.relu, None, lambda x: jnp.maximum(x, 0)),
    Spelling(ops.softplus, None, lambda x: jnp.log1p(jnp.exp(-jnp.abs(x)))),
    Spelling(ops.logistic, None, lambda x: lax.logistic(x)),  # which has further arguments
)
"""Rows of the table, and the formulas that other recognisers find."""

POOL = (0.25, -0.5, 2.0, 0.0, 1.0, 1e-30, 2.0**20, -(2.0**20), -1e30, np.inf, -np.inf, np.nan)
"""Parameters of which a row takes those that it accepts."""

ORDINARY = (1.5, -0.25, 0.75, -2.0, 0.125)
LENGTHS = (1, 3, 17, 64)
"""Kernels treat the rest of a vector in another way than whole vectors."""

ROUNDED = 16
"""Units in the last place that a result may be off."""

CANCELS = frozenset({ops.gelu, ops.hard_sigmoid, ops.hard_swish})
"""Operations whose formula adds numbers that nearly cancel, 1 and tanh(x) or x / 6 and 1 / 2: of
small results few digits are left on either side."""

TOLERATED = {ops.gelu: (64, "half a unit of x moves erfc(x) by as many as x squared")}
"""Units in the last place by operation where they are more, and why."""

DEVIATIONS = deviations(find_target(DEFAULT_TARGET))
OFF_BY = re.compile(r"off by up to (\S+?),? ")

OVERFLOWS: dict[Any, Callable[[np.ndarray, float], np.ndarray]] = {
    ops.hard_swish: lambda x, largest: 6 * x > largest
}
"""By operation, for which numbers the formula overflows on the way and the operator does not, by
the sentence of its deviation."""

Numbers = dict[str, float]


def edges(dtype: str) -> np.ndarray:
    """NaN, infinities, both zeros, subnormal numbers, the ends of the range, ordinary numbers."""
    limits = jnp.finfo(dtype)
    sizes = [0.0, 1e-3, 0.1, 0.5, 1, 2.5, 3, 6, 10, 12, 17, 50, 88, 100, 300, 1e4, np.inf]
    ends = (limits.smallest_subnormal, limits.smallest_normal, limits.eps, limits.max)
    sizes += [*map(float, ends), float(limits.max) / 2]
    with np.errstate(over="ignore"):
        return np.array([*sizes, *(-x for x in sizes), np.nan, -np.nan]).astype(dtype)


def choices(row: Spelling, dtype: str) -> list[Numbers]:
    """Parameters that the row accepts, as the dtype has them."""
    names = [name for name in inspect.signature(row.formula).parameters if name != "x"]
    with np.errstate(over="ignore"):
        numbers = dict.fromkeys(np.array(POOL).astype(dtype).astype(float).tolist())
    products = itertools.product(numbers, repeat=len(names))
    chosen = [dict(zip(names, drawn, strict=True)) for drawn in products]
    return [given for given in chosen if row.accepts(**given)]


def arrangements(count: int) -> Iterator[np.ndarray]:
    """Positions in ``numbers``, so many of which are edges: each of these alone, among the others,
    and first and last among ordinary numbers."""
    ordinary = np.arange(count, count + len(ORDINARY))
    for length in LENGTHS:
        yield from np.resize(np.arange(count), (-(-count // length), length))
        for edge in range(count) if length > 1 else ():
            among = np.resize(ordinary, length)
            among[0] = edge
            yield among
            yield among[::-1].copy()


def numbers(dtype: str) -> np.ndarray:
    """All numbers that are tried."""
    return np.concatenate([edges(dtype), np.array(ORDINARY).astype(dtype)])


@dataclass(frozen=True)
class Judge:
    """Results that are right for a row in a dtype: near to what JAX has, or to what it has in
    float32, which operators of half precision keep on the way."""

    row: Spelling
    x: np.ndarray
    said: Sequence[str]

    @property
    def reach(self) -> float:
        """How far a result may be off by what the report says, for numbers of size one."""
        deviation = DEVIATIONS.get(self.row.op)
        if deviation is None or not any(s.startswith(deviation.sentence) for s in self.said):
            return 0.0
        found = OFF_BY.search(deviation.sentence)
        return float(found[1]) if found else 0.0

    def wrong(
        self, places: np.ndarray, wanted: Sequence[np.ndarray], given: Numbers, got: np.ndarray
    ) -> np.ndarray:
        """Mask of the results of the numbers at some positions that are neither."""
        x = self.x[places]
        bad = np.logical_and.reduce([self._differs(x, y[places], given, got) for y in wanted])
        if self.reach and self.row.op in OVERFLOWS:
            bad &= ~OVERFLOWS[self.row.op](x.astype(np.float64), float(jnp.finfo(x.dtype).max))
        return bad

    def _differs(
        self, x: np.ndarray, wanted: np.ndarray, given: Numbers, got: np.ndarray
    ) -> np.ndarray:
        is_half = x.dtype.itemsize == 2
        tiny = float(jnp.finfo(np.float32 if is_half else x.dtype).smallest_normal)
        magnitudes = np.abs(x.astype(np.float64))
        size = np.where(np.isfinite(magnitudes), np.maximum(magnitudes, 1), 1)
        with np.errstate(over="ignore"):
            size *= max([1.0, *(abs(n) for n in given.values() if math.isfinite(n))])
        unit = float(jnp.finfo(np.float32 if is_half else x.dtype).eps) * (self.row.op in CANCELS)
        near = (2 * tiny + unit + self.reach) * size  # what is below `tiny` is zero for XLA
        limit = TOLERATED.get(self.row.op, (ROUNDED, ""))[0]
        with np.errstate(invalid="ignore"):
            apart = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
        return (units(got, wanted) > limit) & ~(apart <= near)


@cache
def expected(row: Spelling, dtype: str) -> list[list[np.ndarray]]:
    """What JAX has for each of the parameters, in the dtype and perhaps in float32."""
    x, given, results = numbers(dtype), choices(row, dtype), []
    for wide in (x.dtype, *([np.dtype(np.float32)] if x.dtype.itemsize == 2 else ())):
        with np.errstate(over="ignore"):
            every = jax.jit(partial(_all, row, given))(x.astype(wide))
            results.append([np.asarray(y).astype(x.dtype) for y in every])
    return [list(each) for each in zip(*results, strict=True)]


def converted(row: Spelling, dtype: str, opset: int, strict: bool = False) -> Export:
    """File of a row whose outputs are the results for each of its parameters."""
    given = choices(row, dtype)
    return converter.to_onnx(partial(_all, row, given), [(("N",), dtype)], opset=opset,
                             strict=strict)  # fmt: skip


def _all(row: Spelling, given: Sequence[Numbers], x: jax.Array) -> list[jax.Array]:
    numbers = ({name: np.asarray(n, x.dtype) for name, n in each.items()} for each in given)
    return [row.formula(x, **each) for each in numbers]


def differences(
    row: Spelling, dtype: str, opset: int, levels: Sequence[Level], strict: bool = False
) -> list[str]:
    """Sentences about numbers for which the file and JAX differ and the report does not say so."""
    export, given, x = converted(row, dtype, opset, strict), choices(row, dtype), numbers(dtype)
    judge = Judge(row, x, export.report.deviations)
    wanted, found = expected(row, dtype), dict[str, str]()
    parts = [*arrangements(len(edges(dtype)))]
    places = np.concatenate(parts)
    for level in levels:
        live = session(export, level=level)
        runs = [run(live, [x[part]]).values() for part in parts]
        for parameters, right, results in zip(given, wanted, zip(*runs, strict=True), strict=True):
            got = np.concatenate(results)
            for i in np.flatnonzero(judge.wrong(places, right, parameters, got)):
                which = f"{row.op}({x[places[i]]}, {parameters}) at opset {opset}"
                says = f"{which} is {got[i]}, not {right[0][places[i]]} ({level})"
                found.setdefault(which, says)
    return list(found.values())
