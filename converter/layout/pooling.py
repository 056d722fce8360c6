"""Rewrite windowed reductions as pooling operators of ONNX.

If there is no such operator, the reduction combines strided slices, one for each element of the
window.

The operands of pooling operators are floats of shape [batch, channels, space…] with at most three
spatial axes. All other reductions (of integers, or over more axes) are separable, so that they are
computed along one axis after the other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import Node, Value, dims, formulas, ops
from converter.ir.axes import Factor, View, view_of
from converter.ir.dims import Dim, Shape
from converter.ir.dtypes import highest, is_float, lowest
from converter.ir.moves import view_of_operand
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, inverse_order
from converter.ir.scalars import scalar
from converter.layout.convolution import Pads, pad_space, window_slice
from converter.targets import Target
from converter.targets.schemas import operator_name

DILATED_AVERAGE_SINCE = 19


@dataclass(frozen=True)
class PoolKind:
    """The operations of a windowed reduction.

    - `pool`: the pooling operation.
    - `combine`: the binary operation on two elements.
    - `identity`: returns the neutral element for a dtype.
    - `reduction`: the reduction of a full axis.
    """

    pool: Op
    combine: Op
    identity: Callable[[Any], Any]
    reduction: Op


KINDS = {
    ops.reduce_window_max: PoolKind(ops.max_pool, ops.max, lowest, ops.reduce_max),
    # The minimum is computed as the negated maximum of the negated values.
    ops.reduce_window_min: PoolKind(ops.max_pool, ops.min, highest, ops.reduce_min),
    ops.reduce_window_sum: PoolKind(ops.sum_pool, ops.add, lambda dtype: 0, ops.reduce_sum),
}


class PoolWindow(NamedTuple):
    """A window over the axes ``axes`` of a value.

    ``params`` are the parameters of a pool over these axes: ``size``, ``strides``, ``padding`` and
    ``dilation``, with an entry for each axis.
    """

    axes: tuple[int, ...]
    params: dict[str, Any]


def pooling_rules(opset: int, strict: bool, target: Target) -> dict[Op, Rule]:
    """Return the rules that emit windowed reductions, as pools or as operations on slices, for an
    opset and a target.

    ``strict`` keeps JAX's results for NaN and infinities, if necessary with slices in place of
    pools.
    """

    def reduce_window(node: Node, editor: Editor) -> Value | None:
        kind = KINDS[node.op]
        if not dims.all_static(node.params["window_dimensions"]):
            remaining = _reduce_full_axes(node, editor)
            return None if remaining is None else reduce_window(remaining, editor)
        x, window = _prepare_window(node, editor, kind.identity(node.out.dtype))
        needs_exact = strict or not _windows_contain_elements(node)
        has_fit = windows_fit([x.shape[a] for a in window.axes], window.params)
        by_slices = (needs_exact and kind.pool is ops.max_pool) or (strict and not has_fit)
        if by_slices or not _has_pool_operator(kind, x.dtype, window, opset, target):
            return _combine_slices(editor, x, window, kind)
        if node.op is ops.reduce_window_min:
            return _negated(editor, _emit_pool(editor, _negated(editor, x), window, kind, node.out))
        return _emit_pool(editor, x, window, kind, node.out)

    return {**dict.fromkeys(KINDS, reduce_window), ops.select_and_scatter_add: _select_and_scatter}


def _reduce_full_axes(node: Node, editor: Editor) -> Node | None:
    """Replace a window over a full axis of named size by a reduction of that axis.

    Return the node of the remaining window, which has one element along that axis. Return None if a
    window of named size is not as long as its axis, or if that axis is padded or dilated.
    """
    x, p = node.inputs[0], node.params
    sizes, strides = list(p["window_dimensions"]), list(p["window_strides"])
    axes = tuple(axis for axis, size in enumerate(sizes) if dims.is_symbolic(size))
    for axis in axes:
        other_params = (p["padding"][axis], p["base_dilation"][axis], p["window_dilation"][axis])
        if not dims.is_same_dim(sizes[axis], x.shape[axis]) or other_params != ((0, 0), 1, 1):
            return None
        sizes[axis] = strides[axis] = 1
    shape = tuple(d for axis, d in enumerate(x.shape) if axis not in axes)
    total = editor.add(KINDS[node.op].reduction, [x], shape, x.dtype, {"axes": axes})
    reduced = editor.reshape(total, tuple(1 if i in axes else d for i, d in enumerate(x.shape)))
    changes = {"window_dimensions": tuple(sizes), "window_strides": tuple(strides)}
    return editor.copy_with_operands(node, [reduced], **changes).node


def _has_pool_operator(
    kind: PoolKind, dtype: np.dtype, window: PoolWindow, opset: int, target: Target
) -> bool:
    """Return True if the target has a pooling operator for this window and dtype."""
    dilated = kind.pool is ops.sum_pool and any(d != 1 for d in window.params["dilation"])
    return (
        is_float(dtype)
        and target.has_operator(operator_name(kind.pool), dtype, opset)
        and len(window.axes) <= 3
        and any(s != 1 for s in window.params["size"])
        and not (dilated and opset < DILATED_AVERAGE_SINCE)
    )


def _windows_contain_elements(node: Node) -> bool:
    """Return True if each window is known to contain an element that is not padding.

    The result of ``MaxPool`` is not infinite for windows that contain only padding. If a window
    starts in the padding, it has to extend into the operand, and must not step over the operand.
    Return False if the padding has named sizes, or if the operand is dilated.
    """
    p, shape = node.params, node.inputs[0].shape
    axes = zip(p["window_dimensions"], p["window_dilation"], p["padding"], shape, strict=True)
    for size, d, pads, length in axes:
        if not dims.all_static(pads) or max(pads) > (size - 1) * d:
            return False
        if d > 1 and max(pads) > 0 and not (dims.is_static(length) and length >= d):
            return False
    return all(s == 1 for s in p["base_dilation"])


def windows_fit(lengths: Sequence[Dim], window: dict[str, Any]) -> bool:
    """Return True if no axis, with its padding, can be shorter than its window, for any named
    sizes.

    ``lengths`` are the sizes of the axes without padding. ``window`` contains the parameters of a
    pool.
    """
    parts = zip(lengths, window["size"], window["padding"], window["dilation"], strict=True)
    return all(
        dims.is_at_least(length + low + high, (size - 1) * dilation + 1)
        for length, size, (low, high), dilation in parts
    )


def _negated(editor: Editor, x: Value) -> Value:
    """Emit the negative of ``x``."""
    return editor.add(ops.neg, [x], x.shape, x.dtype)


def _prepare_window(node: Node, editor: Editor, filler: Any) -> tuple[Value, PoolWindow]:
    """Return the operand of a windowed reduction, and the window along the axes on which it has an
    effect.

    Padding that a pooling operator cannot do, and dilation of the operand, are done by a pad of the
    operand. ``filler`` is the number of the new elements.
    """
    x, p, rank = node.inputs[-1], node.params, node.inputs[-1].rank
    input_dilation = tuple(p.get("base_dilation") or (1,) * rank)
    dilation = tuple(p.get("window_dilation") or (1,) * rank)
    size, strides = tuple(p["window_dimensions"]), tuple(p["window_strides"])
    padding: Pads = tuple((dims.as_dim(a), dims.as_dim(b)) for a, b in p["padding"])
    ends = [(v, s) for pair, s in zip(padding, size, strict=True) for v in pair]
    is_operator_padding = all(dims.is_static(v) and 0 <= v < s for v, s in ends)
    if not is_operator_padding or any(s != 1 for s in input_dilation):
        x = pad_space(editor, x, padding, input_dilation, filler, first=0)
        padding = ((0, 0),) * rank
    axes = tuple(i for i in range(rank) if size[i] != 1 or strides[i] != 1 or padding[i] != (0, 0))
    params = {"size": size, "strides": strides, "padding": padding, "dilation": dilation}
    window_params = {name: tuple(param[axis] for axis in axes) for name, param in params.items()}
    return x, PoolWindow(axes, window_params)


def _emit_pool(editor: Editor, x: Value, window: PoolWindow, kind: PoolKind, out: Value) -> Value:
    """Emit a pool over the axes of a window, and return it with the shape of ``out``."""
    flat, order = to_image(editor, x, window.axes)
    shape = (*flat.shape[:2], *(out.shape[a] for a in window.axes))
    pooled = editor.add(kind.pool, [flat], shape, x.dtype, window.params)
    return from_image(editor, pooled, order, out.shape)


def to_image(editor: Editor, x: Value, axes: Sequence[int]) -> tuple[Value, list[int]]:
    """Return ``x`` as an image [batch, channels, space…], and the permutation of its axes.

    ``axes`` become the space. The last of the other axes becomes the channels, and those before it
    are merged into the batch after the permutation.
    """
    other_axes = [i for i in range(x.rank) if i not in axes]
    order = [*other_axes, *axes]
    transposed = editor.transpose(x, order)
    space = tuple(x.shape[a] for a in axes)
    *batch, channels = [1, *(x.shape[i] for i in other_axes)]
    return editor.reshape(transposed, (dims.size_product(batch), channels, *space)), order


def from_image(editor: Editor, x: Value, order: Sequence[int], shape: Shape) -> Value:
    """Undo `to_image`: split the batch axis of an image into the original axes, and transpose all
    axes back.

    Arguments:
        editor: gets the new nodes.
        x: the image, [batch, channels, space…].
        order: the permutation that `to_image` returned.
        shape: the shape of the result, with its axes in the original order.
    """
    split = editor.reshape(x, tuple(shape[i] for i in order))
    return editor.transpose(split, inverse_order(order))


def _combine_slices(editor: Editor, x: Value, window: PoolWindow, kind: PoolKind) -> Value:
    """Reduce the windows by elementwise operations on slices, one axis after the other.

    There is one slice for each element of the window.
    """
    parts = zip(window.axes, *window.params.values(), strict=True)
    for axis, size, stride, pad, dilation in parts:
        padding = tuple(pad if i == axis else (0, 0) for i in range(x.rank))
        x = pad_space(editor, x, padding, (1,) * x.rank, kind.identity(x.dtype), first=0)
        slices = [window_slice(editor, x, axis, i, size, stride, dilation) for i in range(size)]
        x = reduce(partial(editor.binary, kind.combine), slices)
    return x


def _select_and_scatter(node: Node, editor: Editor) -> Value | None:
    """Emit the gradient of max pooling or min pooling.

    For min pooling the operand is negated. Return None if elements are selected in another way, if
    the dtype is not a float, or if the window extends over no axis or over more than three axes.
    """
    source, operand = node.inputs
    lowest = node.params["select_prim"] is lax.le_p
    if not (lowest or node.params["select_prim"] is lax.ge_p) or not is_float(operand.dtype):
        return None
    # ``MaxPool`` returns correct positions only for numbers above the lowest finite number.
    zero = np.zeros((), operand.dtype)
    least = np.nextafter(np.asarray(jnp.finfo(operand.dtype).min, operand.dtype), zero)
    x, window = _prepare_window(node, editor, -least if lowest else least)
    if not 0 < len(window.axes) <= 3:
        return None
    flat, order = to_image(editor, _negated(editor, x) if lowest else x, window.axes)
    image, _ = to_image(editor, source, window.axes)
    scattered = editor.add(ops.max_pool_scatter, [flat, image], flat.shape, x.dtype, window.params)
    total = from_image(editor, scattered, order, x.shape)
    return editor.slice_region(
        total, tuple(low for low, _ in node.params["padding"]), operand.shape
    )


# ----------------------------------------------------------------------------------------- means


def match_average_pool(node: Node, editor: Editor) -> Value | None:
    """Match a sum pool divided by the number of elements in each window, with or without the
    padding.

    ``node`` is the division. Return the average, or None if it is another division or if the sum
    has other readers. Transposes and reshapes between the pool and the division are moved after the
    average.
    """
    x, divisor = node.inputs
    view: View | None = view_of(x)
    views: list[Node] = []
    while view is not None and view.op() in (ops.reshape, ops.transpose):
        views.append(view.node())
        view = view_of_operand(view) if editor.single_use(view.base) else None
    pool = None if view is None else view.base.producer_if(ops.sum_pool)
    if view is None or pool is None or not editor.single_use(pool.out):
        return None
    by_window_size = scalar(divisor) == math.prod(pool.params["size"])
    has_same_shape = dims.is_same_shape(x.shape, node.out.shape)
    if not has_same_shape or not (by_window_size or _divides_by_window_counts(divisor, pool, view)):
        return None
    params = {**pool.params, "include_pad": by_window_size}
    mean = editor.add(ops.avg_pool, pool.inputs, pool.out.shape, pool.out.dtype, params)
    for view_node in reversed(views):
        mean = editor.copy_with_operands(view_node, [mean])
    return mean


def _divides_by_window_counts(divisor: Value, pool: Node, view: View) -> bool:
    """Return True if a divisor is the number of elements of each window that are not padding.

    It has to be a constant array. Return False if the windows are dilated or an axis of the operand
    has a named size.

    Arguments:
        divisor: the divisor.
        pool: the sum pool.
        view: the dividend as a view of the result of ``pool``.
    """
    space, params = pool.inputs[0].shape[2:], pool.params
    is_undilated = all(d == 1 for d in params["dilation"])
    if divisor.const is None or not dims.all_static(space) or not is_undilated:
        return False
    ones = formulas.pool(jnp.ones((1, 1, *space)), start=0.0, combine=lax.add, **params)
    counts = _transpose_counts(view, np.asarray(ones))
    if counts is None:
        return False
    shape = np.broadcast_shapes(counts.shape, divisor.const.shape)
    divisors = np.broadcast_to(divisor.const, shape)
    return np.array_equal(divisors, np.broadcast_to(counts, shape))


def _transpose_counts(view: View, counts: np.ndarray) -> np.ndarray | None:
    """Return ``counts``, which has the axes of a pool's result, with the axes of ``view``.

    ``view`` is a view of the pool's result: it may be transposed and reshaped. Axes along which
    ``counts`` is constant have size one. Return None if the view splits or merges other axes.
    """
    long_axes = [axis for axis, size in enumerate(counts.shape) if size > 1]
    order = [axis for axis in view.axes if axis is not None and axis in long_axes]
    is_full = all(view.factors(axis) == [Factor(axis, 1, counts.shape[axis])] for axis in long_axes)
    if not is_full or sorted(order) != long_axes:
        return None
    shape = [counts.shape[axis] if axis in long_axes else 1 for axis in view.axes]
    return counts.squeeze().transpose([long_axes.index(axis) for axis in order]).reshape(shape)
