"""Export: trace and convert the model, bind the weights, write, verify, publish."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx_ir as ir

import converter
from weights import Weights
from zoo.checkpoint import load
from zoo.console import Progress
from zoo.in_graph import front
from zoo.manifest import Manifest, describe, to_text
from zoo.models import Model, abstract, batched
from zoo.outputs import output_names
from zoo.request import Layout, Request, Signature
from zoo.staging import manifest_path, publish, staged, writing
from zoo.verify import Sample, reference, verify


@dataclass(frozen=True)
class Exported:
    """One file. Where its check failed, `published` is False and nothing was left behind.

    `nonfinite` names the parameters that hold a NaN or an infinity.
    """

    target: Path
    manifest: Manifest
    published: bool
    nonfinite: tuple[str, ...] = ()


def run(request: Request, progress: Progress) -> list[Exported]:
    """Export a model at each opset of a request."""
    loaded = load(request.weights, request.model, progress, request.offline)
    model, weights = abstract(loaded.config), loaded.weights
    samples: list[Sample] = []
    if request.verify:
        progress.stage("running the model in JAX")
        samples = reference(request.model, model, weights.arrays, request.signature)
    return [
        export_one(request, opset, target, model, weights, samples, progress)
        for opset, target in zip(request.opsets, request.targets, strict=True)
    ]


def export_one(
    request: Request,
    opset: int,
    target: Path,
    model: Model,
    weights: Weights,
    samples: list[Sample],
    progress: Progress,
) -> Exported:
    """Export at one opset. The file appears at `target` only if it is complete and right."""
    with staged(target.parent) as stage:
        file = stage / target.name
        progress.stage(f"opset {opset}: converting")
        export = convert(model, opset, request.signature, request.layout)
        if request.signature.input == "uint8":
            export = export.behind(preprocessing(request, opset))
        progress.stage(f"opset {opset}: writing", request.model.parameters * 4)
        with writing(target):
            export.save(file, values=weights.arrays, progress=lambda _, size: progress.step(size))
        verification = None
        if request.verify:
            progress.stage(f"opset {opset}: verifying")
            verification = verify(file, samples)
        record = describe(request, opset, export, file, weights.provenance, verification)
        passed = verification is None or verification.passed
        if passed:
            with writing(target):
                manifest_path(file).write_text(to_text(record))
                publish(stage, target)
        return Exported(target, record, passed, tuple(weights.arrays.nonfinite))


def convert(
    model: Model, opset: int, signature: Signature, layout: Layout = "4d"
) -> converter.Export:
    """The model as an ONNX graph whose initializers have names and shapes, not yet values."""
    stride = model.config.stride
    height, width = signature.size or (f"{stride}*h", f"{stride}*w")
    export = converter.to_onnx(
        partial(batched, layers=signature.layers, as_maps=signature.as_maps),
        [(signature.batch or "batch_size", 3, height, width)],
        params=model,
        opset=opset,
        attention_layout=layout,
        input_names=["pixel_values"],
        output_names=output_names(model.config, signature.layers),
    )
    if signature.size is None:
        name_sides(export.model.graph, stride)
    return export


def preprocessing(request: Request, opset: int) -> converter.Export:
    """What comes first in a file that takes images."""
    signature, how = request.signature, request.model.preprocessing
    return front(how, signature.size or how.size, opset, signature.batch)


def name_sides(graph: ir.Graph, stride: int) -> None:
    """Give open sides the names that others use, not those of the symbols in the trace."""
    known = {
        f"{stride}*h": "height",
        f"{stride}*w": "width",
        "h": "grid_height",
        "w": "grid_width",
        "batch_size": "batch_size",
    }
    for value in (*graph.inputs, *graph.outputs):
        assert value.shape is not None
        dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
        # What is left counts the tokens: `h*w + 5`.
        value.shape = ir.Shape(
            dim if isinstance(dim, int) else known.get(str(dim), "sequence_length") for dim in dims
        )
