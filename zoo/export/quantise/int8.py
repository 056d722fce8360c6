"""Eight bits a weight, with a scale for each column; activations are scaled by tensor or by row."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.activations import AXES_ARE_INPUTS
from zoo.export.quantise.products import FloatProduct, Floats, Integers, added, products

LARGEST_INTEGER = 63
"""The largest of the integers. Processors without VNNI, and WebAssembly's relaxed instructions, add
two products of 8 bits in 16, which overflow with all 8."""


class Columns:
    """Operators of ONNX's own, which ONNX Runtime computes as one."""

    domain = ""
    operator = "MatMulInteger"
    dtype = ir.DataType.INT8

    def stored(self, inputs: int, outputs: int) -> tuple[int, ...]:
        return inputs, outputs

    def scales(self, matrix: Floats) -> Floats:
        """Scales for the largest number of each column."""
        largest = abs(matrix).max(0, initial=0)
        return np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(LARGEST_INTEGER)

    def integers(self, matrix: Floats, scales: Floats) -> Integers:
        return np.rint(matrix / scales).astype(np.int8)

    def rounded(self, matrix: Floats, scales: Floats) -> Floats:
        return np.rint(matrix / scales) * scales

    def nodes(self, product: FloatProduct, integers: ir.Value, scales: ir.Value) -> list[ir.Node]:
        """Activations of several products are quantised once."""
        name, left = product.result.name, product.left
        readers = (user for user, _ in left.uses())
        shared = next((user for user in readers if user.op_type == "DynamicQuantizeLinear"), None)
        taken = shared or ir.node("DynamicQuantizeLinear", [left], num_outputs=3)
        levels, step, zero = taken.outputs
        if shared is None:
            for value, end in zip(taken.outputs, ("quantized", "scale", "zero_point"), strict=True):
                value.name = f"{left.name}_{end}"
        sums = ir.node(self.operator, [levels, integers, zero])
        floats = ir.node("Cast", sums.outputs, {"to": ir.DataType.FLOAT.value})
        both = ir.node("Mul", [step, scales])
        result = ir.node("Mul", [floats.outputs[0], both.outputs[0]])
        for node, end in ((sums, "integers"), (floats, "steps"), (both, "scale")):
            node.outputs[0].name = f"{name}_{end}"
        return [*([] if shared else [taken]), sums, floats, both, result]


LEVELS = 255
"""Steps from the lowest to the highest integer of eight bits."""


@dataclass(frozen=True)
class ActivationRange:
    """Range in which an activation is held in eight bits; zero is in it."""

    low: float
    high: float

    @property
    def step(self) -> np.float32:
        """The size of a step; 1 where all is zero."""
        return np.float32((self.high - self.low) / LEVELS or 1)

    @property
    def zero(self) -> np.uint8:
        """The integer that stands for zero."""
        return np.uint8(np.rint(-self.low / self.step))


class FixedColumns(Columns):
    """`QuantizeLinear` and `DequantizeLinear` around products of floats.

    Runtimes that know the pattern multiply in integers: ONNX Runtime by the operator that it makes
    of `MatMulInteger` as well. `ranges` are the activations', by the matrix's name.
    """

    operator = "DequantizeLinear"

    def __init__(self, graph: ir.Graph, ranges: Mapping[str, ActivationRange]) -> None:
        self.graph, self.ranges = graph, ranges

    def nodes(self, product: FloatProduct, integers: ir.Value, scales: ir.Value) -> list[ir.Node]:
        """Activations of several products are quantised once."""
        name, left = product.result.name, product.left
        readers = (user for user, _ in left.uses())
        shared = next((user for user in readers if user.op_type == "QuantizeLinear"), None)
        taken = shared or self._quantise(left, self.ranges[product.name])
        operand = ir.node(self.operator, [taken.outputs[0], *taken.inputs[1:]])
        matrix = ir.node(self.operator, [integers, scales], {"axis": 1})
        for node, end in ((operand, "operand"), (matrix, "matrix")):
            node.outputs[0].name = f"{name}_{end}"
        result = ir.node("MatMul", [operand.outputs[0], matrix.outputs[0]])
        return [*([] if shared else [taken]), operand, matrix, result]

    def _quantise(self, left: ir.Value, activations: ActivationRange) -> ir.Node:
        numbers = {"scale": activations.step, "zero_point": activations.zero}
        constants = [
            added(self.graph, f"{left.name}_{end}", np.asarray(number))
            for end, number in numbers.items()
        ]
        node = ir.node("QuantizeLinear", [left, *constants])
        node.outputs[0].name = f"{left.name}_quantized"
        return node


UNIT = ActivationRange(-128 / 127, 1.0)
"""Of a row over its largest magnitude: steps of 1/127, and zero in the middle."""

LEAST = np.float32(1e-30)
"""In place of the largest magnitude of a row of zeros."""


class ScaledRows(FixedColumns):
    """Rows are divided by their largest magnitude before a product, and multiplied by it behind."""

    def __init__(self, model: ir.Model) -> None:
        super().__init__(model.graph, {each.name: UNIT for each in products(model.graph)})
        self.axes = np.array([-1])
        self.late = model.opset_imports[""] >= AXES_ARE_INPUTS
        self.rows: dict[ir.Value, tuple[ir.Value, ir.Value]] = {}

    def nodes(self, product: FloatProduct, integers: ir.Value, scales: ir.Value) -> list[ir.Node]:
        """Rows of several products are divided once."""
        before = [] if product.left in self.rows else self._divide(product.left)
        largest, ratios = self.rows[product.left]
        inner = super().nodes(replace(product, left=ratios), integers, scales)
        inner[-1].outputs[0].name = f"{product.result.name}_ratios"
        return [*before, *inner, ir.node("Mul", [inner[-1].outputs[0], largest])]

    def _divide(self, left: ir.Value) -> list[ir.Node]:
        name = left.name
        axes = [added(self.graph, f"{name}_row_axes", self.axes)] if self.late else []
        attributes = {"keepdims": 1} | ({} if self.late else {"axes": self.axes.tolist()})
        size = ir.node("Abs", [left])
        top = ir.node("ReduceMax", [size.outputs[0], *axes], attributes)
        least = added(self.graph, f"{name}_row_least", np.asarray(LEAST))
        largest = ir.node("Max", [top.outputs[0], least])
        ratios = ir.node("Div", [left, largest.outputs[0]])
        made = {"magnitude": size, "row_top": top, "row_scale": largest, "row_ratios": ratios}
        for end, node in made.items():
            node.outputs[0].name = f"{name}_{end}"
        self.rows[left] = largest.outputs[0], ratios.outputs[0]
        return list(made.values())
