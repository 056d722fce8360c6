"""Rewrite matrix products that ONNX Runtime's optimizer would change wrongly.

Its fusion of transposes with products (MatmulTransposeFusion, 1.32.0) fails if the operands have
different numbers of axes. If a transposed matrix is multiplied by a vector, the transpose is lost.
The vector is therefore reshaped to a column. If there is a conversion between the transpose and the
product, the fusion removes the transpose before it checks whether it can be applied. The runtime
inserts such conversions around products in float16. If such a conversion is possible, both operands
are therefore given the same number of axes. The fusion also applies to transposes that other
optimizations have moved next to a product.

Before 1.32 the fusion of transposes with Gemm (GemmTransposeFusion) loses a transpose if both
operands are transposed and one of them is an output of the graph. Gemm computes a product of two
matrices and a sum. Such matrices are therefore reshaped to stacks of one matrix, because a product
of stacks is not fused into a Gemm.

Before 1.32 the fusions of scales with products (MatMulScaleFusion) and of norms (LayerNormFusion)
store a scale or an epsilon in float32 whatever the dtype is. A float64 number that is multiplied
with, added to, or divides an array of several axes is therefore expanded along an axis of known
size. If there is none, the array gets an additional axis, after which nothing is fused.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import Flag, auto
from functools import cached_property, reduce
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from converter.ir.names import Names

MOVES_TRANSPOSITIONS = frozenset(
    {
        *("Abs", "Add", "And", "ArgMax", "ArgMin", "Cast", "CastLike", "Ceil", "Celu", "Clip"),
        *("Concat", "Cos", "CumSum", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Expand"),
        *("Flatten", "Floor", "Gather", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid"),
        *("HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log"),
        *("LogSoftmax", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu"),
        *("Pad", "Pow", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"),
        *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
        *("Relu", "Reshape", "Resize", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Slice"),
        *("Softmax", "Softplus", "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish"),
        *("Tanh", "Tile", "TopK", "Transpose", "Unsqueeze", "Where", "Xor"),
    }
)
"""Operators through which ONNX Runtime's optimizer may move a transpose. A Reshape counts only if
it adds or removes axes of size one."""


class MovedNodes(Flag):
    """Kinds of nodes that ONNX Runtime's optimizer may have moved to the producer of a value.

    They are transposes that keep the first axis (INNER), transposes that move it (OUTER), and
    conversions to another dtype after a transpose (CONVERTED).
    """

    NO_NODES = 0
    INNER = auto()
    OUTER = auto()
    CONVERTED = auto()


Moves: TypeAlias = dict[ir.Value | None, MovedNodes]

Ranks: TypeAlias = "tuple[int, int] | None"
"""New numbers of axes of both operands of a product, or None if they stay."""


def _reshape_products(ranks: Callable[[ir.Node, Moves], Ranks]) -> Callable[[ir.Model], None]:
    """Return a function that changes the numbers of axes of the operands of matrix products in a
    model, in place.

    ``ranks`` returns the new numbers of axes of both operands of a product, or None if they stay.
    It gets the product, and the kinds of nodes that the optimizer may have moved to each value. It
    is not called if the number of axes of an operand is not known.
    """

    def reshape_products(model: ir.Model) -> None:
        moves: Moves = defaultdict(lambda: MovedNodes.NO_NODES)
        writer = _Writer(model.graph)
        for node in list(model.graph.all_nodes()):
            moves.update(dict.fromkeys(node.outputs, _moves_through(node, moves)))
            if node.op_type == "MatMul" and not node.domain and all(map(_rank, node.inputs)):
                new_ranks = ranks(node, moves)
                if new_ranks is not None:
                    _set_ranks(node, new_ranks, writer)

    return reshape_products


def prevent_float64_fusion(model: ir.Model) -> None:
    """Rewrite float64 Mul, Div and Add nodes, in place, so that ONNX Runtime does not fuse them.

    Its fusions store a scale or an epsilon in float32 and lose precision.
    """
    writer = _Writer(model.graph)
    for node in list(model.graph.all_nodes()):
        if node.op_type in ("Mul", "Div", "Add") and not node.domain:
            _prevent_fusion(node, writer)


def _moves_through(node: ir.Node, moves: Moves) -> MovedNodes:
    """Return the kinds of nodes that the optimizer may have moved to the results of a node.

    They are those of its operands, which ``moves`` contains, if the optimizer moves transposes
    through the node. A transpose and a conversion add their own kind. A node that may remove the
    first axis adds OUTER, because an INNER transpose may move the first of the other axes.
    """
    if node.op_type not in MOVES_TRANSPOSITIONS or _merges(node):
        return MovedNodes.NO_NODES
    operand_moves = reduce(
        operator.or_, [moves[value] for value in node.inputs], MovedNodes.NO_NODES
    )
    if node.op_type == "Transpose":
        order = node.attributes.get("perm")
        inner = order is not None and order.as_ints()[0] == 0
        return operand_moves | (MovedNodes.INNER if inner else MovedNodes.OUTER)
    if operand_moves and node.op_type == "Cast":
        return operand_moves | MovedNodes.CONVERTED
    return (
        operand_moves | MovedNodes.OUTER if operand_moves and _drops_first(node) else operand_moves
    )


def _merges(node: ir.Node) -> bool:
    """Return True if a node is a reshape that does more than adding and removing axes of size one.

    False if a shape is not known.
    """
    if node.op_type != "Reshape":
        return False
    before, after = node.inputs[0], node.outputs[0]
    if before is None or before.shape is None or after.shape is None:
        return False
    source, target = ([d for d in shape if d != 1] for shape in (before.shape, after.shape))
    return source != target


def _drops_first(node: ir.Node) -> bool:
    """Return True if a node may remove the first axis, so that the second axis is the first axis of
    the result.

    True if a shape is not known.
    """
    before, after = node.inputs[0], node.outputs[0]
    if before is None or before.shape is None or after.shape is None:
        return True
    if after.shape.rank() >= before.shape.rank():
        return False
    drops_ones = node.op_type in ("Squeeze", "Reshape")
    return before.shape[0] == 1 or not drops_ones


def _rank(value: ir.Value | None) -> int:
    """Return the number of axes of a value, or zero if it is not known."""
    return 0 if value is None or value.shape is None else value.shape.rank()


@_reshape_products
def vector_to_column(node: ir.Node, moves: Moves) -> Ranks:
    """Return numbers of axes that make the vector on the right of a matrix product a column.

    None, so that the product stays, if the right operand is no vector, or if no node computes the
    matrix. ``moves`` is not needed.
    """
    left, right = map(_rank, node.inputs)
    matrix = node.inputs[0]
    needs_column = left > 1 and right == 1 and matrix is not None and matrix.producer() is not None
    return (left, 2) if needs_column else None


@_reshape_products
def equalize_ranks(node: ir.Node, moves: Moves) -> Ranks:
    """Return the same number of axes for both operands of a matrix product.

    None, so that the product stays, if they have the same already, or if the optimizer does not
    lose a transpose of an operand (``_may_lose_transpose``). ``moves`` contains the transposes and
    conversions that it may have moved to each operand.
    """
    left, right = map(_rank, node.inputs)
    may_lose = any(v is not None and _may_lose_transpose(v, moves[v]) for v in node.inputs)
    return (max(left, right),) * 2 if left != right and may_lose else None


@_reshape_products
def stack_matrices(node: ir.Node, moves: Moves) -> Ranks:
    """Return three axes for both operands of a product of two matrices, so that it is no Gemm.

    None, so that the product stays, if an operand is no matrix, or if the optimizer loses no
    transpose of them. ``moves`` contains the transposes that it may have moved to each operand.
    """
    matrices = all(_rank(v) == 2 for v in node.inputs)
    return (3, 3) if matrices and _may_lose_output(node, moves) else None


def _set_ranks(node: ir.Node, ranks: tuple[int, int], writer: _Writer) -> None:
    """Add axes of size one to the operands of a product, and remove them from its result, in place.

    ``ranks`` are the new numbers of axes. An operand that was a vector becomes a row on the left
    and a column on the right.
    """
    left, right = map(_rank, node.inputs)
    is_row, is_column = (left == 1), (right == 1)
    stacked_axes = range(max(ranks) - max(left, right, 2))
    writer.unsqueeze(node, 0, range(ranks[0] - left))
    last = ranks[1] - 1
    writer.unsqueeze(node, 1, [*range(last - 1), last] if is_column else range(ranks[1] - right))
    end = max(ranks)
    added_axes = [*stacked_axes, *([end - 2] if is_row else []), *([end - 1] if is_column else [])]
    writer.squeeze(node, added_axes)


def _may_lose_output(node: ir.Node, moves: Moves) -> bool:
    """Return True if both operands of a product may be transposed, one of them is an output of the
    graph, and an ``Add`` reads the product."""
    are_transposed = all(moves[v] for v in node.inputs)
    is_summed = any(use.node.op_type == "Add" for use in node.outputs[0].uses())
    return (
        are_transposed
        and is_summed
        and any(v is not None and v.is_graph_output() for v in node.inputs)
    )


def _may_lose_transpose(value: ir.Value, moved: MovedNodes) -> bool:
    """Return True if the fusion may remove a transpose from before a value without applying it.

    This requires a possible conversion after the transpose, a transpose that moves the first axis,
    and at least three axes. ``moved`` are the kinds of nodes that may have been moved to the
    producer of the value.
    """
    converted = MovedNodes.CONVERTED in moved or value.dtype == ir.DataType.FLOAT16
    return converted and MovedNodes.OUTER in moved and _rank(value) >= 3


def _prevent_fusion(node: ir.Node, writer: _Writer) -> None:
    """Change a Mul, Div or Add node with a float64 number so that the runtime does not fuse it, in
    place.

    The number is an operand that is an initializer of one element. It is repeated along the last
    axis of the other operand that has a known size above one. If there is none, the other operand
    gets an additional axis, which is removed from the result. Nothing changes without such a
    number, or if the other operand has fewer than two axes and no ``MatMul`` computes it.
    """
    for index, other in ((0, 1), (1, 0)):
        number, array = node.inputs[index], node.inputs[other]
        if number is None or array is None or array.shape is None:
            continue
        producer = array.producer()
        if array.shape.rank() < 2 and (producer is None or producer.op_type != "MatMul"):
            # Nothing is fused here, because the operands of a norm have at least two axes.
            continue
        if number.dtype != ir.DataType.DOUBLE or not number.is_initializer():
            continue
        if number.shape is None or any(d != 1 for d in number.shape):
            continue
        sizes = enumerate(array.shape)
        long_axes = [(i, size) for i, size in sizes if isinstance(size, int) and size > 1]
        if long_axes:
            axis, size = long_axes[-1]
            expanded_shape = [size] + [1] * (array.shape.rank() - axis - 1)
            writer.insert_before(node, index, "Expand", expanded_shape, expanded_shape)
        else:
            writer.unsqueeze(node, other, [0])
            writer.squeeze(node, [0])


class _Writer:
    """Writer that inserts nodes into a graph under unused names, and has each constant once."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._numbers: dict[tuple[int, ...], ir.Value] = {}

    @cached_property
    def _names(self) -> Names:
        """The names in use."""
        return Names(ir.convenience.create_value_mapping(self._graph))

    def unsqueeze(self, node: ir.Node, index: int, axes: Sequence[int]) -> None:
        """Insert axes of size one into an operand of a node.

        Nothing happens without axes, or if the shape of the operand is not known.

        Arguments:
            node: the node that reads the operand.
            index: position of the operand.
            axes: positions of the new axes in the new shape, in ascending order.
        """
        value = node.inputs[index]
        if not axes or value is None or value.shape is None:
            return
        shape = list(value.shape)
        for axis in axes:
            shape.insert(axis, 1)
        self.insert_before(node, index, "Unsqueeze", axes, shape)

    def squeeze(self, node: ir.Node, axes: Sequence[int]) -> None:
        """Remove axes of size one from the result of a node, for all its readers and the outputs of
        the graph.

        The new result has the name and the shape that the result had before. Nothing happens
        without axes.
        """
        (unsqueezed,) = node.outputs
        if not axes or node.graph is None:
            return
        squeeze_node = self._node("Squeeze", unsqueezed, axes)
        (result,) = squeeze_node.outputs
        node.graph.insert_after(node, squeeze_node)
        result.name, unsqueezed.name = unsqueezed.name, result.name
        result.shape = ir.Shape(unsqueezed.shape) if unsqueezed.shape is not None else None
        unsqueezed.shape = None
        ir.convenience.replace_all_uses_with(unsqueezed, result, replace_graph_outputs=True)
        squeeze_node.replace_input_with(0, unsqueezed)

    def insert_before(
        self, node: ir.Node, index: int, operator: str, numbers: Sequence[int], shape: Sequence[Any]
    ) -> None:
        """Insert a node between an operand and the node that reads it.

        Arguments:
            node: the node that reads the operand.
            index: position of the operand.
            operator: the ONNX operator to insert.
            numbers: the integers that are its second operand, such as axes.
            shape: the shape of its result.
        """
        value = node.inputs[index]
        assert value is not None
        new_node = self._node(operator, value, numbers)
        new_node.outputs[0].shape = ir.Shape(shape)
        node.prepend(new_node)
        node.replace_input_with(index, new_node.outputs[0])

    def _node(self, operator: str, value: ir.Value, numbers: Sequence[int]) -> ir.Node:
        """Return a new node, in no graph yet, whose operands are a value and an initializer of
        integers."""
        key = tuple(numbers)
        if key not in self._numbers:
            tensor = ir.tensor(np.asarray(key, np.int64), name=self._names.take("axes"))
            self._numbers[key] = ir.val(tensor.name, const_value=tensor)
            self._graph.register_initializer(self._numbers[key])
        name = self._names.take(f"{value.name}_{operator.lower()}")
        outputs = [ir.val(name, value.dtype)]
        return ir.node(operator, [value, self._numbers[key]], outputs=outputs, name=name)
