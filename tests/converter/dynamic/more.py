"""Programs over several names, over derived ones, and over those of which something is known."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.converter.dynamic.table import Group

LONGER = Group(
    [("N",)],
    ({"N": 2}, {"N": 7}, {"N": 16}),
    {
        "linspace": lambda x: x + jnp.linspace(0.0, 1.0, x.shape[0]),
        "linspace without its end": lambda x: jnp.linspace(-1.0, 1.0, x.shape[0], endpoint=False),
        "dynamic_slice": lambda x: lax.dynamic_slice(x, (jnp.argmax(x),), (2,)),
        "top_k": lambda x: lax.top_k(x, 2),
        "branch": lambda x: x * 2 if x.shape[0] >= 2 else x,
        "without two": lambda x: x[2:],
        "pairs": lambda x: x[1:] * x[:-1],
        "gradient": jnp.gradient,
        "max of sizes": lambda x: jnp.zeros(max(x.shape[0], 2)) + 1,
    },
    ("N >= 2",),
)
EVEN = Group(
    [("N",)],
    ({"N": 4}, {"N": 12}, {"N": 20}),
    {
        "reshape": lambda x: x.reshape(-1, 4),
        "split": lambda x: jnp.split(x, 4),
        "halves": lambda x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :],
        "turned halves": lambda x: jnp.concatenate([-x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]),
        "mean of blocks": lambda x: jnp.mean(x.reshape(x.shape[0] // 4, 4), 1),
        "window": lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID"),
        "strided window same": lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (2,), "SAME"),
    },
    ("mod(N, 4) == 0",),
)
BOUNDED = Group(
    [("N",), ("M",)],
    ({"N": 3, "M": 3}, {"N": 8, "M": 8}),
    {
        "sum": lambda x, y: x + y,
        "dot": lambda x, y: x @ y,
        "pad to 8": lambda x, y: jnp.pad(x, (0, 8 - x.shape[0])),
    },
    ("N == M", "M <= 8"),
)
TWO = Group(
    [("B", "N"), ("N", 3)],
    ({"B": 1, "N": 1}, {"B": 3, "N": 5}, {"B": 2, "N": 9}),
    {
        "matmul": lambda x, w: x @ w,
        "einsum of all": lambda x, w: jnp.einsum("bn,nk,bm->km", x, w, x),
        "gram": lambda x, w: x @ x.T,
        "ravel": lambda x, w: x.ravel(),
        "reshape of names": lambda x, w: (x[:, :, None] * w).reshape(-1, 3),
        "reshape to a name": lambda x, w: (x[:, :, None] * w).reshape(x.shape[0], -1),
        "concatenate products": lambda x, w: jnp.concatenate([x.ravel(), w.ravel()]),
        "pad by the other": lambda x, w: jnp.pad(x, ((0, w.shape[0]), (x.shape[0], 0))),
        "repeat rows": lambda x, w: jnp.repeat(x, 3, axis=0),
        "mean of both": lambda x, w: x.mean((0, 1)),
        "max and argmax": lambda x, w: (x.max(1), x.argmax(1), x.argmin(0)),
        "softmax where": lambda x, w: jax.nn.softmax(x, where=jnp.arange(x.shape[1]) <= x.shape[0]),
        "cumsum of all": lambda x, w: jnp.cumsum(x),
        "sort": lambda x, w: jnp.sort(x, 0),
        "take_along_axis": lambda x, w: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
        "gather by pairs": lambda x, w: x[jnp.arange(x.shape[0]), jnp.argmax(x, 1)],
        "one_hot": lambda x, w: jax.nn.one_hot(jnp.argmax(x, 1), x.shape[1]),
        "confusion": lambda x, w: jnp.zeros((x.shape[1], 3)).at[:, 1].add(x[0]),
        "scatter rows": lambda x, w: w.at[jnp.argsort(x[0]) // 2].add(1.0),
        "update": lambda x, w: lax.dynamic_update_slice(x, x[:1] * 2, (x.shape[0] - 1, 0)),
        "triangle above": lambda x, w: jnp.triu(x, -1),
        "roll": lambda x, w: jnp.roll(x, (1, -2), (0, 1)),
        "stack": lambda x, w: jnp.stack([x, x * 2], 1).reshape(-1, x.shape[1]),
        "kron of names": lambda x, w: jnp.kron(x[:, 0], w[:, 0]),
        "scan over rows": lambda x, w: lax.scan(
            lambda c, r: (c + r, c * r), jnp.zeros(x.shape[1]), x
        ),
        "vmap of a slice": lambda x, w: jax.vmap(
            lambda r: lax.dynamic_slice(r, (jnp.argmax(r),), (1,))
        )(x),
        "vmap of a while": lambda x, w: jax.vmap(
            lambda r: lax.while_loop(lambda v: v.sum() < 9, lambda v: jnp.abs(v) + 1, r)
        )(x),
        "fori": lambda x, w: lax.fori_loop(
            0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(x.shape[1])
        ),
        "grad": lambda x, w: jax.grad(lambda w: jnp.tanh(x @ w).sum())(w),
        "grad of a slice": lambda x, w: jax.grad(lambda x: jnp.sum(x[:, ::2] ** 2))(x),
        "grad of a max": lambda x, w: jax.grad(lambda x: jnp.sum(x.max(1)))(x),
        "size of all": lambda x, w: x / x.size,
        "sizes as an array": lambda x, w: jnp.array([x.shape[0], x.shape[1]]),
        "solve": lambda x, w: jnp.linalg.solve(x.T @ x + 2 * jnp.eye(x.shape[1]), w),
        "det": lambda x, w: jnp.linalg.det((x @ x.T) * 0.1 + jnp.eye(x.shape[0])),
        "compress by size": lambda x, w: jnp.nonzero(x[0] > 0, size=2, fill_value=0)[0],
    },
)
DERIVED = Group(
    [("B", "2*N"), ("N+1",)],
    ({"B": 1, "N": 1}, {"B": 2, "N": 3}, {"B": 3, "N": 4}),
    {
        "halves": lambda x, y: jnp.split(x, 2, axis=1),
        "interleaved": lambda x, y: jnp.stack([x[:, ::2], -x[:, 1::2]], -1).reshape(x.shape),
        "one less": lambda x, y: x.reshape(x.shape[0], -1, 2)[..., 0] * y[:-1],
        "concatenated": lambda x, y: jnp.concatenate([x[0], y]),
        "arange": lambda x, y: jnp.arange(x.shape[1] - y.shape[0] + 1),
        "sizes": lambda x, y: y.shape[0] * 100 + x.shape[1] * 10 + x.shape[0] + jnp.zeros(1),
        "linspace": lambda x, y: jnp.linspace(0.0, 1.0, x.shape[1]) * x,
    },
)
ONLY_LINEAR = Group(
    [("h+1", "h+2*w"), ("3*w-h+9",)],
    ({"h": 1, "w": 1}, {"h": 2, "w": 5}, {"h": 7, "w": 2}),
    {
        "sizes": lambda x, y: jnp.array([x.shape[0], x.shape[1], y.shape[0]]),
        "sum": lambda x, y: x[:-1].sum(0),
        "names": lambda x, y: jnp.arange(x.shape[1] - x.shape[0] + 1),
    },
)
PATCHES = Group(
    [(1, 3, "4*h", "4*w")],
    ({"h": 1, "w": 1}, {"h": 3, "w": 2}, {"h": 2, "w": 5}),
    {
        "patches": lambda x: lax.conv_general_dilated(
            x, jnp.ones((2, 3, 4, 4)) / 9, (4, 4), "VALID"
        ),
        "tokens": lambda x: (
            x.reshape(1, 3, x.shape[2] // 4, 4, x.shape[3] // 4, 4)
            .transpose(0, 2, 4, 1, 3, 5)
            .reshape(1, -1, 48)
        ),
        "down and up": lambda x: jnp.repeat(
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"), 2, 3
        ),
        "u-net": lambda x: _unet(x),
        "resize": lambda x: jax.image.resize(x, (1, 3, x.shape[2] // 2, x.shape[3] * 2), "linear"),
        "resize cubic": lambda x: jax.image.resize(
            x, (1, 3, x.shape[2] * 2, x.shape[3]), "cubic", antialias=False
        ),
        "global window": lambda x: lax.reduce_window(
            x, 0.0, lax.add, (1, 1, *x.shape[2:]), (1, 1, 1, 1), "VALID"
        ),
        "global max window": lambda x: lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 1, x.shape[2], 2), (1, 1, 1, 2), "VALID"
        ),
        "cyclic shift": lambda x: jnp.roll(x, (-2, -1), (2, 3)),
    },
)


def _unet(x: Any) -> Any:
    def conv(x: Any, out: int, stride: int = 1) -> Any:
        w = jnp.ones((out, x.shape[1], 3, 3)) * 0.1
        return jax.nn.relu(lax.conv_general_dilated(x, w, (stride, stride), "SAME"))

    one = conv(x, 2)
    two = conv(one, 4, 2)
    three = conv(two, 4, 2)
    up = jax.image.resize(three, (1, 4, *two.shape[2:]), "nearest")
    two = conv(jnp.concatenate([two, up], 1), 2)
    up = jnp.repeat(jnp.repeat(two, 2, 2), 2, 3)
    return conv(jnp.concatenate([one, up], 1), 1)


def _conv(x: Any, padding: Any = "SAME", **more: Any) -> Any:
    groups = more.get("feature_group_count", 1)
    w = jnp.asarray(np.random.default_rng(0).standard_normal((4, 2 // groups, 3, 3)), jnp.float32)
    return lax.conv_general_dilated(x, w, more.pop("window_strides", (1, 1)), padding, **more)


def _pool(
    x: Any, size: int, stride: int, padding: str, op: Any = lax.max, init: Any = -jnp.inf
) -> Any:
    return lax.reduce_window(x, init, op, (1, 1, size, size), (1, 1, stride, stride), padding)


IMAGES = Group(
    [("B", 2, "h", "w")],
    ({"B": 1, "h": 5, "w": 7}, {"B": 2, "h": 8, "w": 6}, {"B": 1, "h": 3, "w": 4}),
    {
        "conv strided same": lambda x: _conv(x, window_strides=(2, 3)),
        "conv strided valid": lambda x: _conv(x, "VALID", window_strides=(2, 1)),
        "conv dilated": lambda x: _conv(x, rhs_dilation=(1, 2)),
        "conv by channels": lambda x: _conv(x, feature_group_count=x.shape[1]),
        "conv transposed": lambda x: _conv(x, ((1, 2), (2, 1)), lhs_dilation=(2, 2)),
        "conv_transpose": lambda x: lax.conv_transpose(
            x, jnp.ones((3, 3, 2, 4)), (2, 2), "SAME", dimension_numbers=("NCHW", "HWIO", "NCHW")
        ),
        "sum pool same": lambda x: _pool(x, 3, 2, "SAME", lax.add, 0.0),
        "average pool without padding": lambda x: (
            _pool(x, 3, 2, "SAME", lax.add, 0.0)
            / _pool(jnp.ones_like(x), 3, 2, "SAME", lax.add, 0.0)
        ),
        "group norm": lambda x: jax.nn.standardize(
            x.reshape(x.shape[0], 1, -1), epsilon=1e-1
        ).reshape(x.shape),
        "resize to numbers": lambda x: jax.image.resize(x, (*x.shape[:2], 4, 9), "linear"),
        "resize by a name": lambda x: jax.image.resize(
            x, (*x.shape[:2], x.shape[3], x.shape[2]), "nearest"
        ),
        "resize smaller": lambda x: jax.image.resize(
            x, (*x.shape[:2], x.shape[2] // 2 + 1, x.shape[3]), "lanczos3"
        ),
        "crop the middle": lambda x: x[:, :, x.shape[2] // 4 : -(x.shape[2] // 4 + 1)],
        "pad to even": lambda x: jnp.pad(
            x, ((0, 0), (0, 0), (0, x.shape[2] % 2), (0, -x.shape[3] % 2))
        ),
        "pad reflect": lambda x: jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge"),
        "pixel of the argmax": lambda x: jnp.unravel_index(
            x[0, 0].argmax(), (x.shape[2], x.shape[3])
        ),
        "grad of a pool": lambda x: jax.grad(lambda x: _pool(x, 2, 2, "VALID").sum())(x),
        "grad to the kernel": lambda x: jax.grad(
            lambda w: (lax.conv_general_dilated(x, w, (1, 1), "SAME") ** 2).sum()
        )(jnp.ones((1, 2, 3, 3))),
        "map_coordinates": lambda x: jax.scipy.ndimage.map_coordinates(
            x[0, 0], [jnp.arange(3) / 2, jnp.arange(3) / 3], order=1
        ),
        "extract patches": lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"),
    },
)


SEQUENCES = Group(
    [("B", "N", 2, 4), ("B", "M", 2, 4), (("B", "M"), "bool")],
    ({"B": 1, "N": 1, "M": 1}, {"B": 3, "N": 5, "M": 2}, {"B": 2, "N": 4, "M": 7}),
    {
        "attention": lambda q, k, m: jax.nn.dot_product_attention(q, k, k),
        "masked": lambda q, k, m: jax.nn.dot_product_attention(
            q, k, k, mask=m[:, None, None] | (jnp.arange(m.shape[1]) == 0)
        ),
        "biased": lambda q, k, m: jax.nn.dot_product_attention(
            q, k, k, bias=jnp.arange(k.shape[1]) * -0.1 + jnp.zeros((1, 1, q.shape[1], 1))
        ),
        "rotary": lambda q, k, m: _rotary(q),
        "last by mask": lambda q, k, m: k[jnp.arange(k.shape[0]), jnp.maximum(m.sum(1), 1) - 1],
        "masked mean": lambda q, k, m: (
            (k * m[:, :, None, None]).sum(1) / jnp.maximum(m.sum(1), 1)[:, None, None]
        ),
        "scan over time": lambda q, k, m: lax.scan(
            lambda c, x: (c * 0.5 + x, c.sum((1, 2))), q[:, 0], q.transpose(1, 0, 2, 3)
        ),
    },
)


def _rotary(q: Any) -> Any:
    angles = jnp.arange(q.shape[1])[:, None] / 10.0 ** (jnp.arange(2) / 2)
    cos, sin = (jnp.tile(f(angles), 2)[:, None] for f in (jnp.cos, jnp.sin))
    turned = jnp.concatenate([-q[..., 2:], q[..., :2]], -1)
    return q * cos + turned * sin


GROUPS = {
    "longer": LONGER,
    "even": EVEN,
    "bounded": BOUNDED,
    "two": TWO,
    "derived": DERIVED,
    "linear": ONLY_LINEAR,
    "patches": PATCHES,
    "images": IMAGES,
    "sequences": SEQUENCES,
}
