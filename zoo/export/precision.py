"""Write files of lower precision from a file in float32."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

import converter
from converter.model.streaming import WrittenCallback
from converter.opsets import DEFAULT_TARGET
from zoo.artifacts.choices import Precision, Scales, Target
from zoo.export.precisions import PRECISIONS, Integers
from zoo.export.quantise.activations import measure_means
from zoo.export.quantise.int4 import Blocks
from zoo.export.quantise.int8 import Columns, ScaledRows
from zoo.export.quantise.products import Codec, quantise
from zoo.export.quantise.smooth_quant import even_out

MAX_FLOAT16_PEAK = 65504 / 8
"""Values above this on the sample are computed in float32, because another input may have larger
ones than float16 holds."""


CODECS: dict[Integers, Codec] = {"columns": Columns(), "blocks": Blocks()}
"""Formats of integer matrices by name."""


def derive(
    source: Path,
    target: Path,
    precision: Precision,
    inputs: Sequence[NDArray[Any]],
    written: WrittenCallback | None = None,
    runtime: Target = DEFAULT_TARGET,
    scales: Scales = "tensor",
    exact: Collection[str] = (),
) -> None:
    """Write the float32 file `source` in a lower precision.

    Arguments:
        source: the float32 file.
        target: the path to write to.
        precision: the precision to write.
        inputs: samples on which the largest values and the means of activations are measured.
        written: function that is called with the bytes that are written, as by `converter.save`.
        runtime: the target that `source` was written for.
        scales: how int8 activations are scaled.
        exact: names of outputs that are computed in float32.
    """
    traits, model = PRECISIONS[precision], load_typed(source)
    codec, half = traits.integers and CODECS[traits.integers], traits.half
    if traits.scales_activations and scales == "row":
        codec = ScaledRows(model)
    overflows = find_float16_overflows(model.clone(), inputs) if half == "float16" else []
    averages = measure_means(model.clone(), inputs) if codec else {}
    factors = even_out(model) if codec else {}
    if half:
        model = converter.lower_precision(model, half, [*overflows, *exact], "standard")
    if codec:
        quantise(model, codec, {name: averages[name] / factors.get(name, 1) for name in averages})
    converter.find_target(runtime).remove_quirks(model)
    converter.save(model, target, on_write=written)


def load_typed(source: Path) -> ir.Model:
    """Return a model in which all values have types. Files for some runtimes do not state them."""
    model = ir.load(source)
    inner = [v for node in model.graph for v in node.outputs if not v.is_graph_output()]
    if all(value.dtype is None for value in inner):
        ir.passes.common.ShapeInferencePass()(model)
    return model


def find_float16_overflows(model: ir.Model, inputs: Sequence[NDArray[Any]]) -> list[str]:
    """Return the names of the values of a model that may be too large for float16. The model is
    changed."""
    # ONNX Runtime is imported only where something runs in it.
    from zoo.common.runtime import session

    graph = model.graph
    ir.passes.common.ShapeInferencePass()(model)
    values = [v for node in graph for v in node.outputs if v.dtype == ir.DataType.FLOAT]
    graph.outputs.clear()
    graph.outputs.extend(_add_peak(graph, value) for value in values)
    peaks = converter.run(session(model), inputs)
    peak_by_name = dict(zip((str(value.name) for value in values), peaks.values(), strict=True))
    for name, value in graph.initializers.items():
        if value.dtype == ir.DataType.FLOAT and value.const_value is not None:
            peak_by_name[name] = abs(value.const_value.numpy()).max(initial=0)
    # `not peak <= …` also selects NaN.
    return [name for name, peak in peak_by_name.items() if not peak <= MAX_FLOAT16_PEAK]


def _add_peak(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """Add nodes that compute the largest magnitude in a value, and return their result."""
    size = ir.node("Abs", [value])
    peak = ir.node("ReduceMax", size.outputs, {"keepdims": 0})
    graph.extend([size, peak])
    (result,) = peak.outputs
    result.name = f"{value.name}_peak"
    result.dtype, result.shape = ir.DataType.FLOAT, ir.Shape([])
    return result
