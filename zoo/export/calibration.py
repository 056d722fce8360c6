"""int8 files with ranges of activations from pictures of the user: candidates and the choice."""

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
from zoo.export.precision import derive, load_typed
from zoo.export.precisions import PRECISIONS
from zoo.export.quantise.activations import ActivationStatistics, observe
from zoo.export.quantise.int8 import ActivationRange, FixedColumns
from zoo.export.quantise.products import Floats, quantise
from zoo.export.quantise.smooth_quant import even_out
from zoo.export.timing.rounds import Task, affordable, interleave, run_once, speeds_beside
from zoo.images.picture_folder import PictureFolder, picture_batches
from zoo.images.pixel_values import Size
from zoo.images.preprocessing import Preprocessing

ALIKE = 1.1
"""Files whose medians are this close are equally fast: another run may turn them round."""


def choose(candidates: Mapping[Ranging, RangedFile], least: float) -> Ranging:
    """The fastest of those whose cosine is at least `least`; of equally fast ones the most exact.

    Where none is near enough, it is the most exact of all.
    """

    def exactness(way: Ranging) -> float:
        cosine = candidates[way].cosine
        return -1.0 if cosine is None else cosine

    right = [way for way in candidates if exactness(way) >= least]
    fastest = min((candidates[way].speed.p50_ms for way in right), default=0.0)
    fast = [way for way in right if candidates[way].speed.p50_ms <= ALIKE * fastest]
    return max(fast or candidates, key=exactness)


def widest(seen: Mapping[str, ActivationStatistics]) -> dict[str, ActivationRange]:
    """Range from the least number to the largest one, with zero."""
    return {
        name: ActivationRange(min(each.low, 0.0), max(each.high, 0.0))
        for name, each in seen.items()
    }


def write_fixed(
    source: Path,
    target: Path,
    ranges: Mapping[str, ActivationRange],
    means: Mapping[str, Floats],
    written: WrittenCallback | None = None,
    runtime: Target = DEFAULT_TARGET,
) -> None:
    """Write a float32 file in int8 with these ranges, and means of the evened activations."""
    model = load_typed(source)
    even_out(model)
    quantise(model, FixedColumns(model.graph, ranges), means)
    converter.find_target(runtime).remove_quirks(model)
    converter.save(model, target, on_write=written)


Writer: TypeAlias = Callable[..., None]
"""Writes a float32 file in another precision, as `derive` does."""


@dataclass(frozen=True)
class Calibrator:
    """Somebody's pictures, and how they become what a file takes: `batch` of them at once."""

    pictures: PictureFolder
    taken: PictureInput
    how: Preprocessing
    size: Size
    batch: int

    def ranges(self, source: Path, progress: Progress) -> dict[str, ActivationStatistics]:
        """Ranges of a float32 file's activations once its norms are evened out."""
        kept, model = self.pictures.kept, load_typed(source)
        even_out(model)

        def told() -> Iterable[list[NDArray[Any]]]:
            for feeds in self._feeds(kept):
                yield [*feeds.values()]
                progress.step(self.batch)

        if self.pictures.found > len(self.pictures.paths):
            progress.note(
                f"{self.pictures.folder} has {self.pictures.found:,} pictures, of which every so "
                f"many are taken, {len(self.pictures.paths)} in all."
            )
        progress.stage(f"int8: ranges on {len(kept)} pictures", len(kept))
        return observe(model, told())

    def held_out(self) -> Iterable[Feeds]:
        """What a file takes of the pictures that have no part in the ranges."""
        return self._feeds(self.pictures.held_out)

    def _feeds(self, paths: Sequence[Path]) -> Iterator[Feeds]:
        for pictures in picture_batches(paths, self.batch):
            yield self.taken.make(pictures, self.how, self.size)


def write_best(
    source: Path,
    file: Path,
    calibrator: Calibrator,
    inputs: Sequence[Floats],
    target: Target,
    progress: Progress,
) -> tuple[Calibration, Digests]:
    """Write a float32 file in int8, in the best way there is.

    `inputs` are what `derive` takes. **Returns** what was measured, and the digests of the file and
    of what lies beside it. **Raises** `BadRequest` where there is no range.
    """
    seen = calibrator.ranges(source, progress)
    means = {name: each.means for name, each in seen.items()}
    writers: dict[Ranging, Writer] = {
        "minmax": partial(write_fixed, ranges=widest(seen), means=means),
    }
    if converter.find_target(target).dynamic_integers:
        writers["dynamic"] = partial(derive, precision="int8", inputs=inputs)
    # Each in a folder of its own, since a model knows the name of the file with its tensors.
    files = {way: file.parent / f"{file.stem}-{way}" / file.name for way in writers}
    digests = {way: Digests() for way in writers}
    for way, write in writers.items():
        progress.stage(f"int8, {way}: writing")
        files[way].parent.mkdir()
        with digests[way].taken() as written:
            write(source, files[way], written=written, runtime=target)
    progress.stage(f"int8: measuring on {len(calibrator.pictures.held_out)} pictures")
    measured = compare_files(source, files, calibrator)
    best = choose(measured, PRECISIONS["int8"].limit.value)
    for path in files[best].parent.iterdir():
        path.replace(file.parent / path.name)
    for path in files.values():
        shutil.rmtree(path.parent)
    calibration = Calibration(
        method=best,
        pictures=len(calibrator.pictures.kept),
        held_out=len(calibrator.pictures.held_out),
        sha256=calibrator.pictures.digest,
        candidates=measured,
    )
    return calibration, digests[best]


def compare_files(
    source: Path, files: Mapping[Ranging, Path], calibrator: Calibrator
) -> dict[Ranging, RangedFile]:
    """How near files are to the float32 one on the pictures that were held out, and how fast."""
    first, live = session(source), {way: session(path) for way, path in files.items()}
    cosines = dict.fromkeys(files, 1.0)
    for feeds in calibrator.held_out():
        inputs = [*feeds.values()]
        expected = converter.run(first, inputs)
        for way, each in live.items():
            got = converter.run(each, inputs)
            similar = [converter.compare(got[name], expected[name]).cosine for name in expected]
            cosines[way] = float(np.min([cosines[way], *similar]))
    fed = next(iter(calibrator.held_out()))
    tasks: dict[str, Task] = {way: run_once(each, fed) for way, each in live.items()}
    tasks["fp32"] = run_once(first, fed)
    times = interleave(tasks, affordable(tasks.values()))
    speeds = speeds_beside(times, "fp32")
    return {
        way: RangedFile(cosine=cosine if math.isfinite(cosine) else None, speed=speeds[way])
        for way, cosine in cosines.items()
    }
