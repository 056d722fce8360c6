"""How long models take to be measured, and which of them there is time for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zoo.architectures.entry import ModelInfo

BUDGETED_SECONDS = 15.0
"""Of a small model: JAX compiles it, and several libraries are loaded."""

BUDGETED_RUNS = 100.0
"""How many times a model's multiply-adds are done for it and its first file: in JAX and
transformers, on several sizes and batches. Found on two cores, as `BUDGETED_SECONDS`."""

SHARE_OF_FURTHER_FILES = 0.35
"""Of that for each further file."""

PROBE = 1024
"""Rows and columns of the matrices whose product says how fast a machine is."""


def products_a_second() -> float:
    """Multiply-adds in float32 that this machine does in a second, the fastest of some products."""
    matrix = np.ones((PROBE, PROBE), np.float32)
    fastest = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        matrix @ matrix
        fastest = min(fastest, time.perf_counter() - began)
    return PROBE**3 / fastest


@dataclass
class Budget:
    """Budget of so many `seconds` for all models, of which each gets its part, with so many `files`
    of each.

    `rate` are the machine's multiply-adds a second. What models took tells how far predictions are
    off for the others.
    """

    seconds: float
    files: int
    rate: float
    clock: Callable[[], float] = time.monotonic
    took: float = 0.0
    predicted: float = 0.0
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def left(self) -> float:
        """Seconds that there are still."""
        return self.seconds - (self.clock() - self.began)

    def takes(self, entry: ModelInfo) -> float:
        """Seconds that a model takes, without images of the user's."""
        pace = self.took / self.predicted if self.predicted else 1.0
        return pace * self._guess(entry)

    def learn(self, entry: ModelInfo, seconds: float) -> None:
        """Note what a model took."""
        self.took += seconds
        self.predicted += self._guess(entry)

    def part(self, entry: ModelInfo, later: Sequence[ModelInfo]) -> float:
        """Seconds that a model may take if those after it are to have theirs."""
        own = self.takes(entry)
        return self.left * own / (own + sum(map(self.takes, later)))

    def _guess(self, entry: ModelInfo) -> float:
        height, width = entry.native
        patches = height * width / entry.config.stride**2
        runs = BUDGETED_RUNS * (1 + SHARE_OF_FURTHER_FILES * (self.files - 1))
        return BUDGETED_SECONDS + runs * entry.parameters * patches / self.rate
