"""Rewrite operations on floats that ONNX Runtime computes wrongly."""

import jax.numpy as jnp
import numpy as np

from converter.ir import Node, Value, const, dims, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import bound_array
from converter.ir.formulas import LARGEST_SCALE
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

NEGATIVE_ZERO = -0.0
FLOAT8_OVERFLOWS = {
    np.dtype(jnp.float8_e5m2): (ops.ge, 61440),
    np.dtype(jnp.float8_e4m3fn): (ops.gt, 464),
}
"""Comparison and magnitude of the numbers that overflow, by dtype of eight bits. The result is an
infinity, or NaN if the dtype has none."""


def pad_with_negative_zero(node: Node, editor: Editor) -> Value | None:
    """Return a pool of an operand that is padded with -0.0 in place of 0.0.

    ONNX Runtime merges a pad with 0.0 into the pool after it, although the pool does not treat its
    padding as zeros. Transposes and reshapes may be between the two. Return None, so that the node
    is kept, if no pad with zeros precedes the pool.
    """
    views, pad = list[Node](), node.inputs[0].node
    while pad is not None and pad.op in (ops.reshape, ops.transpose):
        views.append(pad)
        pad = pad.inputs[0].node
    if pad is None or pad.op is not ops.pad or scalar(pad.inputs[1]) != 0:
        return None
    x = editor.copy_with_operands(pad, [pad.inputs[0], const(NEGATIVE_ZERO, pad.out.dtype)])
    for view in reversed(views):
        x = editor.copy_with_operands(view, [x])
    return editor.copy_with_operands(node, [x])


def fill_empty_pad(node: Node, editor: Editor) -> Value | None:
    """Return the filler of a pad alone, in the shape of the result, if cropping leaves no element
    of the operand.

    ONNX Runtime before 1.24 computes such a pad wrongly. Return None, so that the node is kept, for
    other pads and for named sizes.
    """
    x, number = node.inputs
    config = node.params["padding_config"]
    dilated = (n + max(n - 1, 0) * inner for n, (_, _, inner) in zip(x.shape, config, strict=True))
    cropped = (
        n + min(low, 0) + min(high, 0) for n, (low, high, _) in zip(dilated, config, strict=True)
    )
    if dims.all_static(x.shape) and any(n <= 0 for n in cropped):
        return editor.broadcast(number, node.out.shape, ())
    return None


def pad_before_pool(node: Node, editor: Editor) -> Value | None:
    """Return an average pool or sum pool without padding, of an operand that a separate node pads
    with zeros.

    If the padding differs between axes or ends, ONNX Runtime does not include all of it in the
    number of elements of an average. Return None, so that the node is kept, if the padding is the
    same at all ends, if the pool has a single axis, or if the average does not include the padding.
    """
    padding, (x,) = node.params["padding"], node.inputs
    same_everywhere = len({size for ends in padding for size in ends}) == 1
    if same_everywhere or len(padding) < 2 or not node.params.get("include_pad", True):
        return None
    config = ((0, 0, 0), (0, 0, 0), *((low, high, 0) for low, high in padding))
    sizes = (size + low + high for size, (low, high, _) in zip(x.shape, config, strict=True))
    zero = const(NEGATIVE_ZERO, x.dtype)
    padded = editor.add(ops.pad, [x, zero], tuple(sizes), x.dtype, {"padding_config": config})
    return editor.copy_with_operands(node, [padded], padding=((0, 0),) * len(padding))


def keep_nan_of_erf(node: Node, editor: Editor) -> Value:
    """Return the error function of a node's operand, and NaN where the operand is NaN.

    ONNX Runtime before 1.27 returns a number there.
    """
    (x,) = node.inputs
    return editor.where(editor.compare(ops.ne, x, x), x, editor.copy_with_operands(node, [x]))


def expand_leaky_relu(node: Node, editor: Editor) -> Value:
    """Return a leaky ReLU with slopes, computed as x where x ≥ 0, else x · slope."""
    x, slope = node.inputs
    is_nonnegative = editor.compare(ops.ge, x, const(0, x.dtype))
    return editor.where(is_nonnegative, x, editor.binary(ops.mul, x, slope))


def repeat_keys(node: Node, editor: Editor) -> Value | None:
    """Return attention whose keys and values are repeated for each query head that shares them.

    ONNX Runtime before 1.25 confuses masks of each head if heads share keys. Return None, so that
    the node stays, if no heads share keys, or if the mask is the same for all heads.
    """
    query, key, value, *masks = node.inputs
    heads, shared = node.params["q_heads"], node.params["kv_heads"]
    if heads == shared or all(mask.rank < 3 or mask.shape[-3] == 1 for mask in masks):
        return None
    key, value = (_repeat_heads(editor, x, shared, heads // shared) for x in (key, value))
    return editor.copy_with_operands(node, [query, key, value, *masks], kv_heads=heads)


def _repeat_heads(editor: Editor, x: Value, heads: int, count: int) -> Value:
    """Return keys or values in which each head is repeated ``count`` times.

    Arguments:
        editor: gets the nodes.
        x: the keys or values, [batch, heads, positions, width] or [batch, positions, heads ·
            width].
        heads: number of heads.
        count: number of repetitions.
    """
    axis = 1 if x.rank == 4 else 2
    width = x.shape[-1] if x.rank == 4 else dims.as_dim(x.shape[-1] // heads)
    before, inner_shape = x.shape[:axis], (x.shape[2], width) if x.rank == 4 else (width,)
    split = editor.reshape(x, (*before, heads, *inner_shape))
    axes = [i for i in range(split.rank + 1) if i != axis + 1]
    repeated = editor.broadcast(split, (*before, heads, count, *inner_shape), axes)
    shape = (
        (*before, heads * count, *inner_shape) if x.rank == 4 else (*before, x.shape[-1] * count)
    )
    return editor.reshape(repeated, shape)


def reshape_scalar_gelu(node: Node, editor: Editor) -> Value | None:
    """Return the GELU of a float32 scalar, computed on an array of one element.

    Return None, so that the node is kept, for other operands.
    """
    (x,) = node.inputs
    if x.shape or x.dtype != np.float32:
        return None
    return editor.reshape(editor.copy_with_operands(node, [editor.reshape(x, (1,))], (1,)), ())


def exchange_factor(node: Node, editor: Editor) -> Value | None:
    """Return the product of a convolution and a factor with its operands exchanged.

    If the factor is the first operand, ONNX Runtime does not fold it into the weights, which could
    make them infinite. Return None, so that the node stays, if no element of the factor has a
    magnitude above ``LARGEST_SCALE``, if the factor is not known, or if no convolution computes the
    first operand.
    """
    convolved, other = node.inputs
    factor = (
        None if convolved.producer_if(ops.conv, ops.conv_transpose) is None else bound_array(other)
    )
    if factor is None or not np.any(np.abs(factor) > LARGEST_SCALE):
        return None
    return editor.copy_with_operands(node, [other, convolved])


def keep_overflow_in_float8(node: Node, editor: Editor) -> Value | None:
    """Return a conversion to a float of eight bits in which numbers that overflow become infinity
    first.

    ONNX Runtime returns the largest finite number for some of them. Return None, so that the node
    is kept, for conversions to other dtypes than those of `FLOAT8_OVERFLOWS`, and for conversions
    of integers and of floats of eight bits, which are right.
    """
    (x,), dtype = node.inputs, node.out.dtype
    if dtype not in FLOAT8_OVERFLOWS or not is_float(x.dtype) or x.dtype.itemsize == 1:
        return None
    comparison, least = FLOAT8_OVERFLOWS[dtype]
    magnitude = editor.add(ops.abs, [x], x.shape, x.dtype)
    overflows = editor.compare(comparison, magnitude, const(least, x.dtype))
    infinite = editor.binary(ops.mul, x, const(np.inf, x.dtype))
    return editor.convert(editor.where(overflows, infinite, x), dtype)


def expand_logistic(node: Node, editor: Editor) -> Value:
    """Return the sigmoid of a node's operand, computed as 1 / (1 + exp(-x))."""
    (x,), one = node.inputs, const(1, node.out.dtype)
    negated = editor.add(ops.neg, [x], x.shape, x.dtype)
    power = editor.add(ops.exp, [negated], x.shape, x.dtype)
    return editor.binary(ops.div, one, editor.binary(ops.add, power, one))
