"""Everything about some files, measured in the same rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from weights.parameters import parameter
from weights.progress import Progress
from zoo.apps.bench.against import torch_task
from zoo.apps.bench.bench_options import BenchOptions
from zoo.apps.bench.floor import Floor, Key, floor, tasks
from zoo.artifacts.read import near
from zoo.common import runtime
from zoo.common.errors import BadFile, first_line
from zoo.export.timing.footprint import Footprint, footprint
from zoo.export.timing.inputs import Spec, draw_inputs, settle_inputs
from zoo.export.timing.machine import watch_others
from zoo.export.timing.rounds import Task, interleave, resting_session, run_once
from zoo.export.timing.timed_products import timed_products


@dataclass(frozen=True)
class Contender:
    """One file, or transformers' model, which has no footprint. `times` are seconds of runs."""

    name: str
    inputs: Sequence[Spec]
    times: Sequence[float]
    footprint: Footprint | None

    def percentile(self, share: float) -> float:
        """Seconds that this share (in percent) of the runs do not exceed."""
        return float(np.percentile(self.times, share))

    @property
    def fastest(self) -> float:
        """Seconds of the fastest run."""
        return min(self.times)


@dataclass(frozen=True)
class Bench:
    """All files in their order, transformers' model last, and the first file's products.

    `others` is how many cores other programs kept busy meanwhile, if that is known.
    """

    options: BenchOptions
    contenders: Sequence[Contender]
    floor: Floor
    others: float | None = None


def measure_files(files: Sequence[Path], options: BenchOptions, progress: Progress) -> Bench:
    """**Raises** a `ZooError` for a file that does not run, or whose inputs stay open."""
    sources = [_open(file, options) for file in files]
    names, first = [*map(str, files)], sources[0][0]
    if options.against is not None:
        progress.stage("building transformers' model")
        manifest = near(files[0])
        task = torch_task(manifest.model if manifest else None, first, options.threads)
        names.append("transformers, torch")
        sources.append((first, task))
    products = timed_products(ir.load(files[0]), first)
    timed: dict[Key, Task] = {index: task for index, (_, task) in enumerate(sources)}
    timed |= tasks(products, options.threads)
    footprints: list[Footprint | None] = [None] * len(sources)
    for index, file in enumerate(files):
        progress.stage(f"{file}: memory")
        footprints[index] = footprint(file, sources[index][0], options.threads)
    progress.stage(f"{options.rounds} rounds of {len(timed)} runs")
    others = watch_others()
    try:
        times = interleave(timed, options.rounds, options.clock)
    except runtime.ERRORS as error:
        raise BadFile(f"a file does not run: {first_line(error)}") from error
    taken = others()
    contenders = [
        Contender(name, sources[index][0], times[index], footprints[index])
        for index, name in enumerate(names)
    ]
    return Bench(options, contenders, floor(products, times), taken)


def _open(file: Path, options: BenchOptions) -> tuple[list[Spec], Task]:
    """The inputs of a file, and a run of it that has succeeded once."""
    if not file.is_file():
        raise BadFile(f"{file} is no file: name .onnx files.")
    manifest = near(file)
    usual = [manifest.preprocessing.size] if manifest else []
    try:
        live = resting_session(file, options.threads)
        specs = settle_inputs(file, live.get_inputs(), options.batch, options.size, *usual)
        task = run_once(live, draw_inputs(specs))
        task()
    except runtime.ERRORS as error:
        raise BadFile(
            f"{file} does not run in ONNX Runtime on the CPU ({first_line(error)}): name "
            f"another file, or another {parameter('size')} or {parameter('batch')}."
        ) from error
    return specs, task
