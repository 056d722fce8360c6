"""How long a file takes to load and how much memory it needs, in a process of its own."""

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
from zoo.export.timing.timed_inputs import Spec, draw_inputs

MEASURED_RUNS = 3
STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Footprint:
    """Seconds of making a session; bytes that a process takes more than before it did that.

    `peak` is the most while it loads and runs, None where the system does not tell; `resident`
    is what stays.
    """

    load: float
    peak: int | None
    resident: int


def footprint(file: Path, specs: Sequence[Spec], threads: int) -> Footprint:
    """Load and run a file elsewhere. **Raises** `BadFile` if that process dies."""
    try:
        with fresh() as context, workers(context, 1) as pool:
            return pool.submit(measure_here, file, specs, threads).result()
    except BrokenProcessPool as error:
        raise BadFile(
            f"{file} ended the process that ran it (out of memory?): try a smaller "
            f"{parameter('batch')}."
        ) from error


def measure_here(file: Path, specs: Sequence[Spec], threads: int) -> Footprint:
    """Load and run a file in this process."""
    feeds = draw_inputs(specs)
    # What imports took at their worst is not the file's doing. On a system where it cannot be
    # forgotten it counts, and is less than most files take.
    with suppress(OSError):
        RESET.write_text("5")
    before = psutil.Process().memory_info().rss
    began = time.perf_counter()
    live = resting_session(file, threads)
    load = time.perf_counter() - began
    for _ in range(MEASURED_RUNS):
        live.run(None, feeds)
    most = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text()) if STATUS.exists() else None
    peak = int(most[1]) * 1024 - before if most else None
    return Footprint(load, peak, psutil.Process().memory_info().rss - before)
