"""What only looks like GELU, softmax, a norm or attention; norms and rotary embeddings of unusual
values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter

X, Y = np.random.default_rng(3).standard_normal((2, 6, 8)).astype(np.float32)


def mean(x):
    return x.mean(1, keepdims=True)


def less(x):
    """What softmax takes exponentials of."""
    return x - x.max(1, keepdims=True)


def copies(x):
    """Four copies of each row."""
    return jnp.broadcast_to(x[:, None], (6, 4, 8))


def gelu(inner=1.0, half=0.5, one=1.0, cubic=1.0):
    """The spelling by tanh, with numbers that may be others."""
    root, cube = np.sqrt(2 / np.pi) * inner, 0.044715 * cubic
    return lambda x, y: half * x * (one + jnp.tanh(root * (x + cube * x**3)))


def spread(x, other=1.0, average=1.0, twice=False):
    """x * s - mean * s, as Keras writes it, with what is in one of the products only."""
    inverse = lax.rsqrt(x.var(1, keepdims=True) + 1e-3)
    scaled = x * inverse * inverse if twice else x * inverse
    return scaled - average * mean(x) * (inverse * other)


def attend(q, k, change=lambda s: s, axis=-1):
    weights = jax.nn.softmax(change(q @ k.T * 0.4), axis)
    return weights @ k, weights


GROUPS = {
    "Gelu": {
        "gelu, another root": gelu(inner=1.1),
        "gelu, another half": gelu(half=0.55),
        "gelu, another one": gelu(one=1.1),
        "gelu, another cube": gelu(cubic=1.1),
        "gelu of two": lambda x, y: y * 0.5 * lax.erfc(-x * 0.5**0.5),
        "gelu of a sum": lambda x, y: 0.5 * x * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (x + x[:1]))),
        "gelu, shifted": lambda x, y: (x + 1) * 0.5 * (1 + lax.erf(x / 2**0.5)),
    },
    "Softmax": {
        "base two": lambda x, y: jnp.exp2(less(x)) / jnp.exp2(less(x)).sum(1, keepdims=True),
        "negative": lambda x, y: jnp.exp(-less(x)) / jnp.exp(-less(x)).sum(1, keepdims=True),
        "of another": lambda x, y: jnp.exp(less(x)) / jnp.exp(less(y)).sum(1, keepdims=True),
        "of a whole": lambda x, y: jnp.exp(less(x)) / jnp.exp(less(x)).sum(keepdims=True),
        "along another": lambda x, y: jnp.exp(less(x)) / jnp.exp(less(x)).sum(0, keepdims=True),
        "of copies": lambda x, y: jnp.exp(less(x)) / copies(jnp.exp(less(x))).sum((1, 2))[:, None],
        "logarithm, base two": lambda x, y: less(x) - jnp.log(jnp.exp2(less(x)).sum(1)[:, None]),
        "logarithm, along another": lambda x, y: less(x) - jnp.log(jnp.exp(less(x)).sum(0)),
    },
    "LayerNormalization": {
        "highest": lambda x, y: (x - x.max(1, keepdims=True)) * lax.rsqrt(x.var(1)[:, None] + 1),
        "mean of others": lambda x, y: (x - x.mean(0)) * lax.rsqrt(x.var(1)[:, None] + 1e-3),
        "variance of all": lambda x, y: (x - mean(x)) * lax.rsqrt(x.var() + 1e-3),
        "plain square": lambda x, y: (x - mean(x)) * lax.rsqrt(mean(x**2) + 1e-3),
        "other": lambda x, y: (y - mean(x)) * lax.rsqrt(x.var(1)[:, None] + 1e-3),
        "power": lambda x, y: (x - mean(x)) * lax.rsqrt(mean(abs(x - mean(x)) ** 3) + 1e-3),
        "other scale": lambda x, y: spread(x, other=1.25),
        "half the mean": lambda x, y: spread(x, average=0.5),
        "other average": lambda x, y: spread(x, average=-1.0),
        "inverse twice": lambda x, y: spread(x, twice=True),
        "root mean square of another": lambda x, y: y * lax.rsqrt(mean(x**2) + 1e-3),
        "root mean cube": lambda x, y: x * lax.rsqrt(mean(abs(x) ** 3) + 1e-3),
        "root of another count": lambda x, y: x * lax.rsqrt((x**2).sum(1)[:, None] / 7 + 1e-3),
    },
    "Attention": {
        "along queries": lambda x, y: attend(x, y, axis=0)[0],
        "sine of scores": lambda x, y: attend(x, y, lambda s: jnp.sin(s / 5) * 5)[0],
        "truncated weights": lambda x, y: jnp.trunc(4 * attend(x, y)[1]) @ y,
        "values kept apart": lambda x, y: jnp.einsum("qk,kv->qkv", attend(x, y)[1], y),
    },
}
NAMES = {"LogSoftmax", "RMSNormalization", *GROUPS}


@pytest.mark.parametrize("kind", GROUPS)
def test_what_is_similar(kind):
    """Each is its own function of the file, and is computed as JAX does."""
    for name, fn in GROUPS[kind].items():
        export = converter.to_onnx(fn, [X, Y])
        found = NAMES & export.report.histogram.keys()
        assert not found - ({"Softmax"} if kind == "Attention" else set()), name
        verdict = converter.check(export, fn, [X, Y])
        assert verdict.passed, (name, verdict.differences[0])


def test_moments_that_cancel():
    """The variance of two elements as E[x^2] - E[x]^2 loses digits that the fused node keeps."""

    def fn(x):
        variance = mean(jnp.square(x)) - jnp.square(mean(x))
        return (x - mean(x)) * lax.rsqrt(variance + 1e-5)

    x = np.float32(1 + 1e-2 * np.random.default_rng(4).standard_normal((40, 2)))
    export = converter.to_onnx(fn, [x])
    assert export.report.fused["LayerNormalization"] == 1
    assert converter.check(export, fn, [x]).passed
    assert not converter.check(export, lambda x: fn(x) * 1.01, [x]).passed


@pytest.mark.parametrize("tiled", [True, False])
def test_halves_of_what_is_padded_with_its_edge(tiled):
    """Its last column is repeated by slices that name no strides, on the way to the halves."""
    angles = np.linspace(0, 2, 9, dtype=np.float32).reshape(3, 3)
    table = jnp.tile(angles, 2) if tiled else jnp.repeat(angles, 2, -1)

    def fn(x):
        t = jnp.pad(x, ((0, 2), (0, 0), (0, 1)), mode="edge")
        return t * jnp.cos(table) + jnp.concatenate([-t[..., 3:], t[..., :3]], -1) * jnp.sin(table)

    verdict = converter.check(converter.to_onnx(fn, [(1, 1, 5)]), fn)
    assert verdict.passed, verdict.differences
