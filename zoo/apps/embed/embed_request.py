"""Request and result of `zoo embed`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Dtype = Literal["float16", "float32"]

Extra = Literal["patches", "logits", "best", "thumbnail"]

VECTOR = "vector"
"""Column of the vectors of the model that the dataset was made with."""

SHARD = 1024
"""Pictures of a chunk, which is computed again when a process is killed."""


@dataclass(frozen=True)
class EmbedResult:
    """Result of a run over pictures.

    `pictures` are the rows with a vector, and `errors` those of pictures that cannot be read.
    `computed` pictures were embedded in this run: `added` had no row before it, and `again` had
    other bytes. `kept` rows are as they were, and `gone` are of pictures that are missing from the
    sources; they stay unless `pruned`. `passed` counts files that are no pictures by their suffix.
    `seconds` are those of threads by stage, `cores` the number of busy cores on average, and `wall`
    the seconds of the run.
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
    """Request as in `zoo.embed`: the pictures, the network, the dataset, and its columns."""

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
