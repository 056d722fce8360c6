"""Measure how long a file takes to load and how much memory it needs, in a separate process."""

import re
import time
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from weights.parameters import parameter
from zoo.common.errors import BadFile
from zoo.common.processes import fresh, workers
from zoo.export.timing.rounds import resting_session
from zoo.export.timing.timed_inputs import InputSpec, draw_inputs

MEASURED_RUNS = 3
STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Footprint:
    """Load time of a file in seconds, and the memory of its process in bytes.

    `peak` is the largest memory while the file loads and runs, None if the system does not report
    it. `resident` is the memory afterwards. Both are relative to the memory before.
    """

    load: float
    peak: int | None
    resident: int


def measure_footprint(file: Path, specs: Sequence[InputSpec], threads: int) -> Footprint:
    """Return the footprint of a file, measured in a new process. **Raises** `BadFile` if that
    process dies."""
    try:
        with fresh() as context, workers(context, 1) as pool:
            return pool.submit(measure_in_process, file, specs, threads).result()
    except BrokenProcessPool as error:
        raise BadFile(
            f"{file} ended the process that ran it (out of memory?): try a smaller "
            f"{parameter('batch')}."
        ) from error


def measure_in_process(file: Path, specs: Sequence[InputSpec], threads: int) -> Footprint:
    """Return the footprint of a file, measured in this process."""
    feeds = draw_inputs(specs)
    # Reset the peak, which imports reached before. Where that is not possible, the peak of the
    # imports counts, which is less than most files need.
    with suppress(OSError):
        RESET.write_text("5")
    before = psutil.Process().memory_info().rss
    start = time.perf_counter()
    live = resting_session(file, threads)
    load = time.perf_counter() - start
    for _ in range(MEASURED_RUNS):
        live.run(None, feeds)
    peak_match = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text()) if STATUS.exists() else None
    peak = int(peak_match[1]) * 1024 - before if peak_match else None
    return Footprint(load, peak, psutil.Process().memory_info().rss - before)
