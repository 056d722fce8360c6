"""Eight bits with a scale for each row of activations: what a row gets depends on no other."""

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.fixed_columns import ActivationRange, FixedColumns
from zoo.export.quantise.means import AXES_ARE_INPUTS
from zoo.export.quantise.parameters import added
from zoo.export.quantise.products import FloatProduct, products

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
