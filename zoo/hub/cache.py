"""The folders that `zoo.load` downloads to: one for each commit of a repository."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from weights.sources.transfer import COMMIT, commit_of
from zoo.errors import BadFile
from zoo.files.staging import staged, writing
from zoo.hub.pull import BRANCH, Wanted, namespace, pull
from zoo.manifest.read import read_folder
from zoo.manifest.schema import MANIFEST
from zoo.progress import bar


def root() -> Path:
    """Where everything is kept."""
    own = os.environ.get("ZOO_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    common = os.environ.get("XDG_CACHE_HOME")
    return (Path(common) if common else Path.home() / ".cache") / "jax-onnx-zoo"


def cached(model: str, variant: str, revision: str | None, offline: bool) -> Path:
    """A folder with a model's variant, which is downloaded if it is not there yet.

    **Raises** `BadFile` if that would be needed offline, or what `pull` does.
    """
    place = root() / namespace() / model
    note = place / "refs" / quote(revision or BRANCH, safe="")
    asked = Wanted(model, (variant,), place, revision)
    if revision is not None and COMMIT.fullmatch(revision):
        commit = revision
    elif offline:
        commit = _noted(note, asked)
    else:
        commit = commit_of(asked.manifest, f"{asked.advice} Or load with offline=True.")
    folder = place / commit
    if not _has(folder, variant):
        with bar() as progress:
            pull(Wanted(model, (variant,), folder, commit, offline), progress)
    _write(note, commit)
    return folder


def _noted(note: Path, asked: Wanted) -> str:
    """The commit that a revision was at when it was asked for last."""
    commit = note.read_text() if note.is_file() else ""
    if not COMMIT.fullmatch(commit):
        raise BadFile(
            f"{asked.manifest.repository} at {asked.manifest.revision} was never loaded into "
            f"{asked.folder}, and offline=True forbids asking: load it once without."
        )
    return commit


def _write(note: Path, commit: str) -> None:
    with staged(note.parent) as stage, writing(note):
        (stage / "commit").write_text(commit)
        (stage / "commit").replace(note)


def _has(folder: Path, variant: str) -> bool:
    """Whether a variant is complete in a folder that `pull` made, where digests were checked."""
    if not (folder / MANIFEST).is_file():
        return False
    manifest = read_folder(folder)
    return all(file.is_complete(folder) for file in manifest.needed(manifest.pick([variant])))
