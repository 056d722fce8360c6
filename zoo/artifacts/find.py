"""Find a variant of a built model: in a file, in a folder, or in a folder that is downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weights.sources import cache
from weights.sources.hub import COMMIT, ask
from zoo.artifacts.pull import BRANCH, Wanted, namespace, pull_folder
from zoo.artifacts.read import near, read_folder_manifest
from zoo.artifacts.schema import MANIFEST, Manifest, Variant
from zoo.common.errors import BadFile
from zoo.common.progress import bar
from zoo.common.staging import writing
from zoo.registry.lookup import info


def pulled_folder(model: str, variant: str, revision: str | None, offline: bool) -> Path:
    """A folder with a model's variant, brought if need be. **Raises** as `pull`, or `BadFile`."""
    place = cache.folder(cache.MODELS, f"{namespace()}/{model}")
    asked = Wanted(model, (variant,), place, revision)
    if offline or COMMIT.fullmatch(revision or ""):
        noted = cache.noted(place, asked.manifest.revision)
        if noted is None:
            raise BadFile(
                f"{asked.manifest.repository} at {asked.manifest.revision} was never loaded into "
                f"{place}, and offline=True forbids asking: load it once without."
            )
        commit = noted
    else:
        advice = f"{asked.advice} Or load with offline=True."
        with bar() as progress:
            commit = ask(asked.manifest, advice, progress).revision
    folder = place / commit
    if not _has(folder, variant):
        with bar() as progress:
            pull_folder(Wanted(model, (variant,), folder, commit, offline), progress)
    cache.touch(folder)
    with writing(place):
        cache.note(place, revision or BRANCH, commit)
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
