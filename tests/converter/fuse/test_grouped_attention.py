"""Attention in which several heads share their keys and values, and scores that are capped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.ir import ops

Q, K, V = (2, 6, 9, 8), (2, 2, 7, 8), (2, 2, 7, 4)
BTHD = ((2, 9, 6, 8), (2, 7, 2, 8), (2, 7, 2, 8))
KEEP = jnp.arange(7) < jnp.arange(9)[:, None] + 2


def attend(q, k, v, masked=lambda scores: scores):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.3
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(masked(scores), axis=-1), v)


def repeated(masked=lambda scores, *given: scores):
    """Three heads share a key and a value."""

    def fn(q, k, v, *given):
        k, v = (jnp.repeat(x, 3, axis=1) for x in (k, v))
        return attend(q, k, v, lambda scores: masked(scores, *given))

    return fn


def in_groups(q, k, v):
    q = q.reshape(2, 2, 3, 9, 8)
    scores = jnp.einsum("bngqd,bnkd->bngqk", q, k) * 0.3
    out = jnp.einsum("bngqk,bnkd->bngqd", jax.nn.softmax(scores, axis=-1), v)
    return out.reshape(2, 6, 9, 4)


def gemma(q, k, v):
    q = q.reshape(2, 9, 2, 3, 8)
    scores = jnp.einsum("BTKGH,BSKH->BTKGS", q, k)
    out = jnp.einsum("BTKGS,BSKH->BTKGH", jax.nn.softmax(scores, axis=-1), v)
    return out.reshape(2, 9, 6, 8)


def for_all(q, k, v):
    """One key for all heads."""
    scores = jnp.einsum("bhqd,bkd->bhqk", q, k[:, 0]) * 0.3
    return jnp.einsum("bhqk,bkd->bhqd", jax.nn.softmax(scores, axis=-1), v[:, 0])


FORMS = {
    "repeated": (repeated(), (Q, K, V), 2),
    "groups": (in_groups, (Q, K, V), 2),
    "gemma": (gemma, BTHD, 2),
    "capped": (repeated(lambda scores: 5 * jnp.tanh(scores / 5)), (Q, K, V), 2),
    "one_key": (for_all, (Q, (2, 1, 7, 8), (2, 1, 7, 4)), 1),
}


def drawn(shapes, dtype="float32"):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def converted(fn, inputs, **how):
    """The export, after comparing what it computes, and its node of attention if there is one."""
    export = converter.to_onnx(fn, inputs, **how)
    assert converter.check(export, fn, inputs).passed
    return export, next((n for n in export.graph.walk() if n.op is ops.attention), None)


@pytest.mark.sampled(80, full=2)
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


def tiled(q, k, v):
    """Other heads share their keys than ONNX's."""
    return attend(q, *(jnp.tile(x, (1, 3, 1, 1)) for x in (k, v)))


def keys_alone(q, k, v):
    return attend(q, jnp.repeat(k, 3, axis=1), v)


@pytest.mark.full
@pytest.mark.parametrize(("fn", "shapes"), [(tiled, (Q, K, V)), (keys_alone, (Q, K, (2, 6, 7, 4)))])
def test_what_is_not_shared_in_order_stays_repeated(fn, shapes):
    _, node = converted(fn, drawn(shapes))
    assert node.params["kv_heads"] == 6


SCALED = {
    # ``keras.layers.Attention``, Keras 3.15, lowers hidden scores.
    "lowered": (lambda s, m: jnp.where(m > 0, s - 1e9, s), (2, 1, 9, 7), None),
    # Swin v2 has a temperature for each head.
    "heated": (
        lambda s, heat: jnp.where(KEEP, s * jnp.exp(heat)[:, None, None], -1e30),
        (6,),
        None,
    ),
    "along keys": (
        lambda s, heat: s * jnp.resize(heat, 7),
        (6,),
        "queries cannot be multiplied by",
    ),
    "behind the mask": (
        lambda s, heat: jnp.where(KEEP, s, -1e30) * jnp.exp(heat[0]),
        (6,),
        "before they are multiplied",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_scores_may_be_lowered_and_multiplied(name, dtype):
    change, shape, reason = SCALED[name]
    if name.startswith("lowered"):
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
