"""Which weights somebody asks for: from the usual places, random ones, or those of a file."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weights import Checkpoint
from zoo.errors import BadRequest


@dataclass(frozen=True)
class Seed:
    """Random weights."""

    value: int


Choice = Literal["auto"] | Seed | Path | Checkpoint
"""Weights: from the usual places, random, or from a file, which may be open already."""


def read_weights(text: str) -> Literal["auto"] | Seed | Path:
    """`auto`, `random`, `random:SEED`, or the path of a file."""
    if text == "auto":
        return "auto"
    if text == "random":
        return Seed(0)
    if text.startswith("random:"):
        seed = text.removeprefix("random:")
        if not re.fullmatch(r"\d{1,40}", seed, re.ASCII):
            raise BadRequest(f"--weights {text} has no seed: write a number, as in `random:7`.")
        return Seed(int(seed))
    return Path(text).expanduser()
