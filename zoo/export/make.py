"""Making ONNX files: in float32 from a model, in lower precisions from a file in float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx_ir as ir

import converter
from weights import Weights
from weights.progress import Progress
from zoo.export.precision import derive
from zoo.export.request import Layout, Precision, Signature
from zoo.export.verify import Sample, verify
from zoo.files.staging import writing
from zoo.images.in_graph import front
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values
from zoo.manifest.schema import Verification
from zoo.models.build import Model, abstract_output, batched
from zoo.models.output import output_names
from zoo.registry.entry import ModelInfo


@dataclass(frozen=True)
class Made:
    """A file that was made: its graph, what it consists of, and how it was checked."""

    model: ir.Model
    report: converter.Report
    precision: Precision
    verification: Verification | None

    @property
    def right(self) -> bool:
        """Whether no check failed."""
        return self.verification is None or self.verification.passed


@dataclass(frozen=True)
class Maker:
    """All that the files of one model are made from.

    `samples` are what they are checked on; without any they are not checked.
    """

    entry: ModelInfo
    model: Model
    weights: Weights
    signature: Signature
    layout: Layout
    samples: Sequence[Sample]

    def float32(self, opset: int, file: Path, progress: Progress) -> list[converter.NearMiss]:
        """Write the model in float32; what nearly fused."""
        progress.stage(f"opset {opset}: converting")
        export = convert(self.model, opset, self.signature, self.layout)
        progress.stage(f"opset {opset}: writing", self.entry.parameters * 4)
        with writing(file):
            export.save(
                file, values=self.weights.arrays, progress=lambda _, size: progress.step(size)
            )
        return export.report.near_misses

    def lower(self, source: Path, file: Path, precision: Precision, progress: Progress) -> None:
        """Write a float32 file in a lower precision."""
        progress.stage(f"{precision}: writing")
        how, signature = self.entry.preprocessing, self.signature
        pixels = pixel_values(photographs(signature.batch or 1), how, signature.size or how.size)
        with writing(file):
            derive(source, file, precision, pixels)

    def take_images(self, file: Path, opset: int, progress: Progress) -> None:
        """Put preprocessing in front of a file that is to take images; else leave it."""
        signature, how = self.signature, self.entry.preprocessing
        if signature.input == "uint8":
            progress.stage(f"{file.name}: preprocessing")
            first = front(how, signature.size or how.size, opset, signature.batch)
            with writing(file):
                converter.save(converter.join(first.model, ir.load(file)), file)

    def checked(
        self,
        file: Path,
        precision: Precision,
        near_misses: Sequence[converter.NearMiss],
        progress: Progress,
    ) -> Made:
        """What a file consists of and how far it is from JAX."""
        verification = None
        if self.samples:
            progress.stage(f"{file.name}: verifying")
            verification = verify(file, self.samples, precision)
        model = ir.load(file)
        return Made(model, converter.report(model, near_misses), precision, verification)


def convert(
    model: Model, opset: int, signature: Signature, layout: Layout = "4d"
) -> converter.Export:
    """The model as an ONNX graph whose initializers have names and shapes, not yet values."""
    stride = model.stride
    height, width = signature.size or (f"{stride}*h", f"{stride}*w")
    export = converter.to_onnx(
        partial(batched, layers=signature.layers, as_maps=signature.as_maps),
        [(signature.batch or "batch_size", 3, height, width)],
        params=model,
        opset=opset,
        attention_layout=layout,
        input_names=["pixel_values"],
        output_names=output_names(abstract_output(model, signature.layers), signature.layers),
    )
    if signature.size is None:
        name_sides(export.model.graph, stride)
    return export


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
