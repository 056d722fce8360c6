"""Where a model's weights are or can be had, told by names alone: nothing is read or asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Literal

from weights.sources.hub import HubFile
from weights.sources.locate import equimo_cache, own_folders, torch_caches
from zoo.registry.entry import ModelInfo

Giver = Literal["package", "hub", "publisher", "nobody"]


def origin(entry: ModelInfo) -> tuple[Giver, str]:
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
    return next((path for path in _places(entry) if path.exists()), None)


def _places(entry: ModelInfo) -> Iterator[Path]:
    if entry.embedded:
        yield Path(str(files("zoo") / "data" / entry.checkpoint))
    names = (entry.checkpoint, entry.archive, Path(entry.repository).name)
    yield from (folder / name for folder in own_folders() for name in names if name)
    if entry.checkpoint:
        yield from (folder / entry.checkpoint for folder in torch_caches())
    for name in filter(None, (entry.archive, entry.archive.removesuffix(".tar.lz4"))):
        yield equimo_cache() / name.partition("_")[0] / name
    own = ("model.safetensors", "model.safetensors.index.json") if entry.repository else ()
    for file in (*(HubFile(entry.repository, name) for name in own), *entry.hub):
        folder = _hub_cache() / f"models--{file.repository.replace('/', '--')}"
        yield from (folder / "snapshots").glob(f"*/{file.name}")


def _hub_cache() -> Path:
    """Where huggingface-hub keeps its downloads; importing it to ask takes half a second."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = os.environ.get("HF_HOME") or Path(caches, "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()
