"""Named sizes, several of them and derived ones, with the nodes that their computation takes.
Random programs of the fuzzer have only one named size."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, SAMPLES, Case

KERNEL = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)


def conv(x, padding="SAME", strides=(1, 1), **options):
    return lax.conv_general_dilated(x, KERNEL, strides, padding, **options)


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


def spread_apart(x):
    """Pad and reduce an array of a named size minus one, which may be empty."""
    tail = x[1:]
    window = (tail, -jnp.inf, lax.max, (1,), (2,), ((0, 1),), (2,))
    return lax.pad(tail, 0.0, [(0, 1, 2)]), lax.reduce_window(*window)


ONE, FOUR = [("N+1",)], [("4*N",)]
TWO = [("B", "2*N"), ("N+1",)]
PATCHES, IMAGES = [(1, 3, "4*H", "4*W")], [("B", 2, "H+2", "W+2")]
SEQUENCES = [("B", "N", 2, 4), ("B", "H", 2, 4), (("B", "H"), "bool")]
SIZES_READ_ONCE = {"Shape": 2, "Mod": 0, "Neg": 0, "Max": 0, "Min": 0, "Sub": 0}
DERIVED = [
    Case("linspace without its end", lambda x: jnp.linspace(-1.0, 1.0, x.shape[0], False), ONE),
    Case("dynamic_slice", lambda x: lax.dynamic_slice(x, (jnp.argmax(x),), (2,)), ONE),
    Case("branch", lambda x: x * 2 if x.shape[0] >= 2 else x, ONE),
    Case("without two", lambda x: x[2:], ONE),
    Case("max of sizes", lambda x: jnp.zeros(max(x.shape[0], 2)) + 1, ONE),
    Case("reshape", lambda x: x.reshape(-1, 4), FOUR),
    Case("sum of halves", lambda x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :], FOUR),
    Case("turned", lambda x: jnp.concatenate(
        [-x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]), FOUR),
    Case("window", lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID"), FOUR),
    Case("halves", lambda x, y: jnp.split(x, 2, axis=1), TWO),
    Case("without elements", lambda x: jnp.broadcast_to(jnp.sin(x)[:, None], (x.shape[0], 0)),
         (("B",),), ops={"Sin": 0}, tags=DEFAULT),
    Case("interleaved", lambda x, y: jnp.stack([x[:, ::2], -x[:, 1::2]], -1).reshape(x.shape), TWO),
    Case("one less", lambda x, y: x.reshape(x.shape[0], -1, 2)[..., 0] * y[:-1], TWO),
    Case("concatenated", lambda x, y: jnp.concatenate([x[0], y]), TWO),
    Case("sizes", lambda x, y: (
        y.shape[0] * 100 + x.shape[1] * 10 + x.shape[0] + jnp.zeros(1)), TWO),
    Case("linear sizes", lambda x, y: jnp.array([x.shape[0], x.shape[1], y.shape[0]]),
         [("H+1", "H+2*W"), ("3*W-H+9",)]),
    Case("spread apart", spread_apart, [("B",)], tags={SAMPLES}),
]  # fmt: skip
PICTURES = [
    Case("u-net", unet, PATCHES, ops=SIZES_READ_ONCE, tolerance=4),
    Case("global max window", lambda x: lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 1, x.shape[2], 2), (1, 1, 1, 2), "VALID"), PATCHES),
    Case("conv strided valid", lambda x: conv(x, "VALID", strides=(2, 1)), IMAGES),
    Case("conv transposed", lambda x: conv(x, ((1, 2), (2, 1)), lhs_dilation=(2, 2)), IMAGES),
    Case("resize smaller", lambda x: jax.image.resize(
        x, (*x.shape[:2], x.shape[2] // 2 + 1, x.shape[3]), "lanczos3"), IMAGES, tolerance=2),
    Case("pad to even", lambda x: jnp.pad(
        x, ((0, 0), (0, 0), (0, x.shape[2] % 2), (0, -x.shape[3] % 2))), IMAGES),
    # A window as large as its axes is a reduction.
    Case("whole axes", lambda x: lax.reduce_window(
        x, 0.0, lax.add, (1, *x.shape[1:3], 1), (1, 2, 2, 1), "VALID"), [("B", "H", "W", 3)],
        ops={"ReduceSum": 1}),
    Case("group norm", jax.vmap(eqx.nn.GroupNorm(2, 4)), [("B", 4, "H", "4*W")],
         ops={"InstanceNormalization": 1, "ReduceSum": 0}, tolerance=2),
    Case("layer norm of a square", partial(jax.nn.standardize, axis=(1, 2)), [(2, "B", "B", 3)],
         ops={"LayerNormalization": 1}, tolerance=2),
    # AttNet has a kernel for each sample: under ``vmap`` there are as many groups as samples.
    *(Case(f"kernels of {kernel}", jax.vmap(partial(
        lax.conv_general_dilated, window_strides=(2, 1), **how)),
        [("B", 1, 4, 6, 7), ("B", *kernel)], tolerance=2)
      for kernel, how in (
        ((4, 1, 3, 2), {"feature_group_count": 4, "padding": "SAME"}),
        ((6, 2, 3, 2), {"feature_group_count": 2, "padding": ((1, 2), (0, 1)),
                        "rhs_dilation": (1, 2)}),
        ((3, 4, 2, 2), {"padding": ((1, 1), (0, 1)), "lhs_dilation": (2, 1)}))),
]  # fmt: skip
OVER_TIME = [
    Case("biased", lambda q, k, m: jax.nn.dot_product_attention(
        q, k, k, bias=jnp.arange(k.shape[1]) * -0.1 + jnp.zeros((1, 1, q.shape[1], 1))), SEQUENCES),
    Case("last by mask", lambda q, k, m: (
        k[jnp.arange(k.shape[0]), jnp.maximum(m.sum(1), 1) - 1]), SEQUENCES),
    Case("masked mean", lambda q, k, m: (
        (k * m[:, :, None, None]).sum(1) / jnp.maximum(m.sum(1), 1)[:, None, None]), SEQUENCES),
]  # fmt: skip

PROGRAMS = [*DERIVED, *PICTURES, *OVER_TIME]
