"""Count the matrix products and convolutions of a graph, by shapes."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from weights.initializers import Shape
from zoo.export.timing.timed_inputs import TimedInput

SPATIAL = ("auto_pad", "dilations", "group", "pads", "strides")
"""Attributes of a convolution that determine the time that it takes."""

SUSPECTS = ("MatMul", "Gemm", "Attention", "Conv", "Einsum", "LSTM", "GRU", "RNN")
"""Parts of the names of operators that multiply matrices."""

SECOND_FACTOR = {
    **{"Attention": 1, "Conv": 1, "ConvInteger": 1, "Gemm": 1, "MatMul": 1, "MatMulInteger": 1},
    **{"QLinearConv": 3, "QLinearMatMul": 3},
}
"""ONNX operators that are counted, with the index of the input that is the second factor. Quantized
operators count as floating-point ones."""

MAX_NODES_TO_WEIGHT = 4
"""Largest number of nodes between a weight and its product (casts, transposes, scales)."""


@dataclass(frozen=True)
class TimedProduct:
    """Shapes of a product of two tensors, which determine the time that it takes.

    Arguments:
        op: `MatMul` or `Conv`.
        left: shape of the first factor.
        right: shape of the second factor.
        constant: whether the second factor is a weight.
        attributes: names and values of the attributes of a convolution.
        output: shape of the result of a convolution; empty for a matrix product.
    """

    op: str
    left: Shape
    right: Shape
    constant: bool
    attributes: tuple[tuple[str, str | int | Shape], ...] = ()
    output: Shape = ()

    @property
    def flops(self) -> int:
        """Number of multiplications and additions together."""
        if self.op == "Conv":
            return 2 * math.prod(self.output) * math.prod(self.right[1:])
        batch = math.prod(np.broadcast_shapes(self.left[:-2], self.right[:-2]))
        return 2 * batch * self.left[-2] * self.left[-1] * self.right[-1]


@dataclass(frozen=True)
class Products:
    """Products that a graph computes.

    Arguments:
        counts: number of products of the same shapes.
        uncounted: number of nodes of each operator that may compute products but was not analysed.
    """

    counts: Counter[TimedProduct] = field(default_factory=Counter)
    uncounted: Counter[str] = field(default_factory=Counter)

    @property
    def flops(self) -> int:
        """Number of multiplications and additions of all products."""
        return sum(product.flops * count for product, count in self.counts.items())


def timed_products(model: ir.Model, specs: Sequence[TimedInput]) -> Products:
    """Return the matrix products and convolutions that one run of a model computes.

    `specs` fix the shapes of its inputs, in place. Products in the bodies of `If`, `Loop` and
    `Scan` are listed as not analysed, because the number of their runs is not known. So are
    products of unknown shapes, and other operators with a name of `SUSPECTS` in theirs.
    """
    shapes = {spec.name: spec.shape for spec in specs}
    for value in model.graph.inputs:
        value.shape = ir.Shape(shapes.get(str(value.name), value.shape or ()))
    common.ShapeInferencePass()(model)
    products = Products()
    for node in model.graph.all_nodes():
        is_nested = node.graph is not model.graph
        try:
            if node.op_type in SECOND_FACTOR and node.domain == "" and not is_nested:
                products.counts.update(_read_products(node))
                continue
        except UnknownShapeError:
            pass
        if any(part in node.op_type for part in SUSPECTS):
            products.uncounted[node.op_type] += 1
    return products


class UnknownShapeError(Exception):
    """Shape inference could not determine the shape of an operand."""


def _static_shape(value: ir.Value | None) -> Shape:
    """Return the shape of a value if all its dimensions are known and not zero.

    **Raises** `UnknownShapeError` otherwise, also for a missing input (None).
    """
    if value is None or value.shape is None or not value.shape.is_static() or 0 in value.shape:
        raise UnknownShapeError
    return value.shape.numpy()


def _is_constant(value: ir.Value | None, depth: int = MAX_NODES_TO_WEIGHT) -> bool:
    """Return whether a value is computed from initializers alone, through at most `depth` nodes.

    A missing input (None) counts as constant.
    """
    if value is None or value.is_initializer():
        return True
    producer = value.producer()
    if producer is None or not depth:
        return False
    return all(_is_constant(operand, depth - 1) for operand in producer.inputs)


def _read_products(node: ir.Node) -> list[TimedProduct]:
    """Return the products that a node of `SECOND_FACTOR` computes: one, or two for `Attention`.

    **Raises** `UnknownShapeError` if the shape of a factor is not known.
    """
    if node.op_type == "Attention":
        return _read_attention(node)
    second = node.inputs[SECOND_FACTOR[node.op_type]]
    left, right = _static_shape(node.inputs[0]), _static_shape(second)
    settings: Mapping[str, ir.Attr] = node.attributes
    if "Conv" in node.op_type:
        attributes = tuple((name, settings[name].value) for name in SPATIAL if name in settings)
        factors = left, right, _is_constant(second)
        return [TimedProduct("Conv", *factors, attributes, _static_shape(node.outputs[0]))]
    # Only `Gemm` has these attributes.
    left = left[::-1] if node.attributes.get_int("transA", 0) else left
    right = right[::-1] if node.attributes.get_int("transB", 0) else right
    # A vector on the left is a matrix with one row, and one on the right has one column.
    left = left if len(left) > 1 else (1, *left)
    right = right if len(right) > 1 else (*right, 1)
    return [TimedProduct("MatMul", left, right, _is_constant(second))]


def _read_attention(node: ir.Node) -> list[TimedProduct]:
    """Return the two products of an `Attention` node for all heads: queries by keys, and weights by
    values.

    **Raises** `UnknownShapeError` if a shape is not known or the node has past keys and values.
    """
    if any(value is not None for value in node.inputs[4:6]):
        raise UnknownShapeError
    queries, keys, values = map(_static_shape, node.inputs[:3])
    if len(queries) == 3:
        heads = [node.attributes.get_int(name, 0) for name in ("q_num_heads", "kv_num_heads")]
        queries, keys, values = (
            (side[0], count, side[1], side[2] // count)
            for side, count in zip((queries, keys, values), (*heads, heads[1]), strict=True)
        )
    batch, heads_, length, width = queries
    # Several heads of queries may share one head of keys, but every head of queries has a product.
    scores = TimedProduct("MatMul", queries, (batch, heads_, width, keys[2]), False)
    left = (batch, heads_, length, keys[2])
    return [scores, TimedProduct("MatMul", left, (batch, heads_, keys[2], values[3]), False)]
