"""What the activations are that matrices meet, over many pictures of which none is kept."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

import converter
from zoo.common.errors import BadRequest
from zoo.common.runtime import session
from zoo.export.quantise.means import mean_of_rows
from zoo.export.quantise.products import Floats, products


@dataclass(frozen=True)
class Observed:
    """Range of one activation: its least and its largest number, and the means of its channels."""

    low: float
    high: float
    means: Floats


def observe(model: ir.Model, batches: Iterable[Floats]) -> dict[str, Observed]:
    """Ranges by the names of the matrices; `model` is in float32.

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


def _extremes(model: ir.Model, batches: Iterable[Floats]) -> dict[str, Observed]:
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
    runs = [[*converter.run(live, [pixels]).values()] for pixels in batches]
    ranges = {}
    for index, value in enumerate(widths):
        low, high, mean = ([run[3 * index + part] for run in runs] for part in range(3))
        extremes = float(np.min(low)), float(np.max(high))
        ranges[str(value.name)] = Observed(*extremes, np.mean(mean, axis=0))
    return ranges


def _reduced(graph: ir.Graph, value: ir.Value, operator: str) -> ir.Value:
    """The least or the largest number of a value."""
    node = ir.node(operator, [value], {"keepdims": 0})
    graph.append(node)
    (result,) = node.outputs
    result.name, result.type = f"{value.name}_{operator}", ir.TensorType(ir.DataType.FLOAT)
    result.shape = ir.Shape([])
    return result
