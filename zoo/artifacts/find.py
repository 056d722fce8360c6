"""Find a variant of a built model: in a file, in a folder, or on a hub."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from weights.sources.hub import COMMIT, download, find_cached, resolve_file
from zoo.artifacts.pull import PullRequest, hub_namespace, pull_folder
from zoo.artifacts.read import read_folder_manifest, read_nearby_manifest
from zoo.artifacts.schema import MANIFEST, Manifest, Variant
from zoo.common.errors import BadFile
from zoo.common.progress import progress_bar
from zoo.registry.lookup import info


def downloads_folder() -> Path:
    """Return the folder in which `zoo.load` keeps downloaded models.

    It is `models` in the folder that the environment variable ZOO_CACHE_DIR names. Without this
    variable it is `jax-onnx-zoo/models` in XDG_CACHE_HOME or `~/.cache`.

    It is not the hub's cache, because ONNX Runtime refuses the symbolic links in this cache that
    lead to a model's tensors.
    """
    if user_folder := os.environ.get("ZOO_CACHE_DIR"):
        return Path(user_folder).expanduser() / "models"
    cache_folder = os.environ.get("XDG_CACHE_HOME")
    return (
        (Path(cache_folder) if cache_folder else Path.home() / ".cache") / "jax-onnx-zoo" / "models"
    )


def pull_variant(model: str, variant: str, revision: str | None, offline: bool) -> Path:
    """Return a folder with a variant of a model, which is downloaded if it is not on this machine.

    **Arguments**

    - `model`: the name of the model.
    - `variant`: the name of the variant.
    - `revision`: the branch, tag or commit on the hub. None means the default branch.
    - `offline`: whether requests to the hub are forbidden. The commit of the last load is then
      used, unless `revision` is a commit.

    Each commit has a folder of its own. The manifest in the hub's cache records the commit of the
    last load. Files that exist in their full size are not downloaded or checked again.

    **Raises** the errors of `pull_folder`. With `offline`, also `BadFile` if `revision` is no
    commit and was never loaded.
    """
    model_folder = downloads_folder() / f"{hub_namespace()}/{model}".replace("/", "--")
    request = PullRequest(model, (variant,), model_folder, revision)
    manifest = request.manifest
    copy = find_cached(manifest)
    cached_commit = None if copy is None else copy.parent.name
    advice = f"{request.advice} Or load with offline=True."
    if COMMIT.fullmatch(manifest.revision):
        commit = cached_commit = manifest.revision
    elif not offline:
        with progress_bar() as progress:
            commit = resolve_file(manifest, advice, progress).revision
    elif cached_commit is None:
        raise BadFile(
            f"{manifest.repository} at {manifest.revision} was never loaded into {model_folder}, "
            "and offline=True forbids asking: load it once without."
        )
    else:
        commit = cached_commit
    folder = model_folder / commit
    if not _has_variant(folder, variant):
        with progress_bar() as progress:
            pull_folder(PullRequest(model, (variant,), folder, commit, offline), progress)
    if commit != cached_commit:
        with progress_bar() as progress:
            download(manifest, advice, progress)
    return folder


def _has_variant(folder: Path, variant: str) -> bool:
    """Return whether a folder has a manifest and all files of a variant, in their full size.

    Files that belong to no variant are needed too. The digests are not compared again, because
    `pull_folder` has compared them.

    **Raises** `BadRequest` if the manifest has no such variant, and `BadFile` if the manifest is
    invalid.
    """
    if not (folder / MANIFEST).is_file():
        return False
    manifest = read_folder_manifest(folder)
    return all(
        file.has_full_size_in(folder)
        for file in manifest.select_files(manifest.select_variants([variant]))
    )


@dataclass(frozen=True)
class FoundVariant:
    """A variant of a model whose files exist on this machine.

    Arguments:
        named_path: the folder or the ONNX file that the user named.
        name: name of the variant.
        manifest: the manifest that describes the variant.
        variant: the part of the manifest about the variant.
        path: the ONNX file.
    """

    named_path: Path
    name: str
    manifest: Manifest
    variant: Variant
    path: Path


def is_built_folder(folder: Path) -> bool:
    """Return whether a folder has a manifest.json, which `zoo build` and `zoo pull` write."""
    return (folder / MANIFEST).is_file()


def find_or_pull_folder(
    model: str, variant: str, revision: str | None = None, offline: bool = False
) -> Path:
    """Return a folder that holds a built model. Download the variant if `model` is not a folder.

    `model` is the path of a built folder, or the name or alias of a model. The path of a folder
    with a manifest is returned without a check, and the other arguments are ignored. For a name
    they are as for `pull_variant`.

    **Raises** a `ZooError` or `WeightsError`.
    """
    if isinstance(model, str) and is_built_folder(Path(model)):
        return Path(model)
    name = info(model).name
    return check_folder_model(pull_variant(name, variant, revision, offline), name)


def check_folder_model(folder: Path, name: str) -> Path:
    """Return the folder, after checking that it holds the model of this name.

    **Raises** `BadFile` if it holds another model or has no valid manifest.
    """
    if (found_model := read_folder_manifest(folder).model) != name:
        raise BadFile(f"{folder} holds {found_model}, not {name}: name another folder.")
    return folder


def find_variant_in_folder(folder: Path, name: str) -> FoundVariant:
    """Return the variant of this name in a built folder.

    **Raises** `BadFile` if the folder has no valid manifest, or a file of the variant is missing or
    has another size than the manifest says. Raises `BadRequest` if the manifest has no such
    variant.
    """
    manifest = read_folder_manifest(folder)
    variant = manifest.get_variant(name)
    for file in variant.files:
        if not manifest.files_by_name[file].has_full_size_in(folder):
            raise BadFile(
                f"{folder / file} is missing or has another size than its manifest says: run "
                f"`zoo pull {manifest.model} --variant {name} --out {folder}`."
            )
    return FoundVariant(folder, name, manifest, variant, folder / variant.file)


def find_variant_in_file(path: Path) -> FoundVariant:
    """Return the variant that an ONNX file holds, with its manifest.

    The manifest is found by `read_nearby_manifest`. Sizes and digests are not compared.

    **Raises** `BadFile` if the file is missing, or if there is no valid manifest or it lists no
    ONNX file of this name.
    """
    if not path.is_file():
        raise BadFile(f"there is no file {path}: name one, or a folder of `zoo build`.")
    manifest = read_nearby_manifest(path)
    name = manifest.find_variant_name(path.name) if manifest else None
    if manifest is None or name is None:
        raise BadFile(f"{path} has no manifest that says how to preprocess: keep it beside it.")
    return FoundVariant(path, name, manifest, manifest.variants[name], path)
