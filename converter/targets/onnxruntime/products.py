"""Matrix products in a form that ONNX Runtime's optimiser leaves right.

Its fusion of transpositions with products (MatmulTransposeFusion, 1.32.0) errs where the operands
differ in their number of axes. A matrix that is turned and multiplied by a vector is taken as if it
were not turned: so a vector becomes a column. And where a conversion stands between the
transposition and the product, which the runtime writes itself around the products of float16, the
transposition is taken out before the fusion finds that it cannot take place: where such a
conversion can be, operands get as many axes. It also finds transpositions that other passes have
brought there from further up.

Before 1.32 the fusion of transpositions with Gemm (GemmTransposeFusion), which is made of a product
of two matrices and a sum, loses a transposition of one operand that is an output of the graph where
the other operand is turned as well. Such matrices are multiplied as a stack of one, no Gemm.

Before 1.32 the fusions of scales with products (MatMulScaleFusion) and of norms (LayerNormFusion)
keep a scale and an epsilon in float32, whatever is computed in. So a float64 number that an array
of several axes is multiplied with, divided by or added to is written once for each entry of an
axis; where none is known to have several, the array gets one more axis, behind which nothing is
fused.
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
"""Operators behind which ONNX Runtime's optimiser may move a transposition that is before them; a
Reshape only where it adds or removes axes of one."""


class MovedNodes(Flag):
    """Nodes that the optimiser may have moved down to a value: transpositions that leave the first
    axis where it is or not, and whether a conversion stood behind one."""

    NO_NODES = 0
    INNER = auto()
    OUTER = auto()
    CONVERTED = auto()


Moves: TypeAlias = dict[ir.Value | None, MovedNodes]

Ranks: TypeAlias = "tuple[int, int] | None"
"""How many axes both operands of a product get, if they have to be others."""


def _reshape_products(ranks: Callable[[ir.Node, Moves], Ranks]) -> Callable[[ir.Model], None]:
    """Give operands of products as many axes as is asked for."""

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
    """Write numbers of float64 in a form that no fusion takes."""
    writer = _Writer(model.graph)
    for node in list(model.graph.all_nodes()):
        if node.op_type in ("Mul", "Div", "Add") and not node.domain:
            _prevent_fusion(node, writer)


def _moves_through(node: ir.Node, moves: Moves) -> MovedNodes:
    if node.op_type not in MOVES_TRANSPOSITIONS or _merges(node):
        return MovedNodes.NO_NODES
    before = reduce(operator.or_, [moves[value] for value in node.inputs], MovedNodes.NO_NODES)
    if node.op_type == "Transpose":
        order = node.attributes.get("perm")
        inner = order is not None and order.as_ints()[0] == 0
        return before | (MovedNodes.INNER if inner else MovedNodes.OUTER)
    if before and node.op_type == "Cast":
        return before | MovedNodes.CONVERTED
    return before | MovedNodes.OUTER if before and _drops_first(node) else before


def _merges(node: ir.Node) -> bool:
    """Whether a reshape does more than to add and remove axes of one."""
    if node.op_type != "Reshape":
        return False
    before, after = node.inputs[0], node.outputs[0]
    if before is None or before.shape is None or after.shape is None:
        return False
    source, target = ([d for d in shape if d != 1] for shape in (before.shape, after.shape))
    return source != target


def _drops_first(node: ir.Node) -> bool:
    """Whether the second axis may become the first."""
    before, after = node.inputs[0], node.outputs[0]
    if before is None or before.shape is None or after.shape is None:
        return True
    if after.shape.rank() >= before.shape.rank():
        return False
    drops_ones = node.op_type in ("Squeeze", "Reshape")
    return before.shape[0] == 1 or not drops_ones


def _rank(value: ir.Value | None) -> int:
    """The number of axes, or zero where it is not known."""
    return 0 if value is None or value.shape is None else value.shape.rank()


@_reshape_products
def vector_to_column(node: ir.Node, moves: Moves) -> Ranks:
    """Product with a vector, unless nothing computed the matrix."""
    left, right = map(_rank, node.inputs)
    matrix = node.inputs[0]
    needs_column = left > 1 and right == 1 and matrix is not None and matrix.producer() is not None
    return (left, 2) if needs_column else None


@_reshape_products
def equalize_ranks(node: ir.Node, moves: Moves) -> Ranks:
    left, right = map(_rank, node.inputs)
    may_lose = any(v is not None and _may_lose_transpose(v, moves[v]) for v in node.inputs)
    return (max(left, right),) * 2 if left != right and may_lose else None


@_reshape_products
def stack_matrices(node: ir.Node, moves: Moves) -> Ranks:
    matrices = all(_rank(v) == 2 for v in node.inputs)
    return (3, 3) if matrices and _may_lose_output(node, moves) else None


def _set_ranks(node: ir.Node, ranks: tuple[int, int], writer: _Writer) -> None:
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
    """Whether both operands may be turned, and one of them is an output of the graph."""
    are_transposed = all(moves[v] for v in node.inputs)
    is_summed = any(use.node.op_type == "Add" for use in node.outputs[0].uses())
    return (
        are_transposed
        and is_summed
        and any(v is not None and v.is_graph_output() for v in node.inputs)
    )


def _may_lose_transpose(value: ir.Value, moved: MovedNodes) -> bool:
    """Whether the fusion may take out a transposition that it cannot take in."""
    converted = MovedNodes.CONVERTED in moved or value.dtype == ir.DataType.FLOAT16
    return converted and MovedNodes.OUTER in moved and _rank(value) >= 3


def _prevent_fusion(node: ir.Node, writer: _Writer) -> None:
    """Repeat a float64 number along the last axis of known size, or put an axis in between."""
    for index, other in ((0, 1), (1, 0)):
        number, array = node.inputs[index], node.inputs[other]
        if number is None or array is None or array.shape is None:
            continue
        producer = array.producer()
        if array.shape.rank() < 2 and (producer is None or producer.op_type != "MatMul"):
            continue  # a norm has two axes
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
    """Adds the nodes, under names that are free."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._numbers: dict[tuple[int, ...], ir.Value] = {}

    @cached_property
    def _names(self) -> Names:
        return Names(ir.convenience.create_value_mapping(self._graph))

    def unsqueeze(self, node: ir.Node, index: int, axes: Sequence[int]) -> None:
        value = node.inputs[index]
        if not axes or value is None or value.shape is None:
            return
        shape = list(value.shape)
        for axis in axes:
            shape.insert(axis, 1)
        self.insert_before(node, index, "Unsqueeze", axes, shape)

    def squeeze(self, node: ir.Node, axes: Sequence[int]) -> None:
        """Take the axes out of the result again, which the node's readers get."""
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
        """Put a node in front of an operand."""
        value = node.inputs[index]
        assert value is not None
        new_node = self._node(operator, value, numbers)
        new_node.outputs[0].shape = ir.Shape(shape)
        node.prepend(new_node)
        node.replace_input_with(index, new_node.outputs[0])

    def _node(self, operator: str, value: ir.Value, numbers: Sequence[int]) -> ir.Node:
        """An operator with whole numbers for its second operand."""
        key = tuple(numbers)
        if key not in self._numbers:
            tensor = ir.tensor(np.asarray(key, np.int64), name=self._names.take("axes"))
            self._numbers[key] = ir.val(tensor.name, const_value=tensor)
            self._graph.register_initializer(self._numbers[key])
        name = self._names.take(f"{value.name}_{operator.lower()}")
        outputs = [ir.val(name, value.dtype)]
        return ir.node(operator, [value, self._numbers[key]], outputs=outputs, name=name)
