"""Reductions, cumulative operations, sorting."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance import Case, assert_exports, cases, wrapped_cases

CUBE = (3, 4, 5)
INTS = (CUBE, np.int32)
BOOLS = (CUBE, np.bool_)
DIFFERENT = (17, 18)  # axes are an attribute, then an input
NAN, INF = np.nan, np.inf
WITH_NAN = np.array([[1, NAN, INF, -INF, NAN, 0, -1], [2, 2, 1, -0.0, 0.0, 2, 1]], np.float32)
TIES = np.array([[3, 1, 3, 2, 1], [0, 0, 0, 0, 0], [5, 4, 5, 4, 5]], np.float32)

REDUCTIONS = [
    Case("sum max min", lambda x: (x.sum(), x.max(1), x.min((0, 2))), (CUBE,), DIFFERENT),
    Case("sum one", lambda x: x.sum(-1, keepdims=True), (CUBE,), ops={"ReduceSum": 1}),
    Case("prod", lambda x: (x.prod(), x.prod(1), x.prod((0, 2))), (CUBE,), DIFFERENT),
    Case("mean", lambda x: (x.mean(), x.mean((1, 2)), x.std(0), x.var(1, ddof=1)), (CUBE,)),
    Case("all any", lambda x: (x.all(), x.all(1), x.any(2), x.any((0, 1))), (BOOLS,), DIFFERENT),
    Case("xor", lambda x: lax.reduce_xor(x, (0, 2)), (BOOLS,)),
    Case("int", lambda x: (x.sum(1), x.max(0), x.min(2), x.prod(1)), (INTS,), DIFFERENT),
    Case("int sum wraps", lambda x: (x * 2**28).sum(1), (INTS,)),
    Case("bool sum", lambda x: (x.sum(1), x.mean(0), jnp.count_nonzero(x)), (BOOLS,)),
    Case("uint32 extremes", lambda x: (x.max(1), x.min(0), jnp.argmax(x, 1)),
         (np.array([[1, 2**32 - 1, 7], [2**31, 2**31 - 1, 3]], np.uint32),)),
    *[
        Case(
            f"{np.dtype(d).name}",
            lambda x, d=d: (x.sum(1, dtype=d), x.max(0), x.min(1), x.prod(1, dtype=d)),
            ((CUBE, d),),
        )
        for d in (np.int8, np.uint16)
    ],
    Case("empty axes", lambda x: lax.reduce_max_p.bind(x, axes=(), out_sharding=None), (CUBE,)),
    Case("empty operand", lambda x: (x[:0].sum(0), x[:, :0].max(1, initial=-INF)), (CUBE,)),
    Case("argmax ties", lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), (TIES,)),
    Case("argmax bool", lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), (BOOLS,)),
    Case("argmax dtype", lambda x: lax.argmax(x, 1, jnp.uint8), (CUBE,)),
    Case("softmax", lambda x: (jax.nn.softmax(x, 1), jax.nn.log_softmax(x, 0)), (CUBE,)),
    Case("logsumexp", lambda x: jax.nn.logsumexp(x * 40, axis=(0, 2)), (CUBE,)),
    Case("named batch", lambda x: (x.sum(0), x.max(0), x.mean(0), x.min(1)), (("B", 4),)),
    Case("nan sum", lambda x: (x.sum(1), jnp.nansum(x[1:]), jnp.nanmax(x, 1)), (WITH_NAN,)),
    Case("nan max", lambda x: x.max(1), (WITH_NAN,),
         xfail="ONNX leaves NaN in ReduceMax open, and ONNX Runtime skips it"),
    Case("nan argmax", lambda x: jnp.argmax(x, 1), (WITH_NAN,),
         xfail="ONNX leaves NaN in ArgMax open, and ONNX Runtime skips it"),
]  # fmt: skip
CUMULATIVE = [
    Case("cumsum", lambda x: (jnp.cumsum(x, 1), lax.cumsum(x, 2, reverse=True)), (CUBE,),
         ops={"CumSum": 2}),
    Case("cumprod", lambda x: (jnp.cumprod(x, 1), lax.cumprod(x, 0, reverse=True)), (CUBE,),
         (17, 26)),
    Case("cumprod op", lambda x: jnp.cumprod(x, 1), (CUBE,), (26,), {"CumProd": 1}),
    Case("cummin", lambda x: (lax.cummin(x, 1), lax.cummin(x, 2, reverse=True)), (CUBE,)),
    Case("cummax nan", lambda x: lax.cummax(x, 1), (WITH_NAN,)),
    Case("cumlogsumexp",
         lambda x: (lax.cumlogsumexp(x * 9, 1), lax.cumlogsumexp(x, 2, reverse=True)), (CUBE,)),
    Case("cumlogsumexp infinite", lambda x: lax.cumlogsumexp(x, 1),
         (np.array([[-INF, -INF, 0, 3], [2, INF, 1, 0]], np.float32),)),
    Case("int", lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x, 2)), (INTS,)),
    Case("int8", lambda x: (lax.cumsum(x, 1), lax.cummin(x, 1)), ((CUBE, np.int8),)),
    Case("uint16", lambda x: (lax.cumsum(x, 1), lax.cumprod(x, 1)), ((CUBE, np.uint16),), (23, 26)),
    Case("one element", lambda x: lax.cummax(x, 1), ((3, 1),)),
    Case("named batch", lambda x: (jnp.cumsum(x, 0), lax.cummax(x, 1)), (("B", 6),)),
    Case("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x, axis=1), (CUBE,)),
]  # fmt: skip
SORTING = [
    Case("sort", lambda x: (jnp.sort(x), jnp.sort(x, 0), jnp.sort(x, 1, descending=True)), (CUBE,)),
    Case("int one node", lambda x: jnp.sort(x, 1), (INTS,), ops={"TopK": 1, "GatherElements": 0}),
    Case("stable", lambda x: (jnp.argsort(x, 1), jnp.argsort(x, 0)), (TIES,)),
    Case("nan is last", lambda x: (jnp.sort(x), jnp.argsort(x)), (WITH_NAN,)),
    Case("two keys", lambda x: lax.sort((x.round(), -x, x), num_keys=2), (CUBE,)),
    Case("two keys nan", lambda x: lax.sort((x, -x, x * 2), num_keys=2), (WITH_NAN,)),
    Case("payload", lambda x: lax.sort((x, x > 0, (x * 9).astype(jnp.int8)), dimension=1), (CUBE,)),
    Case("lexsort", lambda x, y: jnp.lexsort((x, y)), (((9,), np.int32), ((9,), np.int32))),
    *[Case(np.dtype(d).name, lambda x: (jnp.sort(x, 1), jnp.argsort(x, 1)), ((CUBE, d),))
      for d in (np.int8, np.uint32, np.bool_)],
    Case("top_k", lambda x: lax.top_k(x, 3), (CUBE,), ops={"TopK": 1, "Cast": 1}),
    Case("top_k axis", lambda x: lax.top_k(x, 2, axis=1), (CUBE,)),
    Case("top_k ties", lambda x: lax.top_k(x, 4), (TIES,)),
    Case("top_k uint16", lambda x: lax.top_k(x, 2), ((CUBE, np.uint16),)),
    Case("approx_top_k", lambda x: (lax.approx_max_k(x, 2), lax.approx_min_k(x, 3)), (CUBE,)),
    Case("median", lambda x: (jnp.median(x, 1), jnp.quantile(x, 0.3), jnp.percentile(x, 70, 0)),
         (CUBE,)),
    Case("nanmedian", lambda x: jnp.nanmedian(x[:, :2], 1), (WITH_NAN,)),
    Case("unique", lambda x: jnp.unique(x, size=8, fill_value=-99), (((14,), np.int32),)),
    *[Case(f"searchsorted {side}", lambda x, y, side=side: jnp.searchsorted(jnp.sort(x), y, side),
           ((8,), (5,))) for side in ("left", "right")],
    Case("histogram", lambda x: jnp.histogram(x, 5), ((40,),)),
    Case("named batch", lambda x: (jnp.sort(x, 1), jnp.sort(x, 0), lax.top_k(x, 2)), (("B", 6),)),
]  # fmt: skip


NAMED = Case("cumprod over a name", lambda x: jnp.cumprod(x, 0), (("B", 3),), (25, 26))


@cases([*REDUCTIONS, *CUMULATIVE, *SORTING, NAMED])
def test_reduce(case, opset):
    assert_exports(case, opset)


@pytest.mark.sampled(4)
@wrapped_cases(
    [
        Case("sum max", lambda x: (x.sum(0), x.max(1), x.mean()), ((3, 4),)),
        Case("argmax", lambda x: (jnp.argmax(x, 0), jnp.argmin(x)), ((3, 4),)),
        Case("cumulative", lambda x: (jnp.cumsum(x, 0), lax.cummax(x, 1)), ((3, 4),)),
        Case("sort", lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1), lax.top_k(x, 2)), ((3, 4),)),
        Case("logsumexp", lambda x: jax.nn.logsumexp(x, 0), ((3, 4),)),
    ]
)
def test_transformed(case):
    assert_exports(case)
