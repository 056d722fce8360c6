"""What the activations are that matrices meet, over many pictures of which none is kept."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

import converter
from zoo.errors import BadRequest
from zoo.export.quantise.means import mean_of_rows
from zoo.export.quantise.products import Floats, products
from zoo.runtime import session

BINS = 2049
"""Equal parts of a histogram; zero is in the middle of one."""

Counts: TypeAlias = NDArray[np.int64]
Batches: TypeAlias = Callable[[], Iterable[Floats]]


@dataclass(frozen=True)
class Observed:
    """Of one activation: its least and its largest number, the means of its channels, and how many
    numbers lie in each of the `BINS` equal parts of `[-reach, reach]`."""

    low: float
    high: float
    means: Floats
    counts: Counts

    @property
    def reach(self) -> float:
        """Its largest magnitude."""
        return max(-self.low, self.high)


def observe(model: ir.Model, batches: Batches) -> dict[str, Observed]:
    """By the names of the matrices; `model` is in float32, and `batches` are asked for twice.

    **Raises** `BadRequest` where an activation is no finite number.
    """
    readers = {each.name: str(each.left.name) for each in products(model.graph)}
    extremes = _extremes(model.clone(), batches())
    reaches = {name: max(-low, high) for name, (low, high, _) in extremes.items()}
    if not np.isfinite([*reaches.values()]).all():
        raise BadRequest(
            "these pictures lead to values that are NaN or infinite, of which there is no range: "
            "leave out calibrate, or look for such values in the weights."
        )
    counts = _histograms(model.clone(), batches(), reaches)
    found = {name: Observed(*extremes[name], counts[name]) for name in extremes}
    return {matrix: found[left] for matrix, left in readers.items()}


def _extremes(model: ir.Model, batches: Iterable[Floats]) -> dict[str, tuple[float, float, Floats]]:
    """The least and the largest number and the means, by the activation's name; the model is used
    up."""
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
    found = {}
    for index, value in enumerate(widths):
        low, high, mean = ([run[3 * index + part] for run in runs] for part in range(3))
        found[str(value.name)] = float(np.min(low)), float(np.max(high)), np.mean(mean, axis=0)
    return found


def _reduced(graph: ir.Graph, value: ir.Value, operator: str) -> ir.Value:
    """The least or the largest number of a value."""
    node = ir.node(operator, [value], {"keepdims": 0})
    graph.append(node)
    (result,) = node.outputs
    result.name, result.type = f"{value.name}_{operator}", ir.TensorType(ir.DataType.FLOAT)
    result.shape = ir.Shape([])
    return result


def _histograms(
    model: ir.Model, batches: Iterable[Floats], reaches: Mapping[str, float]
) -> dict[str, Counts]:
    """By the activation's name. The activations of one batch are in memory."""
    graph = model.graph
    values = dict.fromkeys(each.left for each in products(graph))
    graph.outputs.clear()
    graph.outputs.extend(values)
    live, counts = session(model), {name: np.zeros(BINS, np.int64) for name in reaches}
    for pixels in batches:
        for name, value in converter.run(live, [pixels]).items():
            counts[name] += histogram(value, reaches[name])
    return counts


def histogram(values: Floats, reach: float) -> Counts:
    """As `numpy.histogram` of `[-reach, reach]`, in a fifth of the time.

    A number at the edge of two parts may be counted in the other one.
    """
    scaled = (values.reshape(-1) + np.float32(reach)) * np.float32(BINS / 2 / (reach or 1))
    return np.bincount(scaled.astype(np.int32).clip(0, BINS - 1), minlength=BINS)
