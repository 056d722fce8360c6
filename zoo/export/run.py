"""Export: make the files that a request asks for, and put them in their places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from weights.progress import Progress
from zoo.checkpoints.load import load
from zoo.export.make import Maker
from zoo.export.request import Request, check_free
from zoo.export.verify import reference
from zoo.files.lock import locked
from zoo.files.staging import manifest_path, publish, staged, writing
from zoo.manifest.describe import Manifest, describe, to_text
from zoo.models.build import abstract


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
    model = abstract(loaded.config)
    maker = Maker(
        request.model, model, loaded.weights, request.signature, request.layout, samples=()
    )
    if request.verify:
        progress.stage("running the model in JAX")
        samples = reference(request.model, model, loaded.weights.arrays, request.signature)
        maker = replace(maker, samples=samples)
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
        check_free(target, request.force)
        file = stage / target.name
        if request.precision == "float32":
            near_misses = maker.float32(opset, file, progress)
        else:
            source = stage / f"float32-{target.name}"
            near_misses = maker.float32(opset, source, progress)
            maker.lower(source, file, request.precision, progress)
        maker.take_images(file, opset, progress)
        made = maker.checked(file, request.precision, near_misses, progress)
        provenance = maker.weights.provenance
        record = describe(request, file, made, provenance)
        kept = made.right or (request.force and request.precision != "float32")
        if kept:
            with writing(target):
                manifest_path(file).write_text(to_text(record))
                publish(stage, target)
        return Exported(target, record, kept, tuple(maker.weights.arrays.nonfinite))
