"""Attention over a cache: what is joined to it, what is written into it, and where."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import lax

import converter

HEADS, LENGTH, WIDTH = 3, 9, 8
NEW, KEPT = ("B", HEADS, 1, WIDTH), ("B", HEADS, LENGTH, WIDTH)


def attend(q, k, v, shown=None):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 3
    scores = scores if shown is None else jnp.where(shown, scores, -1e30)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)


def joined(q, k, v, past_k, past_v):
    k, v = (jnp.concatenate(pair, axis=2) for pair in ((past_k, k), (past_v, v)))
    return attend(q, k, v), k, v


def written(q, k, v, keys, values, index):
    keys, values = (
        lax.dynamic_update_slice_in_dim(x, y, index, 2) for x, y in ((keys, k), (values, v))
    )
    return attend(q, keys, values, jnp.arange(LENGTH) <= index), keys, values


def written_each(q, k, v, keys, values, index):
    """An index for each entry of the batch."""
    put = jax.vmap(lambda x, y, i: lax.dynamic_update_slice(x, y, (0, i, 0)))
    keys, values = put(keys, k, index), put(values, v, index)
    shown = jnp.arange(LENGTH) <= index[:, None, None, None]
    return attend(q, keys, values, shown), keys, values


def written_by_index(q, k, v, keys, values, index):
    """An index beyond the cache writes nothing."""
    keys, values = (x.at[:, :, index].set(y[:, :, 0]) for x, y in ((keys, k), (values, v)))
    return attend(q, keys, values, jnp.arange(LENGTH) <= index), keys, values


def arrays(batch, *index):
    rng = np.random.default_rng(3)
    made = [
        rng.standard_normal((batch, *shape[1:])).astype(np.float32)
        for shape in (NEW, NEW, NEW, KEPT, KEPT)
    ]
    return [*made, *index]


def test_an_index_is_moved_inside():
    def fn(x, y, i):
        return lax.dynamic_update_slice_in_dim(x, y, i, 0)

    x, y = np.zeros((9, 4), np.int8), np.ones((2, 4), np.int8)
    export = converter.to_onnx(fn, [x, y, ((), "int32")], opset=24)
    assert export.report.histogram["TensorScatter"] == 1
    session = converter.session(export)
    for index in (3, 7, 8, 40, -1, -40):
        got = session.run(None, {"x": x, "y": y, "i": np.asarray(index, np.int32)})[0]
        np.testing.assert_array_equal(got, np.asarray(fn(x, y, index)))


@pytest.mark.full
def test_a_cache_that_is_joined():
    past = ("B", HEADS, "P", WIDTH)
    export = converter.to_onnx(joined, [NEW, NEW, NEW, past, past])
    assert export.report.histogram == {"Attention": 1, "Concat": 2}
    assert converter.check(export, joined, arrays(2)).passed


INDICES = (4, LENGTH, -1, -40)


@pytest.mark.full
@pytest.mark.parametrize("fn", [written, written_each, written_by_index])
@pytest.mark.parametrize("batch", ["B", 2])
def test_a_cache_that_is_written(fn, batch):
    each = fn is written_each
    specs = [(batch, *shape[1:]) for shape in (NEW, NEW, NEW, KEPT, KEPT)]
    specs.append(((batch,) if each else (), "int32"))
    new, old = (converter.to_onnx(fn, specs, opset=opset) for opset in (24, 23))
    assert new.report.histogram["TensorScatter"] == 2
    assert not {"ScatterND", "Concat", "Transpose"} & set(new.report.histogram)
    assert new.report.fused == old.report.fused == {"Attention": 1}
    for index in INDICES:
        place = np.asarray([index, 3] if each else index, np.int32)
        for export in (new, old):
            assert converter.check(export, fn, arrays(2, place)).passed, index


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float16", "int8", "bool"])
def test_other_dtypes_and_axes(dtype):
    def fn(x, y, i):
        return lax.dynamic_update_slice_in_dim(x, y, i, 0)

    def mapped(x, y, i):
        return jax.vmap(fn, in_axes=(1, 1, 0), out_axes=1)(x, y, i)

    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 2, (n, 4, 5)).astype(dtype) for n in (9, 2))
    for f, index in ((fn, 8), (mapped, [0, 5, 8, -3])):
        inputs = [x, y, np.asarray(index, np.int32)]
        export = converter.to_onnx(f, inputs, opset=24)
        assert export.report.histogram["TensorScatter"] == 1
        assert converter.check(export, f, inputs).passed


# ----------------------------------------------------------------------------------------- Flax


def linen():
    layer = nn.MultiHeadDotProductAttention(HEADS, qkv_features=12, decode=True)
    x = jnp.zeros((2, LENGTH, 12))
    variables = layer.init(jax.random.key(0), x, x)

    def step(index, key, value, x):
        cache = {"cache_index": index, "cached_key": key, "cached_value": value}
        y, state = layer.apply(
            {"params": variables["params"], "cache": cache}, x, x, mutable=["cache"]
        )
        return y, state["cache"]

    return step


def plain():
    layer = nnx.MultiHeadAttention(HEADS, 12, decode=True, rngs=nnx.Rngs(0))
    layer.init_cache((2, LENGTH, 12))
    graph, params, cache = nnx.split(layer, nnx.Param, nnx.Cache)

    def step(index, key, value, x):
        given = {"cache_index": index, "cached_key": key, "cached_value": value}
        state = nnx.State({k: v.replace(given[k]) for k, v in cache.items()})
        layer = nnx.merge(graph, params, state, copy=True)
        y = layer(x)
        return y, nnx.to_pure_dict(nnx.state(layer, nnx.Cache))

    return step


@pytest.mark.full
@pytest.mark.parametrize("make", [linen, plain])
def test_flax_decodes(make):
    rng = np.random.default_rng(3)
    shapes = ((2, LENGTH, HEADS, 4), (2, LENGTH, HEADS, 4), (2, 1, 12))
    fn = make()
    inputs = [np.int32(4), *(rng.standard_normal(s).astype(np.float32) for s in shapes)]
    export = converter.to_onnx(fn, inputs, opset=24)
    assert export.report.fused == {"Attention": 1}
    assert export.report.histogram["TensorScatter"] == 2
    assert converter.check(export, fn, inputs).passed
