"""Attention in which several heads share their keys and values, and scores that are capped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.ir import ops

Q, K, V = (2, 6, 9, 8), (2, 2, 7, 8), (2, 2, 7, 4)
BTHD = ((2, 9, 6, 8), (2, 7, 2, 8), (2, 7, 2, 8))


def attend(q, k, v, masked=lambda scores: scores):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.3
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(masked(scores), axis=-1), v)


def repeated(q, k, v):
    return attend(q, *(jnp.repeat(x, 3, axis=1) for x in (k, v)))


def spread(q, k, v):
    """The ``repeat_kv`` of Llama."""

    def wide(x):
        return jnp.broadcast_to(x[:, :, None], (2, 2, 3, *x.shape[2:])).reshape(2, 6, *x.shape[2:])

    return attend(q, wide(k), wide(v))


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


def keras(q, k, v):
    """``keras.layers.GroupQueryAttention``, Keras 3.15."""
    return jax.nn.dot_product_attention(q, *(jnp.repeat(x, 3, axis=2) for x in (k, v)))


def hidden(q, k, v):
    keep = jnp.arange(7) < jnp.arange(9)[:, None] + 2
    k, v = (jnp.repeat(x, 3, axis=1) for x in (k, v))
    return attend(q, k, v, lambda scores: jnp.where(keep, scores, -1e30))


def per_head(q, k, v, bias):
    return attend(q, *(jnp.repeat(x, 3, axis=1) for x in (k, v)), lambda scores: scores + bias)


def capped(q, k, v):
    k, v = (jnp.repeat(x, 3, axis=1) for x in (k, v))
    return attend(q, k, v, lambda scores: 5 * jnp.tanh(scores / 5))


def for_all(q, k, v):
    """One key for all heads."""
    scores = jnp.einsum("bhqd,bkd->bhqk", q, k[:, 0]) * 0.3
    return jnp.einsum("bhqk,bkd->bhqd", jax.nn.softmax(scores, axis=-1), v[:, 0])


FORMS = {
    "repeated": (repeated, (Q, K, V), 2),
    "spread": (spread, (Q, K, V), 2),
    "groups": (in_groups, (Q, K, V), 2),
    "gemma": (gemma, BTHD, 2),
    "jax": (jax.nn.dot_product_attention, BTHD, 2),
    "keras": (keras, BTHD, 2),
    "masked": (hidden, (Q, K, V), 2),
    "biased": (per_head, (Q, K, V, (6, 9, 7)), 2),
    "capped": (capped, (Q, K, V), 2),
    "one_key": (for_all, (Q, (2, 1, 7, 8), (2, 1, 7, 4)), 1),
}


@pytest.mark.sampled(80, full=2)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("layout", ["3d", "4d"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_keys_are_taken_once(name, opset, layout, dtype):
    fn, shapes, heads = FORMS[name]
    if dtype == "float16" and name in ("jax", "keras"):
        dtype = "float32"  # JAX has no product of float16 and float32 on a CPU
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    export = converter.to_onnx(fn, inputs, opset=opset, attention_layout=layout)
    assert export.report.fused == {"Attention": 1}
    assert not {"Expand", "Tile", "MatMul", "Softmax"} & set(export.report.histogram)
    (node,) = (n for n in export.graph.walk() if n.op is ops.attention)
    assert (node.params["q_heads"], node.params["kv_heads"]) == (6, heads)
    assert converter.check(export, fn, inputs).passed


@pytest.mark.full
def test_a_batch_of_any_size():
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in BTHD]
    for fn in (jax.nn.dot_product_attention, keras):
        export = converter.to_onnx(fn, [("B", *shape[1:]) for shape in BTHD])
        assert export.report.histogram == {"Attention": 1, "Reshape": 4}
        assert converter.check(export, fn, inputs).passed


def tiled(q, k, v):
    """Other heads share their keys than ONNX's."""
    return attend(q, *(jnp.tile(x, (1, 3, 1, 1)) for x in (k, v)))


def keys_alone(q, k, v):
    return attend(q, jnp.repeat(k, 3, axis=1), v)


@pytest.mark.full
@pytest.mark.parametrize(("fn", "shapes"), [(tiled, (Q, K, V)), (keys_alone, (Q, K, (2, 6, 7, 4)))])
def test_what_is_not_shared_in_order_stays_repeated(fn, shapes):
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    export = converter.to_onnx(fn, inputs)
    (node,) = (n for n in export.graph.walk() if n.op is ops.attention)
    assert node.params["kv_heads"] == 6
    assert converter.check(export, fn, inputs).passed


def lowered(q, k, v, mask):
    """``keras.layers.Attention``, Keras 3.15, lowers hidden scores."""
    return attend(q, k, v, lambda scores: jnp.where(mask > 0, scores - 1e9, scores))


def lowered_by_product(q, k, v, mask):
    return attend(q, k, v, lambda scores: scores - 1e9 * (mask > 0))


@pytest.mark.full
@pytest.mark.parametrize("fn", [lowered, lowered_by_product])
def test_hidden_scores_may_be_lowered(fn):
    rng = np.random.default_rng(3)
    shapes = (Q, (2, 6, 7, 8), (2, 6, 7, 4), (2, 1, 9, 7))
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    export = converter.to_onnx(fn, inputs)
    assert export.report.fused == {"Attention": 1}
    assert converter.check(export, fn, inputs).passed


def cosine(q, k, v, heat):
    """The attention of Swin v2: a temperature for each head."""
    q, k = (x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    keep = jnp.arange(7) < jnp.arange(9)[:, None] + 2
    return attend(q, k, v, lambda s: jnp.where(keep, s * jnp.exp(heat)[:, None, None], -1e30))


def divided(q, k, v, heat):
    return attend(q, k, v, lambda scores: scores / (2 + heat[0]))


def along_keys(q, k, v, heat):
    return attend(q, k, v, lambda scores: scores * jnp.resize(heat, 7))


def behind_the_mask(q, k, v, heat):
    keep = jnp.arange(7) < jnp.arange(9)[:, None] + 2
    return attend(q, k, v, lambda s: jnp.where(keep, s, -1e30) * jnp.exp(heat[0]))


@pytest.mark.full
@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (cosine, None),
        (divided, None),
        (along_keys, "queries cannot be multiplied by"),
        (behind_the_mask, "before they are multiplied"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_scores_may_be_multiplied(fn, reason, dtype):
    rng = np.random.default_rng(3)
    shapes = (Q, (2, 6, 7, 8), (2, 6, 7, 4), (6,))
    inputs = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    export = converter.to_onnx(fn, inputs)
    reason = reason or ("queries cannot" if dtype == "float16" else None)
    assert export.report.fused == ({"Attention": 1} if reason is None else {})
    if reason is not None:
        assert any(reason in miss.reason for miss in export.report.near_misses)
    assert converter.check(export, fn, inputs).passed
