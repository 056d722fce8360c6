"""Programs that reduce, accumulate, sort and search along axes."""

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


def without_overflow(dtype: str) -> list[Any]:
    """Return numbers with NaN and infinity, whose sums never overflow in an intermediate result."""
    if is_float(jnp.dtype(dtype)):
        return [*moderate(dtype), np.inf, np.nan, 0.0]
    return numbers(dtype)


def _reduced(op: Op) -> Callable[[Drawn], Result]:
    dtypes = ("bool",) if op in OF_BITS else NUMBERS

    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(dtypes)
        axes = tuple(i for i in range(len(shape)) if d.chance())
        result_shape = tuple(s for i, s in enumerate(shape) if i not in axes)
        pool = edges(d, dtype) if op in EXTREMES else d.pick([moderate, without_overflow])(dtype)
        x = operand(d, shape, dtype, pool)
        return Result(d.apply(lambda a: REDUCED[op](a, axes), x, shape=result_shape))

    return one


def _reduced_bits(op: Op) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        x = d.input((2, 3), d.pick(INTEGERS))
        return Result(d.apply(lambda a: REDUCED[op](a, (0,)), x))

    return one


def _arg_extreme(fn: Callable[..., Any]) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        shape, dtype = d.pick([s for s in SHAPES if 0 not in s]), d.pick(ALL)
        axis, index_dtype = (
            d.integer(0, len(shape) - 1),
            np.dtype(d.pick(["int32", "int64", "uint8"])),
        )
        x = operand(d, shape, dtype, edges(d, dtype))
        result_shape = tuple(s for i, s in enumerate(shape) if i != axis)
        return Result(d.apply(lambda a: fn(a, axis, index_dtype), x, shape=result_shape))

    return one


def _cumulative(fn: Callable[..., Any], of_bounds: bool = False) -> Callable[[Drawn], Result]:
    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(NUMBERS)
        axis, reverse = d.integer(0, len(shape) - 1), d.chance()
        pool = edges(d, dtype) if of_bounds else d.pick([moderate, without_overflow])(dtype)
        x = operand(d, shape, dtype, pool)
        return Result(d.apply(lambda a: fn(a, axis=axis, reverse=reverse), x))

    return one


def _logarithms(d: Drawn) -> Result:
    shape, dtype = d.pick(SHAPES), d.pick(["float32", "float64"])
    axis, reverse = d.integer(0, len(shape) - 1), d.chance()
    x = operand(d, shape, dtype, [*moderate(dtype), -np.inf, 88.0])
    return Result(d.apply(lambda a: lax.cumlogsumexp(a, axis=axis, reverse=reverse), x))


def _sorted(d: Drawn) -> Result:
    """Draw a stable sort of one array, or of several arrays by one or more keys."""
    shape, dtype = d.pick(SHAPES), d.pick(ALL)
    axis = d.integer(0, len(shape) - 1)
    pool = edges(d, dtype)
    first = operand(d, shape, dtype, pool)
    if d.chance():
        return Result(d.apply(lambda a: lax.sort(a, dimension=axis), first))
    others = [operand(d, shape, kind, numbers(kind)) for kind in (d.pick(ALL), "int32")]
    keys, result_index = d.integer(1, 3), d.integer(0, 2)
    return Result(
        d.apply(
            lambda *xs: lax.sort(xs, dimension=axis, num_keys=keys, is_stable=True)[result_index],
            first,
            *others,
        )
    )


def _largest(d: Drawn) -> Result:
    shape = d.pick([(2, 3), (4,), ("n", 3), (3, "m")])
    dtype = d.pick(ALL)
    known = [i for i, size in enumerate(shape) if not isinstance(size, str)]
    axis = d.pick(known)
    k, result_index = d.integer(0, shape[axis]), d.integer(0, 1)
    x = operand(d, shape, dtype, edges(d, dtype))
    result_shape = tuple(k if i == axis else s for i, s in enumerate(shape))
    return Result(
        d.apply(lambda a: lax.top_k(a, k, axis=axis)[result_index], x, shape=result_shape)
    )


def _approximate(d: Drawn) -> Result:
    dtype, k, result_index = (
        d.pick(["float32", "float16", "float64"]),
        d.integer(1, 3),
        d.integer(0, 1),
    )
    x = d.input((2, 5), dtype)
    # All elements differ, because JAX does not define the order of equal ones.
    d.inputs[-1] = np.random.default_rng(d.integer(0, 99)).permutation(10).reshape(2, 5)
    d.inputs[-1] = d.inputs[-1].astype(dtype)
    fn = d.pick([lax.approx_max_k, lax.approx_min_k])
    axis = d.integer(0, 1)
    k = min(k, (2, 5)[axis])
    return Result(d.apply(lambda a: fn(a, k, reduction_dimension=axis)[result_index], x))


def _not_aggregated(d: Drawn) -> Result:
    x = d.input((2, 5), "float32", [0.5, 1.0, 2.0])
    return Result(d.apply(lambda a: lax.approx_max_k(a, 2, aggregate_to_topk=False)[0], x))


def _case(draw: Callable[[Drawn], Result], units: float = 0) -> LoweringCase:
    return LoweringCase(results(draw), units, of_largest=units > 0)


CASES: dict[Op, Sequence[LoweringCase]] = {
    **{op: [_case(_reduced(op))] for op in REDUCED},
    **{
        op: [_case(_reduced(op)), LoweringCase(results(_reduced_bits(op)), refusal="booleans")]
        for op in OF_BITS
    },
    ops.reduce_sum: [_case(_reduced(ops.reduce_sum), 16)],
    ops.reduce_prod: [_case(_reduced(ops.reduce_prod), 16)],
    ops.argmax: [_case(_arg_extreme(lax.argmax))],
    ops.argmin: [_case(_arg_extreme(lax.argmin))],
    ops.cumsum: [_case(_cumulative(lax.cumsum), 16)],
    ops.cumprod: [_case(_cumulative(lax.cumprod), 16)],
    ops.cummax: [_case(_cumulative(lax.cummax, of_bounds=True))],
    ops.cummin: [_case(_cumulative(lax.cummin, of_bounds=True))],
    ops.cumlogsumexp: [_case(_logarithms, 16)],
    ops.sort: [_case(_sorted)],
    ops.top_k: [_case(_largest)],
    ops.approx_top_k: [
        _case(_approximate),
        LoweringCase(results(_not_aggregated), refusal="aggregated"),
    ],
}
