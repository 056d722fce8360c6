"""Read the model argument of a command, and find a model's weights by the names of files alone."""

import os
from itertools import chain
from pathlib import Path
from typing import Literal

from weights.sources.locate import candidate_paths, hub_files
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import GivenCheckpoint
from zoo.cli.console import announce_checkpoint
from zoo.common.errors import BadRequest
from zoo.common.options import Option, argument
from zoo.registry.lookup import registered_name


def declare_model_argument(how_files_run: str = "") -> Option:
    """Return the argument of a command for a model, a checkpoint, an ONNX file or a folder.

    `how_files_run` completes the sentence of its help, for example with the runtime of ONNX files.
    """
    return argument(
        "MODEL|FILE|FOLDER",
        "The name of a model or the path of a checkpoint, which run in JAX; an .onnx file with its "
        f"manifest, or a folder of `zoo build` or `zoo pull`{how_files_run}.",
    )


def find_onnx_file(model: str, weights: str | None) -> Path | None:
    """Return the ONNX file that a command's model argument names, or None for a model in JAX.

    `model` is the argument. For a built folder, its float32 file is returned. A path that ends in
    `.onnx` is returned even if there is no such file. `weights` is the option `--weights`, or None.

    **Raises** a `ZooError` if the folder has no float32 file, or if `weights` is given for a file
    or folder, which contains its own weights.
    """
    from zoo.artifacts.find import find_variant_in_folder, is_built_folder

    path = Path(model)
    if not (is_folder := is_built_folder(path)) and not model.endswith(".onnx"):
        return None
    if weights is not None:
        raise BadRequest(
            f"--weights {weights} has no effect here, because {model} contains its own weights: "
            "leave it out."
        )
    return find_variant_in_folder(path, "fp32").path if is_folder else path


def resolve_jax_model(model: str, weights: str | None) -> tuple[str, str]:
    """Return the name of a model, and the source of its weights as for the option `--weights`.

    **Arguments**

    - `model`: the name of a model, or, if `weights` is None, the path of a checkpoint. The model of
      a checkpoint is recognised and printed on stderr, and the path is returned as the source of
      the weights.
    - `weights`: the option `--weights`. None becomes `auto` for the name of a model.
    """
    if weights is None and Path(model).exists():
        return registered_name(announce_checkpoint(GivenCheckpoint(Path(model)))[0]), model
    return model, weights or "auto"


WeightsSource = Literal["package", "hub", "publisher", "nobody"]
"""The sources of a model's weights.

They are this package, a repository on the hub, a page of the publisher, or none.
"""


def find_weights_source(entry: ModelInfo) -> tuple[WeightsSource, str]:
    """Return the kind of source of a model's weights, and the repository or page.

    The second is an empty string for weights in this package and for models without published
    weights.
    """
    if entry.embedded:
        return "package", ""
    if entry.hub:
        return "hub", entry.hub[0].repository
    if entry.checkpoint:
        return "publisher", entry.licence.download
    return "nobody", ""


def find_weights_path(entry: ModelInfo) -> Path | None:
    """Return a path on this machine with the file name of the model's weights, or None.

    Only the names of files are compared. The contents are not read.
    """
    cached_files = (
        _hub_cache().glob(f"models--{file.repository.replace('/', '--')}/snapshots/*/{file.name}")
        for file in hub_files(entry.published_files)
    )
    existing_files = filter(Path.exists, candidate_paths(entry.published_files))
    return next(chain(existing_files, chain.from_iterable(cached_files)), None)


def _hub_cache() -> Path:
    """Return the folder in which huggingface_hub keeps its downloads.

    It is computed here because importing huggingface_hub takes half a second.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = os.environ.get("HF_HOME") or Path(caches, "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()
