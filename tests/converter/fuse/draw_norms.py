"""Random LayerNorm and RMSNorm."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from tests.converter.fuse.drawing import Draw, Pencil, moved

LAYER_MISSES = ("count", "axes", "highest", "plain square", "other", "plus", "power", "inside")
SPREAD_MISSES = ("", "", "other scale", "half the mean", "other average", "inverse twice")
RMS_MISSES = ("count", "other", "power", "cube", "centred")


def _shape(pencil):
    """A shape, and axes to normalise that hold more than one element."""
    while True:
        shape = pencil.shape(int(pencil.rng.integers(1, 5)))
        axes = tuple(pencil.some(range(len(shape))))
        if math.prod(shape[a] for a in axes) > 1:
            return shape, axes


def _other_axes(shape, axes):
    """Axes of other sizes than the normalised ones, if there are some."""
    real = [a for a in range(len(shape)) if shape[a] > 1]
    for others in ([a for a in real if a not in axes], real):
        if others and set(others) != {a for a in axes if shape[a] > 1}:
            return tuple(others)
    return None


def _mean(pencil, count):
    """Ways to write a mean that keeps its axes."""
    kind = pencil.pick("mean", ("mean", "sum/n", "sum*1/n", "expand"))

    def mean(x, axes):
        n = math.prod(x.shape[a] for a in axes) - count
        if kind == "mean" and not count:
            return x.mean(axes, keepdims=True)
        if kind == "expand":
            return jnp.expand_dims(x.sum(axes) / n, axes)
        total = x.sum(axes, keepdims=True)
        return total / n if kind == "sum/n" else total * (1 / n)

    return mean


def _divided(pencil, top, inside):
    kind = pencil.pick("inverse", ("rsqrt", "reversed", "/sqrt", "*1/sqrt"))
    if kind == "/sqrt":
        return top / jnp.sqrt(inside)
    inverse = 1 / jnp.sqrt(inside) if kind == "*1/sqrt" else lax.rsqrt(inside)
    return inverse * top if kind == "reversed" else top * inverse


def _apart(pencil, x, average, inside, miss):
    """x * s - mean * s, as Keras writes it; the second product may have something else in it."""
    inverse = lax.rsqrt(inside)
    scale = inverse * jnp.asarray(1.5, x.dtype) if pencil.chance("scaled", 0.5) else inverse
    other = scale * jnp.asarray(1.25, x.dtype) if miss == "other scale" else scale
    scaled = x * scale * inverse if miss == "inverse twice" else x * scale
    average = {"half the mean": average * 0.5, "other average": -average}.get(miss, average)
    if pencil.chance("negated", 0.5):
        return scaled + -average * other
    return scaled - average * other


def _dressed(y, axes, weight, bias):
    within = [1 if a not in axes else d for a, d in enumerate(y.shape)]
    if weight is not None:
        y = y * weight.reshape(within)
    return y if bias is None else y + bias.reshape(within)


def _plan(pencil, misses):
    shape, axes = _shape(pencil)
    dtype = pencil.pick("dtype", ("float32", "float32", "float16", "bfloat16"))
    miss = pencil.pick("miss", misses) if pencil.chance("near", 0.5) else ""
    others = _other_axes(shape, axes)
    if miss == "axes" and others is None:
        miss = ""
    size = math.prod(shape[a] for a in axes)
    dressed = [pencil.array((size,)) if pencil.rng.random() < 0.5 else None for _ in range(2)]
    pencil.notes.append(f"{shape} {axes} {miss}")
    return shape, axes, dtype, miss, others, dressed


def layer_norm(pencil: Pencil) -> Draw:
    shape, axes, dtype, miss, others, dressed = _plan(pencil, LAYER_MISSES)
    mean = _mean(pencil, 0)
    spread = _mean(pencil, 1 if miss == "count" else 0)
    moments = miss == "" and dtype == "float32" and pencil.chance("moments", 0.3)
    clipped, epsilon = pencil.chance("clipped", 0.3), pencil.pick("epsilon", (1e-5, 1e-3, 0.1))
    wide = pencil.chance("wide", 0.5)
    apart = not miss and pencil.chance("apart", 0.3)
    if apart:
        miss = pencil.pick("miss of two products", SPREAD_MISSES)

    def fn(x, y):
        given = x.dtype
        x, y = (v.astype(jnp.float32) if wide else v for v in (x, y))
        average = x.max(axes, keepdims=True) if miss == "highest" else mean(x, axes)
        centred = x + average if miss == "plus" else x - average
        around = others if miss == "axes" else axes
        squared = x if miss == "plain square" else centred
        variance = spread(squared**3 if miss == "power" else jnp.square(squared), around)
        if moments:
            variance = mean(x * x, axes) - average * average
        if clipped:
            variance = jnp.maximum(variance, 0)
        inside = variance * 1.5 + epsilon if miss == "inside" else variance + epsilon
        top = y - average if miss == "other" else centred
        result = (
            _apart(pencil, x, average, inside, miss) if apart else _divided(pencil, top, inside)
        )
        return _dressed(result, axes, *_cast(dressed, x.dtype)).astype(given)

    x = pencil.array(shape, dtype)
    f, inputs = moved(pencil, fn, [x, pencil.array(shape, dtype)])
    return Draw(pencil, f, inputs, "layer_norm", int(not miss))


def rms_norm(pencil: Pencil) -> Draw:
    shape, axes, dtype, miss, _, dressed = _plan(pencil, RMS_MISSES)
    mean, epsilon = _mean(pencil, int(miss == "count")), pencil.pick("epsilon", (1e-5, 1e-3, 0.1))
    wide = pencil.chance("wide", 0.5)

    def fn(x, y):
        given = x.dtype
        x, y = (v.astype(jnp.float32) if wide else v for v in (x, y))
        squared = x - x.mean(axes, keepdims=True) if miss == "centred" else x
        powers = {"power": jnp.abs(squared), "cube": jnp.abs(squared) ** 3}
        spread = mean(powers.get(miss, squared**2), axes)
        result = _divided(pencil, y if miss == "other" else x, spread + epsilon)
        return _dressed(result, axes, *_cast(dressed, x.dtype)).astype(given)

    x = pencil.array(shape, dtype)
    f, inputs = moved(pencil, fn, [x, pencil.array(shape, dtype)])
    return Draw(pencil, f, inputs, "rms_norm", int(not miss))


def _cast(arrays, dtype):
    return [None if a is None else a.astype(dtype) for a in arrays]
