"""Interleaved rounds: one run of everything a round, so that all meet the same machine."""

import random
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from numpy.typing import NDArray

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
