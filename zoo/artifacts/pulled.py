"""The folders that `zoo.load` downloads to: one for each commit of a repository."""

from pathlib import Path

from weights.sources import cache
from weights.sources.hub import COMMIT, ask
from zoo.artifacts.pull import BRANCH, Wanted, namespace, pull_folder
from zoo.artifacts.read import read_folder_manifest
from zoo.artifacts.schema import MANIFEST
from zoo.common.errors import BadFile
from zoo.common.progress import bar
from zoo.common.staging import writing


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
