"""Export: make the files that a request asks for, and put them in their places."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weights import Weights
from weights.progress import Progress
from zoo.checkpoints.load import load
from zoo.export.describe import describe
from zoo.export.make import Maker
from zoo.export.request import Request, check_free
from zoo.export.room import check_room
from zoo.files.staging import locked, manifest_path, publish, staged, writing
from zoo.manifest.read import to_text
from zoo.manifest.schema import Manifest
from zoo.models.build import Model, abstract

if TYPE_CHECKING:
    from zoo.export.verify import Sample


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
    check_room(request, progress)
    loaded = load(request.weights, request.model, progress, request.options.offline)
    return export(request, abstract(loaded.config), loaded.weights, progress)


def export(request: Request, model: Model, weights: Weights, progress: Progress) -> list[Exported]:
    """Export a model with abstract leaves, and the values of these, at each opset of a request."""
    entry, signature = request.model, request.signature
    samples: list[Sample] = []
    if request.options.verify:
        # ONNX Runtime is imported only where a file is verified.
        from zoo.export.verify import reference

        progress.stage("running the model in JAX")
        samples = reference(entry, model, weights.arrays, signature)
    asked = request.options
    maker = Maker(entry, model, weights, signature, samples, asked.layout, asked.target)
    return [
        export_one(request, opset, target, maker, progress)
        for opset, target in zip(request.opsets, request.targets, strict=True)
    ]


def export_one(
    request: Request, opset: int, target: Path, maker: Maker, progress: Progress
) -> Exported:
    """Export at one opset. The file appears at `target` only if it is complete and right.

    One in a lower precision than float32 that is not right may be forced.
    """
    with locked(target, progress), staged(target.parent) as stage:
        # Somebody else may have made it since the request was read.
        check_free(target, request.options.force)
        file = stage / target.name
        lowered = request.options.precision != "fp32"
        source = stage / f"float32-{target.name}" if lowered else file
        export = maker.float32(opset, source, progress)
        if lowered:
            maker.lower(source, file, request.options.precision, progress)
        maker.take_images(file, opset, progress)
        made = maker.checked(file, request.options.precision, export, progress)
        record = describe(request, file, made, maker.weights.provenance)
        kept = made.right or (request.options.force and lowered)
        if kept:
            with writing(target):
                manifest_path(file).write_text(to_text(record), encoding="utf-8")
                publish(stage, target)
        return Exported(target, record, kept, tuple(maker.weights.arrays.nonfinite))
