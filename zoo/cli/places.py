"""Where a model's weights are or can be had, told by names alone: nothing is read or asked."""

import os
from itertools import chain
from pathlib import Path
from typing import Literal

from weights.sources.locate import hub_files, places
from zoo.architectures.entry import ModelInfo

Giver = Literal["package", "hub", "publisher", "nobody"]


def publisher(entry: ModelInfo) -> tuple[Giver, str]:
    """Who gives the weights away, and where: a repository or a page."""
    if entry.embedded:
        return "package", ""
    if entry.hub:
        return "hub", entry.hub[0].repository
    if entry.checkpoint:
        return "publisher", entry.licence.download
    return "nobody", ""


def here(entry: ModelInfo) -> Path | None:
    """A place on this machine that has the name of the model's weights."""
    downloads = (
        _hub_cache().glob(f"models--{file.repository.replace('/', '--')}/snapshots/*/{file.name}")
        for file in hub_files(entry.places)
    )
    there = filter(Path.exists, places(entry.places))
    return next(chain(there, chain.from_iterable(downloads)), None)


def _hub_cache() -> Path:
    """Where huggingface-hub keeps its downloads; importing it to ask takes half a second."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = os.environ.get("HF_HOME") or Path(caches, "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()
