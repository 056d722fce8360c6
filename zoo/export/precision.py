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
from zoo.export.quantise.smooth_quant import smooth_activations

MAX_FLOAT16_PEAK = 65504 / 8
"""Largest magnitude on the sample of a value that is computed in float16. Larger values are
computed in float32, because another input may lead to numbers beyond float16's maximum, 65504."""


CODECS: dict[Integers, Codec] = {"columns": Columns(), "blocks": Blocks()}
"""Storage formats of integer matrices by name (`PrecisionTraits.integers`)."""


def write_lower_precision(
    source: Path,
    target: Path,
    precision: Precision,
    inputs: Sequence[NDArray[Any]],
    on_write: WrittenCallback | None = None,
    runtime: Target = DEFAULT_TARGET,
    scales: Scales = "tensor",
    exact: Collection[str] = (),
) -> None:
    """Write the float32 ONNX file `source` in a lower precision.

    Matrices are quantized, or computations are converted to half precision, as the precision
    requires. Values that may overflow float16 stay float32.

    Arguments:
        source: the float32 file.
        target: the path to write to.
        precision: the precision to write.
        inputs: sample arrays, one for each input of the file. Overflows of float16 and the mean
            activations are measured on them.
        on_write: callback that receives the bytes as they are written, as in `converter.save`.
        runtime: name of the target runtime that `source` was written for, whose quirks are avoided.
        scales: whether int8 activations have one scale for each tensor or for each row.
        exact: names of outputs that half precision computes in float32.
    """
    traits, model = PRECISIONS[precision], load_with_types(source)
    codec, half = traits.integers and CODECS[traits.integers], traits.half
    if traits.scales_activations and scales == "row":
        codec = ScaledRows(model)
    overflows = find_float16_overflows(model.clone(), inputs) if half == "float16" else []
    averages = measure_means(model.clone(), inputs) if codec else {}
    factors = smooth_activations(model) if codec else {}
    if half:
        model = converter.lower_precision(model, half, [*overflows, *exact], "standard")
    if codec:
        quantise(model, codec, {name: averages[name] / factors.get(name, 1) for name in averages})
    converter.find_target(runtime).remove_quirks(model)
    converter.save(model, target, on_write=on_write)


def load_with_types(source: Path) -> ir.Model:
    """Return the model in an ONNX file, with types for all values.

    Files for some runtimes do not state the types of intermediate values. If no value has a type,
    types and shapes are inferred.
    """
    model = ir.load(source)
    inner = [v for node in model.graph for v in node.outputs if not v.is_graph_output()]
    if all(value.dtype is None for value in inner):
        ir.passes.common.ShapeInferencePass()(model)
    return model


def find_float16_overflows(model: ir.Model, inputs: Sequence[NDArray[Any]]) -> list[str]:
    """Return the names of the float32 values and initializers that may be too large for float16.

    The model runs once on `inputs`. A value is too large if its largest magnitude exceeds
    `MAX_FLOAT16_PEAK` or is NaN. The model is changed in place: its outputs are replaced.
    """
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
    """Add nodes to the graph that compute the largest magnitude in a value. Return the scalar
    result."""
    size = ir.node("Abs", [value])
    peak = ir.node("ReduceMax", size.outputs, {"keepdims": 0})
    graph.extend([size, peak])
    (result,) = peak.outputs
    result.name = f"{value.name}_peak"
    result.dtype, result.shape = ir.DataType.FLOAT, ir.Shape([])
    return result
