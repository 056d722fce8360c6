"""Networks in channels-last keep the transposes of their ends; norms become operators or go."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.ir import ops
from converter.pipeline import passes

RNG = np.random.default_rng(0)
NHWC = ("NHWC", "HWIO", "NHWC")


def drawn(*shape):
    return RNG.normal(0, 0.5, shape).astype(np.float32)


def conv(x, w, stride=1, padding="SAME", groups=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), padding, dimension_numbers=NHWC, feature_group_count=groups
    )


def norm(x, p):
    """A batch norm at inference, as Keras and Flax write it."""
    scale = lax.rsqrt(p["var"] + 1e-3) * p["gamma"]
    return x * scale + (p["beta"] - p["mean"] * scale)


def norm_by_hand(x, p):
    return (x - p["mean"]) / jnp.sqrt(p["var"] + 1e-5) * p["gamma"] + p["beta"]


def stats(n):
    return {"gamma": drawn(n) + 1.5, "beta": drawn(n), "mean": drawn(n), "var": abs(drawn(n)) + 0.5}


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def avg_pool(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


PARAMS = {
    "stem": drawn(3, 3, 3, 8),
    "wide": drawn(1, 1, 8, 12),
    "deep": drawn(3, 3, 1, 12),
    "narrow": drawn(1, 1, 12, 8),
    "squeeze": drawn(8, 4),
    "excite": drawn(4, 8),
    "bias": drawn(8),
    **{f"norm{n}": stats(size) for n, size in enumerate((8, 12, 12, 8))},
    "head": drawn(8, 5),
}


def network(p, x, norm=norm):
    """An inverted residual block with squeeze and excitation, and what lies around it."""
    x = jax.nn.relu6(norm(conv(x, p["stem"], 2), p["norm0"]))
    y = jax.nn.relu6(norm(conv(x, p["wide"]), p["norm1"]))
    y = jnp.pad(y, ((0, 0), (1, 2), (0, 1), (0, 0)))
    y = jax.nn.hard_swish(norm(conv(y, p["deep"], 1, "VALID", 12), p["norm2"]))
    y = norm(conv(jnp.pad(y, ((0, 0), (0, 0), (0, 1), (0, 0)))[:, 1:], p["narrow"]), p["norm3"])
    y = y[:, : x.shape[1], : x.shape[2]]
    x = x[:, : y.shape[1], : y.shape[2]]
    gate = jax.nn.sigmoid(jax.nn.relu(jnp.mean(y, (1, 2)) @ p["squeeze"]) @ p["excite"])
    x = x + y * gate[:, None, None]
    x = jnp.concatenate([max_pool(x), avg_pool(x)[:, : (x.shape[1] + 1) // 2]], 0)
    return jnp.mean(x, (1, 2)) @ p["head"]


@pytest.mark.parametrize(
    ("written", "batch"), [(norm, "B"), pytest.param(norm_by_hand, 2, marks=pytest.mark.full)]
)
def test_a_network_keeps_one_transpose(written, batch):
    def fn(p, x):
        return network(p, x, written)

    images = drawn(2, 20, 28, 3)
    export = converter.to_onnx(fn, [(batch, 20, 28, 3)], params=PARAMS, verify=[images])
    assert export.report.histogram["Transpose"] == 1
    assert export.report.histogram["Conv"] == 4


def test_norms_are_in_the_weights():
    def fn(p, x):
        x = norm(conv(x, p["stem"], 2) + p["bias"], p["norm0"])
        return norm_by_hand(conv(x, p["wide"]), p["norm1"])

    images = drawn(2, 20, 28, 3)
    export = converter.to_onnx(fn, [images], params=PARAMS, verify=[images])
    assert export.report.histogram == {"Conv": 2, "Transpose": 2}
    assert {"stem", "wide"} <= set(export.model.graph.initializers)
    kept = converter.to_onnx(fn, [images], params=PARAMS, fold=False, verify=[images])
    assert kept.report.histogram["BatchNormalization"] == kept.report.histogram["Mul"] == 1


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions(groups):
    def fn(p, x):
        y = lax.conv_general_dilated(
            x, p["w"], (1, 1), [(1, 1)] * 2, (2, 2), None, NHWC, feature_group_count=groups
        )
        return norm(y, p["norm"])

    params, images = {"w": drawn(3, 3, 4 // groups, 6), "norm": stats(6)}, drawn(2, 5, 7, 4)
    export = converter.to_onnx(fn, [images], params=params, verify=[images])
    assert export.report.histogram.get("Mul", 0) == (0 if groups == 1 else 1)


def test_what_is_read_in_both_orders(monkeypatch):
    """Flattening reads channels-last, the next convolution does not: the relu is turned once."""

    def fn(p, x):
        x = jax.nn.relu(conv(x, p["stem"], 2))
        return x.reshape(x.shape[0], -1) @ p["flat"], jax.nn.relu(conv(x, p["wide"]))

    params = {**PARAMS, "flat": drawn(10 * 14 * 8, 3)}
    images = drawn(2, 20, 28, 3)
    export = converter.to_onnx(fn, [images], params=params, verify=[images])
    assert export.report.histogram["Transpose"] == 3
    others = tuple(r for r in passes.PASSES if getattr(r, "name", "") != "channels")
    monkeypatch.setattr(passes, "PASSES", others)
    turned = converter.to_onnx(fn, [images], params=params).report.histogram["Transpose"]
    assert turned == 4


# ----------------------------------------------------------------------- norms, and near misses

LAST, FIRST = (2, 5, 7, 6), (2, 6, 5, 7)
SCALE, BIAS = drawn(6) + 1.5, drawn(6)
SIX, PLACE = stats(6), drawn(7)


def keras_groups(x):
    """``keras.layers.GroupNormalization``, Keras 3.15: scaled before the channels are merged."""
    split = x.reshape(*x.shape[:-1], 3, -1)
    axes = (1, 2, 4)
    mean, variance = split.mean(axes, keepdims=True), split.var(axes, keepdims=True)
    inverse = lax.rsqrt(variance + 1e-3) * SCALE.reshape(3, -1)
    return (split * inverse + (-mean * inverse + BIAS.reshape(3, -1))).reshape(x.shape)


def by_hand(x):
    """A mean and a variance of each channel, the variance as E[x^2] - E[x]^2."""
    mean = x.mean((1, 2), keepdims=True)
    variance = jnp.maximum((x * x).mean((1, 2), keepdims=True) - mean * mean, 0)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * SCALE + BIAS


def known_by_hand(p, x):
    """The mean comes off first, which keeps digits that the operator loses."""
    norm = {k: p[k].reshape(6, 1, 1) for k in SIX}
    return (x - norm["mean"]) / jnp.sqrt(norm["var"] + 1e-5) * norm["gamma"] + norm["beta"]


FIXED = [pytest.param(1, opset, marks=pytest.mark.full) for opset in (17, 23)]


@pytest.mark.parametrize(("batch", "opset"), [("B", 23), *FIXED])
def test_a_norm_by_hand_is_an_operator(batch, opset):
    """Those of libraries are in `tests/frameworks/`."""
    x = drawn(3 if batch == "B" else batch, *LAST[1:]) * 2 + 1
    export = converter.to_onnx(by_hand, [(batch, *LAST[1:])], opset=opset, verify=[x])
    assert export.report.histogram == {"InstanceNormalization": 1, "Transpose": 2}, export.graph


@pytest.mark.parametrize("norm", [keras_groups, pytest.param(by_hand, marks=pytest.mark.full)])
def test_a_network_keeps_the_transposes_of_its_ends(norm):
    params = {"one": drawn(3, 3, 4, 6), "two": drawn(3, 3, 6, 6), "three": drawn(1, 1, 6, 5)}

    def fn(p, x):
        y = jax.nn.relu(norm(conv(x, p["one"], 2)))
        y = y + jax.nn.silu(norm(conv(y, p["two"])))
        return conv(y, p["three"])

    images = drawn(3, 12, 10, 4)
    export = converter.to_onnx(fn, [("B", 12, 10, 4)], params=params, verify=[images])
    assert export.report.histogram["Transpose"] == 2, export.graph
    assert export.report.fused["InstanceNormalization"] == 2


def test_a_norm_before_the_activation_keeps_its_parameters():
    """What follows a residual sum has no convolution to go into."""
    params = {"one": drawn(3, 3, 4, 6), "two": drawn(3, 3, 6, 6), "norm": stats(6)}

    def fn(p, x):
        x = conv(x, p["one"])
        n = p["norm"]
        inverse = lax.rsqrt(n["var"] + 1e-3) * n["gamma"]
        y = jax.nn.relu(x * inverse + (n["beta"] - n["mean"] * inverse))
        return x + conv(y, p["two"])

    images = drawn(2, 9, 7, 4)
    export = converter.to_onnx(fn, [images], params=params, verify=[images])
    wanted = {"Conv": 2, "BatchNormalization": 1, "Relu": 1, "Add": 1, "Transpose": 2}
    assert export.report.histogram == wanted
    assert {f"norm.{k}" for k in params["norm"]} <= set(export.model.graph.initializers)


def other_groups(x):
    """The channels are split the other way round."""
    split = x.reshape(*x.shape[:-1], 2, 3)
    axes = (1, 2, 3)
    y = (split - split.mean(axes, keepdims=True)) * lax.rsqrt(split.var(axes, keepdims=True) + 1e-3)
    return y.reshape(x.shape) * SCALE


def tiled(x):
    """Statistics of groups that are tiled, so that they are those of other channels."""
    split = x.reshape(*x.shape[:-1], 3, 2)
    mean, variance = (jnp.tile(v, 2) for v in (split.mean((1, 2, 4)), split.var((1, 2, 4))))
    return (x - mean[:, None, None]) * lax.rsqrt(variance + 1e-3)[:, None, None]


def scaled_by_place(x):
    """The scale has the size of another axis."""
    y = (x - x.mean((2, 3), keepdims=True)) * lax.rsqrt(x.var((2, 3), keepdims=True) + 1e-3)
    return y * PLACE


def known_of_another(p, x):
    """Twice the mean is taken off."""
    inverse = lax.rsqrt(p["var"].reshape(6, 1, 1) + 1e-3)
    return x * inverse - 2 * p["mean"].reshape(6, 1, 1) * inverse


NEAR = [(tiled, LAST), (scaled_by_place, FIRST), (known_of_another, FIRST), (known_by_hand, FIRST)]


@pytest.mark.parametrize(("fn", "shape"), [(other_groups, LAST), *NEAR])
def test_near_misses(fn, shape):
    x, params = drawn(*shape) * 2 + 1, SIX if fn in (known_of_another, known_by_hand) else None
    export = converter.to_onnx(fn, [x], params=params, verify=[x])
    if fn is not other_groups:
        found = {"InstanceNormalization", "BatchNormalization"} & {*export.report.histogram}
        assert not found, export.graph


def overlaps(a, b):
    low, high = jnp.maximum(a[:, None, :2], b[:, :2]), jnp.minimum(a[:, None, 2:], b[:, 2:])
    return jnp.prod(jnp.clip(high - low, 0), -1)


def pulls(x, y):
    apart = x[None] - y[:, None]
    return (apart / ((apart**2).sum(-1) + 0.1)[..., None] ** 1.5).sum(1)


@pytest.mark.parametrize(("fn", "width", "first"), [(overlaps, 4, (2, 5)), (pulls, 3, (3, 4))])
def test_a_small_last_axis_goes_to_the_front_of_many_elements(fn, width, first):
    for sizes, expected in zip(((30, 20), (5, 4)), first, strict=True):
        arrays = [drawn(size, width) for size in sizes]
        export = converter.to_onnx(fn, [a.shape for a in arrays])
        assert converter.check(export.model, fn, arrays).passed
        spread = [n.out.shape for n in export.graph.nodes if n.op in (ops.sub, ops.max, ops.min)]
        assert {shape[0] for shape in spread if len(shape) == 3} == {expected}
