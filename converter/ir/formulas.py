"""Reference formulas in JAX of the composites.

Composites are the operations that the converter adds to graphs.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.errors import SaveError

# A method of ``jax.image.resize`` with its ``antialias`` argument, or ``ALIGNED``.
ResizeKind: TypeAlias = tuple[str, bool]
# Linear interpolation in which the centres of the first and the last element do not move.
ALIGNED: ResizeKind = ("linear-aligned", False)


def einsum(
    x: jax.Array, y: jax.Array, *, lhs: Any, rhs: Any, out: Any, dtype: Any, precision: Any = None
) -> jax.Array:
    """Contract two arrays by axis labels.

    ``lhs``, ``rhs`` and ``out`` have a label for each axis of ``x``, ``y`` and the result.
    ``dtype`` is the dtype of the sums and of the result.
    """
    return jnp.einsum(x, lhs, y, rhs, out, preferred_element_type=dtype, precision=precision)


def matmul(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the matrix product of two arrays of one dtype, in that dtype."""
    return jnp.matmul(x, y, preferred_element_type=x.dtype)


def repeat(x: jax.Array, *, times: Sequence[int]) -> jax.Array:
    """Repeat each element along each axis ``times[axis]`` times in succession."""
    for axis, count in enumerate(times):
        x = jnp.repeat(x, count, axis)
    return x


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
    """Rotate pairs of elements along axis ``width`` by the angles of their positions.

    ``positions`` are the axes of ``x`` that number the positions. ``cos`` and ``sin`` of the angles
    are [*positions, width/2]. With ``interleaved``, neighbours along the axis are a pair; otherwise
    element i of the first half and element i of the second half are one. ``prefix`` is true if the
    first positions are tokens that the program does not rotate. It does not change the result.
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
        rotated = jnp.stack([real, imag], axis=-1).reshape(y.shape)
    else:
        rotated = jnp.concatenate([real, imag], axis=-1)
    return jnp.moveaxis(rotated, last, axes)


def rotary_heads(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    ids: jax.Array | None = None,
    *,
    heads: int,
    interleaved: bool,
) -> jax.Array:
    """Apply ``rotary`` in ONNX's layouts: [B, heads, S, width], or [B, S, heads*width] if ``x`` is
    3-D.

    ``cos`` and ``sin`` are [B, S, width/2]. With ``ids`` [B, S] they are tables of all positions,
    [positions, width/2], and each id selects a row.
    """
    cos, sin = (t if ids is None else t[ids.astype(jnp.int32)] for t in (cos, sin))
    rotate = partial(rotary, positions=(0, 2), width=3, interleaved=interleaved)
    if x.ndim == 4:
        return rotate(x, cos, sin)
    split = x.reshape(*x.shape[:2], heads, -1)
    rotated = rotate(jnp.moveaxis(split, 2, 1), cos, sin)
    return jnp.moveaxis(rotated, 1, 2).reshape(x.shape)


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
    mask_replaces_scores: bool,
) -> jax.Array:
    """Return softmax(q k^T * scale + mask) v, in the layout of ``q``.

    The operands are [B, heads, S, width] or [B, S, heads*width]. If there are fewer ``kv_heads``
    than ``q_heads``, groups of query heads share one head of keys and values. The mask is broadcast
    to the scores, [B, q_heads, S of q, S of k]. A nonzero ``softcap`` bounds the scores before the
    mask is added: softcap * tanh(scores / softcap). ``precision`` is the dtype of the scores.
    ``mask_replaces_scores`` is true if the mask of the program replaces scores, whatever their
    values are. It does not change the result.
    """
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
    """Return [B, S, n*width] as [B, n, S, width]."""
    return jnp.moveaxis(x.reshape(*x.shape[:2], n, -1), 2, 1)


def layer_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array | None = None, *, axis: int, epsilon: float
) -> jax.Array:
    """Return (x - mean) / sqrt(var + epsilon) * scale + bias over the axes from ``axis`` on."""
    axes, widened = tuple(range(axis, x.ndim)), _widen(x)
    centred = widened - jnp.mean(widened, axes, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axes, keepdims=True)
    y = (centred * lax.rsqrt(variance + epsilon)).astype(x.dtype) * scale
    return y if bias is None else y + bias


def rms_norm(x: jax.Array, scale: jax.Array, *, axis: int, epsilon: float) -> jax.Array:
    """Return x / sqrt(mean(x^2) + epsilon) * scale over the axes from ``axis`` on."""
    widened = _widen(x)
    square = jnp.mean(jnp.square(widened), tuple(range(axis, x.ndim)), keepdims=True)
    return (widened * lax.rsqrt(square + epsilon)).astype(x.dtype) * scale


def _widen(x: jax.Array) -> jax.Array:
    """Convert to float32 if the dtype is narrower, because ONNX's norms compute their statistics in
    it."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def group_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array | None = None, *, groups: int, epsilon: float
) -> jax.Array:
    """Normalize each group of the channels of [N, C, ...]: (x - mean) / sqrt(var + epsilon).

    The result is multiplied by ``scale`` and shifted by ``bias``, both [C].
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
    """Return x * s + (bias - mean * s) with s = scale / sqrt(variance + epsilon).

    ``x`` is [N, C, ...], the other operands are [C]. The order of operations is that of runtimes.
    """
    shape = (-1, *(1,) * (x.ndim - 2))
    s = scale * lax.rsqrt(_widen(variance) + epsilon)
    shift = -mean * s if bias is None else bias - mean * s
    return (_widen(x) * s.reshape(shape) + shift.reshape(shape)).astype(x.dtype)


def resize(
    x: jax.Array, *, axes: Sequence[int], sizes: Sequence[int], kinds: Sequence[ResizeKind]
) -> jax.Array:
    """Resample ``axes`` to ``sizes`` by the first of ``kinds``.

    A kind is a pair of the arguments ``method`` and ``antialias`` of `image_resize`. The result is
    the same for all ``kinds``, so that any of them may be emitted.
    """
    method, antialias = kinds[0]
    return image_resize(x, axes=axes, sizes=sizes, method=method, antialias=antialias)


def _aligned(x: jax.Array, new_sizes: Mapping[int, int]) -> jax.Array:
    """Resample axes linearly so that the centres of the first and last elements keep their
    positions.

    ``new_sizes`` contains the size of the result by axis.
    """
    for axis, count in new_sizes.items():
        size = x.shape[axis]
        steps = jnp.maximum(jnp.asarray(count - 1, jnp.float32), 1)
        step = jnp.asarray(size - 1, jnp.float32) / steps
        positions = jnp.arange(count, dtype=jnp.float32) * step
        taps = jnp.arange(size, dtype=jnp.float32)[:, None]
        weights = jnp.maximum(0, 1 - jnp.abs(positions - taps)).astype(x.dtype)
        product = jnp.tensordot(x, weights, (axis, 0), precision="highest")
        x = jnp.moveaxis(product, -1, axis)
    return x


def image_resize(
    x: jax.Array, *, axes: Sequence[int], sizes: Sequence[int], method: str, antialias: bool
) -> jax.Array:
    """Resample ``axes`` to ``sizes`` as `jax.image.resize` does, or by the method ``ALIGNED``.

    JAX lacks that method. It is linear interpolation in which the centres of the first and the last
    element do not move.
    """
    new_sizes = dict(zip(axes, sizes, strict=True))
    if (method, antialias) == ALIGNED:
        return _aligned(x, new_sizes)
    shape = [new_sizes.get(i, d) for i, d in enumerate(x.shape)]
    return jax.image.resize(x, shape, method, antialias)


def sample_at(x: jax.Array, rows: jax.Array, columns: jax.Array, *, padding: str) -> jax.Array:
    """Interpolate images [batch, channels, height, width] linearly at ``rows`` and ``columns``.

    The coordinates are [batch, points…], in pixels. The result is [batch, channels, points…].
    ``padding`` is as in `grid_sample`.
    """
    mode = {"zeros": "constant", "border": "nearest"}[padding]

    def sample_channel(channel: jax.Array, *coordinates: jax.Array) -> jax.Array:
        return jax.scipy.ndimage.map_coordinates(channel, coordinates, order=1, mode=mode)

    return jax.vmap(jax.vmap(sample_channel, in_axes=(0, None, None)))(x, rows, columns)


def grid_sample(x: jax.Array, grid: jax.Array, *, padding: str) -> jax.Array:
    """Interpolate images [batch, channels, rows, columns] linearly at the points of a grid [batch,
    …, 2].

    The last axis of the grid is (column, row), from -1 to 1 between the edges of the image. Beyond
    them the image is zero with ``padding`` "zeros", and its nearest edge with "border". The result
    is [batch, channels, …].
    """
    size = jnp.asarray(x.shape[:1:-1], grid.dtype)
    points = ((grid + 1) * size - 1) / 2
    return sample_at(x, points[..., 1], points[..., 0], padding=padding)


LARGEST_SCALE = 2.0**20
"""Largest factor that is multiplied with weights or queries instead of with their products.

The smallest is its inverse. Between the two, nothing overflows in only one of the two orders.
"""


def factor(x: Any, *, least: float, most: float) -> Any:
    """Return x unchanged, after a check that weights can be multiplied by it without overflow.

    ``x`` is a scale or a divisor that is folded into weights, or the weights into which one is
    folded. Each absolute value has to be at least ``least`` and at most ``most``. Otherwise a sum
    that is finite in the original program may overflow or become NaN. NaN passes the check.

    **Raises** `SaveError` if a value is outside these bounds.
    """
    sizes = np.abs(np.asarray(x))
    for size in sizes[(sizes < least) | (sizes > most)][:1]:
        bounds = f"not from {least:g} to {most:g}"
        raise SaveError(
            f"weights would be multiplied by a scale, and {size:g} is {bounds}, so that products "
            "with them may overflow: correct the scale, or convert with fold=False"
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
    input_dilation: Any = None,
) -> jax.Array:
    """Convolve [batch, channels, space…] with [out, in / groups, space…], and add a bias [out].

    ``padding`` has a pair of sizes for each spatial axis. ``dilation`` is the dilation of the
    kernel, ``input_dilation`` that of ``x`` (None for 1).
    """
    y = lax.conv_general_dilated(
        x, w, strides, padding, input_dilation, dilation, feature_group_count=groups
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
    """Compute ONNX's ``ConvTranspose`` with a kernel [in, out / groups, space…].

    ``strides`` is the dilation of ``x``. ``cuts`` has, for each spatial axis, the number of entries
    that are removed from the start and from the end of the result. A negative number extends the
    result.
    """
    ins, outs, *space = w.shape
    kernel = jnp.swapaxes(w.reshape(groups, ins // groups, outs, *space), 1, 2)
    kernel = jnp.flip(kernel, range(3, kernel.ndim)).reshape(groups * outs, ins // groups, *space)
    full_padding = [(n - 1) * d for n, d in zip(space, dilation, strict=True)]
    padding = [(n - low, n - high) for n, (low, high) in zip(full_padding, cuts, strict=True)]
    window = {"padding": padding, "dilation": dilation, "groups": groups}
    return conv(x, kernel, bias, strides=[1] * len(space), input_dilation=strides, **window)


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
    """Reduce windows over the spatial axes of [batch, channels, space…].

    ``size``, ``strides``, ``padding`` and ``dilation`` describe the windows, one entry per spatial
    axis. An entry of ``padding`` is a pair of sizes. ``combine`` is the function of two elements,
    such as ``lax.max``, and ``start`` is its neutral element.
    """
    none = ((0, 0), (0, 0))
    return lax.reduce_window(
        x,
        # A numpy array, because a JAX array would become a tracer during tracing.
        np.asarray(start, x.dtype),
        combine,
        (1, 1, *size),
        (1, 1, *strides),
        (*none, *padding),
        window_dilation=(1, 1, *dilation),
    )


def avg_pool(x: jax.Array, *, include_pad: bool, **window: Any) -> jax.Array:
    """Return the means of windows. ``window`` contains the arguments of `pool` that describe them.

    A sum is divided by the size of the window. Without ``include_pad``, it is divided by the number
    of elements of the window that are not padding.
    """
    total = pool(x, start=0.0, combine=lax.add, **window)
    if include_pad:
        return total / math.prod(window["size"])
    return total / pool(jnp.ones_like(x), start=0.0, combine=lax.add, **window)


def max_pool_scatter(x: jax.Array, source: jax.Array, **window: Any) -> jax.Array:
    """Return the gradient of max pooling with respect to ``x``, for the gradient ``source`` of its
    result.

    For each window of ``x``, the element of ``source`` is added at the position of the maximum. The
    result has the shape of ``x``. ``window`` contains the arguments of `pool` that describe the
    windows.
    """
    _, pull = jax.vjp(partial(pool, start=-jnp.inf, combine=lax.max, **window), x)
    return pull(source)[0]
