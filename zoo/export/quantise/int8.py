"""Quantize matrices to eight bits, with a scale for each column. Activations are scaled by tensor
or by row."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.activations import AXES_ARE_INPUTS
from zoo.export.quantise.products import (
    FloatProduct,
    Floats,
    IntegerMatrix,
    add_parameter,
    find_products,
)

MAX_INTEGER = 63
"""Largest magnitude of the integers, which therefore take 7 bits. Processors without VNNI, and
WebAssembly's relaxed instructions, add two products of 8 bits in 16 bits, which would overflow with
all 8."""


class Columns:
    """Storage of a matrix for ONNX's `MatMulInteger`: eight bits, with a scale for each column.

    Activations are quantized by `DynamicQuantizeLinear`, which computes one scale for each tensor.
    ONNX Runtime fuses both operators into one.
    """

    domain = ""
    operator = "MatMulInteger"
    dtype = ir.DataType.INT8

    def stored_shape(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Return the shape of the stored integers, `[inputs, outputs]`."""
        return inputs, outputs

    def scales(self, matrix: Floats) -> Floats:
        """Return the scale of each column, by which its largest magnitude becomes `MAX_INTEGER`.
        The scale of a column of zeros is `1 / MAX_INTEGER`."""
        largest = abs(matrix).max(0, initial=0)
        return np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(MAX_INTEGER)

    def to_integers(self, matrix: Floats, scales: Floats) -> IntegerMatrix:
        """Return the integers to store: the matrix divided by its scales, and rounded."""
        return np.rint(matrix / scales).astype(np.int8)

    def round_matrix(self, matrix: Floats, scales: Floats) -> Floats:
        """Return the matrix that the stored integers stand for, as float32 numbers.

        Each number of `matrix` becomes the nearest multiple of the scale of its column.
        """
        return np.rint(matrix / scales) * scales

    def emit_product(
        self, product: FloatProduct, integers: ir.Value, scales: ir.Value
    ) -> list[ir.Node]:
        """Return the new nodes that quantize the activation and multiply it by the stored matrix.

        If another product has quantized the same activation already, its node is used again and not
        returned.
        """
        name, left = product.result.name, product.left
        readers = (user for user, _ in left.uses())
        shared = next((user for user in readers if user.op_type == "DynamicQuantizeLinear"), None)
        quantize = shared or ir.node("DynamicQuantizeLinear", [left], num_outputs=3)
        levels, step, zero = quantize.outputs
        if shared is None:
            for value, end in zip(
                quantize.outputs, ("quantized", "scale", "zero_point"), strict=True
            ):
                value.name = f"{left.name}_{end}"
        sums = ir.node(self.operator, [levels, integers, zero])
        floats = ir.node("Cast", sums.outputs, {"to": ir.DataType.FLOAT.value})
        combined = ir.node("Mul", [step, scales])
        result = ir.node("Mul", [floats.outputs[0], combined.outputs[0]])
        for node, end in ((sums, "integers"), (floats, "steps"), (combined, "scale")):
            node.outputs[0].name = f"{name}_{end}"
        return [*([] if shared else [quantize]), sums, floats, combined, result]


LEVELS = 255
"""Number of steps from the lowest to the highest integer of eight bits."""


@dataclass(frozen=True)
class ActivationRange:
    """Range of the numbers that eight bits represent, from `low` to `high`. It contains zero."""

    low: float
    high: float

    @property
    def step(self) -> np.float32:
        """Difference between two neighbouring numbers, or 1 if the range is empty."""
        return np.float32((self.high - self.low) / LEVELS or 1)

    @property
    def zero(self) -> np.uint8:
        """Integer that stands for zero."""
        return np.uint8(np.rint(-self.low / self.step))


class FixedColumns(Columns):
    """Storage of a matrix as in `Columns`, for activations whose ranges are fixed in the file.

    The products are written with floats, between `QuantizeLinear` and `DequantizeLinear`. Runtimes
    that recognize this pattern multiply integers: ONNX Runtime uses the same kernel as for
    `MatMulInteger`.

    **Arguments:**

    - `graph`: the graph that the scales of activations are added to.
    - `ranges`: range of the activation that each matrix is multiplied by, by the name of the
      matrix. Every matrix of a product must have one.
    """

    operator = "DequantizeLinear"

    def __init__(self, graph: ir.Graph, ranges: Mapping[str, ActivationRange]) -> None:
        self.graph, self.ranges = graph, ranges

    def emit_product(
        self, product: FloatProduct, integers: ir.Value, scales: ir.Value
    ) -> list[ir.Node]:
        """Return the new nodes that quantize the activation and multiply it by the stored matrix.

        If another product has quantized the same activation already, its node is used again and not
        returned. Otherwise the scale and zero point are added to the graph.
        """
        name, left = product.result.name, product.left
        readers = (user for user, _ in left.uses())
        shared = next((user for user in readers if user.op_type == "QuantizeLinear"), None)
        quantize = shared or self._quantise(left, self.ranges[product.name])
        operand = ir.node(self.operator, [quantize.outputs[0], *quantize.inputs[1:]])
        matrix = ir.node(self.operator, [integers, scales], {"axis": 1})
        for node, end in ((operand, "operand"), (matrix, "matrix")):
            node.outputs[0].name = f"{name}_{end}"
        result = ir.node("MatMul", [operand.outputs[0], matrix.outputs[0]])
        return [*([] if shared else [quantize]), operand, matrix, result]

    def _quantise(self, left: ir.Value, activations: ActivationRange) -> ir.Node:
        """Return a node that quantizes an activation in a fixed range. Its scale and zero point are
        added to the graph."""
        numbers = {"scale": activations.step, "zero_point": activations.zero}
        constants = [
            add_parameter(self.graph, f"{left.name}_{end}", np.asarray(number))
            for end, number in numbers.items()
        ]
        node = ir.node("QuantizeLinear", [left, *constants])
        node.outputs[0].name = f"{left.name}_quantized"
        return node


UNIT_RANGE = ActivationRange(-128 / 127, 1.0)
"""Range of a row divided by its largest magnitude: steps of 1/127, with zero in the middle."""

MIN_MAGNITUDE = np.float32(1e-30)
"""Smallest divisor of a row, for rows of zeros."""


class ScaledRows(FixedColumns):
    """Storage of a matrix as in `Columns`, for activations with a scale for each row.

    Each row of an activation is divided by its largest magnitude before the product, and the row of
    the result is multiplied by it. The result for one image then does not depend on other images of
    the batch. `model` is the model that is going to be quantized.
    """

    def __init__(self, model: ir.Model) -> None:
        super().__init__(
            model.graph, {product.name: UNIT_RANGE for product in find_products(model.graph)}
        )
        self.axes = np.array([-1])
        self.axes_are_inputs = model.opset_imports[""] >= AXES_ARE_INPUTS
        self.rows: dict[ir.Value, tuple[ir.Value, ir.Value]] = {}

    def emit_product(
        self, product: FloatProduct, integers: ir.Value, scales: ir.Value
    ) -> list[ir.Node]:
        """Return the new nodes of a product with scaled rows.

        They divide the rows of the activation, multiply them by the stored matrix, and multiply the
        rows of the result by the divisors. If another product has divided the rows of the same
        activation already, its nodes are used again and not returned.
        """
        division = [] if product.left in self.rows else self._divide(product.left)
        largest, ratios = self.rows[product.left]
        product_nodes = super().emit_product(replace(product, left=ratios), integers, scales)
        product_nodes[-1].outputs[0].name = f"{product.result.name}_ratios"
        return [*division, *product_nodes, ir.node("Mul", [product_nodes[-1].outputs[0], largest])]

    def _divide(self, left: ir.Value) -> list[ir.Node]:
        """Return the nodes that divide each row of an activation by its largest magnitude.

        A row of zeros is divided by `MIN_MAGNITUDE`. The values of the divisors and of the
        quotients are stored in `self.rows`, for `emit_product`.
        """
        name = left.name
        axes = (
            [add_parameter(self.graph, f"{name}_row_axes", self.axes)]
            if self.axes_are_inputs
            else []
        )
        attributes = {"keepdims": 1} | (
            {} if self.axes_are_inputs else {"axes": self.axes.tolist()}
        )
        magnitude = ir.node("Abs", [left])
        row_maximum = ir.node("ReduceMax", [magnitude.outputs[0], *axes], attributes)
        floor = add_parameter(self.graph, f"{name}_row_least", np.asarray(MIN_MAGNITUDE))
        largest = ir.node("Max", [row_maximum.outputs[0], floor])
        ratios = ir.node("Div", [left, largest.outputs[0]])
        new_nodes = {
            "magnitude": magnitude,
            "row_top": row_maximum,
            "row_scale": largest,
            "row_ratios": ratios,
        }
        for end, node in new_nodes.items():
            node.outputs[0].name = f"{name}_{end}"
        self.rows[left] = largest.outputs[0], ratios.outputs[0]
        return list(new_nodes.values())
