"""What the passes are told, and where they note what they left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from converter.fuse.match import NearMiss
from converter.graph import Node

AttentionLayout: TypeAlias = Literal["4d", "3d"]


@dataclass(frozen=True)
class Settings:
    """The target's opset and layout, and whether to be exact at any cost.

    With ``fold`` scales and shifts by parameters go into the weights before them.

    ``notes`` gets structures that were nearly recognised, ``deviations`` nodes that may give other
    numbers than JAX, each under a sentence that says when.
    """

    opset: int
    attention_layout: AttentionLayout = "4d"
    strict: bool = False
    fold: bool = True
    notes: list[NearMiss] = field(default_factory=list)
    deviations: list[tuple[str, Node]] = field(default_factory=list)
