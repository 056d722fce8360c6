"""Reductions, cumulative operations, sorting."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

from tests.conformance import DEFAULT, JUDGES, Case

CUBE = (3, 4, 5)
INTS = (CUBE, np.int32)
BOOLS = (CUBE, np.bool_)
DIFFERENT = (17, 18)  # opset 17 has the axes as an attribute, opset 18 as an input
NAN, INF = np.nan, np.inf
WITH_NAN = np.array([[1, NAN, INF, -INF, NAN, 0, -1], [2, 2, 1, -0.0, 0.0, 2, 1]], np.float32)
INFINITE = np.array([[-INF, -INF, -INF], [2, INF, 1], [-INF, 3, 1]], np.float32)
TIES = np.array([[3, 1, 3, 2, 1], [0, 0, 0, 0, 0], [5, 4, 5, 4, 5]], np.float32)


def shifted_sum(x, subtracted, added):
    subtracted, added = (jnp.where(jnp.isfinite(top), top, 0) for top in (subtracted, added))
    return jnp.log(jnp.exp(x - subtracted).sum(0)) + added


REDUCTIONS = [
    Case("sum max min", lambda x: (x.sum(), x.max(1), x.min((0, 2))), (CUBE,), DIFFERENT,
         tags=DEFAULT | {"vmap last"}),
    Case("prod", lambda x: (x.prod(), x.prod(1), x.prod((0, 2))), (CUBE,), DIFFERENT, tags=DEFAULT),
    Case("all any", lambda x: (x.all(), x.all(1), x.any(2), x.any((0, 1))), (BOOLS,), DIFFERENT,
         tags=DEFAULT),
    Case("int", lambda x: (x.sum(1), x.max(0), x.min(2), x.prod(1)), (INTS,), DIFFERENT),
    Case("int sum wraps", lambda x: (x * 2**28).sum(1), (INTS,), tags=DEFAULT),
    Case("uint32 extremes", lambda x: (x.max(1), x.min(0), jnp.argmax(x, 1)),
         (np.array([[1, 2**32 - 1, 7], [2**31, 2**31 - 1, 3]], np.uint32),)),
    Case("empty operand", lambda x: (x[:0].sum(0), x[:, :0].max(1, initial=-INF)), (CUBE,)),
    Case("argmax ties", lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), (TIES,), tags=DEFAULT),
    Case("argmax dtype", lambda x: lax.argmax(x, 1, jnp.uint8), (CUBE,)),
    Case("nan sum", lambda x: (x.sum(1), jnp.nansum(x[1:]), jnp.nanmax(x, 1)), (WITH_NAN,)),
]  # fmt: skip
LOG_SUMS = [
    Case("log of a sum", lambda x: (logsumexp(x, 1), logsumexp(x * 99, (0, 2), keepdims=True)),
         (CUBE,), DIFFERENT, tags=DEFAULT),
    Case("infinite", lambda x: logsumexp(x, 1), (INFINITE,),
         tags=DEFAULT),
    Case("powers that are read", lambda x: jax.vjp(lambda x: logsumexp(x, 1), x)[1](x[:, 0]),
         (CUBE,)),
    Case("of many numbers", lambda x: logsumexp(jnp.tile(x, (4, 4, 1)), 1), (CUBE,),
         ops={"ReduceLogSumExp": 0}, tags=DEFAULT),
    Case("less no maximum", lambda x: shifted_sum(x, x.min(0), x.min(0)), (CUBE,),
         ops={"ReduceLogSumExp": 0}),
    Case("and another maximum", lambda x: shifted_sum(x, x.max(0), x.max(0) + 1), (CUBE,),
         ops={"ReduceLogSumExp": 0}),
]  # fmt: skip
CUMULATIVE = [
    Case("cumsum", lambda x: (jnp.cumsum(x, 1), lax.cumsum(x, 2, reverse=True)), (CUBE,),
         ops={"CumSum": 2}, tags=DEFAULT | {"vmap in scan"}),
    Case("cumprod", lambda x: (jnp.cumprod(x, 1), lax.cumprod(x, 0, reverse=True)), (CUBE,),
         (17, 26)),
    Case("cumprod op", lambda x: jnp.cumprod(x, 1), (CUBE,), (26,), {"CumProd": 1},
         tags=DEFAULT),
    Case("cummax nan", lambda x: lax.cummax(x, 1), (WITH_NAN,), tags=DEFAULT),
    Case("cumlogsumexp",
         lambda x: (lax.cumlogsumexp(x * 9, 1), lax.cumlogsumexp(x, 2, reverse=True)), (CUBE,)),
    Case("cumlogsumexp infinite", lambda x: lax.cumlogsumexp(x, 1), (INFINITE,), tags=DEFAULT),
    Case("whole", lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 2)), (INTS,)),
    Case("uint16", lambda x: (lax.cumsum(x, 1), lax.cumprod(x, 1)), ((CUBE, np.uint16),), (23, 26),
         tags=DEFAULT),
]  # fmt: skip
SORTING = [
    Case("int one node", lambda x: jnp.sort(x, 1), (INTS,), ops={"TopK": 1, "GatherElements": 0}),
    Case("stable", lambda x: (jnp.argsort(x, 1), jnp.argsort(x, 0)), (TIES,)),
    Case("nan is last", lambda x: (jnp.sort(x), jnp.argsort(x)), (WITH_NAN,), tags=DEFAULT),
    Case("two keys nan", lambda x: lax.sort((x, -x, x * 2), num_keys=2), (WITH_NAN,)),
    Case("lexsort", lambda x, y: jnp.lexsort((x, y)), (((9,), np.int32), ((9,), np.int32)),
         tags=DEFAULT),
    Case("top_k", lambda x: lax.top_k(x, 3), (CUBE,), ops={"TopK": 1, "Cast": 1},
         tags=DEFAULT | {JUDGES}),
    Case("approx_top_k", lambda x: (lax.approx_max_k(x, 2), lax.approx_min_k(x, 3)), (CUBE,),
         tags=DEFAULT),
    *[Case(f"searchsorted {side}", lambda x, y, side=side: jnp.searchsorted(jnp.sort(x), y, side),
           ((8,), (5,))) for side in ("left", "right")],
]  # fmt: skip
NAMED = Case(
    "cumprod over a name", lambda x: jnp.cumprod(x, 0), (("B", 3),), (25, 26), tags=DEFAULT
)

PROGRAMS = [*REDUCTIONS, *LOG_SUMS, *CUMULATIVE, *SORTING, NAMED]
