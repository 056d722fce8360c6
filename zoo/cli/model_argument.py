"""Read the model argument of a command, and find a model's weights by file names alone."""

import os
from itertools import chain
from pathlib import Path
from typing import Literal

from weights.sources.locate import candidate_paths, hub_files
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import GivenCheckpoint
from zoo.cli.console import tell_recognised
from zoo.common.errors import BadRequest
from zoo.common.options import Option, argument
from zoo.registry.lookup import registered_name


def named_model(how_files_run: str = "") -> Option:
    """The argument of a command."""
    return argument(
        "MODEL|FILE|FOLDER",
        "The name of a model or the path of a checkpoint, which run in JAX; an .onnx file with its "
        f"manifest, or a folder of `zoo build` or `zoo pull`{how_files_run}.",
    )


def file_of(model: str, weights: str | None) -> Path | None:
    """The ONNX file that is named, or the one of a folder in float32; None for a model in JAX.
    **Raises** a `ZooError`, also where weights are named that such a file has itself."""
    from zoo.artifacts.find import is_built, variant_in_folder

    path = Path(model)
    if not (built := is_built(path)) and not model.endswith(".onnx"):
        return None
    if weights is not None:
        raise BadRequest(
            f"--weights {weights} has no effect here, for {model} has its own: leave it out."
        )
    return variant_in_folder(path, "fp32").path if built else path


def model_in_jax(model: str, weights: str | None) -> tuple[str, str]:
    """The name of a model and its weights, which may be a checkpoint that is named instead."""
    if weights is None and Path(model).exists():
        return registered_name(tell_recognised(GivenCheckpoint(Path(model)))[0]), model
    return model, weights or "auto"


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
    there = filter(Path.exists, candidate_paths(entry.places))
    return next(chain(there, chain.from_iterable(downloads)), None)


def _hub_cache() -> Path:
    """Where huggingface-hub keeps its downloads; importing it to ask takes half a second."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = os.environ.get("HF_HOME") or Path(caches, "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()
