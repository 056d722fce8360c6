"""What one folder is built from and where; plain data that a worker elsewhere can be sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zoo.checkpoints.choice import Choice
from zoo.export.request import Signature


@dataclass(frozen=True)
class Plan:
    """One folder to build.

    With `force` earlier files are replaced, and files of low precision kept that are not as near
    to float32 as is asked of them.
    """

    model: str
    folder: Path
    weights: Choice
    signature: Signature
    variants: tuple[str, ...]
    force: bool = False
    offline: bool = False
