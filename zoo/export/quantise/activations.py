"""Statistics of the activations that matrices are multiplied with: means, ranges and quantiles."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

import converter
from zoo.common.errors import BadRequest
from zoo.common.runtime import session
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


@dataclass(frozen=True)
class ActivationStatistics:
    """Range of one activation: its least and its largest number, and the means of its channels."""

    low: float
    high: float
    means: Floats


def observe(
    model: ir.Model, batches: Iterable[Sequence[NDArray[Any]]]
) -> dict[str, ActivationStatistics]:
    """Ranges by the names of the matrices, over batches of all inputs; `model` is in float32.

    **Raises** `BadRequest` where an activation is no finite number.
    """
    readers = {each.name: str(each.left.name) for each in products(model.graph)}
    ranges = _extremes(model.clone(), batches)
    if not np.isfinite(
        [number for each in ranges.values() for number in (each.low, each.high)]
    ).all():
        raise BadRequest(
            "these pictures lead to values that are NaN or infinite, of which there is no range: "
            "leave out calibrate, or look for such values in the weights."
        )
    return {matrix: ranges[left] for matrix, left in readers.items()}


def _extremes(
    model: ir.Model, batches: Iterable[Sequence[NDArray[Any]]]
) -> dict[str, ActivationStatistics]:
    """By the activation's name; the model is used up."""
    graph = model.graph
    widths = {each.left: each.shape[0] for each in products(graph)}
    ends = [[_reduced(graph, value, op) for op in ("ReduceMin", "ReduceMax")] for value in widths]
    means = [mean_of_rows(model, value, width) for value, width in widths.items()]
    graph.outputs.clear()
    graph.outputs.extend(
        value for each, mean in zip(ends, means, strict=True) for value in (*each, mean)
    )
    live = session(model)
    runs = [[*converter.run(live, inputs).values()] for inputs in batches]
    ranges = {}
    for index, value in enumerate(widths):
        low, high, mean = ([run[3 * index + part] for run in runs] for part in range(3))
        extremes = float(np.min(low)), float(np.max(high))
        ranges[str(value.name)] = ActivationStatistics(*extremes, np.mean(mean, axis=0))
    return ranges


def _reduced(graph: ir.Graph, value: ir.Value, operator: str) -> ir.Value:
    """The least or the largest number of a value."""
    node = ir.node(operator, [value], {"keepdims": 0})
    graph.append(node)
    (result,) = node.outputs
    result.name, result.type = f"{value.name}_{operator}", ir.TensorType(ir.DataType.FLOAT)
    result.shape = ir.Shape([])
    return result
