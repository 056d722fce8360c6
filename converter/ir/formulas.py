"""The operations that the converter itself writes into graphs, as formulas in JAX."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.errors import SaveError

# A method of ``jax.image.resize``, and whether it antialiases; or ``ALIGNED``.
ResizeKind: TypeAlias = tuple[str, bool]
# Linear, with the centres of the first and the last element where they were before.
ALIGNED: ResizeKind = ("linear-aligned", False)


def einsum(
    x: jax.Array, y: jax.Array, *, lhs: Any, rhs: Any, out: Any, dtype: Any, precision: Any = None
) -> jax.Array:
    """A contraction by axis labels; ``dtype`` is the accumulator's and the result's."""
    return jnp.einsum(x, lhs, y, rhs, out, preferred_element_type=dtype, precision=precision)


def matmul(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.matmul(x, y, preferred_element_type=x.dtype)


def repeat(x: jax.Array, *, times: Sequence[int]) -> jax.Array:
    """Each element along each axis so many times, one after the other."""
    for axis, count in enumerate(times):
        x = jnp.repeat(x, count, axis)
    return x


def hard_sigmoid(x: jax.Array, *, alpha: float = 1 / 6, beta: float = 0.5) -> jax.Array:
    """alpha * x + beta, held between 0 and 1."""
    return jnp.clip(x * alpha + beta, 0, 1)


def elu(x: jax.Array, *, alpha: float = 1.0) -> jax.Array:
    """x, or alpha * (exp(x) - 1) below 0, to the last digits; ONNX's operator loses some near 0."""
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0)))


def selu(x: jax.Array) -> jax.Array:
    """SELU of Klambauer et al., 2017, arXiv:1706.02515."""
    return 1.0507009873554805 * elu(x, alpha=1.6732632423543772)


def celu(x: jax.Array, *, alpha: float = 1.0) -> jax.Array:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), to the last digits, as ``elu``."""
    return jnp.maximum(x, 0) + alpha * jnp.expm1(jnp.minimum(x, 0) / alpha)


def leaky_relu(x: jax.Array, slopes: jax.Array | None = None, *, slope: float = 1) -> jax.Array:
    """x, times the slope where it is negative."""
    return jnp.where(x >= 0, x, x * (slope if slopes is None else slopes))


def rotary(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    *,
    positions: Sequence[int],
    width: int,
    interleaved: bool,
    prefix: bool = False,
) -> jax.Array:
    """Rotate pairs along axis ``width`` by the angles of a position, which ``positions`` are the
    axes of; tables [*positions, width/2].

    With a ``prefix`` the first positions are those of tokens that the program does not rotate.
    """
    del prefix
    axes = (*positions, width)
    last = tuple(range(-len(axes), 0))
    y = jnp.moveaxis(x, axes, last)
    if interleaved:
        a, b = y[..., ::2], y[..., 1::2]
    else:
        a, b = jnp.split(y, 2, axis=-1)
    real, imag = a * cos - b * sin, a * sin + b * cos
    if interleaved:
        turned = jnp.stack([real, imag], axis=-1).reshape(y.shape)
    else:
        turned = jnp.concatenate([real, imag], axis=-1)
    return jnp.moveaxis(turned, last, axes)


def rotary_heads(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    ids: jax.Array | None = None,
    *,
    heads: int,
    interleaved: bool,
) -> jax.Array:
    """``rotary`` in ONNX's layouts: [B, heads, S, width], or [B, S, heads*width] if 3-D.

    Tables are [B, S, width/2], or of all positions, of which ``ids`` [B, S] takes a row each.
    """
    cos, sin = (t if ids is None else t[ids.astype(jnp.int32)] for t in (cos, sin))
    turn = partial(rotary, positions=(0, 2), width=3, interleaved=interleaved)
    if x.ndim == 4:
        return turn(x, cos, sin)
    split = x.reshape(*x.shape[:2], heads, -1)
    turned = turn(jnp.moveaxis(split, 2, 1), cos, sin)
    return jnp.moveaxis(turned, 1, 2).reshape(x.shape)


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None = None,
    *,
    scale: float,
    softcap: float,
    q_heads: int,
    kv_heads: int,
    precision: Any,
    hides: bool,
) -> jax.Array:
    """softmax(q k^T * scale + mask) v on [B, heads, S, width] or [B, S, heads*width] operands;
    with a ``softcap`` that is a bound of the scores before the mask. Whether the mask ``hides``
    scores, whatever they are, says where it came from."""
    flat = q.ndim == 3
    if flat:
        q, k, v = (_heads(x, n) for x, n in ((q, q_heads), (k, kv_heads), (v, kv_heads)))
    group = q_heads // kv_heads
    k, v = (jnp.repeat(x, group, axis=1) for x in (k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=precision) * scale
    if softcap:
        scores = softcap * jnp.tanh(scores / softcap)
    if mask is not None:
        scores = scores + mask.astype(scores.dtype)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    out = jnp.einsum("bhqk,bhkd->bhqd", weights, v)
    return jnp.moveaxis(out, 1, 2).reshape(q.shape[0], q.shape[2], -1) if flat else out


def _heads(x: jax.Array, n: int) -> jax.Array:
    return jnp.moveaxis(x.reshape(*x.shape[:2], n, -1), 2, 1)


def layer_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array | None = None, *, axis: int, epsilon: float
) -> jax.Array:
    """(x - mean) / sqrt(var + epsilon) * scale + bias over the axes from ``axis`` on."""
    axes, wide = tuple(range(axis, x.ndim)), _wide(x)
    centred = wide - jnp.mean(wide, axes, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axes, keepdims=True)
    y = (centred * lax.rsqrt(variance + epsilon)).astype(x.dtype) * scale
    return y if bias is None else y + bias


def rms_norm(x: jax.Array, scale: jax.Array, *, axis: int, epsilon: float) -> jax.Array:
    """x / sqrt(mean(x^2) + epsilon) * scale over the axes from ``axis`` on."""
    wide = _wide(x)
    square = jnp.mean(jnp.square(wide), tuple(range(axis, x.ndim)), keepdims=True)
    return (wide * lax.rsqrt(square + epsilon)).astype(x.dtype) * scale


def _wide(x: jax.Array) -> jax.Array:
    """ONNX's norms compute their statistics in float32 at least."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def group_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array | None = None, *, groups: int, epsilon: float
) -> jax.Array:
    """(x - mean) / sqrt(var + epsilon) over each of the groups of the channels of [N, C, ...].

    ``scale`` and ``bias`` are [C].
    """
    split = x.reshape(x.shape[0], groups, -1)
    ones = jnp.ones(split.shape[2], x.dtype)
    y = layer_norm(split, ones, axis=2, epsilon=epsilon).reshape(x.shape)
    shape = (-1, *(1,) * (x.ndim - 2))
    y = y * scale.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def batch_norm(
    x: jax.Array,
    scale: jax.Array,
    mean: jax.Array,
    variance: jax.Array,
    bias: jax.Array | None = None,
    *,
    epsilon: float,
) -> jax.Array:
    """x * s + (bias - mean * s) where s = scale / sqrt(variance + epsilon), of [N, C, ...] with all
    others [C]; runtimes compute it in this order."""
    shape = (-1, *(1,) * (x.ndim - 2))
    s = scale * lax.rsqrt(_wide(variance) + epsilon)
    shift = -mean * s if bias is None else bias - mean * s
    return (_wide(x) * s.reshape(shape) + shift.reshape(shape)).astype(x.dtype)


def resize(
    x: jax.Array, *, axes: Sequence[int], sizes: Sequence[int], kinds: Sequence[ResizeKind]
) -> jax.Array:
    """``axes`` resampled to ``sizes``; all of the ``kinds`` say the same."""
    method, antialias = kinds[0]
    return image_resize(x, axes=axes, sizes=sizes, method=method, antialias=antialias)


def _aligned(x: jax.Array, new_sizes: Mapping[int, int]) -> jax.Array:
    for axis, count in new_sizes.items():
        size = x.shape[axis]
        steps = jnp.maximum(jnp.asarray(count - 1, jnp.float32), 1)
        step = jnp.asarray(size - 1, jnp.float32) / steps
        places = jnp.arange(count, dtype=jnp.float32) * step
        taps = jnp.arange(size, dtype=jnp.float32)[:, None]
        weights = jnp.maximum(0, 1 - jnp.abs(places - taps)).astype(x.dtype)
        product = jnp.tensordot(x, weights, (axis, 0), precision="highest")
        x = jnp.moveaxis(product, -1, axis)
    return x


def image_resize(
    x: jax.Array, *, axes: Sequence[int], sizes: Sequence[int], method: str, antialias: bool
) -> jax.Array:
    """Resize ``axes`` to ``sizes`` as `jax.image.resize` does, or by the method of ``ALIGNED``."""
    new_sizes = dict(zip(axes, sizes, strict=True))
    if (method, antialias) == ALIGNED:
        return _aligned(x, new_sizes)
    shape = [new_sizes.get(i, d) for i, d in enumerate(x.shape)]
    return jax.image.resize(x, shape, method, antialias)


def sample_at(x: jax.Array, rows: jax.Array, columns: jax.Array, *, padding: str) -> jax.Array:
    """Interpolate images [batch, channels, height, width] linearly at ``rows`` and ``columns``.

    These are [batch, points…], in pixels; the result is [batch, channels, points…]. ``padding`` is
    as in `grid_sample`."""
    mode = {"zeros": "constant", "border": "nearest"}[padding]

    def one(channel: jax.Array, *places: jax.Array) -> jax.Array:
        return jax.scipy.ndimage.map_coordinates(channel, places, order=1, mode=mode)

    return jax.vmap(jax.vmap(one, in_axes=(0, None, None)))(x, rows, columns)


def grid_sample(x: jax.Array, grid: jax.Array, *, padding: str) -> jax.Array:
    """Images [batch, channels, rows, columns] between their pixels, at places [batch, …, 2] from -1
    to 1, from edge to edge, columns first. Outside they are zero, or with ``border`` their edge."""
    size = jnp.asarray(x.shape[:1:-1], grid.dtype)
    places = ((grid + 1) * size - 1) / 2
    return sample_at(x, places[..., 1], places[..., 0], padding=padding)


LARGEST_SCALE = 2.0**20
"""Between this and its inverse factors may be multiplied with weights, and queries, instead of with
what is computed of those: nothing overflows on one of the two ways alone."""


def factor(x: Any, *, least: float, most: float) -> Any:
    """A factor or a divisor that weights take in, or weights that take one in.

    **Raises** `SaveError` where sizes are not from ``least`` to ``most``: sums overflow, or
    are NaN, that were numbers before they were multiplied.
    """
    sizes = np.abs(np.asarray(x))
    for far in sizes[(sizes < least) | (sizes > most)][:1]:
        outside = f"not from {least:g} to {most:g}"
        raise SaveError(
            f"weights would be multiplied by a scale, and {far:g} is {outside}, so that products "
            "with them may overflow: mend it, or convert with fold=False"
        )
    return x


# ------------------------------------------------------------------- windows over space


def conv(
    x: jax.Array,
    w: jax.Array,
    bias: jax.Array | None = None,
    *,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    spread: Any = None,
) -> jax.Array:
    """[batch, channels, space…] convolved with [out, in / groups, space…], plus a bias [out]."""
    y = lax.conv_general_dilated(
        x, w, strides, padding, spread, dilation, feature_group_count=groups
    )
    return y if bias is None else y + bias.reshape(-1, *(1 for _ in strides))


def conv_transpose(
    x: jax.Array,
    w: jax.Array,
    bias: jax.Array | None = None,
    *,
    strides: Any,
    cuts: Any,
    dilation: Any,
    groups: int,
) -> jax.Array:
    """ONNX's ``ConvTranspose``: kernel [in, out / groups, space…], ``cuts`` off each end."""
    ins, outs, *space = w.shape
    kernel = jnp.swapaxes(w.reshape(groups, ins // groups, outs, *space), 1, 2)
    kernel = jnp.flip(kernel, range(3, kernel.ndim)).reshape(groups * outs, ins // groups, *space)
    whole = [(n - 1) * d for n, d in zip(space, dilation, strict=True)]
    padding = [(n - low, n - high) for n, (low, high) in zip(whole, cuts, strict=True)]
    window = {"padding": padding, "dilation": dilation, "groups": groups}
    return conv(x, kernel, bias, strides=[1] * len(space), spread=strides, **window)


def pool(
    x: jax.Array,
    *,
    size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    start: float,
    combine: Any,
) -> jax.Array:
    """Windows over the spatial axes of [batch, channels, space…]."""
    none = ((0, 0), (0, 0))
    return lax.reduce_window(
        x,
        np.asarray(start, x.dtype),  # while JAX traces, an array of its own would be unknown
        combine,
        (1, 1, *size),
        (1, 1, *strides),
        (*none, *padding),
        window_dilation=(1, 1, *dilation),
    )


def avg_pool(x: jax.Array, *, include_pad: bool, **window: Any) -> jax.Array:
    """Means of windows; without ``include_pad`` of those elements that are not padding."""
    total = pool(x, start=0.0, combine=lax.add, **window)
    if include_pad:
        return total / math.prod(window["size"])
    return total / pool(jnp.ones_like(x), start=0.0, combine=lax.add, **window)


def max_pool_scatter(x: jax.Array, source: jax.Array, **window: Any) -> jax.Array:
    """``source`` added where each window of ``x`` has its maximum: the gradient of max pooling."""
    _, pull = jax.vjp(partial(pool, start=-jnp.inf, combine=lax.max, **window), x)
    return pull(source)[0]
