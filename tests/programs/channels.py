"""Networks in channels-last order have transposes at their ends only, and their norms become
operators or are folded into convolutions."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, Case

RNG = np.random.default_rng(0)
NHWC = ("NHWC", "HWIO", "NHWC")


def drawn(*shape):
    return RNG.normal(0, 0.5, shape).astype(np.float32)


def conv(x, w, stride=1, padding="SAME", groups=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), padding, dimension_numbers=NHWC, feature_group_count=groups
    )


# ------------------------------------------------------------- what is between three convolutions

KERNELS = [drawn(3, 3, 6, 6) / 2 for _ in range(3)]
BIAS = drawn(6)


def between(middle, padding="SAME"):
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
    """Compute a network for one picture, with the operations between convolutions that networks
    have."""
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
OTHERS = {
    "repeated channels": between(lambda x: jnp.repeat(x[..., :3], 2, axis=-1)),
    "tiled": between(lambda x: jnp.tile(x, (1, 2, 1, 1))),
    "spread rows": between(lambda x: jnp.broadcast_to(x[:, :1], x.shape) * x),
}
"""Functions that resemble the forms above, but need further transposes."""

# -------------------------------------------------------------------------------------- batch norms


def norm(x, p):
    """Normalize at inference, as Keras and Flax do."""
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
    "flat": drawn(10 * 14 * 8, 3),
    **{f"norm{n}": stats(size) for n, size in enumerate((8, 12, 12, 8))},
    "head": drawn(8, 5),
}


def network(p, x, norm=norm):
    """Compute an inverted residual block with squeeze and excitation, between a stem and a head."""
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


def two_norms(p, x):
    x = norm(conv(x, p["stem"], 2) + p["bias"], p["norm0"])
    return norm_by_hand(conv(x, p["wide"]), p["norm1"])


def read_in_both_orders(p, x):
    """Compute two outputs, one of which reads channels-last values and the other channels-first
    ones, so that the relu is transposed once."""
    x = jax.nn.relu(conv(x, p["stem"], 2))
    return x.reshape(x.shape[0], -1) @ p["flat"], jax.nn.relu(conv(x, p["wide"]))


def norm_before_its_activation(p, x):
    """Normalize a residual sum, which has no convolution before it into which the norm could be
    folded."""
    x = conv(x, p["one"])
    return x + conv(jax.nn.relu(norm(x, p["norm"])), p["two"])


def transposed(groups):
    def fn(p, x):
        options = {"dimension_numbers": NHWC, "feature_group_count": groups}
        return norm(lax.conv_general_dilated(x, p["w"], (1, 1), [(1, 1)] * 2, (2, 2), **options), p)

    params = {"w": drawn(3, 3, 4 // groups, 6), **stats(6)}
    ops = {"ConvTranspose": 1, "Mul": groups - 1}
    return Case(f"transposed, {groups} groups", fn, ((2, 5, 7, 4),), ops=ops, params=params,
                tolerance=4, tags=DEFAULT)  # fmt: skip


# ------------------------------------------------------------------------ norms of what is there

SCALE, SIX, POSITION_SCALE = drawn(6) + 1.5, stats(6), drawn(7)
LAST, FIRST = (2, 5, 7, 6), (2, 6, 5, 7)


def keras_groups(x):
    """Normalize as ``keras.layers.GroupNormalization`` of Keras 3.15: the scale is applied before
    the channels are merged."""
    split = x.reshape(*x.shape[:-1], 3, -1)
    axes = (1, 2, 4)
    mean, variance = split.mean(axes, keepdims=True), split.var(axes, keepdims=True)
    inverse = lax.rsqrt(variance + 1e-3) * SCALE.reshape(3, -1)
    return (split * inverse + (-mean * inverse + BIAS.reshape(3, -1))).reshape(x.shape)


def by_hand(x):
    """Normalize each channel, with the variance as E[x^2] - E[x]^2."""
    mean = x.mean((1, 2), keepdims=True)
    variance = jnp.maximum((x * x).mean((1, 2), keepdims=True) - mean * mean, 0)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * SCALE + BIAS


RESIDUAL = {"one": drawn(3, 3, 4, 6), "two": drawn(3, 3, 6, 6), "three": drawn(1, 1, 6, 5)}


def residual(norm):
    def fn(p, x):
        y = jax.nn.relu(norm(conv(x, p["one"], 2)))
        y = y + jax.nn.silu(norm(conv(y, p["two"])))
        return conv(y, p["three"])

    return fn


def other_groups(x):
    """Normalize groups of channels that are split in the other order."""
    split = x.reshape(*x.shape[:-1], 2, 3)
    axes = (1, 2, 3)
    y = (split - split.mean(axes, keepdims=True)) * lax.rsqrt(split.var(axes, keepdims=True) + 1e-3)
    return y.reshape(x.shape) * SCALE


def tiled_statistics(x):
    """Normalize with tiled statistics of groups, which are those of other channels."""
    split = x.reshape(*x.shape[:-1], 3, 2)
    mean, variance = (jnp.tile(v, 2) for v in (split.mean((1, 2, 4)), split.var((1, 2, 4))))
    return (x - mean[:, None, None]) * lax.rsqrt(variance + 1e-3)[:, None, None]


def scaled_by_place(x):
    """Scale by a vector of the size of another axis."""
    y = (x - x.mean((2, 3), keepdims=True)) * lax.rsqrt(x.var((2, 3), keepdims=True) + 1e-3)
    return y * POSITION_SCALE


def known_of_another(p, x):
    """Subtract the mean twice."""
    inverse = lax.rsqrt(p["var"].reshape(6, 1, 1) + 1e-3)
    return x * inverse - 2 * p["mean"].reshape(6, 1, 1) * inverse


def known_by_hand(p, x):
    """Subtract the mean first, which keeps digits that the operator loses."""
    return norm_by_hand(x, {k: v.reshape(6, 1, 1) for k, v in p.items()})


ENDS, INSTANCE = {"Transpose": 2}, {"InstanceNormalization": 1, "Transpose": 2}
NEITHER = {"InstanceNormalization": 0, "BatchNormalization": 0}
IMAGE, SMALL = ("B", 20, 28, 3), ("B", 9, 7, 4)
BEFORE = {"Conv": 2, "BatchNormalization": 1, "Relu": 1, "Add": 1, "Mul": 0, **ENDS}
NORMS = [
    Case("network", network, (IMAGE,), ops={"Transpose": 1, "Conv": 4}, params=PARAMS, tolerance=8,
         tags=DEFAULT),
    Case("network, by hand", lambda p, x: network(p, x, norm_by_hand), (IMAGE,),
         ops={"Transpose": 1, "Conv": 4}, params=PARAMS, tolerance=8),
    Case("two norms", two_norms, (IMAGE,), params=PARAMS, tolerance=4, tags=DEFAULT,
         ops={"Conv": 2, "BatchNormalization": 0, "Mul": 0, "Add": 0, **ENDS}),
    Case("read in both orders", read_in_both_orders, (IMAGE,), ops={"Transpose": 3}, params=PARAMS,
         tolerance=4, tags=DEFAULT),
    Case("before its activation", norm_before_its_activation, (SMALL,), ops=BEFORE,
         params={**RESIDUAL, "norm": SIX}, tolerance=8, tags=DEFAULT),
    *map(transposed, (1, 2)),
    *(Case(f"norm by hand of {b}", by_hand, ((b, *LAST[1:]),), (17, 23), INSTANCE, tolerance=4,
           tags=DEFAULT if b == "B" else frozenset()) for b in ("B", 1)),
    *(Case(f"residual, {norm.__name__}", residual(norm), (("B", 12, 10, 4),), params=RESIDUAL,
           ops={**ENDS, "InstanceNormalization": 2}, tolerance=8, tags=DEFAULT)
      for norm in (keras_groups, by_hand)),
    Case("other groups", other_groups, (LAST,), tolerance=4, tags=DEFAULT),
    *(Case(fn.__name__, fn, (shape,), ops=NEITHER, params=SIX if "known" in fn.__name__ else None,
           tolerance=4, tags=DEFAULT)
      for fn, shape in ((tiled_statistics, LAST), (scaled_by_place, FIRST),
                        (known_of_another, FIRST), (known_by_hand, FIRST))),
]  # fmt: skip
PROGRAMS = [
    *(Case(name, fn, (LAST,), (18,), ENDS, tolerance=4, tags=DEFAULT)
      for name, fn in FORMS.items()),
    *(Case(name, fn, (LAST,), (18,), tolerance=4, tags=DEFAULT) for name, fn in OTHERS.items()),
    *NORMS,
]  # fmt: skip
