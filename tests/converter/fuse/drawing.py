"""Choices at random, all of which are noted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

T = TypeVar("T")


@dataclass
class Pencil:
    """A source of choices, all of which it notes."""

    rng: np.random.Generator
    notes: list[str] = field(default_factory=list)

    def pick(self, name: str, choices: Sequence[T]) -> T:
        choice = choices[int(self.rng.integers(len(choices)))]
        self.notes.append(f"{name}={choice}")
        return choice

    def chance(self, name: str, probability: float) -> bool:
        hit = bool(self.rng.random() < probability)
        if hit:
            self.notes.append(name)
        return hit

    def order(self, items: Sequence[T]) -> list[T]:
        return [items[i] for i in self.rng.permutation(len(items))]

    def some(self, items: Sequence[T], probability: float = 0.5) -> list[T]:
        return [item for item in items if self.rng.random() < probability]

    def text(self) -> str:
        """What was chosen."""
        return " ".join(self.notes)
