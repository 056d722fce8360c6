"""Everything about a model with one checkpoint: against transformers, its files, their answers."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from weights.progress import Progress
from zoo.apps.show.chart import ResidualRow, residual_rows
from zoo.architectures.builder import abstract
from zoo.architectures.entry import ModelInfo
from zoo.architectures.reported import Task
from zoo.checkpoints import golden
from zoo.checkpoints.load import Loaded, open_weights
from zoo.checkpoints.weights_argument import Given
from zoo.common import runtime
from zoo.common.golden_file import Golden
from zoo.common.staging import sidecar_path
from zoo.export.assemble.plan import VARIANTS
from zoo.export.audit.jax import first_residuals
from zoo.export.describe import tools, weights_origin
from zoo.export.make import Made, Maker, making_files
from zoo.export.precision import runnable
from zoo.export.request import FileSpec, Signature
from zoo.export.timing.rounds import machine
from zoo.export.verify import Sample, reference
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values
from zoo.report.box_precision import BOXES_OF_FILES, BoxTask, box_precision
from zoo.report.content import Against, Measured, OneFile
from zoo.report.labelled import IMAGES_AT_ONCE, LabelledTask, classifier_accuracy, run_on
from zoo.report.proof_pictures import draw_pictures

PHOTOGRAPHS = 2
"""Photographs on which features are compared with transformers'."""

COMPARED_FILE = "fp32"
"""The file that is compared with transformers as well."""

OPEN = Signature(size=None, batch=None)
"""As `zoo build` makes files: for any batch and image size."""


@dataclass
class ModelProof:
    """A model that is being measured, with a checkpoint, in so many `seconds`.

    `task` and `boxes` are the pictures of somebody's that there is time for, which is known once a
    file has seen some, and `on_images` the seconds that they took; `rows` are the errors of files,
    to be drawn.
    """

    entry: ModelInfo
    variants: Sequence[str]
    task: LabelledTask | None
    boxes: BoxTask | None
    progress: Progress
    seconds: float = math.inf
    began: float = field(default_factory=time.monotonic)
    on_images: float = 0.0
    in_file: float | None = None
    rows: list[ResidualRow] = field(default_factory=list)

    def files(self, loaded: Loaded, outputs: Golden | None) -> Iterator[tuple[str, OneFile]]:
        """Make each variant and measure it, by its name. The files go when the next is asked for
        after the last."""
        model = abstract(loaded.config)
        samples = reference(self.entry, model, loaded.weights.arrays, OPEN)
        maker = Maker(self.entry, model, loaded.weights, OPEN, lambda: samples)
        chosen = {VARIANTS[name]: name for name in self.variants}
        with (
            TemporaryDirectory() as folder,
            making_files([*chosen], Path(folder), maker, self.progress) as made_files,
        ):
            for done, (spec, file, made) in enumerate(made_files):
                live = made.live or runtime.session(runnable(file, spec.precision))
                results = self.scores(live, spec.name, len(chosen) - done)
                if chosen[spec] == COMPARED_FILE and outputs:
                    self.in_file = worst_error(golden.check_onnx(outputs, file, runtime.CPU))
                self.note_residuals(live, samples[0], chosen[spec], made)
                yield chosen[spec], one_file(spec, file, made, results)

    def scores(self, live: runtime.Session, name: str, files: int) -> dict[Task, float]:
        """How well a file does on the images, if there are so many files to come, with this."""
        began = time.monotonic()
        if files == len(self.variants):
            self.limit_images(live, files)
        results: dict[Task, float] = {}
        if self.task is not None:
            self.progress.stage(f"{name}: {len(self.task.paths)} images")
            if (right := classifier_accuracy(live, self.task, self.entry)) is not None:
                results["classifier"] = right
        if self.boxes is not None and finds_boxes(live):
            self.progress.stage(f"{name}: boxes on {len(self.boxes.paths)} pictures")
            if (precision := box_precision(live, self.boxes, self.entry)) is not None:
                results["boxes"] = precision
        self.on_images += time.monotonic() - began
        return results

    def limit_images(self, live: runtime.Session, files: int) -> None:
        """Keep as many images as each of the files can see in the time that is left."""
        tasks = [task for task in (self.task, self.boxes) if task is not None]
        if not tasks:
            return
        paths = tasks[-1].paths[:IMAGES_AT_ONCE]
        run_on(live, paths, self.entry.preprocessing)
        began = time.monotonic()
        run_on(live, paths, self.entry.preprocessing)
        each = (time.monotonic() - began) / len(paths)
        left = self.seconds - (time.monotonic() - self.began)
        most = max(0, int(left / files / each))
        if self.task is not None:
            self.task = self.task.fitting(most)
        if self.boxes is not None:
            self.boxes = self.boxes.fitting(most)
        if self.task is None and self.boxes is None:
            self.progress.note(f"{self.entry.name}: there is no time for images")

    def note_residuals(self, live: runtime.Session, sample: Sample, name: str, made: Made) -> None:
        """Keep where a file differs from JAX on the first photograph."""
        assert made.verification is not None
        residuals = first_residuals(live, sample, self.entry)
        title = f"{self.entry.name}, {name}"
        self.rows += residual_rows(title, residuals.outputs, residuals.grid, made.verification)


def finds_boxes(live: runtime.Session) -> bool:
    """Whether a file gives boxes of things."""
    return {*BOXES_OF_FILES} <= {output.name for output in live.get_outputs()}


def measure_model(path: Path, proof: ModelProof, folder: Path) -> Measured:
    """One model with the checkpoint at `path`; its pictures are written into a folder.

    **Raises** a `WeightsError` if that is none of this model.
    """
    entry, progress = proof.entry, proof.progress
    loaded = open_weights(Given(path), entry, progress)
    provenance = weights_origin(loaded.weights.provenance, entry)
    progress.stage("running transformers and JAX")
    outputs = of_transformers(entry, loaded)
    if outputs is None and has_peer(entry):
        progress.note(f"{entry.name} is not compared with transformers, which is not installed")
    in_jax = worst_error(golden.check_jax(outputs, loaded)) if outputs else None
    progress.stage("running the model in JAX")
    files = dict(proof.files(loaded, outputs))
    against = None
    if outputs is not None:
        sides = outputs.fed["pixel_values"].shape[2:]
        errors = {"in_jax": in_jax, "in_file": proof.in_file}
        against = Against(library=outputs.reference, size=sides, **errors)
    pictures = draw_pictures(entry, loaded, proof.rows, folder, progress)
    return Measured(
        model=entry.name,
        checkpoint=path.name,
        sha256=provenance.sha256,
        is_published_file=provenance.is_published_file,
        date=datetime.now(UTC).date().isoformat(),
        machine=machine(),
        memory=psutil.virtual_memory().total,
        seconds=round(time.monotonic() - proof.began, 1),
        tools=tools_of(entry),
        against=against,
        images=proof.task.told if proof.task else None,
        boxes=proof.boxes.told if proof.boxes else None,
        files={name: files[name] for name in proof.variants},
        pictures=pictures,
    )


def tools_of(entry: ModelInfo) -> dict[str, str]:
    """Versions of what has a part in measuring a model."""
    peer = has_peer(entry) and has_transformers()
    return tools() | ({"transformers": version("transformers")} if peer else {})


def has_peer(entry: ModelInfo) -> bool:
    """Whether transformers has such a model."""
    return "huggingface" in (naming.name for naming in entry.readable)


def has_transformers() -> bool:
    """Whether transformers can be run here."""
    return all(map(find_spec, ("torch", "transformers")))


def of_transformers(entry: ModelInfo, loaded: Loaded) -> Golden | None:
    """Outputs of transformers for the photographs; None if it has no such model or is not there.

    The size is the one that positions were trained on, where all implementations agree on them.
    """
    if not has_peer(entry) or not has_transformers():
        return None
    pixels = pixel_values(photographs(PHOTOGRAPHS), entry.preprocessing, entry.native)
    return golden.make(entry, loaded, pixels, "transformers")


def worst_error(errors: dict[str, float]) -> float | None:
    """The largest; None if one is not a number."""
    largest = max(errors.values(), key=lambda error: math.inf if math.isnan(error) else error)
    return largest if math.isfinite(largest) else None


def one_file(spec: FileSpec, file: Path, made: Made, results: dict[Task, float]) -> OneFile:
    """Facts of a file that was just made."""
    assert made.verification is not None
    parts = (part for part in (file, sidecar_path(file)) if part.exists())
    return OneFile(
        opset=spec.opset,
        precision=spec.precision,
        bytes=sum(part.stat().st_size for part in parts),
        verification=made.verification,
        scores=results,
    )
