"""Between convolutions in channels-last are no transposes, in the forms that people use."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.ir.evaluation import evaluate
from tests.converter.test_channels import conv

RNG = np.random.default_rng(0)
KERNELS = [RNG.normal(0, 0.2, (3, 3, 6, 6)).astype(np.float32) for _ in range(3)]
BIAS = RNG.normal(0, 0.5, 6).astype(np.float32)


def between(middle, padding="SAME"):
    """Three convolutions with something between them."""

    def fn(x):
        for w in KERNELS[:2]:
            x = middle(conv(x, w, 1, padding))
        return conv(x, KERNELS[2], 1, padding)

    return fn


def group_norm(x, groups):
    split = x.reshape(*x.shape[:3], groups, -1)
    centred = split - split.mean((1, 2, 4), keepdims=True)
    variance = jnp.square(centred).mean((1, 2, 4), keepdims=True)
    return jax.nn.silu((centred * lax.rsqrt(variance + 1e-5)).reshape(x.shape))


def broadcast_in_both(x):
    b, h, w, c = x.shape
    wide = jnp.broadcast_to(x[:, :, None, :, None], (b, h, 2, w, 3, c))
    return wide.reshape(b, 2 * h, 3 * w, c)


def padded(mode):
    return lambda x: jnp.pad(x, ((0, 0), (1, 2), (2, 1), (0, 0)), mode=mode)


def of_one_picture(x):
    """A network for one picture, with what networks do besides."""
    x = x[None]
    y = jax.nn.relu(conv(x, KERNELS[0]) + BIAS)
    y = jax.nn.gelu(conv(y, KERNELS[1])) + y
    y = jnp.concatenate([y[..., :4], 2 * y[..., 4:]], -1) * BIAS
    return conv(jnp.pad(y, ((0, 0), (1, 0), (0, 1), (0, 0))), KERNELS[2])[0]


FORMS = {
    "repeated": between(lambda x: jax.nn.relu(jnp.repeat(jnp.repeat(x, 2, axis=1), 3, axis=2))),
    "broadcast": between(broadcast_in_both),
    "nearest": between(
        lambda x: jax.image.resize(x, (2, 2 * x.shape[1], 2 * x.shape[2], 6), "nearest")
    ),
    "reflected": between(padded("reflect")),
    "mirrored": between(padded("symmetric"), "VALID"),
    "edges": between(padded("edge")),
    "turned round": between(lambda x: jnp.flip(x, (1, 2)) + x),
    "a channel a group": between(lambda x: x + group_norm(x, 6)),
    "two channels a group": between(lambda x: group_norm(x, 3)),
    "a picture each": jax.vmap(of_one_picture),
    "pictures of pictures": lambda x: jax.vmap(jax.vmap(of_one_picture))(x[None])[0],
}


@pytest.mark.parametrize("name", FORMS)
def test_transposes_of_the_ends_alone(name):
    fn, x = FORMS[name], RNG.normal(size=(2, 5, 7, 6)).astype(np.float32)
    export = converter.to_onnx(fn, [x], verify=[x], opset=18)
    assert export.report.histogram.get("Transpose", 0) <= 2, export.graph
    (got,) = evaluate(export.graph, [x])
    np.testing.assert_allclose(got, jax.jit(fn)(x), rtol=0, atol=1e-5)


def repeated_channels(x):
    return jnp.repeat(x[..., :3], 2, axis=-1)


def tiled(x):
    return jnp.tile(x, (1, 2, 1, 1))


def of_one_row(x):
    """A row that is spread is not one that is repeated."""
    return jnp.broadcast_to(x[:, :1], x.shape) * x


@pytest.mark.parametrize("middle", [repeated_channels, tiled, of_one_row])
def test_what_looks_like_it(middle):
    fn, x = between(middle), RNG.normal(size=(2, 5, 7, 6)).astype(np.float32)
    export = converter.to_onnx(fn, [x], verify=[x], opset=18)
    np.testing.assert_allclose(evaluate(export.graph, [x])[0], jax.jit(fn)(x), rtol=0, atol=1e-5)
