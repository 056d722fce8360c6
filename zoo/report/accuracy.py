"""Everything about a model with one checkpoint: against transformers, its files, their features."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from weights.progress import Progress
from zoo import runtime
from zoo.artifacts.build.plan import VARIANTS
from zoo.bench.machine import machine
from zoo.checkpoints import golden
from zoo.checkpoints.load import Loaded, open_weights
from zoo.export.describe import tools, weights_origin
from zoo.export.make import Made, Maker, making_files
from zoo.export.precision import runnable
from zoo.export.request import FileSpec, Signature
from zoo.export.verify import reference
from zoo.files.golden_file import Golden
from zoo.files.staging import sidecar_path
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values
from zoo.models.builder import abstract
from zoo.registry.entry import ModelInfo
from zoo.report import neighbours
from zoo.report.content import Against, Measured, OneFile

PICTURES = 2
"""Photographs on which features are compared with transformers'."""

FIRST = "fp32"
"""The file that is compared with transformers as well."""

OPEN = Signature(size=None, batch=None)
"""As `zoo build` makes files: for any batch and image size."""


def measure_model(
    entry: ModelInfo,
    path: Path,
    variants: Sequence[str],
    task: neighbours.Task | None,
    progress: Progress,
) -> Measured:
    """One model with the checkpoint at `path`: its variants, on the images of a task if any.

    **Raises** a `WeightsError` if that is none of this model, and `MissingLibrary` without
    transformers.
    """
    loaded = open_weights(path, entry, progress)
    provenance = weights_origin(loaded.weights.provenance, entry)
    progress.stage("running transformers and JAX")
    outputs = of_transformers(entry, loaded)
    in_jax = _worst(golden.check_jax(outputs, loaded)) if outputs else None
    progress.stage("running the model in JAX")
    model = abstract(loaded.config)
    samples = reference(entry, model, loaded.weights.arrays, OPEN)
    maker = Maker(entry, model, loaded.weights, OPEN, lambda: samples)
    files: dict[str, OneFile] = {}
    in_file = None
    with TemporaryDirectory() as folder:
        chosen = {VARIANTS[name]: name for name in variants}
        with making_files([*chosen], Path(folder), maker, progress) as made_files:
            for spec, file, made in made_files:
                accuracy = None
                if task is not None:
                    progress.stage(f"{spec.name}: {task.told.asked} images")
                    live = made.live or runtime.session(runnable(file, spec.precision))
                    accuracy = neighbours.neighbour_share(live, task, entry.preprocessing)
                files[chosen[spec]] = one_file(spec, file, made, accuracy)
                if chosen[spec] == FIRST and outputs:
                    in_file = _worst(golden.check_onnx(outputs, file))
    against = None
    if outputs is not None:
        found = {"in_jax": in_jax, "in_file": in_file}
        against = Against(
            library=outputs.reference, size=outputs.fed["pixel_values"].shape[2:], **found
        )
    return Measured(
        model=entry.name,
        checkpoint=path.name,
        sha256=provenance.sha256,
        is_published_file=provenance.is_published_file,
        date=datetime.now(UTC).date().isoformat(),
        machine=machine(),
        tools=tools() | ({"transformers": version("transformers")} if against else {}),
        against=against,
        neighbours=task.told if task else None,
        files={name: files[name] for name in variants},
    )


def of_transformers(entry: ModelInfo, loaded: Loaded) -> Golden | None:
    """What transformers makes of the photographs; None if it has no such model.

    The size is the one that positions were trained on, where all implementations agree on them.
    """
    if "huggingface" not in (naming.name for naming in entry.readable):
        return None
    pixels = pixel_values(photographs(PICTURES), entry.preprocessing, entry.native)
    return golden.make(entry, loaded, pixels, "transformers")


def _worst(errors: dict[str, float]) -> float | None:
    """The largest; None if one is not a number."""
    found = max(errors.values(), key=lambda error: math.inf if math.isnan(error) else error)
    return found if math.isfinite(found) else None


def one_file(spec: FileSpec, file: Path, made: Made, accuracy: float | None) -> OneFile:
    """What is to be said of a file that was just made."""
    assert made.verification is not None
    parts = (part for part in (file, sidecar_path(file)) if part.exists())
    return OneFile(
        opset=spec.opset,
        precision=spec.precision,
        bytes=sum(part.stat().st_size for part in parts),
        verification=made.verification,
        accuracy=accuracy,
    )
