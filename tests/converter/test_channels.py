"""Networks in channels-last keep the transposes of their inputs and outputs; batch norms go."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
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


def transposes(export):
    return export.report.histogram.get("Transpose", 0)


@pytest.mark.parametrize(
    ("written", "batch"), [(norm, "B"), pytest.param(norm_by_hand, 2, marks=pytest.mark.full)]
)
def test_a_network_keeps_one_transpose(written, batch):
    def fn(p, x):
        return network(p, x, written)

    images = drawn(2, 20, 28, 3)
    export = converter.to_onnx(fn, [(batch, 20, 28, 3)], params=PARAMS, verify=[images])
    assert transposes(export) == 1
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
    assert transposes(export) == 3
    others = tuple(step for step in passes.PASSES if step.name != "channels")
    monkeypatch.setattr(passes, "PASSES", others)
    assert transposes(converter.to_onnx(fn, [images], params=params)) == 4
