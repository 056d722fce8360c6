"""Measure the activations that matrices are multiplied by: means and ranges."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

import converter
from zoo.common.errors import BadRequest
from zoo.export.quantise.products import Floats, find_products

FLIPS = (np.s_[..., ::-1, :], np.s_[..., ::-1, ::-1])
"""Indices that flip images upside down, with and without mirroring, and that reorder and reverse
texts. Files are verified on the photographs as they were taken, so that a file is not verified on
the same inputs that it was made with."""

AXES_ARE_INPUTS = 18
"""Opset from which `ReduceMean` takes its axes as an input."""


def measure_means(model: ir.Model, inputs: Sequence[NDArray[Any]]) -> dict[str, Floats]:
    """Return the mean of each channel of the activations that a parameter matrix is multiplied by.

    The keys are the names of the matrices. `inputs` are sample arrays, one for each input of the
    model. The model runs on two flipped versions of them (see `FLIPS`), and the result is the
    average of both runs. The float32 `model` is changed in place: its outputs are replaced.
    """
    # ONNX Runtime is imported only where something runs in it.
    from zoo.common.runtime import session

    graph = model.graph
    readers = [(product.name, product.left, product.shape[0]) for product in find_products(graph)]
    widths = {left: width for _, left, width in readers}
    averages = {left: add_channel_means(model, left, width) for left, width in widths.items()}
    graph.outputs.clear()
    graph.outputs.extend(averages.values())
    runner = session(model)
    first_results, second_results = (
        converter.run(runner, [product[flip] for product in inputs]) for flip in FLIPS
    )
    averaged = {
        left: (first_results[str(v.name)] + second_results[str(v.name)]) / 2
        for left, v in averages.items()
    }
    return {name: averaged[left] for name, left, _ in readers}


def add_channel_means(model: ir.Model, value: ir.Value, width: int) -> ir.Value:
    """Add nodes to the model that compute the mean of a value over all axes but the last. Return
    the result.

    `width` is the size of the last axis.
    """
    axes, shape = (ir.Value(name=f"{value.name}_{end}") for end in ("axes", "sides"))
    axes.const_value, shape.const_value = ir.tensor([0]), ir.tensor([-1, width])
    rows = ir.node("Reshape", [value, shape])
    axes_are_inputs = model.opset_imports[""] >= AXES_ARE_INPUTS
    attributes = {"keepdims": 0} | ({} if axes_are_inputs else {"axes": [0]})
    mean = ir.node("ReduceMean", [*rows.outputs, *([axes] if axes_are_inputs else [])], attributes)
    for initializer in (axes, shape) if axes_are_inputs else (shape,):
        model.graph.initializers.add(initializer)
    model.graph.extend([rows, mean])
    (result,) = mean.outputs
    result.name, result.type = f"{value.name}_mean", ir.TensorType(ir.DataType.FLOAT)
    result.shape = ir.Shape([width])
    return result


@dataclass(frozen=True)
class ActivationStatistics:
    """Statistics of an activation over calibration pictures.

    Arguments:
        low: smallest number.
        high: largest number.
        means: mean of each channel.
    """

    low: float
    high: float
    means: Floats


def measure_ranges(
    model: ir.Model, batches: Iterable[Sequence[NDArray[Any]]]
) -> dict[str, ActivationStatistics]:
    """Run a float32 model on batches of inputs, and return statistics of the activations that
    parameter matrices are multiplied by.

    The keys are the names of the matrices. The means are averages of the batches' means. The model
    is not changed. `batches` must not be empty.

    **Raises** `BadRequest` if an activation is NaN or infinite.
    """
    readers = {item.name: str(item.left.name) for item in find_products(model.graph)}
    ranges = _measure_statistics(model.clone(), batches)
    if not np.isfinite(
        [number for item in ranges.values() for number in (item.low, item.high)]
    ).all():
        raise BadRequest(
            "these pictures lead to activations that are NaN or infinite, which have no range: "
            "leave out calibrate, or look for such values in the weights."
        )
    return {matrix: ranges[left] for matrix, left in readers.items()}


def _measure_statistics(
    model: ir.Model, batches: Iterable[Sequence[NDArray[Any]]]
) -> dict[str, ActivationStatistics]:
    """Run a float32 model on batches of inputs, and return statistics of the activations that
    parameter matrices are multiplied by.

    The keys are the names of the activations. The model is changed in place: its outputs are
    replaced.
    """
    graph = model.graph
    widths = {item.left: item.shape[0] for item in find_products(graph)}
    ends = [
        [_add_reduction(graph, value, op) for op in ("ReduceMin", "ReduceMax")] for value in widths
    ]
    mean_values = [add_channel_means(model, value, width) for value, width in widths.items()]
    graph.outputs.clear()
    graph.outputs.extend(
        value for item, mean in zip(ends, mean_values, strict=True) for value in (*item, mean)
    )
    from zoo.common.runtime import session

    runner = session(model)
    runs = [[*converter.run(runner, inputs).values()] for inputs in batches]
    ranges = {}
    for index, value in enumerate(widths):
        low, high, mean = ([run[3 * index + part] for run in runs] for part in range(3))
        extremes = float(np.min(low)), float(np.max(high))
        ranges[str(value.name)] = ActivationStatistics(*extremes, np.mean(mean, axis=0))
    return ranges


def _add_reduction(graph: ir.Graph, value: ir.Value, operator: str) -> ir.Value:
    """Add a node to the graph that reduces a value to one number, its smallest (`ReduceMin`) or
    largest (`ReduceMax`). Return the result."""
    node = ir.node(operator, [value], {"keepdims": 0})
    graph.append(node)
    (result,) = node.outputs
    result.name, result.type = f"{value.name}_{operator}", ir.TensorType(ir.DataType.FLOAT)
    result.shape = ir.Shape([])
    return result
