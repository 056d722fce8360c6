"""Find a variant of a built model: in a file, in a folder, or in a folder that is downloaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from weights.sources.hub import COMMIT, download, find_cached, resolve_file
from zoo.artifacts.pull import PullSpec, namespace, pull_folder
from zoo.artifacts.read import near, read_folder_manifest
from zoo.artifacts.schema import MANIFEST, Manifest, Variant
from zoo.common.errors import BadFile
from zoo.common.progress import bar
from zoo.registry.lookup import info


def downloads() -> Path:
    """Return the folder in which `zoo.load` keeps models. They are not in the hub's cache, since
    ONNX Runtime refuses the links there that lead to a model's tensors."""
    if own := os.environ.get("ZOO_CACHE_DIR"):
        return Path(own).expanduser() / "models"
    common = os.environ.get("XDG_CACHE_HOME")
    return (Path(common) if common else Path.home() / ".cache") / "jax-onnx-zoo" / "models"


def pulled_folder(model: str, variant: str, revision: str | None, offline: bool) -> Path:
    """Return a folder with a model's variant, which is downloaded unless it is there.

    The hub's cache records the commit that a branch was at when it was loaded last, in the form of
    the manifest of that commit. **Raises** as `pull`, or `BadFile`.
    """
    place = downloads() / f"{namespace()}/{model}".replace("/", "--")
    request = PullSpec(model, (variant,), place, revision)
    manifest = request.manifest
    copy = find_cached(manifest)
    known = None if copy is None else copy.parent.name
    advice = f"{request.advice} Or load with offline=True."
    if COMMIT.fullmatch(manifest.revision):
        commit = known = manifest.revision
    elif not offline:
        with bar() as progress:
            commit = resolve_file(manifest, advice, progress).revision
    elif known is None:
        raise BadFile(
            f"{manifest.repository} at {manifest.revision} was never loaded into {place}, and "
            "offline=True forbids asking: load it once without."
        )
    else:
        commit = known
    folder = place / commit
    if not _has(folder, variant):
        with bar() as progress:
            pull_folder(PullSpec(model, (variant,), folder, commit, offline), progress)
    if commit != known:
        with bar() as progress:
            download(manifest, advice, progress)
    return folder


def _has(folder: Path, variant: str) -> bool:
    """Whether a variant is complete in a folder that `pull` made, where digests were checked."""
    if not (folder / MANIFEST).is_file():
        return False
    manifest = read_folder_manifest(folder)
    return all(file.is_complete(folder) for file in manifest.needed(manifest.pick([variant])))


@dataclass(frozen=True)
class FoundVariant:
    """A variant and its file, which is all there. `place` is what `zoo.load` opens."""

    place: Path
    name: str
    manifest: Manifest
    variant: Variant
    path: Path


def is_built(place: Path) -> bool:
    """Whether a folder is one of `zoo build` or `zoo pull`."""
    return (place / MANIFEST).is_file()


def find_folder(
    model: str, variant: str, revision: str | None = None, offline: bool = False
) -> Path:
    """A folder that has the variant: one that is named, or that of a model's name, into which it is
    downloaded. **Raises** a `ZooError` or `WeightsError`."""
    if isinstance(model, str) and is_built(Path(model)):
        return Path(model)
    name = info(model).name
    return folder_of(pulled_folder(name, variant, revision, offline), name)


def folder_of(place: Path, name: str) -> Path:
    """A folder that holds the model of this name. **Raises** `BadFile`."""
    if (held := read_folder_manifest(place).model) != name:
        raise BadFile(f"{place} holds {held}, not {name}: name another folder.")
    return place


def variant_in_folder(place: Path, name: str) -> FoundVariant:
    """A variant of a folder. **Raises** `BadFile` or `BadRequest`."""
    manifest = read_folder_manifest(place)
    chosen = manifest.one(name)
    for file in chosen.files:
        if not manifest.listed[file].is_complete(place):
            raise BadFile(
                f"{place / file} is missing or has another size than its manifest says: run "
                f"`zoo pull {manifest.model} --variant {name} --out {place}`."
            )
    return FoundVariant(place, name, manifest, chosen, place / chosen.file)


def variant_in_file(path: Path) -> FoundVariant:
    """The variant that a file is, with a manifest beside it or in the folder above. **Raises**
    `BadFile`."""
    if not path.is_file():
        raise BadFile(f"there is no file {path}: name one, or a folder of `zoo build`.")
    manifest = near(path)
    name = manifest.label_of(path.name) if manifest else None
    if manifest is None or name is None:
        raise BadFile(f"{path} has no manifest that says how to preprocess: keep it beside it.")
    return FoundVariant(path, name, manifest, manifest.variants[name], path)
