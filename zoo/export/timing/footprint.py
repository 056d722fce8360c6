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
from zoo.common.processes import isolated_context, make_worker_pool
from zoo.export.timing.rounds import open_idle_session
from zoo.export.timing.timed_inputs import TimedInput, draw_inputs

MEASURED_RUNS = 3
"""Number of runs while the memory is measured."""
STATUS = Path("/proc/self/status")
"""File in which Linux reports the peak memory of this process."""
RESET = Path("/proc/self/clear_refs")
"""File that resets this peak when `5` is written to it."""


@dataclass(frozen=True)
class Footprint:
    """Load time of a file, and the memory that it needs.

    Arguments:
        load: seconds that loading takes.
        peak: largest memory in bytes while the file loads and runs, relative to the memory before;
            None if the system does not report it. It includes an earlier peak of the process if the
            system cannot reset that.
        resident: memory in bytes after the runs, relative to the memory before.
    """

    load: float
    peak: int | None
    resident: int


def measure_footprint(file: Path, specs: Sequence[TimedInput], threads: int) -> Footprint:
    """Load and run a file in a new process, and return its load time and memory.

    `specs` describe its inputs, and `threads` is the number of threads that ONNX Runtime uses.
    **Raises** `BadFile` if the process dies, as for lack of memory.
    """
    try:
        with isolated_context() as context, make_worker_pool(context, 1) as pool:
            return pool.submit(measure_in_process, file, specs, threads).result()
    except BrokenProcessPool as error:
        raise BadFile(
            f"{file} ended the process that ran it (out of memory?): try a smaller "
            f"{parameter('batch')}."
        ) from error


def measure_in_process(file: Path, specs: Sequence[TimedInput], threads: int) -> Footprint:
    """Load a file in this process, run it `MEASURED_RUNS` times on random inputs, and return its
    load time and memory.

    The arguments are those of `measure_footprint`.
    """
    feeds = draw_inputs(specs)
    # Reset the peak, which imports reached before. Where that is not possible, the peak of the
    # imports counts, which is less than most files need.
    with suppress(OSError):
        RESET.write_text("5")
    memory_before = psutil.Process().memory_info().rss
    start = time.perf_counter()
    session = open_idle_session(file, threads)
    load = time.perf_counter() - start
    for _ in range(MEASURED_RUNS):
        session.run(None, feeds)
    peak_match = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text()) if STATUS.exists() else None
    peak = int(peak_match[1]) * 1024 - memory_before if peak_match else None
    return Footprint(load, peak, psutil.Process().memory_info().rss - memory_before)
