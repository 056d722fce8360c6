"""What `zoo embed` is asked for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Dtype = Literal["float16", "float32"]

Extra = Literal["patches", "logits", "best", "thumbnail"]

VECTOR = "vector"
"""The column of the vectors of the model that made the rows."""

ROWS = 256
"""Rows that are written together, and read together."""

SHARD = 1024
"""Pictures in a part, which is lost when a process is killed; Lance calls it a fragment."""


@dataclass(frozen=True)
class Embedded:
    """Result of a run over pictures.

    `pictures` are the rows of the dataset, and `computed` those of this run. Of a dataset that was
    there before, `kept` rows are as they were, `added` are of new pictures, `again` of changed
    ones, and `gone` are those whose pictures are not there any more: they are still rows, unless
    they were `pruned`. `passed` files are no pictures by their names; they are counted by how they
    end. `seconds` are those of threads by stage, and `cores` how many were busy on average, with
    `wall` the time of it all.
    """

    dataset: Path
    pictures: int
    errors: int
    computed: int = 0
    kept: int = 0
    added: int = 0
    again: int = 0
    gone: int = 0
    pruned: bool = False
    passed: dict[str, int] = field(default_factory=dict)
    wall: float = 0.0
    cores: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Pictures a second."""
        return self.computed / self.wall if self.wall else 0.0


@dataclass(frozen=True)
class EmbedRequest:
    """Request, as in `zoo.embed`: the pictures, the network, the dataset, and what its
    rows hold."""

    sources: tuple[str, ...]
    model: str
    out: Path
    precision: str
    dtype: Dtype
    extra: tuple[Extra, ...]
    draft: bool
    batch: int
    shard: int
    append_model: bool = False
    prune: bool = False
