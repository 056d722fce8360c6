"""How fast several tasks are beside one of them, in the time that there is for it."""

import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from zoo.artifacts.measured import Speed
from zoo.export.timing.rounds import Key, Task

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
