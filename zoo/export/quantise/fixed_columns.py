"""Eight bits with ranges of activations that are known before the file runs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.columns import Columns
from zoo.export.quantise.parameters import added
from zoo.export.quantise.products import FloatProduct

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
