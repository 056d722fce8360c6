"""Export: trace and convert the model, bind the weights, write, verify, publish."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
from jaxtyping import Array, Float

import converter
from weights import Weights
from zoo.checkpoint import load
from zoo.console import Progress
from zoo.manifest import Manifest, describe, to_text
from zoo.models import Model, abstract
from zoo.outputs import Output, output_names
from zoo.request import Request
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


def batched(model: Model, pixel_values: Float[Array, "batch 3 H W"]) -> Output:
    """The function that an exported file computes."""
    return jax.vmap(model)(pixel_values)


def run(request: Request, progress: Progress) -> list[Exported]:
    """Export a model at each opset of a request."""
    loaded = load(request.weights, request.model, progress, request.offline)
    model, weights = abstract(loaded.config), loaded.weights
    samples: list[Sample] = []
    if request.verify:
        progress.stage("running the model in JAX")
        samples = reference(request.model, model, weights.arrays, request.size, request.batch)
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
        export = convert(request, opset, model)
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


def convert(request: Request, opset: int, model: Model) -> converter.Export:
    """The model as an ONNX graph whose initializers have names and shapes, not yet values."""
    height, width = request.size
    batch = request.batch or "batch_size"
    return converter.to_onnx(
        batched,
        [(batch, 3, height, width)],
        params=model,
        opset=opset,
        attention_layout=request.layout,
        input_names=["pixel_values"],
        output_names=output_names(model.config),
    )
