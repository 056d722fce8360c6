"""Eight bits: a scale for each column of a matrix, and for each tensor of activations."""

import numpy as np
import onnx_ir as ir

from zoo.export.quantise.products import FloatProduct, Floats, Integers

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
