"""What the activations that matrices meet are in the mean, on a photograph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

import converter
from zoo.export.quantise.products import Floats, products

TURNS = (np.s_[..., ::-1, :], np.s_[..., ::-1, ::-1])
"""Upside down, mirrored or not; texts in another order, and backwards. Files are checked on
photographs that stand as they were taken, so what they are checked on has no part in how they are
made."""

AXES_ARE_INPUTS = 18
"""The opset from which `ReduceMean` takes its axes as an input."""


def means(model: ir.Model, inputs: Sequence[NDArray[Any]]) -> dict[str, Floats]:
    """Means by the names of the matrices; `model` is in float32, and used up."""
    # ONNX Runtime is imported only where something runs in it.
    from zoo.common.runtime import session

    graph = model.graph
    readers = [(each.name, each.left, each.shape[0]) for each in products(graph)]
    widths = {left: width for _, left, width in readers}
    averages = {left: mean_of_rows(model, left, width) for left, width in widths.items()}
    graph.outputs.clear()
    graph.outputs.extend(averages.values())
    live = session(model)
    first, second = (converter.run(live, [each[turn] for each in inputs]) for turn in TURNS)
    both = {left: (first[str(v.name)] + second[str(v.name)]) / 2 for left, v in averages.items()}
    return {name: both[left] for name, left, _ in readers}


def mean_of_rows(model: ir.Model, value: ir.Value, width: int) -> ir.Value:
    """The mean of a value over all its axes but the last."""
    axes, sides = (ir.Value(name=f"{value.name}_{end}") for end in ("axes", "sides"))
    axes.const_value, sides.const_value = ir.tensor([0]), ir.tensor([-1, width])
    rows = ir.node("Reshape", [value, sides])
    late = model.opset_imports[""] >= AXES_ARE_INPUTS
    attributes = {"keepdims": 0} | ({} if late else {"axes": [0]})
    mean = ir.node("ReduceMean", [*rows.outputs, *([axes] if late else [])], attributes)
    for each in (axes, sides) if late else (sides,):
        model.graph.initializers.add(each)
    model.graph.extend([rows, mean])
    (result,) = mean.outputs
    result.name, result.type = f"{value.name}_mean", ir.TensorType(ir.DataType.FLOAT)
    result.shape = ir.Shape([width])
    return result
