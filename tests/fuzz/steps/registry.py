"""The list of all kinds of steps, and how often each is tried."""

from collections.abc import Callable
from typing import TypeAlias

from tests.fuzz.draw import Draw

Maker: TypeAlias = Callable[[Draw], str]

STEPS: list[Maker] = []
WEIGHTS: list[float] = []


def step(weight: float = 1.0) -> Callable[[Maker], Maker]:
    """Register a kind of step."""

    def register(maker: Maker) -> Maker:
        STEPS.append(maker)
        WEIGHTS.append(weight)
        return maker

    return register
