"""Rewrite convolutions in ONNX's layout: [batch, channels, space…] and [out, in / groups, space…].

JAX's ``conv_general_dilated`` supports any order of axes, dilated and cropped inputs, and groups of
the batch. The operators ``Conv`` and ``ConvTranspose`` of ONNX do not have all of these features.
The missing ones are emitted as transposes, reshapes and pads around the operator. If such a node
depends only on weights, it is evaluated when the file is saved.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.ir import Node, Value, const, dims, ops
from converter.ir.dims import Dim
from converter.ir.dtypes import is_float
from converter.ir.moves import rearrange
from converter.ir.rewrite import Editor, SupportsDtype, inverse_order

Pads = tuple[tuple[Dim, Dim], ...]


@dataclass(frozen=True)
class ConvolutionWindow:
    """Parameters of a convolution. ``input_dilation`` is the dilation of the input, ``dilation``
    that of the kernel."""

    strides: tuple[int, ...]
    padding: Pads
    dilation: tuple[int, ...]
    input_dilation: tuple[int, ...]
    groups: int


def emit_convolution(node: Node, editor: Editor, has_operator: SupportsDtype) -> Value:
    """Emit a convolution as ``Conv`` or ``ConvTranspose``, or as a product with patches.

    The product is for dtypes that have no operator in the target, such as integers. A convolution
    with a kernel of named size is always emitted as the operator. ``has_operator`` returns True if
    the target has an operator for a dtype.
    """
    numbers = node.params["dimension_numbers"]
    x, w = (editor.convert(v, node.out.dtype) for v in node.inputs)
    x = editor.transpose(x, numbers.lhs_spec)
    w = editor.transpose(w, numbers.rhs_spec)
    batch_groups = node.params["batch_group_count"]
    x = _batch_to_channels(editor, x, batch_groups)
    window = ConvolutionWindow(
        strides=tuple(node.params["window_strides"]),
        padding=tuple((dims.as_dim(a), dims.as_dim(b)) for a, b in node.params["padding"]),
        dilation=tuple(node.params["rhs_dilation"]),
        input_dilation=tuple(node.params["lhs_dilation"]),
        groups=node.params["feature_group_count"] * batch_groups,
    )
    order = tuple(numbers.out_spec)
    shape = tuple(node.out.shape[i] for i in order)
    if x.rank == 2:
        # A convolution in ONNX has at least one spatial axis.
        x, w = (editor.reshape(v, (*v.shape, 1)) for v in (x, w))
        window = ConvolutionWindow((1,), ((0, 0),), (1,), (1,), window.groups)
    operator_shape = shape if x.rank == len(shape) else (*shape, 1)
    # There is no convolution operator for integers.
    is_supported = is_float(x.dtype) and has_operator("Conv", x.dtype)
    if is_supported or not dims.all_static(w.shape[2:]):
        out = _convolve_by_operator(editor, x, w, window, operator_shape)
    else:
        out = _convolve_by_patches(editor, x, w, window, operator_shape)
    return editor.transpose(editor.reshape(out, shape), inverse_order(order))


def _batch_to_channels(editor: Editor, x: Value, groups: int) -> Value:
    """Move groups of the batch to groups of channels: [groups * n, c, …] -> [n, groups * c, …]."""
    batch, channels, *space = x.shape
    group_batch = dims.divide_exactly(batch, groups)
    split, order = (groups, group_batch, channels, *space), (1, 0, *range(2, x.rank + 1))
    return rearrange(editor, x, split, order, (group_batch, groups * channels, *space))


def _convolve_by_operator(
    editor: Editor, x: Value, w: Value, window: ConvolutionWindow, shape: dims.Shape
) -> Value:
    """Emit ``Conv`` or ``ConvTranspose`` with a result of this shape, and return it.

    ``x`` is [batch, channels, space…] and ``w`` [out, in / groups, space…]. If the input is
    dilated, cropped or padded by named sizes, a separate node pads it before ``Conv``.
    """
    cuts = _transposed_cuts(window, w.shape[2:])
    if cuts is not None:
        return _emit_conv_transpose(editor, x, w, window, shape, cuts)
    padding = window.padding
    flat = [p for pair in padding for p in pair]
    if (
        any(s != 1 for s in window.input_dilation)
        or not dims.all_static(flat)
        or min(flat, default=0) < 0
    ):
        x = pad_space(editor, x, padding, window.input_dilation)
        padding = ((0, 0),) * len(padding)
    params = {"strides": window.strides, "padding": padding, "dilation": window.dilation}
    return editor.add(ops.conv, [x, w], shape, x.dtype, {**params, "groups": window.groups})


def pad_space(
    editor: Editor,
    x: Value,
    padding: Pads,
    input_dilation: Sequence[int],
    filler: Any = 0,
    first: int = 2,
) -> Value:
    """Return ``x`` with its axes from ``first`` on dilated, then padded or cropped. Return ``x``
    itself if nothing changes.

    **Arguments**

    - `padding`: the elements added at both ends of each axis from ``first`` on; negative numbers
      remove elements.
    - `input_dilation`: the dilation of each of these axes: `input_dilation - 1` elements are
      inserted between neighbours.
    - `filler`: the number of the new elements.
    """
    config = ((0, 0, 0),) * first
    config += tuple((a, b, s - 1) for (a, b), s in zip(padding, input_dilation, strict=True))
    dilated = [
        dims.dilated_size(size, inner) for size, (_, _, inner) in zip(x.shape, config, strict=True)
    ]
    shape = tuple(
        dims.as_dim(size + low + high) for size, (low, high, _) in zip(dilated, config, strict=True)
    )
    if all(c == (0, 0, 0) for c in config):
        return x
    inputs = [x, const(np.asarray(filler, x.dtype))]
    return editor.add(ops.pad, inputs, shape, x.dtype, {"padding_config": config})


def _transposed_cuts(window: ConvolutionWindow, kernel: dims.Shape) -> Pads | None:
    """Return, for each axis, the numbers of elements that ``ConvTranspose`` removes at both ends.

    Negative numbers add elements. Return None if ``ConvTranspose`` cannot compute this convolution,
    or if its input is not dilated. ``ConvTranspose`` convolves the dilated input padded by
    ``(kernel - 1) * dilation`` on both sides. ``kernel`` are the spatial sizes of the weights.
    """
    if all(s == 1 for s in window.input_dilation) or any(s != 1 for s in window.strides):
        return None
    cuts: list[tuple[int, int]] = []
    for size, dilation, (low, high), input_dilation in zip(
        kernel, window.dilation, window.padding, window.input_dilation, strict=True
    ):
        if not dims.all_static((size, low, high)):
            return None
        full_padding = (size - 1) * dilation
        # If the cut at the end is negative, it is passed as ``output_padding``, which has to be
        # smaller than the stride.
        if low > full_padding or full_padding - high <= -input_dilation:
            return None
        cuts.append((full_padding - low, full_padding - high))
    return tuple(cuts)


def _emit_conv_transpose(
    editor: Editor, x: Value, w: Value, window: ConvolutionWindow, shape: dims.Shape, cuts: Pads
) -> Value:
    """Emit ``ConvTranspose``, which takes the kernel reversed, as [in, out / groups, space…].

    ``cuts`` are the elements that it removes at both ends of each axis.
    """
    groups, (outs, ins, *space) = window.groups, w.shape
    w = editor.rev(w, range(2, w.rank))
    split, order = (groups, outs // groups, ins, *space), (0, 2, 1, *range(3, w.rank + 1))
    w = rearrange(editor, w, split, order, (groups * ins, outs // groups, *space))
    dilation = window.dilation
    params = {
        "strides": window.input_dilation,
        "cuts": cuts,
        "dilation": dilation,
        "groups": groups,
    }
    return editor.add(ops.conv_transpose, [x, w], shape, x.dtype, params)


# ---------------------------------------------------------------------------------------- patches


def _convolve_by_patches(
    editor: Editor, x: Value, w: Value, window: ConvolutionWindow, shape: dims.Shape
) -> Value:
    """Emit a matrix product with patches, for dtypes that the runtime cannot convolve.

    ``x`` is [batch, channels, space…], ``w`` [out, in / groups, space…] and ``shape`` [batch, out,
    space…].
    """
    x = pad_space(editor, x, window.padding, window.input_dilation)
    batch, _, *space = x.shape
    outs, ins, *kernel = w.shape
    groups, kernel_size = window.groups, math.prod(kernel)
    grouped = editor.reshape(x, (batch, groups, ins, *space))
    parts = []
    for position in itertools.product(*map(range, kernel)):
        parts.append(grouped)
        windows = zip(position, kernel, window.strides, window.dilation, strict=True)
        for axis, window_params in enumerate(windows, 3):
            parts[-1] = window_slice(editor, parts[-1], axis, *window_params)
    size = dims.size_product(shape[2:])
    flat = (batch, groups, kernel_size * ins, size)
    patches = editor.reshape(editor.concatenate(parts, 2), flat)
    split, flat_weights = (
        (groups, outs // groups, ins, kernel_size),
        (groups, outs // groups, kernel_size * ins),
    )
    weights = rearrange(editor, w, split, (0, 1, 3, 2), flat_weights)
    sums = (batch, groups, outs // groups, size)
    return editor.reshape(editor.add(ops.matmul, [weights, patches], sums, x.dtype), shape)


def window_slice(
    editor: Editor, x: Value, axis: int, position: int, size: int, stride: int, dilation: int
) -> Value:
    """Return the elements of ``x`` that are at one position of each window along an axis.

    ``position`` is counted from 0 to ``size - 1``. The windows are ``stride`` elements apart, and
    their elements are ``dilation`` apart.
    """
    reach = dims.clip_at_zero(dims.as_dim(x.shape[axis] - (size - 1) * dilation))
    first = position * dilation
    return editor.slice(x, axis, first, dims.as_dim(first + reach), stride)
