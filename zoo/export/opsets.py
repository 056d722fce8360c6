"""Export: make the files that a request asks for, and put them in their places."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from weights import Provenance, Weights
from weights.progress import Progress
from zoo.export.ahead import ahead
from zoo.export.describe import describe
from zoo.export.make import Maker, convert
from zoo.export.request import Request, check_free
from zoo.files.staging import locked, manifest_path, publish, staged, writing
from zoo.manifest.read import to_text
from zoo.manifest.schema import Manifest
from zoo.models.build import Model


@dataclass(frozen=True)
class Exported:
    """One file. Where its check failed, `published` is False and nothing was left behind.

    `nonfinite` names the parameters that hold a NaN or an infinity.
    """

    target: Path
    manifest: Manifest
    published: bool
    nonfinite: tuple[str, ...] = ()


def export(
    request: Request,
    model: Model,
    weights: Weights,
    provenance: Callable[[], Provenance],
    progress: Progress,
) -> list[Exported]:
    """Export a model with abstract leaves, and the values of these, at each opset of a request.

    `provenance` says where the values come from, or raises what is wrong with that. It is called
    when a file is made, and before that is put in its place.
    """
    entry, signature = request.model, request.signature
    with ExitStack() as stack:
        samples = None
        if request.options.verify:
            # ONNX Runtime is imported only where a file is verified.
            from zoo.export.verify import runs

            running = ahead(runs(entry, model, weights.arrays, signature))
            samples = stack.enter_context(running)
        maker = Maker(entry, model, weights, signature, samples, request.options.target)
        each = zip(request.opsets, request.targets, strict=True)
        return [export_one(request, *one, maker, provenance, progress) for one in each]


def export_one(
    request: Request,
    opset: int,
    target: Path,
    maker: Maker,
    provenance: Callable[[], Provenance],
    progress: Progress,
) -> Exported:
    """Export at one opset. The file appears at `target` only if it is complete and right.

    One in a lower precision than float32 that is not right may be kept.
    """
    with locked(target, progress), staged(target.parent) as stage:
        # Somebody else may have made it since the request was read.
        asked = request.options
        check_free(target, asked.force)
        file = stage / target.name
        lowered = asked.precision != "fp32"
        source = stage / f"float32-{target.name}" if lowered else file
        progress.stage(f"opset {opset}: converting")
        converted = convert(maker.model, opset, maker.signature, asked.layout, asked.target)
        maker.float32(converted, source, progress)
        if lowered:
            maker.lower(source, file, asked.precision, progress)
        maker.take_images(file, opset, progress)
        made = maker.checked(file, asked.precision, converted, progress)
        record = describe(request, file, made, provenance())
        kept = made.right or (asked.keep_inexact and lowered)
        if kept:
            with writing(target):
                manifest_path(file).write_text(to_text(record), encoding="utf-8")
                publish(stage, target)
        return Exported(target, record, kept, tuple(maker.weights.arrays.nonfinite))
