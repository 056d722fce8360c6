"""Interleaved rounds: one run of everything a round, so that all meet the same machine."""

import random
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import onnxruntime as ort
from numpy.typing import NDArray

WARM_UP = 2

Key = TypeVar("Key", bound=Hashable)
Task: TypeAlias = Callable[[], object]
Clock: TypeAlias = Callable[[], float]


def interleave(
    tasks: Mapping[Key, Task], rounds: int, clock: Clock = time.perf_counter
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


def run(live: ort.InferenceSession, feeds: Mapping[str, NDArray[Any]]) -> Task:
    """One run of a session, as a task."""
    return lambda: live.run(None, feeds)


def session(model: Path | bytes, threads: int) -> ort.InferenceSession:
    """A session on the CPU with so many threads."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Idle threads look for work for a while after a run, and would take the next task's time.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # Without a fallback it prints nothing, whatever is wrong with a file.
    return ort.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
