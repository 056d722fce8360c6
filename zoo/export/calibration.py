"""Write int8 files with activation ranges from the user's pictures, and choose the best of them."""

import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import converter
from converter.model.streaming import WrittenCallback
from converter.opsets import DEFAULT_TARGET
from weights.progress import Progress
from zoo.architectures.inputs import Feeds, PictureInput
from zoo.artifacts.choices import Target
from zoo.artifacts.measured import Calibration, RangedFile, Ranging
from zoo.common.runtime import session
from zoo.common.staging import Digests
from zoo.export.precision import load_with_types, write_lower_precision
from zoo.export.precisions import PRECISIONS
from zoo.export.quantise.activations import ActivationStatistics, measure_ranges
from zoo.export.quantise.int8 import ActivationRange, FixedColumns
from zoo.export.quantise.products import Floats, quantise
from zoo.export.quantise.smooth_quant import smooth_activations
from zoo.export.timing.rounds import (
    Task,
    as_task,
    choose_rounds,
    measure_interleaved,
    relative_speeds,
)
from zoo.images.picture_folder import PictureFolder, picture_batches
from zoo.images.pixel_values import Size
from zoo.images.preprocessing import Preprocessing

EQUAL_SPEED_RATIO = 1.1
"""Files whose median times differ by at most this factor count as equally fast, because another run
may reverse their order."""


def choose_candidate(candidates: Mapping[Ranging, RangedFile], min_cosine: float) -> Ranging:
    """Return the fastest of several int8 files that were measured, if its outputs are exact enough.

    Exact enough means that the cosine with the float32 outputs is at least `min_cosine`. Among the
    exact files that take at most `EQUAL_SPEED_RATIO` times as long as the fastest, choose the one
    with the largest cosine. If no file is exact enough, return the one with the largest cosine of
    all. A cosine of None counts as -1. `candidates` must not be empty.
    """

    def cosine_of(method: Ranging) -> float:
        """Return the cosine of a candidate, or -1 if it is not known."""
        cosine = candidates[method].cosine
        return -1.0 if cosine is None else cosine

    exact_enough = [method for method in candidates if cosine_of(method) >= min_cosine]
    fastest = min((candidates[method].speed.p50_ms for method in exact_enough), default=0.0)
    fast = [
        method
        for method in exact_enough
        if candidates[method].speed.p50_ms <= EQUAL_SPEED_RATIO * fastest
    ]
    return max(fast or candidates, key=cosine_of)


def minmax_ranges(statistics: Mapping[str, ActivationStatistics]) -> dict[str, ActivationRange]:
    """Return for each activation the range from its smallest to its largest number, extended to
    contain zero.

    The keys are those of `statistics`.
    """
    return {
        name: ActivationRange(min(activation.low, 0.0), max(activation.high, 0.0))
        for name, activation in statistics.items()
    }


def write_with_ranges(
    source: Path,
    target: Path,
    ranges: Mapping[str, ActivationRange],
    means: Mapping[str, Floats],
    on_write: WrittenCallback | None = None,
    runtime: Target = DEFAULT_TARGET,
) -> None:
    """Write a float32 ONNX file in int8, with fixed ranges for its activations.

    Arguments:
        source: the float32 file.
        target: the path to write to.
        ranges: range of the activation that each matrix is multiplied by, by the name of the
            matrix. Every matrix that `find_products` finds must have one.
        means: channel means of these activations after `smooth_activations`, by the name of the
            matrix. Every such matrix must have them.
        on_write: callback that receives the bytes as they are written.
        runtime: name of the target runtime, whose quirks are avoided.
    """
    model = load_with_types(source)
    smooth_activations(model)
    quantise(model, FixedColumns(model.graph, ranges), means)
    converter.find_target(runtime).remove_quirks(model)
    converter.save(model, target, on_write=on_write)


Writer: TypeAlias = Callable[..., None]
"""Function that writes a float32 file in another precision, with arguments as those of
`write_lower_precision`."""


@dataclass(frozen=True)
class Calibrator:
    """The user's calibration pictures, and the way to turn them into inputs of a file.

    Arguments:
        pictures: the pictures. Some are kept for the ranges, and the others are held out to measure
            the result.
        picture_input: description of the arrays that the network takes of a picture.
        preprocessing: how pictures are resized and normalized.
        size: (height, width) of the network's input.
        batch: number of pictures that are run at once.
    """

    pictures: PictureFolder
    picture_input: PictureInput
    preprocessing: Preprocessing
    size: Size
    batch: int

    def measure_activations(
        self, source: Path, progress: Progress
    ) -> dict[str, ActivationStatistics]:
        """Run a float32 file on the calibration pictures, and return statistics of its activations.

        The keys are the names of the matrices that the activations are multiplied by. The
        statistics are of the model after `smooth_activations` has moved outlier scales into the
        matrices. The file is not changed.

        **Raises** `BadRequest` if an activation is NaN or infinite.
        """
        paths, model = self.pictures.calibration_paths, load_with_types(source)
        smooth_activations(model)

        def counted_batches() -> Iterable[list[NDArray[Any]]]:
            """Yield the inputs of each batch of pictures, and report progress."""
            for feeds in self._feeds(paths):
                yield [*feeds.values()]
                progress.step(self.batch)

        if self.pictures.picture_count > len(self.pictures.paths):
            progress.note(
                f"{self.pictures.folder} has {self.pictures.picture_count:,} pictures, of which "
                f"every so many are taken, {len(self.pictures.paths)} in all."
            )
        progress.stage(f"int8: ranges on {len(paths)} pictures", len(paths))
        return measure_ranges(model, counted_batches())

    def held_out_feeds(self) -> Iterable[Feeds]:
        """Return the inputs of a file for the held-out pictures, batch by batch. The ranges are not
        computed from these."""
        return self._feeds(self.pictures.held_out_paths)

    def _feeds(self, paths: Sequence[Path]) -> Iterator[Feeds]:
        """Read pictures and yield the inputs of a file for each batch of them."""
        for pictures in picture_batches(paths, self.batch):
            yield self.picture_input.make(pictures, self.preprocessing, self.size)


def write_best_int8(
    source: Path,
    file: Path,
    calibrator: Calibrator,
    inputs: Sequence[Floats],
    target: Target,
    progress: Progress,
) -> tuple[Calibration, Digests]:
    """Write a float32 file in int8 by several methods, measure each result, and keep the best one
    at `file`.

    The methods are fixed ranges from the pictures and, if the target supports it, ranges that the
    file computes for each input.

    **Arguments:**

    - `source`: the float32 file.
    - `file`: the path to write to.
    - `calibrator`: the user's pictures and their preprocessing.
    - `inputs`: sample arrays, as for `write_lower_precision`.
    - `target`: name of the runtime that the file is for.
    - `progress`: reports progress.

    **Returns** the measurements of all methods, and the digests of the file that was kept and its
    sidecar. The other files are deleted. **Raises** `BadRequest` if an activation is NaN or
    infinite on the pictures.
    """
    statistics = calibrator.measure_activations(source, progress)
    means = {name: activation.means for name, activation in statistics.items()}
    writers: dict[Ranging, Writer] = {
        "minmax": partial(write_with_ranges, ranges=minmax_ranges(statistics), means=means),
    }
    if converter.find_target(target).dynamic_integers:
        writers["dynamic"] = partial(write_lower_precision, precision="int8", inputs=inputs)
    # Each file gets its own folder, because a model contains the name of its sidecar.
    files = {method: file.parent / f"{file.stem}-{method}" / file.name for method in writers}
    digests = {method: Digests() for method in writers}
    for method, write in writers.items():
        progress.stage(f"int8, {method}: writing")
        files[method].parent.mkdir()
        with digests[method].compute() as on_write:
            write(source, files[method], on_write=on_write, runtime=target)
    progress.stage(f"int8: measuring on {len(calibrator.pictures.held_out_paths)} pictures")
    measured = measure_candidates(source, files, calibrator)
    best = choose_candidate(measured, PRECISIONS["int8"].limit.value)
    for path in files[best].parent.iterdir():
        path.replace(file.parent / path.name)
    for path in files.values():
        shutil.rmtree(path.parent)
    calibration = Calibration(
        method=best,
        pictures=len(calibrator.pictures.calibration_paths),
        held_out=len(calibrator.pictures.held_out_paths),
        sha256=calibrator.pictures.digest,
        candidates=measured,
    )
    return calibration, digests[best]


def measure_candidates(
    source: Path, files: Mapping[Ranging, Path], calibrator: Calibrator
) -> dict[Ranging, RangedFile]:
    """Compare int8 files with their float32 file on the held-out pictures, and measure their speed.

    **Returns** for each method the smallest cosine of any output of any batch (None if it is NaN),
    and the speed on the first batch: the median time, and the float32 file's median time divided by
    it.
    """
    float32_session, sessions = (
        session(source),
        {method: session(path) for method, path in files.items()},
    )
    cosines = dict.fromkeys(files, 1.0)
    for feeds in calibrator.held_out_feeds():
        inputs = [*feeds.values()]
        expected = converter.run(float32_session, inputs)
        for method, int8_session in sessions.items():
            outputs = converter.run(int8_session, inputs)
            output_cosines = [
                converter.compare(outputs[name], expected[name]).cosine for name in expected
            ]
            cosines[method] = float(np.min([cosines[method], *output_cosines]))
    feeds = next(iter(calibrator.held_out_feeds()))
    tasks: dict[str, Task] = {
        method: as_task(session, feeds) for method, session in sessions.items()
    }
    tasks["fp32"] = as_task(float32_session, feeds)
    times = measure_interleaved(tasks, choose_rounds(tasks.values()))
    speeds = relative_speeds(times, "fp32")
    return {
        method: RangedFile(cosine=cosine if math.isfinite(cosine) else None, speed=speeds[method])
        for method, cosine in cosines.items()
    }
