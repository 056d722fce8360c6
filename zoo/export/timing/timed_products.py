"""The matrix products and convolutions of a graph: which shapes, and how many of each."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from weights.initializers import Shape
from zoo.export.timing.timed_inputs import Spec

SPATIAL = ("auto_pad", "dilations", "group", "pads", "strides")
"""Attributes of a convolution that say what it computes."""

SUSPECTS = ("MatMul", "Gemm", "Attention", "Conv", "Einsum", "LSTM", "GRU", "RNN")
"""Parts of the names of operators that multiply matrices."""

SECOND = {
    **{"Attention": 1, "Conv": 1, "ConvInteger": 1, "Gemm": 1, "MatMul": 1, "MatMulInteger": 1},
    **{"QLinearConv": 3, "QLinearMatMul": 3},
}
"""ONNX's own operators that are counted, and which input is the second factor. Quantised ones count
as in floats."""

PRODUCTS_IN_A_ROW = 4
"""How many nodes may lie between a weight and its product (casts, transposes, scales)."""


@dataclass(frozen=True)
class TimedProduct:
    """`MatMul` or `Conv` of two tensors; `constant` says that the right one is a weight."""

    op: str
    left: Shape
    right: Shape
    constant: bool
    attributes: tuple[tuple[str, str | int | Shape], ...] = ()
    output: Shape = ()

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        if self.op == "Conv":
            return 2 * math.prod(self.output) * math.prod(self.right[1:])
        batch = math.prod(np.broadcast_shapes(self.left[:-2], self.right[:-2]))
        return 2 * batch * self.left[-2] * self.left[-1] * self.right[-1]


@dataclass(frozen=True)
class Products:
    """Products of a graph; and the operators that may hold more, but are not counted."""

    counts: Counter[TimedProduct] = field(default_factory=Counter)
    uncounted: Counter[str] = field(default_factory=Counter)

    @property
    def flops(self) -> int:
        """Operations of all of them."""
        return sum(product.flops * count for product, count in self.counts.items())


def timed_products(model: ir.Model, specs: Sequence[Spec]) -> Products:
    """Products that one run computes; the model's shapes are settled on the way, in place.

    Bodies of `If`, `Loop` and `Scan` run as often as they like, and are not counted.
    """
    shapes = {spec.name: spec.shape for spec in specs}
    for value in model.graph.inputs:
        value.shape = ir.Shape(shapes.get(str(value.name), value.shape or ()))
    common.ShapeInferencePass()(model)
    products = Products()
    for node in model.graph.all_nodes():
        inner = node.graph is not model.graph
        try:
            if node.op_type in SECOND and node.domain == "" and not inner:
                products.counts.update(_read(node))
                continue
        except UnsettledError:
            pass
        if any(part in node.op_type for part in SUSPECTS):
            products.uncounted[node.op_type] += 1
    return products


class UnsettledError(Exception):
    """Shape inference does not know how large an operand is."""


def _shape(value: ir.Value | None) -> Shape:
    if value is None or value.shape is None or not value.shape.is_static() or 0 in value.shape:
        raise UnsettledError
    return value.shape.numpy()


def _constant(value: ir.Value | None, depth: int = PRODUCTS_IN_A_ROW) -> bool:
    if value is None or value.is_initializer():
        return True
    producer = value.producer()
    if producer is None or not depth:
        return False
    return all(_constant(each, depth - 1) for each in producer.inputs)


def _read(node: ir.Node) -> list[TimedProduct]:
    """What a node of `SECOND` multiplies."""
    if node.op_type == "Attention":
        return _attention(node)
    second = node.inputs[SECOND[node.op_type]]
    left, right = _shape(node.inputs[0]), _shape(second)
    settings: Mapping[str, ir.Attr] = node.attributes
    if "Conv" in node.op_type:
        attributes = tuple((name, settings[name].value) for name in SPATIAL if name in settings)
        sides = left, right, _constant(second)
        return [TimedProduct("Conv", *sides, attributes, _shape(node.outputs[0]))]
    # Only of `Gemm`.
    left = left[::-1] if node.attributes.get_int("transA", 0) else left
    right = right[::-1] if node.attributes.get_int("transB", 0) else right
    # A vector is a matrix with one row, or one column.
    left = left if len(left) > 1 else (1, *left)
    right = right if len(right) > 1 else (*right, 1)
    return [TimedProduct("MatMul", left, right, _constant(second))]


def _attention(node: ir.Node) -> list[TimedProduct]:
    """Queries by keys, and weights by values, each for all heads at once."""
    if any(value is not None for value in node.inputs[4:6]):
        raise UnsettledError
    queries, keys, values = map(_shape, node.inputs[:3])
    if len(queries) == 3:
        heads = [node.attributes.get_int(name, 0) for name in ("q_num_heads", "kv_num_heads")]
        queries, keys, values = (
            (side[0], count, side[1], side[2] // count)
            for side, count in zip((queries, keys, values), (*heads, heads[1]), strict=True)
        )
    batch, heads_, length, width = queries
    # Heads of queries may share those of keys; the products are then as many as queries have.
    scores = TimedProduct("MatMul", queries, (batch, heads_, width, keys[2]), False)
    left = (batch, heads_, length, keys[2])
    return [scores, TimedProduct("MatMul", left, (batch, heads_, keys[2], values[3]), False)]
