"""How fast the variants of a folder are, beside each other."""

import platform
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo import runtime
from zoo.artifacts.build.plan import VARIANTS
from zoo.bench.rounds import Task, interleave, run_once
from zoo.manifest.measured import Speed, Speeds

ROUNDS = range(5, 26)
"""How often each is run, from least to most."""

SECONDS = 2.0
"""How long all runs take, about, unless they are too slow or too fast for that."""


def speeds(
    files: Mapping[str, Path], fed: NDArray[Any], sessions: Mapping[str, runtime.Session]
) -> Speeds:
    """p50 of a run on one image, and how many times faster than `fp32` that is.

    Rounds are interleaved, so that a change of the machine's speed meets all alike. Variants
    without kernels on a CPU are left out. `sessions` are those that there are already.
    """
    tasks = {}
    for name, path in files.items():
        if VARIANTS[name].precision != "bf16":
            live = sessions.get(name) or runtime.session(path)
            tasks[name] = run_once(live, {live.get_inputs()[0].name: fed})
    rounds = affordable(tasks.values())
    times = interleave(tasks, rounds)
    median = {name: 1e3 * float(np.median(found)) for name, found in times.items()}
    first = median.get("fp32")
    variants = {
        name: Speed(p50_ms=round(each, 3), ratio=None if first is None else round(first / each, 3))
        for name, each in median.items()
    }
    return Speeds(
        runtime=f"{runtime.VERSION}, CPU, all cores",
        machine=f"{platform.machine()}, {platform.system()}",
        input=fed.shape,
        rounds=rounds,
        variants=variants,
    )


def affordable(tasks: Collection[Task]) -> int:
    """How many rounds there is time for."""
    began = time.perf_counter()
    for task in tasks:
        task()
    seconds = time.perf_counter() - began
    fastest = SECONDS / ROUNDS[-1]
    return max(int(SECONDS / max(seconds, fastest)), ROUNDS[0])
