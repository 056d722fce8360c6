"""Our own cache: files of a hub by repository and commit, each of which was checked.

`<root>/<kind>/<owner>--<name>/<commit>/<file>`; `refs/<revision>` beside the commits says at which
of them a branch or tag was when it was asked for last.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import quote

from weights.lock import locked
from weights.opening import read_at_most
from weights.progress import Progress
from weights.sources.content import check_content
from weights.sources.hub import COMMIT, HubFile, ask, unreachable
from weights.sources.transfer import PART, check_digest, download, part_of

CHECKPOINTS = "checkpoints"
MODELS = "models"

REFS = "refs"


@dataclass(frozen=True)
class CachedEntry:
    """A checkpoint, or a folder with a model. `used` is when, in seconds since 1970.

    The name is `checkpoints/OWNER/NAME/COMMIT/FILE` or `models/OWNER/NAME/COMMIT`.
    """

    kind: str
    name: str
    path: Path
    bytes: int
    used: float


def root() -> Path:
    """Where everything is kept."""
    if own := os.environ.get("ZOO_CACHE_DIR"):
        return Path(own).expanduser()
    common = os.environ.get("XDG_CACHE_HOME")
    return (Path(common) if common else Path.home() / ".cache") / "jax-onnx-zoo"


def folder(kind: str, repository: str) -> Path:
    """Where the commits of a repository lie."""
    return root() / kind / repository.replace("/", "--")


def place(file: HubFile) -> Path:
    """Where a file belongs whose revision is a commit."""
    return folder(CHECKPOINTS, file.repository) / file.revision / file.name


def kept(file: HubFile, is_dry: bool = False) -> Path | None:
    """Where an earlier download of ours lies, which counts as a use of it but in a dry run."""
    commit = noted(folder(CHECKPOINTS, file.repository), file.revision)
    path = None if commit is None else place(replace(file, revision=commit))
    if path is None or not path.is_file():
        return None
    if not is_dry:
        touch(path)
    return path


def fill(
    file: HubFile, advice: str, listener: Progress, before: Callable[[], None] | None = None
) -> tuple[Path, str]:
    """Download a file into the cache, unless it is there: its path and its sha256. `before` is
    called before a download that the hub allows. **Raises** `Unreachable`, whose message ends in
    `advice`, or `WrongDigest`."""
    asked = ask(file, advice, listener)
    path = place(asked)
    try:
        with locked(path, listener):
            if path.exists():
                digest = check_digest(path, asked, listener)
                check_content(path, asked)
            else:
                if before is not None:
                    before()
                digest = download(asked, path, advice, listener)
        note(folder(CHECKPOINTS, file.repository), file.revision, asked.revision)
    except OSError as error:
        raise unreachable(asked, error, advice) from error
    return path, digest


def noted(repository: Path, revision: str) -> str | None:
    """The commit that a revision of a repository was at when it was asked for last."""
    if COMMIT.fullmatch(revision):
        return revision
    path = _note(repository, revision)
    commit = read_at_most(path, 100).decode("ascii", "replace") if path.is_file() else ""
    return commit if COMMIT.fullmatch(commit) else None


def note(repository: Path, revision: str, commit: str) -> None:
    """Keep in mind at which commit a revision is."""
    if revision != commit:
        path = _note(repository, revision)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{secrets.token_hex(8)}{PART}")
        fresh.write_bytes(commit.encode("ascii"))
        fresh.replace(path)


def _note(repository: Path, revision: str) -> Path:
    return repository / REFS / quote(revision, safe="")


def touch(path: Path) -> None:
    """Keep in mind that an entry was used now, if the cache can be written."""
    with suppress(OSError):
        os.utime(path)


def entries(patterns: Sequence[str] = ("*",)) -> list[CachedEntry]:
    """Files that are kept and fit one of the shell patterns. Links are not followed."""
    items = (
        _entry(kind, path)
        for kind in (CHECKPOINTS, MODELS)
        for repository in _folders(root() / kind)
        for commit in _commits(repository)
        for path in ([commit] if kind == MODELS else sorted(set(_targets(commit))))
    )
    return [item for item in items if any(fnmatchcase(item.name, text) for text in patterns)]


def _entry(kind: str, path: Path) -> CachedEntry:
    owner_and_name, *inner = path.relative_to(root() / kind).parts
    name = "/".join((kind, owner_and_name.replace("--", "/", 1), *inner))
    files = _files(path) if kind == MODELS else (path, part_of(path))
    there = [file.lstat() for file in files if os.path.lexists(file)]
    used = path.stat().st_mtime if kind == MODELS else max(file.st_mtime for file in there)
    return CachedEntry(kind, name, path, sum(file.st_size for file in there), used)


def remove(entry: CachedEntry, listener: Progress) -> None:
    """Remove an entry, once nobody writes it any more. **Raises** `OSError`."""
    with locked(entry.path, listener):
        if entry.kind == MODELS:
            shutil.rmtree(entry.path)
        else:
            for path in (entry.path, part_of(entry.path)):
                path.unlink(missing_ok=True)
    kind = root() / entry.kind
    folders = list(entry.path.relative_to(kind).parents)[:-1]
    repository = kind / folders[-1]
    # Somebody may be about to put something there.
    with suppress(OSError):
        for place in folders[:-1]:
            (kind / place).rmdir()
        if not _commits(repository):
            shutil.rmtree(repository / REFS, ignore_errors=True)
            repository.rmdir()


def _commits(repository: Path) -> list[Path]:
    return [path for path in _folders(repository) if COMMIT.fullmatch(path.name)]


def _folders(place: Path) -> list[Path]:
    """The folders in a folder that are no links; none if it is a link itself."""
    if place.is_symlink() or not place.is_dir():
        return []
    return sorted(path for path in place.iterdir() if path.is_dir() and not path.is_symlink())


def _files(place: Path) -> Iterator[Path]:
    return (Path(path, name) for path, _, names in os.walk(place) for name in names)


def _targets(commit: Path) -> Iterator[Path]:
    """The files of a commit, also those of which there is only a part."""
    for path in _files(commit):
        if not path.name.startswith("."):
            yield path
        elif path.name.endswith(PART):
            yield path.with_name(path.name[1:].removesuffix(PART))
