"""Random norms of channels: in groups, alone, in the spellings of several frameworks."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from tests.converter.fuse.drawing import Draw, Pencil, moved

MISSES = ("next group", "sample", "other", "count", "tiled")


def _centred(x, split, mean, inverse, weight, bias):
    """Equinox, Haiku: scaled after the channels are merged."""
    return ((split - mean) * inverse).reshape(x.shape) * weight + bias


def _inside(x, split, mean, inverse, weight, bias):
    """Keras: scaled before."""
    scaled = inverse * weight
    return (split * scaled + (-mean * scaled + bias)).reshape(x.shape)


def _repeated(x, split, mean, inverse, weight, bias):
    """Flax: the statistics are repeated for each channel."""
    return (split.reshape(x.shape) - mean) * (inverse * weight) + bias


SPELLINGS = {"apart": _centred, "inside": _inside, "repeated": _repeated}


def group_norm(pencil: Pencil) -> Draw:
    space = pencil.order((4, 5))[: int(pencil.rng.integers(1, 3))]
    groups, size = pencil.pick("groups", ((1, 3), (3, 1), (2, 3), (3, 2)))
    c = pencil.pick("channels", (1, len(space) + 1))
    shape = [int(pencil.rng.integers(1, 3)), *space]
    shape.insert(c, groups * size)
    kind = pencil.pick("spelling", tuple(SPELLINGS))
    miss = pencil.pick("miss", MISSES) if pencil.chance("near", 0.4) else ""
    numbers = [pencil.array((groups * size,)) for _ in range(2)]
    moments, dtype = pencil.chance("moments", 0.3), pencil.pick("dtype", ("float32", "float16"))
    pencil.notes.append(f"{shape}")

    def fn(x, y):
        given = x.dtype
        x, y = (v.astype(jnp.float32) for v in (x, y))
        split, other = (v.reshape(*v.shape[:c], groups, size, *v.shape[c + 1 :]) for v in (x, y))
        axes = tuple(a for a in range(1, split.ndim) if a != c)
        over = (0, *axes) if miss == "sample" else axes
        mean = split.mean(axes, keepdims=True)
        squares = jnp.square(split if moments else split - mean).mean(over, keepdims=True)
        variance = jnp.maximum(squares - jnp.square(mean), 0) if moments else squares
        inverse = lax.rsqrt((variance * 1.25 if miss == "count" else variance) + 1e-3)
        mean = jnp.roll(mean, 1, c) if miss == "next group" else mean
        inverse = jnp.broadcast_to(inverse, mean.shape)
        if kind == "repeated":
            spread = jnp.tile if miss == "tiled" else lambda v, n: jnp.repeat(v, n[c], c)
            times = [size if a == c else 1 for a in range(x.ndim)]
            mean, inverse = (spread(v.squeeze(c + 1), times) for v in (mean, inverse))
        own = {c: groups, c + 1: size} if kind == "inside" else {c: groups * size}
        rank = x.ndim + (kind == "inside")
        wide = [v.reshape([own.get(a, 1) for a in range(rank)]) for v in numbers]
        top = other if miss == "other" else split
        return SPELLINGS[kind](x, top, mean, inverse, *wide).astype(given)

    x, y = (pencil.array(shape, dtype) for _ in range(2))
    f, inputs = moved(pencil, fn, [x, y])
    return Draw(pencil, f, inputs, "group_norm", None)
