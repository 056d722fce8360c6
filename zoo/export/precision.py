"""How files of lower precision are made from one in float32."""

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
from zoo.export.quantise.activations import means
from zoo.export.quantise.int4 import Blocks
from zoo.export.quantise.int8 import Columns, ScaledRows
from zoo.export.quantise.products import Codec, quantise
from zoo.export.quantise.smooth_quant import even_out

LARGEST_PEAK = 65504 / 8
"""Values above this in a photograph's are not computed in float16: another one may have larger."""


CODECS: dict[Integers, Codec] = {"columns": Columns(), "blocks": Blocks()}
"""How matrices are held in integers."""


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
    """Write the float32 file `source` in a lower precision; in int8 with these `scales`.

    `inputs` are what the size of the values is measured on, and their means; `written` is told the
    bytes, as by `converter.save`. The `runtime` is the one that `source` was made for, and `exact`
    are outputs that are computed in float32.
    """
    how, model = PRECISIONS[precision], load_typed(source)
    codec, half = how.integers and CODECS[how.integers], how.half
    if how.scales_activations and scales == "row":
        codec = ScaledRows(model)
    large = outgrown(model.clone(), inputs) if half == "float16" else []
    averages = means(model.clone(), inputs) if codec else {}
    factors = even_out(model) if codec else {}
    if half:
        model = converter.lower_precision(model, half, [*large, *exact], "standard")
    if codec:
        quantise(model, codec, {name: averages[name] / factors.get(name, 1) for name in averages})
    converter.find_target(runtime).remove_quirks(model)
    converter.save(model, target, on_write=written)


def load_typed(source: Path) -> ir.Model:
    """A model of which all values have types, which files for some runtimes leave out."""
    model = ir.load(source)
    inner = [v for node in model.graph for v in node.outputs if not v.is_graph_output()]
    if all(value.dtype is None for value in inner):
        ir.passes.common.ShapeInferencePass()(model)
    return model


def outgrown(model: ir.Model, inputs: Sequence[NDArray[Any]]) -> list[str]:
    """Names of the values of a model that float16 may be too small for; it is used up."""
    # ONNX Runtime is imported only where something runs in it.
    from zoo.common.runtime import session

    graph = model.graph
    ir.passes.common.ShapeInferencePass()(model)
    values = [v for node in graph for v in node.outputs if v.dtype == ir.DataType.FLOAT]
    graph.outputs.clear()
    graph.outputs.extend(_peak(graph, value) for value in values)
    peaks = converter.run(session(model), inputs)
    largest = dict(zip((str(value.name) for value in values), peaks.values(), strict=True))
    for name, value in graph.initializers.items():
        if value.dtype == ir.DataType.FLOAT and value.const_value is not None:
            largest[name] = abs(value.const_value.numpy()).max(initial=0)
    # Not `peak > …`: a NaN is large.
    return [name for name, peak in largest.items() if not peak <= LARGEST_PEAK]


def _peak(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """The largest magnitude in a value."""
    size = ir.node("Abs", [value])
    peak = ir.node("ReduceMax", size.outputs, {"keepdims": 0})
    graph.extend([size, peak])
    (result,) = peak.outputs
    result.name = f"{value.name}_peak"
    result.dtype, result.shape = ir.DataType.FLOAT, ir.Shape([])
    return result
