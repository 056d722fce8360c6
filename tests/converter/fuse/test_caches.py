"""Attention over a cache: what is joined to it, what is written into it, and where."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
    shapes = [(batch, *shape[1:]) for shape in (NEW, NEW, NEW, KEPT, KEPT)]
    return [*(rng.standard_normal(shape).astype(np.float32) for shape in shapes), *index]


def updated(x, y, i):
    return lax.dynamic_update_slice_in_dim(x, y, i, 0)


def test_an_index_is_moved_inside():
    x, y = np.zeros((9, 4), np.int8), np.ones((2, 4), np.int8)
    export = converter.to_onnx(updated, [x, y, ((), "int32")], opset=24)
    assert export.report.histogram["TensorScatter"] == 1
    session = converter.session(export)
    for index in (3, 7, 8, 40, -1, -40):
        (got,) = converter.run(session, [x, y, np.asarray(index, np.int32)]).values()
        np.testing.assert_array_equal(got, np.asarray(updated(x, y, index)))


@pytest.mark.full
def test_a_cache_that_is_joined():
    past = ("B", HEADS, "P", WIDTH)
    export = converter.to_onnx(joined, [NEW, NEW, NEW, past, past])
    assert export.report.histogram == {"Attention": 1, "Concat": 2}
    assert converter.check(export, joined, arrays(2)).passed


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
    for index in (4, LENGTH, -40):
        place = np.asarray([index, 3] if each else index, np.int32)
        for export in (new, old):
            assert converter.check(export, fn, arrays(2, place)).passed, index


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float16", "int8", "bool"])
def test_other_dtypes_and_axes(dtype):
    mapped = jax.vmap(updated, in_axes=(1, 1, 0), out_axes=1)
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 2, (n, 4, 5)).astype(dtype) for n in (9, 2))
    for f, index in ((updated, 8), (mapped, [0, 5, 8, -3])):
        inputs = [x, y, np.asarray(index, np.int32)]
        export = converter.to_onnx(f, inputs, opset=24)
        assert export.report.histogram["TensorScatter"] == 1
        assert converter.check(export, f, inputs).passed
