"""Export: make the files that a request asks for, and publish them."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from weights import Provenance, Weights
from weights.progress import Progress
from zoo.architectures.base import Network
from zoo.artifacts.read import to_text
from zoo.artifacts.schema import Manifest
from zoo.common.prefetch import prefetching
from zoo.common.staging import locked_output, manifest_path, publish, write_text, writing
from zoo.export.describe import describe_file
from zoo.export.make import ExportedFile, Maker, making_files
from zoo.export.request import Request, check_targets


@dataclass(frozen=True)
class ExportResult:
    """One file. Where its check failed, `published` is False and nothing was left behind.

    `nonfinite` names the parameters that hold a NaN or an infinity.
    """

    target: Path
    manifest: Manifest
    published: bool
    nonfinite: tuple[str, ...] = ()


def export_model(
    request: Request,
    model: Network,
    weights: Weights,
    provenance: Callable[[], Provenance],
    progress: Progress,
) -> list[ExportResult]:
    """Export a model with abstract leaves, and the values of these, at each opset of a request.

    `provenance` says where the values come from, or raises what is wrong with that. It is called
    when a file is made, and before that is put in its place.
    """
    entry, signature = request.model, request.signature
    with ExitStack() as stack:
        for target in sorted(request.targets):
            stack.enter_context(locked_output(target, progress))
            # Somebody else may have made it since the request was read.
            check_targets(target, request.options.force)
        samples, asked = None, request.options
        if asked.verify:
            # ONNX Runtime is imported only where a file is verified.
            from zoo.export.verify import runs

            running = prefetching(runs(entry, model, weights.arrays, signature))
            samples = stack.enter_context(running)
        maker = Maker(
            entry,
            model,
            weights,
            signature,
            samples,
            asked.target,
            asked.layout,
            request.pictures,
            asked.scales,
        )
        files = stack.enter_context(making_files(request.files, request.folder, maker, progress))
        done = {spec: _put(request, file, made, provenance(), maker) for spec, file, made in files}
        return [done[spec] for spec in request.files]


def _put(
    request: Request, file: Path, made: ExportedFile, origin: Provenance, maker: Maker
) -> ExportResult:
    """Put a staged file and its manifest in their places, if it may be there."""
    target = request.folder / file.name
    record = describe_file(request, file, made, origin)
    stays = made.may_stay(request.options.keep_inexact)
    if stays:
        with writing(target):
            write_text(manifest_path(file), to_text(record))
            publish(file.parent, target)
    return ExportResult(target, record, stays, tuple(maker.weights.arrays.nonfinite))
