"""Times of several tasks in interleaved rounds, and the machine on which they were measured."""

import os
import platform
import random
import re
import sys
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from zoo.artifacts.measured import Speed
from zoo.common.runtime import RESTING, Session, open_session

WARM_UP = 2

Key = TypeVar("Key", bound=Hashable)
Task: TypeAlias = Callable[[], object]


def interleave(
    tasks: Mapping[Key, Task], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[Key, list[float]]:
    """Seconds of every run of every task; each round has an order of its own."""
    times: dict[Key, list[float]] = {name: [] for name in tasks}
    order = list(tasks)
    dealer = random.Random(0)
    for number in range(WARM_UP + rounds):
        dealer.shuffle(order)
        for name in order:
            began = clock()
            tasks[name]()
            seconds = clock() - began
            if number >= WARM_UP:
                times[name].append(seconds)
    return times


def run_once(live: Session, feeds: Mapping[str, NDArray[Any]]) -> Task:
    """One run of a session, as a task."""
    return lambda: live.run(None, feeds)


def resting_session(model: Path | bytes, threads: int) -> Session:
    """A session on the CPU with so many threads, which take no time from the next task's."""
    return open_session(model, threads=threads, settings=RESTING)


ROUNDS = range(5, 26)
"""How often each is run, from least to most."""

MEASURED_SECONDS = 2.0
"""How long all runs take, about, unless they are too slow or too fast for that."""


def affordable(tasks: Collection[Task]) -> int:
    """How many rounds there is time for."""
    began = time.perf_counter()
    for task in tasks:
        task()
    seconds = time.perf_counter() - began
    fastest = MEASURED_SECONDS / ROUNDS[-1]
    return max(int(MEASURED_SECONDS / max(seconds, fastest)), ROUNDS[0])


def speeds_beside(times: Mapping[Key, Sequence[float]], first: Key) -> dict[Key, Speed]:
    """p50 of the runs that took these seconds, and how many times faster than `first` that is."""
    median = {name: 1e3 * float(np.median(seconds)) for name, seconds in times.items()}
    reference = median.get(first)
    return {
        name: Speed(
            p50_ms=round(each, 3), ratio=None if reference is None else round(reference / each, 3)
        )
        for name, each in median.items()
    }


CPUINFO = Path("/proc/cpuinfo")
STAT = Path("/proc/stat")


def machine() -> str:
    """Processor, number of cores, and operating system."""
    processors = CPUINFO.read_text() if CPUINFO.exists() else ""
    named = re.search(r"model name\s*:\s*(.+)", processors)
    processor = named[1].strip() if named else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}"


def watch_others() -> Callable[[], float | None]:
    """Begin to watch what other programs do.

    **Returns** a function that says how many cores they kept busy since then, on average; None
    where the system does not tell. A hypervisor that takes processors away counts as one of them.
    """
    before, began = _others_seconds(), time.perf_counter()

    def others() -> float | None:
        after, elapsed = _others_seconds(), time.perf_counter() - began
        if before is None or after is None or elapsed <= 0:
            return None
        return max(0.0, (after - before) / elapsed)

    return others


def _others_seconds() -> float | None:
    """Of processor time since the machine started, without that of this process and of children
    that have ended. Source: `man 5 proc_stat`."""
    if sys.platform == "win32" or not STAT.exists():
        return None
    ticks = [int(field) for field in STAT.read_text().split("\n", 1)[0].split()[1:9]]
    if not any(ticks):
        return None
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = ticks
    busy = user + nice + system + interrupts + soft_interrupts + stolen
    return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
