"""Rewrite operations on integers that ONNX Runtime computes wrongly."""

from typing import Any

import numpy as np

from converter.ir import Graph, Node, Value, const, dims, make_node, ops
from converter.ir.dtypes import is_integer, lowest
from converter.ir.origins import ancestors
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor
from converter.targets.target import narrow_value, widen_value

# ------------------------------------------------------------------------------------- reductions


def _reduced_axes_last(node: Node, editor: Editor) -> Value:
    """Return the operand of a reduction with its reduced axes merged into one, which is the last
    axis."""
    x, axes = node.inputs[0], node.params["axes"]
    kept_axes = [i for i in range(x.rank) if i not in axes]
    size = dims.size_product([x.shape[i] for i in axes])
    return editor.reshape(editor.transpose(x, (*kept_axes, *axes)), (*node.out.shape, size))


def sum_by_product(node: Node, editor: Editor) -> Value | None:
    """Return the sum of 64-bit integers, computed by a matrix product with ones.

    It is the only sum of ONNX Runtime that wraps exactly. Return None, so that the node stays, for
    other dtypes and for sums of sizes and constants, which are below 2**53.
    """
    if node.out.dtype not in (np.int64, np.uint64) or _depends_on_sizes_only(node.inputs[0]):
        return None
    x = _reduced_axes_last(node, editor)
    ones = editor.broadcast(const(1, x.dtype), (x.shape[-1], 1), ())
    total = editor.add(ops.matmul, [x, ones], (*x.shape[:-1], 1), x.dtype)
    return editor.reshape(total, node.out.shape)


def _depends_on_sizes_only(x: Value) -> bool:
    """Return True if a value is an int64 that is computed from constants and sizes only."""
    return x.dtype == np.int64 and all(v.kind in ("const", "node") for v in ancestors(x))


def multiply_by_halves(node: Node, editor: Editor) -> Value | None:
    """Return the product of integers along the reduced axes.

    One half of the axis is multiplied by the other half, repeatedly, until a single element
    remains. An axis of named size is multiplied by a scan. ONNX Runtime's own product does not
    wrap. Return None, so that the node is kept, for floats and for an empty axis.
    """
    if not is_integer(node.out.dtype):
        return None
    x = _reduced_axes_last(node, editor)
    axis, size = x.rank - 1, x.shape[-1]
    if not dims.is_static(size):
        return _multiply_by_scan(x, node.out, editor)
    if size == 0:
        return None
    while size > 1:
        half = size // 2
        low, high, remaining = (
            editor.slice(x, axis, *bounds)
            for bounds in ((0, half), (half, 2 * half), (2 * half, size))
        )
        x = editor.binary(ops.mul, low, high)
        x = editor.concatenate([x, remaining], axis) if size % 2 else x
        size = half + size % 2
    return editor.reshape(x, node.out.shape)


def _multiply_by_scan(x: Value, out: Value, editor: Editor) -> Value:
    """Return the product along the last axis, computed by a scan with one factor in each iteration.

    It is used for an axis of named size. The result has the shape and dtype of ``out``.
    """
    last = x.rank - 1
    start = editor.broadcast(const(1, out.dtype), out.shape, ())
    lines = editor.transpose(x, (last, *range(last)))
    carry, factor = (Value(out.shape, out.dtype, kind="input") for _ in range(2))
    product = make_node(ops.mul, [carry, factor], [(out.shape, out.dtype)])
    params = {"num_carry": 1, "length": x.shape[last], "reverse": False}
    scan = make_node(ops.scan, [start, lines], [(out.shape, out.dtype)], params)
    scan.bodies = {"body": Graph([carry, factor], product.outputs, [product])}
    editor.nodes.append(scan)
    return scan.out


def exact_extreme(node: Node, editor: Editor) -> Value | None:
    """Return the maximum or minimum of 64-bit integers or uint32 along the reduced axes.

    64-bit integers are sorted by ``top_k``: the minimum is the complement of the maximum of the
    complements. uint32 is computed in float64. Return None, so that the node stays, for other
    dtypes.
    """
    dtype = node.out.dtype
    if dtype == np.uint32:
        x = editor.convert(node.inputs[0], np.float64)
        return editor.convert(editor.add(node.op, [x], node.out.shape, x.dtype, node.params), dtype)
    if dtype not in (np.int64, np.uint64):
        return None
    is_unsigned, is_minimum = dtype == np.uint64, node.op is ops.reduce_min
    x = widen_value(editor, _reduced_axes_last(node, editor), "int64", is_unsigned)
    x = _complement(editor, x) if is_minimum else x
    types: list[Any] = [((*x.shape[:-1], 1), d) for d in (x.dtype, np.dtype(np.int32))]
    params = {"k": 1, "axis": x.rank - 1}
    top = editor.reshape(editor.add_many(ops.top_k, [x], types, params)[0], node.out.shape)
    return narrow_value(editor, _complement(editor, top) if is_minimum else top, dtype, is_unsigned)


def _complement(editor: Editor, x: Value) -> Value:
    """Return -1 - x, which reverses the order of all integers."""
    return editor.binary(ops.sub, const(-1, x.dtype), x)


# ------------------------------------------------------------------------------------- arithmetic


def sign_by_comparisons(node: Node, editor: Editor) -> Value | None:
    """Return the sign of int64, computed as (x > 0) - (x < 0).

    Return None, so that the node stays, for other dtypes.
    """
    (x,), dtype = node.inputs, node.out.dtype
    if dtype != np.int64:
        return None
    above, below = [editor.compare(op, x, const(0, dtype)) for op in (ops.gt, ops.lt)]
    return editor.binary(ops.sub, editor.convert(above, dtype), editor.convert(below, dtype))


def divide_lowest(node: Node, editor: Editor) -> Value | None:
    """Return a quotient of integers that is the negated dividend where the divisor is -1.

    The negated lowest integer is the lowest integer, as in JAX. Return None, so that the node
    stays, if it is known that the lowest integer is not divided by -1 (``_may_overflow``).
    """
    x, y = node.inputs
    if not _may_overflow(x, y):
        return None
    negative, divisor = _replace_minus_one(y, editor)
    quotient = editor.binary(ops.div, x, divisor)
    return editor.where(negative, editor.add(ops.neg, [x], x.shape, x.dtype), quotient)


def remainder_of_lowest(node: Node, editor: Editor) -> Value | None:
    """Return a remainder of integers for which divisors of -1 are replaced by 1.

    The remainder is 0 for both. Return None, so that the node stays, if it is known that the lowest
    integer is not divided by -1 (``_may_overflow``).
    """
    x, y = node.inputs
    if not _may_overflow(x, y):
        return None
    return editor.binary(ops.rem, x, _replace_minus_one(y, editor)[1])


def remainder_by_quotient(node: Node, editor: Editor) -> Value | None:
    """Return the remainder of 64-bit integers, computed as x - (x / y) · y.

    Return None, so that the node stays, for other dtypes.
    """
    x, y = node.inputs
    if node.out.dtype not in (np.int64, np.uint64):
        return None
    product = editor.binary(ops.mul, editor.binary(ops.div, x, y), y)
    return editor.binary(ops.sub, x, product)


def _may_overflow(x: Value, y: Value) -> bool:
    """Return True if a division of ``x`` by ``y`` may divide the lowest integer by -1.

    The quotient would be out of the range of the dtype. Return False for integers of 8 and 16 bits,
    because they are divided in 32 bits, in which the quotient is in range. Also return False for
    other dtypes than signed integers.
    """
    is_wide = x.dtype.kind == "i" and x.dtype.itemsize >= 4
    return is_wide and not (
        known_range(x).misses(int(lowest(x.dtype))) or known_range(y).misses(-1)
    )


def _replace_minus_one(y: Value, editor: Editor) -> tuple[Value, Value]:
    """Return the mask of elements of ``y`` that are -1, and ``y`` with 1 in these positions."""
    negative = editor.compare(ops.eq, y, const(-1, y.dtype))
    return negative, editor.where(negative, const(1, y.dtype), y)
