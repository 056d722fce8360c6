"""Rewrite contractions (``einsum`` by axis labels) as matrix products with few transposes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from converter.ir import Node, Value, dims, ops
from converter.ir.dims import Dim
from converter.ir.dtypes import is_float
from converter.ir.rewrite import Editor

MIN_MATRIX_ENTRIES = 256
"""Number of entries of a matrix from which on a vector factor becomes a column. ONNX Runtime 1.32
multiplies vectors without its fast kernels, which takes up to thirty times as long."""


class ContractedOperand(NamedTuple):
    """A value with the label of each of its axes."""

    value: Value
    labels: list[int]


class MatrixProduct:
    """A contraction ``out = x · y`` of two operands in this order.

    Labels of axes are in both operands and the result (``batch``), in both operands only
    (``summed``), in ``x`` and the result (``left``), or in ``y`` and the result (``right``).
    """

    def __init__(self, x: ContractedOperand, y: ContractedOperand, out: list[int]) -> None:
        self.x, self.y, self.result_axes = x, y, out
        self.batch = [a for a in out if a in x.labels and a in y.labels]
        self.summed = [a for a in x.labels if a in y.labels and a not in out]
        self.left = [a for a in out if a in x.labels and a not in y.labels]
        self.right = [a for a in out if a in y.labels and a not in x.labels]
        self.out = [*self.batch, *self.left, *self.right]
        self.sizes: dict[int, Dim] = {}
        for operand in (x, y):
            self.sizes.update(zip(operand.labels, operand.value.shape, strict=True))

    def cost(self, weight_ids: set[int]) -> int:
        """Return the cost of the transposes and reshapes of both operands and the result
        (`_reordering_cost`).

        ``weight_ids`` has the ids of values that are transposed at no cost, such as weights.
        """
        rows = [*self.batch, *self.left, *self.summed]
        columns = [*self.batch, *self.summed, *self.right]
        cost = self._reordering_cost(self.out, self.result_axes)
        for operand, order in ((self.x, rows), (self.y, columns)):
            cost += (
                0
                if id(operand.value) in weight_ids
                else self._reordering_cost(operand.labels, order)
            )
        return cost

    def _reordering_cost(self, source_order: list[int], target_order: list[int]) -> int:
        """Return the cost of a change from one order of labels to another.

        The cost is 2 if there is a transpose, 1 if there is only a reshape, and 0 if nothing
        changes.
        """
        orders = (source_order, target_order)
        shapes = [[self.sizes[a] for a in labels] for labels in orders]
        long_axes = [
            [a for a in labels if not dims.is_same_dim(self.sizes[a], 1)] for labels in orders
        ]
        return 2 if long_axes[0] != long_axes[1] else int(not dims.is_same_shape(*shapes))

    def emit(self, editor: Editor) -> Value:
        """Emit the product, and return it with the axes in the order of the contraction's
        result."""
        result = self._matmul(editor) if self.summed else self._outer(editor)
        split = editor.reshape(result, tuple(self.sizes[a] for a in self.out))
        return editor.transpose(split, [self.out.index(a) for a in self.result_axes])

    def _matmul(self, editor: Editor) -> Value:
        """Emit the matrix product [batch…, left, summed] @ [batch…, summed, right].

        The left axes are merged into one only if there are batch axes. If there are neither right
        nor batch axes, the second operand is a vector, or a column if the matrix is large.
        """
        batch = [[a] for a in self.batch]
        left = [self.left] if self.batch else [[a] for a in self.left]
        right = [self.right] if self.right or self.batch else []
        a = self._arrange_operand(editor, self.x, [*batch, *left, self.summed])
        b = self._arrange_operand(editor, self.y, [*batch, self.summed, *right])
        shape = self._merged_shape([*batch, *left, *right])
        if right or not dims.is_at_least(dims.size_product(a.shape), MIN_MATRIX_ENTRIES):
            return editor.add(ops.matmul, [a, b], shape, a.dtype)
        column = editor.reshape(b, (*b.shape, 1))
        product = editor.add(ops.matmul, [a, column], (*shape, 1), a.dtype)
        return editor.reshape(product, shape)

    def _outer(self, editor: Editor) -> Value:
        """Emit a contraction that sums over no axis as the product of its broadcast operands."""
        a = self._arrange_operand(editor, self.x, [[i] for i in [*self.batch, *self.left]])
        b = self._arrange_operand(editor, self.y, [[i] for i in [*self.batch, *self.right]])
        count = len(self.batch)
        a = editor.reshape(a, (*a.shape, *(1 for _ in self.right)))
        b = editor.reshape(b, (*b.shape[:count], *(1 for _ in self.left), *b.shape[count:]))
        return editor.binary(ops.mul, a, b)

    def _arrange_operand(
        self, editor: Editor, operand: ContractedOperand, groups: Sequence[Sequence[int]]
    ) -> Value:
        """Return an operand with one axis for each group of labels, in the order of the groups."""
        order = [operand.labels.index(a) for group in groups for a in group]
        return editor.reshape(editor.transpose(operand.value, order), self._merged_shape(groups))

    def _merged_shape(self, groups: Sequence[Sequence[int]]) -> dims.Shape:
        """Return the shape with one axis for each group of labels."""
        return tuple(dims.size_product([self.sizes[a] for a in group]) for group in groups)


def to_matrix_product(node: Node, editor: Editor, weight_ids: set[int]) -> Value:
    """Emit a contraction as a matrix product, and return it.

    The order of operands that needs fewer transposes is used. A contraction that sums over no axis
    becomes an elementwise product. ``node`` is an einsum. ``weight_ids`` has the ids of values that
    are transposed at no cost, such as weights.
    """
    dtype, out = _computation_dtype(node), list(node.params["out"])
    lhs, rhs = (
        ContractedOperand(editor.convert(value, dtype), list(node.params[side]))
        for value, side in zip(node.inputs, ("lhs", "rhs"), strict=True)
    )
    orders = (MatrixProduct(lhs, rhs, out), MatrixProduct(rhs, lhs, out))
    product = min(orders, key=lambda product: product.cost(weight_ids)).emit(editor)
    return editor.convert(product, node.out.dtype)


def _computation_dtype(node: Node) -> np.dtype:
    """Return the dtype to compute in: the widest float, so that rounding happens after the product.

    If one of the dtypes is not a float, it is the dtype of the result.
    """
    dtypes = [node.out.dtype, *(v.dtype for v in node.inputs)]
    if not all(is_float(dtype) for dtype in dtypes):
        return node.out.dtype
    return max(dtypes, key=lambda dtype: dtype.itemsize)
