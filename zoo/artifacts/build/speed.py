"""How fast the variants of a folder are, beside each other."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from zoo.artifacts.build.variants import VARIANTS
from zoo.bench import interleaved
from zoo.manifest.schema import Speed, Speeds

ROUNDS = 10
THREADS = 1


def speeds(files: Mapping[str, Path], fed: NDArray[Any]) -> Speeds:
    """p50 of a run on one image, and how many times faster than `fp32` that is.

    Rounds are interleaved, so that a change of the machine's speed meets all alike. Variants
    without kernels on a CPU are left out.
    """
    usual = {name: path for name, path in files.items() if VARIANTS[name].precision != "bf16"}
    times = interleaved(usual, fed, ROUNDS, THREADS)
    median = {name: float(np.median(found)) for name, found in times.items()}
    first = median.get("fp32")
    return Speeds(
        runtime=f"ONNX Runtime {ort.__version__}, CPU, {THREADS} thread",
        machine=f"{platform.machine()}, {platform.system()}",
        input=fed.shape,
        rounds=ROUNDS,
        variants={
            name: Speed(
                p50_ms=round(1e3 * seconds, 3),
                ratio=None if first is None else round(first / seconds, 3),
            )
            for name, seconds in median.items()
        },
    )
