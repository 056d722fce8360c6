"""Measure the times of several tasks in interleaved rounds."""

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
from zoo.common.runtime import NO_SPINNING, Session, open_session

WARM_UP = 2
"""Number of rounds that run before the measured ones."""

Key = TypeVar("Key", bound=Hashable)
Task: TypeAlias = Callable[[], object]


def measure_interleaved(
    tasks: Mapping[Key, Task], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[Key, list[float]]:
    """Run all tasks several times, and return the seconds of every run by task.

    Each round runs every task once, in a random order, so that changes of the machine's speed
    affect all tasks equally. `rounds` rounds are measured after `WARM_UP` others. `clock` returns
    the time in seconds.
    """
    times: dict[Key, list[float]] = {name: [] for name in tasks}
    order = list(tasks)
    generator = random.Random(0)
    for number in range(WARM_UP + rounds):
        generator.shuffle(order)
        for name in order:
            start = clock()
            tasks[name]()
            seconds = clock() - start
            if number >= WARM_UP:
                times[name].append(seconds)
    return times


def as_task(session: Session, feeds: Mapping[str, NDArray[Any]]) -> Task:
    """Return a function that runs a session on these inputs, for `measure_interleaved`."""
    return lambda: session.run(None, feeds)


def open_idle_session(model: Path | bytes, threads: int) -> Session:
    """Open a session on the CPU whose threads sleep after a run. Threads that spin would slow down
    the next task."""
    return open_session(model, threads=threads, settings=NO_SPINNING)


ROUNDS = range(5, 26)
"""Range of the number of rounds that are measured, from 5 to 25."""

MEASURED_SECONDS = 2.0
"""Approximate time of all rounds in seconds, if the number of rounds allows it."""


def choose_rounds(tasks: Collection[Task]) -> int:
    """Return the number of rounds that take about `MEASURED_SECONDS`, within the limits of
    `ROUNDS`.

    Every task is run once to estimate its time.
    """
    start = time.perf_counter()
    for task in tasks:
        task()
    seconds = time.perf_counter() - start
    fastest = MEASURED_SECONDS / ROUNDS[-1]
    return max(int(MEASURED_SECONDS / max(seconds, fastest)), ROUNDS[0])


def relative_speeds(times: Mapping[Key, Sequence[float]], baseline: Key) -> dict[Key, Speed]:
    """Return the median time of each task in milliseconds, and its speed relative to the task
    `baseline`.

    `times` are the seconds of all runs. The relative speed is the median of `baseline` divided by
    the task's median, or None if `baseline` is not among the tasks.
    """
    medians = {name: 1e3 * float(np.median(seconds)) for name, seconds in times.items()}
    reference = medians.get(baseline)
    return {
        name: Speed(
            p50_ms=round(milliseconds, 3),
            ratio=None if reference is None else round(reference / milliseconds, 3),
        )
        for name, milliseconds in medians.items()
    }


CPUINFO = Path("/proc/cpuinfo")
STAT = Path("/proc/stat")


def describe_machine() -> str:
    """Return a text with the processor, the number of cores and the operating system."""
    processors = CPUINFO.read_text() if CPUINFO.exists() else ""
    match = re.search(r"model name\s*:\s*(.+)", processors)
    processor = match[1].strip() if match else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}"


def watch_other_programs() -> Callable[[], float | None]:
    """Start to measure the processor time of other programs.

    **Returns** a function. It returns how many cores the other programs used on average since this
    call, or None if the system does not report it. Time that a hypervisor takes away counts as
    used.
    """
    before, start = _other_programs_seconds(), time.perf_counter()

    def used_cores() -> float | None:
        """Return the average number of cores that other programs have used, or None if not
        known."""
        after, elapsed = _other_programs_seconds(), time.perf_counter() - start
        if before is None or after is None or elapsed <= 0:
            return None
        return max(0.0, (after - before) / elapsed)

    return used_cores


def _other_programs_seconds() -> float | None:
    """Return the processor seconds of other programs since the machine started, or None if the
    system does not report them.

    The time of this process and of its ended children is subtracted. Source: `man 5 proc_stat`.
    """
    if sys.platform == "win32" or not STAT.exists():
        return None
    ticks = [int(field) for field in STAT.read_text().split("\n", 1)[0].split()[1:9]]
    if not any(ticks):
        return None
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = ticks
    busy = user + nice + system + interrupts + soft_interrupts + stolen
    return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
