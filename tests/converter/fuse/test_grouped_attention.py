"""Attention in which several heads share their keys and values, scores that are capped, and caches:
what is joined to one, what is written into it, and where."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.ir import ops

Q, K, V = (2, 6, 9, 8), (2, 2, 7, 8), (2, 2, 7, 4)
BTHD = ((2, 9, 6, 8), (2, 7, 2, 8), (2, 7, 2, 8))
KEEP = jnp.arange(7) < jnp.arange(9)[:, None] + 2


def attend(q, k, v, masked=lambda scores: scores):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.3
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(masked(scores), axis=-1), v)


def repeated(masked=lambda scores: scores):
    """Three heads share a key and a value."""
    return lambda q, k, v: attend(q, *(jnp.repeat(x, 3, axis=1) for x in (k, v)), masked)


def grouped(scores, out, shape, result):
    """Queries in groups, or one key for all heads."""

    def fn(q, k, v):
        weights = jax.nn.softmax(jnp.einsum(scores, q.reshape(shape), k) * 0.3, axis=-1)
        return jnp.einsum(out, weights, v).reshape(result)

    return fn


OUT = (2, 6, 9, 4)
IN_GROUPS = grouped("bngqd,bnkd->bngqk", "bngqk,bnkd->bngqd", (2, 2, 3, 9, 8), OUT)
GEMMA = grouped("BTKGH,BSKH->BTKGS", "BTKGS,BSKH->BTKGH", (2, 9, 2, 3, 8), BTHD[0])
FORMS = {
    "repeated": (repeated(), (Q, K, V), 2),
    "groups": (IN_GROUPS, (Q, K, V), 2),
    "gemma": (GEMMA, BTHD, 2),
    "capped": (repeated(lambda scores: 5 * jnp.tanh(scores / 5)), (Q, K, V), 2),
    "one_key": (grouped("bhqd,bkd->bhqk", "bhqk,bkd->bhqd", Q, OUT), (Q, (2, 7, 8), (2, 7, 4)), 1),
}


def drawn(shapes, dtype="float32"):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def converted(fn, inputs, **how):
    """The export, after comparing what it computes, and its node of attention if there is one."""
    export = converter.to_onnx(fn, inputs, **how)
    assert converter.check(export, fn, inputs).passed
    return export, next((n for n in export.graph.walk() if n.op is ops.attention), None)


@pytest.mark.each("name")
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("layout", ["3d", "4d"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_keys_are_taken_once(name, opset, layout, dtype):
    fn, shapes, heads = FORMS[name]
    export, node = converted(fn, drawn(shapes, dtype), opset=opset, attention_layout=layout)
    assert export.report.fused == {"Attention": 1}
    assert not {"Expand", "Tile", "MatMul", "Softmax"} & set(export.report.histogram)
    assert (node.params["q_heads"], node.params["kv_heads"]) == (6, heads)


@pytest.mark.full
@pytest.mark.parametrize(
    ("fn", "width"),
    [
        # Other heads share their keys than ONNX's.
        (lambda q, k, v: attend(q, *(jnp.tile(x, (1, 3, 1, 1)) for x in (k, v))), 2),
        (lambda q, k, v: attend(q, jnp.repeat(k, 3, axis=1), v), 6),
    ],
    ids=["tiled", "keys alone"],
)
def test_what_is_not_shared_in_order_stays_repeated(fn, width):
    _, node = converted(fn, drawn((Q, K, (2, width, 7, 4))))
    assert node.params["kv_heads"] == 6


SCALED = {
    # ``keras.layers.Attention``, Keras 3.15, lowers hidden scores.
    "lowered": (lambda s, m: jnp.where(m > 0, s - 1e9, s), (2, 1, 9, 7), None),
    # Swin v2 has a temperature for each head.
    "heated": (lambda s, m: jnp.where(KEEP, s * jnp.exp(m)[:, None, None], -1e30), (6,), None),
    "along keys": (lambda s, m: s * jnp.resize(m, 7), (6,), "queries cannot be multiplied by"),
    "behind the mask": (
        *(lambda s, m: jnp.where(KEEP, s, -1e30) * jnp.exp(m[0]), (6,)),
        "before they are multiplied",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_scores_may_be_lowered_and_multiplied(name, dtype):
    change, shape, reason = SCALED[name]
    if name == "lowered":
        dtype = "float32"
    elif dtype == "float16":
        reason = reason or "queries cannot"

    def fn(q, k, v, given):
        if name == "heated":
            q, k = (x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
        return attend(q, k, v, lambda scores: change(scores, given))

    export, _ = converted(fn, drawn((Q, (2, 6, 7, 8), (2, 6, 7, 4), shape), dtype))
    assert export.report.fused == ({"Attention": 1} if reason is None else {})
    if reason is not None:
        assert any(reason in miss.reason for miss in export.report.near_misses)


# ----------------------------------------------------------------------------------------- caches

HEADS, LENGTH, WIDTH = 3, 9, 8


def joined(q, k, v, past_k, past_v):
    k, v = (jnp.concatenate(pair, axis=2) for pair in ((past_k, k), (past_v, v)))
    return attend(q, k, v), k, v


def updated(x, y, i, axis=0):
    return lax.dynamic_update_slice_in_dim(x, y, i, axis)


def written(put):
    def fn(q, k, v, keys, values, index):
        keys, values = put(keys, k, index), put(values, v, index)
        shown = jnp.arange(LENGTH) <= index[..., None, None, None]
        return attend(q, keys, values, lambda s: jnp.where(shown, s, -1e30)), keys, values

    return fn


def cached(batch, length=LENGTH):
    return [(batch, HEADS, 1, WIDTH)] * 3 + [(batch, HEADS, length, WIDTH)] * 2


@pytest.mark.parametrize(
    "dtype", ["int8", *(pytest.param(d, marks=pytest.mark.full) for d in ("float16", "bool"))]
)
def test_an_index_is_moved_inside(dtype):
    """One for all, or one for each place along another axis."""
    mapped = jax.vmap(updated, in_axes=(1, 1, 0), out_axes=1)
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 2, (n, 4, 5)).astype(dtype) for n in (9, 2))
    for fn, indices in ((updated, (3, 7, 8, 40, -1, -40)), (mapped, ([0, 5, 8, -3],))):
        export = converter.to_onnx(fn, [x, y, np.int32(indices[0])], opset=24)
        assert export.report.histogram["TensorScatter"] == 1
        session = converter.session(export)
        for index in indices:
            (got,) = converter.run(session, [x, y, np.int32(index)]).values()
            np.testing.assert_array_equal(got, np.asarray(fn(x, y, np.int32(index))))


@pytest.mark.full
def test_a_cache_that_is_joined():
    export = converter.to_onnx(joined, cached("B", "P"))
    assert export.report.histogram == {"Attention": 1, "Concat": 2}
    assert converter.check(export, joined, drawn(cached(2))).passed


PUTS = {
    "one": lambda x, y, i: updated(x, y, i, 2),
    "each": jax.vmap(lambda x, y, i: lax.dynamic_update_slice(x, y, (0, i, 0))),
    # An index beyond the cache writes nothing.
    "by index": lambda x, y, i: x.at[:, :, i].set(y[:, :, 0]),
}


@pytest.mark.full
@pytest.mark.parametrize("name", PUTS)
@pytest.mark.parametrize("batch", ["B", 2])
def test_a_cache_that_is_written(name, batch):
    """At one index, or one for each entry of the batch."""
    fn, each = written(PUTS[name]), name == "each"
    specs = [*cached(batch), ((batch,) if each else (), "int32")]
    new, old = (converter.to_onnx(fn, specs, opset=opset) for opset in (24, 23))
    assert new.report.histogram["TensorScatter"] == 2
    assert not {"ScatterND", "Concat", "Transpose"} & set(new.report.histogram)
    assert new.report.fused == old.report.fused == {"Attention": 1}
    for index in (4, LENGTH, -40):
        place = np.asarray([index, 3] if each else index, np.int32)
        for export in (new, old):
            assert converter.check(export, fn, [*drawn(cached(2)), place]).passed, index
