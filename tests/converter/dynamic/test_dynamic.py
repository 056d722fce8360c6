"""Each file is right at the sizes of its named dimensions that are drawn, with and without ORT's
optimiser.

Programs are over several names, over derived ones, and over those of which something is known; of
one name alone the fuzzer draws as many as one wants.
"""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter

Group = namedtuple("Group", ("specs", "programs", "constraints"), defaults=[()])
"""Programs on the same inputs, which are converted together."""


def conv(x, padding="SAME", **more):
    w = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
    return lax.conv_general_dilated(x, w, more.pop("strides", (1, 1)), padding, **more)


def unet(x):
    def conv(x, out, stride=1):
        w = jnp.ones((out, x.shape[1], 3, 3)) * 0.1
        return jax.nn.relu(lax.conv_general_dilated(x, w, (stride, stride), "SAME"))

    one = conv(x, 2)
    two = conv(one, 4, 2)
    three = conv(two, 4, 2)
    up = jax.image.resize(three, (1, 4, *two.shape[2:]), "nearest")
    two = conv(jnp.concatenate([two, up], 1), 2)
    up = jnp.repeat(jnp.repeat(two, 2, 2), 2, 3)
    return conv(jnp.concatenate([one, up], 1), 1)


PATCHES = Group(
    [(1, 3, "4*h", "4*w")],
    {
        "patches": lambda x: lax.conv_general_dilated(
            x, jnp.ones((2, 3, 4, 4)) / 9, (4, 4), "VALID"
        ),
        "down and up": lambda x: jnp.repeat(
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"), 2, 3
        ),
        "u-net": unet,
        "resize cubic": lambda x: jax.image.resize(
            x, (1, 3, x.shape[2] * 2, x.shape[3]), "cubic", antialias=False
        ),
        "global max window": lambda x: lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 1, x.shape[2], 2), (1, 1, 1, 2), "VALID"
        ),
    },
)
TABLE = {
    "longer": Group(
        [("N",)],
        {
            "linspace without its end": lambda x: jnp.linspace(-1.0, 1.0, x.shape[0], False),
            "dynamic_slice": lambda x: lax.dynamic_slice(x, (jnp.argmax(x),), (2,)),
            "branch": lambda x: x * 2 if x.shape[0] >= 2 else x,
            "without two": lambda x: x[2:],
            "max of sizes": lambda x: jnp.zeros(max(x.shape[0], 2)) + 1,
        },
        ("N >= 2",),
    ),
    "even": Group(
        [("N",)],
        {
            "reshape": lambda x: x.reshape(-1, 4),
            "halves": lambda x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :],
            "turned": lambda x: jnp.concatenate([-x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]),
            "window": lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID"),
            "strided window same": lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (2,), "SAME"),
        },
        ("mod(N, 4) == 0",),
    ),
    "bounded": Group(
        [("N",), ("M",)],
        {
            "sum": lambda x, y: x + y,
            "dot": lambda x, y: x @ y,
            "pad to 8": lambda x, y: jnp.pad(x, (0, 8 - x.shape[0])),
        },
        ("N == M", "M <= 8"),
    ),
    "derived": Group(
        [("B", "2*N"), ("N+1",)],
        {
            "halves": lambda x, y: jnp.split(x, 2, axis=1),
            "interleaved": lambda x, y: jnp.stack([x[:, ::2], -x[:, 1::2]], -1).reshape(x.shape),
            "one less": lambda x, y: x.reshape(x.shape[0], -1, 2)[..., 0] * y[:-1],
            "concatenated": lambda x, y: jnp.concatenate([x[0], y]),
            "sizes": lambda x, y: y.shape[0] * 100 + x.shape[1] * 10 + x.shape[0] + jnp.zeros(1),
        },
    ),
    "linear": Group(
        [("h+1", "h+2*w"), ("3*w-h+9",)],
        {"sizes": lambda x, y: jnp.array([x.shape[0], x.shape[1], y.shape[0]])},
    ),
    "patches": PATCHES,
    "images": Group(
        [("B", 2, "h", "w")],
        {
            "conv strided valid": lambda x: conv(x, "VALID", strides=(2, 1)),
            "conv dilated": lambda x: conv(x, rhs_dilation=(1, 2)),
            "conv transposed": lambda x: conv(x, ((1, 2), (2, 1)), lhs_dilation=(2, 2)),
            "resize smaller": lambda x: jax.image.resize(
                x, (*x.shape[:2], x.shape[2] // 2 + 1, x.shape[3]), "lanczos3"
            ),
            "pad to even": lambda x: jnp.pad(
                x, ((0, 0), (0, 0), (0, x.shape[2] % 2), (0, -x.shape[3] % 2))
            ),
        },
        ("h >= 3", "w >= 3"),
    ),
    "sequences": Group(
        [("B", "N", 2, 4), ("B", "M", 2, 4), (("B", "M"), "bool")],
        {
            "attention": lambda q, k, m: jax.nn.dot_product_attention(q, k, k),
            "biased": lambda q, k, m: jax.nn.dot_product_attention(
                q, k, k, bias=jnp.arange(k.shape[1]) * -0.1 + jnp.zeros((1, 1, q.shape[1], 1))
            ),
            "last by mask": lambda q, k, m: k[jnp.arange(k.shape[0]), jnp.maximum(m.sum(1), 1) - 1],
            "masked mean": lambda q, k, m: (
                (k * m[:, :, None, None]).sum(1) / jnp.maximum(m.sum(1), 1)[:, None, None]
            ),
            "scan over time": lambda q, k, m: lax.scan(
                lambda c, x: (c * 0.5 + x, c.sum((1, 2))), q[:, 0], q.transpose(1, 0, 2, 3)
            ),
        },
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("name", TABLE)
def test_programs(name, opset):
    """A group is one file: most of the time goes into sessions and compilations."""
    group = TABLE[name]

    def fn(*xs):
        return {name: fn(*xs) for name, fn in group.programs.items()}

    export = converter.to_onnx(fn, group.specs, opset=opset, constraints=group.constraints)
    verdict = converter.check(export, fn)
    assert verdict.passed, verdict.differences[0]
