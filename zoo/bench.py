"""How fast files are, measured beside each other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime as ort
from numpy.typing import NDArray

WARM_UP = 2


def interleaved(
    files: Mapping[str, Path], fed: NDArray[Any], rounds: int, threads: int
) -> dict[str, list[float]]:
    """Seconds of every run of every file: one run each a round, so that all meet the same machine.

    `fed` is what the only input of each gets.
    """
    live = {name: session(path, threads) for name, path in files.items()}
    times: dict[str, list[float]] = {name: [] for name in live}
    for number in range(WARM_UP + rounds):
        for name, each in live.items():
            feeds = {each.get_inputs()[0].name: fed}
            began = time.perf_counter()
            each.run(None, feeds)
            if number >= WARM_UP:
                times[name].append(time.perf_counter() - began)
    return times


def session(path: Path, threads: int) -> ort.InferenceSession:
    """A session on the CPU with so many threads."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
