"""Programs that reduce, accumulate, order and search along axes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import ops
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from tests.lowerings.elementwise import results
from tests.lowerings.operands import edges, moderate, operand
from tests.lowerings.prove import LoweringCase, Result
from tests.rules.canonical import REDUCED
from tests.rules.programs import ALL, INTEGERS, NUMBERS, Drawn, Shape, numbers

SHAPES: tuple[Shape, ...] = (
    *((2, 3), (3,), (2, 1, 3), (0, 3), (2, 0), (1, 4), ("n", 3), (3, "m"), ("n", "m"), (9,)),
)
OF_BITS = (ops.reduce_or, ops.reduce_and, ops.reduce_xor)
EXTREMES = (ops.reduce_max, ops.reduce_min)


def finite(dtype: str) -> list[Any]:
    """Numbers of which some are no numbers, but of which no sum overflows on the way."""
    if is_float(jnp.dtype(dtype)):
        return [*moderate(dtype), np.inf, np.nan, 0.0]
    return numbers(dtype)


def _reduced(op: Op) -> Callable[[Drawn], Result]:
    kinds = ("bool",) if op in OF_BITS else NUMBERS

    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(kinds)
        axes = tuple(i for i in range(len(shape)) if d.chance())
        left = tuple(s for i, s in enumerate(shape) if i not in axes)
        pool = edges(d, dtype) if op in EXTREMES else d.pick([moderate, finite])(dtype)
        x = operand(d, shape, dtype, pool)
        return Result(d.apply(lambda a: REDUCED[op](a, axes), x, shape=left))

    return one


def _reduced_bits(op: Op) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        x = d.input((2, 3), d.pick(INTEGERS))
        return Result(d.apply(lambda a: REDUCED[op](a, (0,)), x))

    return one


def _place(fn: Callable[..., Any]) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        shape, dtype = d.pick([s for s in SHAPES if 0 not in s]), d.pick(ALL)
        axis, kind = d.integer(0, len(shape) - 1), np.dtype(d.pick(["int32", "int64", "uint8"]))
        x = operand(d, shape, dtype, edges(d, dtype))
        left = tuple(s for i, s in enumerate(shape) if i != axis)
        return Result(d.apply(lambda a: fn(a, axis, kind), x, shape=left))

    return one


def _cumulative(fn: Callable[..., Any], of_bounds: bool = False) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(NUMBERS)
        axis, reverse = d.integer(0, len(shape) - 1), d.chance()
        pool = edges(d, dtype) if of_bounds else d.pick([moderate, finite])(dtype)
        x = operand(d, shape, dtype, pool)
        return Result(d.apply(lambda a: fn(a, axis=axis, reverse=reverse), x))

    return one


def _logarithms(d: Drawn) -> Result:
    shape, dtype = d.pick(SHAPES), d.pick(["float32", "float64"])
    axis, reverse = d.integer(0, len(shape) - 1), d.chance()
    x = operand(d, shape, dtype, [*moderate(dtype), -np.inf, 88.0])
    return Result(d.apply(lambda a: lax.cumlogsumexp(a, axis=axis, reverse=reverse), x))


def _sorted(d: Drawn) -> Result:
    """One array, or several by one or more keys; equals stay in their order."""
    shape, dtype = d.pick(SHAPES), d.pick(ALL)
    axis = d.integer(0, len(shape) - 1)
    pool = edges(d, dtype)
    first = operand(d, shape, dtype, pool)
    if d.chance():
        return Result(d.apply(lambda a: lax.sort(a, dimension=axis), first))
    others = [operand(d, shape, kind, numbers(kind)) for kind in (d.pick(ALL), "int32")]
    keys, place = d.integer(1, 3), d.integer(0, 2)
    return Result(
        d.apply(
            lambda *xs: lax.sort(xs, dimension=axis, num_keys=keys, is_stable=True)[place],
            first,
            *others,
        )
    )


def _largest(d: Drawn) -> Result:
    shape = d.pick([(2, 3), (4,), ("n", 3), (3, "m")])
    dtype = d.pick(ALL)
    known = [i for i, size in enumerate(shape) if not isinstance(size, str)]
    axis = d.pick(known)
    k, place = d.integer(0, shape[axis]), d.integer(0, 1)
    x = operand(d, shape, dtype, edges(d, dtype))
    left = tuple(k if i == axis else s for i, s in enumerate(shape))
    return Result(d.apply(lambda a: lax.top_k(a, k, axis=axis)[place], x, shape=left))


def _approximate(d: Drawn) -> Result:
    dtype, k, place = d.pick(["float32", "float16", "float64"]), d.integer(1, 3), d.integer(0, 1)
    x = d.input((2, 5), dtype)
    # All different: the order of equals is open.
    d.inputs[-1] = np.random.default_rng(d.integer(0, 99)).permutation(10).reshape(2, 5)
    d.inputs[-1] = d.inputs[-1].astype(dtype)
    fn = d.pick([lax.approx_max_k, lax.approx_min_k])
    axis = d.integer(0, 1)
    k = min(k, (2, 5)[axis])
    return Result(d.apply(lambda a: fn(a, k, reduction_dimension=axis)[place], x))


def _not_aggregated(d: Drawn) -> Result:
    x = d.input((2, 5), "float32", [0.5, 1.0, 2.0])
    return Result(d.apply(lambda a: lax.approx_max_k(a, 2, aggregate_to_topk=False)[0], x))


def _cases(draw: Callable[[Drawn], Result], units: float = 0) -> LoweringCase:
    return LoweringCase(results(draw), units, of_largest=units > 0)


CASES: dict[Op, Sequence[LoweringCase]] = {
    **{op: [_cases(_reduced(op))] for op in REDUCED},
    **{
        op: [_cases(_reduced(op)), LoweringCase(results(_reduced_bits(op)), refusal="booleans")]
        for op in OF_BITS
    },
    ops.reduce_sum: [_cases(_reduced(ops.reduce_sum), 16)],
    ops.reduce_prod: [_cases(_reduced(ops.reduce_prod), 16)],
    ops.argmax: [_cases(_place(lax.argmax))],
    ops.argmin: [_cases(_place(lax.argmin))],
    ops.cumsum: [_cases(_cumulative(lax.cumsum), 16)],
    ops.cumprod: [_cases(_cumulative(lax.cumprod), 16)],
    ops.cummax: [_cases(_cumulative(lax.cummax, of_bounds=True))],
    ops.cummin: [_cases(_cumulative(lax.cummin, of_bounds=True))],
    ops.cumlogsumexp: [_cases(_logarithms, 16)],
    ops.sort: [_cases(_sorted)],
    ops.top_k: [_cases(_largest)],
    ops.approx_top_k: [
        _cases(_approximate),
        LoweringCase(results(_not_aggregated), refusal="aggregated"),
    ],
}
