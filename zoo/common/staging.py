"""Write files all or nothing: they appear under their final names only when they are complete."""

import hashlib
import os
import re
import secrets
import shutil
import signal
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from weights import lock
from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.hub import discard_partial_downloads
from zoo.common.errors import BadOutput
from zoo.common.processes import terminate_workers
from zoo.common.terminal import complain

PREFIX = ".zoo-"  # how the names of staged folders begin
STAGE = re.compile(r"\.zoo-[0-9a-f]{16}")
LOCK = ".lock"  # in a staged folder: held for as long as its process lives

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
"""What files are called in a manifest: no part begins with a dot, so that neither `..` nor a hidden
file can be meant."""

INTERRUPTION = "interrupted; nothing unfinished was put in place"

_OPEN: dict[Path, Callable[[], None] | None] = {}
"""What is staged, and what releases the lock in it."""

_UNDIVIDED: list[object] = []
"""Blocks that run to their end before this process is stopped."""

_PENDING: list[int] = []
"""Signals that arrived meanwhile."""


@contextmanager
def staged(folder: Path) -> Generator[Path]:
    """A hidden folder inside `folder`, so that a rename suffices in the end.

    It is removed on the way out, whatever the way; `discard` does it for who leaves at once. What
    a process left that was killed is removed when somebody stages in the same folder again.

    **Raises** `BadOutput` if `folder` cannot be written.
    """
    release = None
    with ExitStack() as stack:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            sweep(folder)
            # Another one where a sweeper has taken it for a dead process's.
            while release is None:
                stage = folder / f"{PREFIX}{secrets.token_hex(8)}"
                # Noted before it is there, so that whatever interrupts us next finds it here.
                _OPEN[stage] = None
                stack.callback(_OPEN.pop, stage, None)
                stack.callback(shutil.rmtree, stage, ignore_errors=True)
                stage.mkdir(mode=0o700)
                _OPEN[stage] = release = lock.try_lock(stage / LOCK)
        stack.callback(release)
        yield stage


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Where to write a file that takes its place at `path` once the block is through."""
    with staged(path.parent) as stage, writing(path):
        yield stage / path.name
        (stage / path.name).replace(path)


def check_free(path: Path, force: bool = False, advice: str = "") -> None:
    """**Raises** `BadOutput` where something is, be it a link to nothing, unless by force."""
    if os.path.lexists(path) and not force:
        advice = advice or f"replace it with {parameter('force')}, or name another place"
        raise BadOutput(f"{path} exists already: {advice}.")


def write_text(path: Path, text: str) -> None:
    """Write text as every machine does: in UTF-8, lines ending in a line feed."""
    path.write_text(text, encoding="utf-8", newline="\n")


def sweep(folder: Path) -> None:
    """Remove what killed processes have staged in a folder; what lives holds a lock."""
    for stage in folder.glob(f"{PREFIX}*"):
        if stage.is_symlink() or not STAGE.fullmatch(stage.name):
            continue
        with suppress(OSError):  # another user's is theirs to remove
            if (release := lock.try_lock(stage / LOCK)) is not None:
                # While it is held, so that nobody who has just made the folder takes it.
                _remove_staged(stage, release)


def _remove_staged(stage: Path, release: Callable[[], None] | None) -> None:
    """Remove a staged folder, of which this process has the lock. Windows removes no open file:
    there it goes once the lock is released."""
    shutil.rmtree(stage, ignore_errors=True)
    if release is not None:
        release()
    if stage.exists():
        shutil.rmtree(stage, ignore_errors=True)


def discard() -> None:
    """Remove everything that is staged, partial downloads and locks: for a process that is about to
    end."""
    for stage, release in tuple(_OPEN.items()):
        _remove_staged(stage, release)
    discard_partial_downloads()
    lock.discard_locks()


@contextmanager
def writing(place: Path) -> Generator[None]:
    """Turn what the operating system refuses into `BadOutput`."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise BadOutput(
            f"cannot write {place} ({why}): make room there, or choose another place."
        ) from error


@contextmanager
def locked_output(destination: Path, progress: Progress) -> Generator[None]:
    """Have a file or folder alone while the block runs. **Raises** `BadOutput`, also for a name
    that is no UTF-8: neither ONNX Runtime nor a manifest takes one."""
    try:
        str(destination).encode()
    except UnicodeEncodeError as error:
        raise BadOutput(
            f"the name of {destination} is no UTF-8: name another place with {parameter('out')}."
        ) from error
    for place in (destination, *destination.parents):
        if place.is_symlink() and not place.exists():
            raise BadOutput(
                f"{place} is a link to nothing: name another place with {parameter('out')}."
            )
    with ExitStack() as stack:
        with writing(destination):
            stack.enter_context(lock.hold_lock(destination, progress))
        yield


def manifest_path(model_file: Path) -> Path:
    """Where the manifest of an ONNX file lies: beside it, ending in `.manifest.json`."""
    return model_file.with_suffix(".manifest.json")


def sidecar_path(model_file: Path) -> Path:
    """Where a model of more than 2 GB keeps its tensors."""
    return model_file.with_name(model_file.name + "_data")


def links(folder: Path, name: str) -> list[Path]:
    """Links among a file in a folder and the folders on the way: each may lead anywhere."""
    parts = (Path(name), *Path(name).parents[:-1])
    return [path for part in parts if (path := folder / part).is_symlink()]


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """**Raises** `BadOutput` where a folder on the way to a file is a link."""
    for parent in {str(Path(name).parent) for name in names} - {"."}:
        if linked := links(folder, parent):
            raise BadOutput(
                f"{linked[0]} is a link: remove it, or name another folder with {parameter('out')}."
            )


@contextmanager
def undivided() -> Generator[None]:
    """Let a signal that stops this process wait for the end of the block: of a few renames that
    leave nothing usable by halves."""
    block = object()
    _UNDIVIDED.append(block)
    try:
        yield
    finally:
        _UNDIVIDED.remove(block)
        if _PENDING and not _UNDIVIDED:
            stop(_PENDING[0], None)


def replace_folder(new: Path, folder: Path) -> None:
    """Put a folder in the place of another, or leave that where it is. Of a process that is killed
    between two renames, `put_back` finds the older folder."""
    old = _aside(folder)
    shutil.rmtree(old, ignore_errors=True)
    with undivided():
        try:
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
        finally:
            put_back(folder)
    shutil.rmtree(old, ignore_errors=True)


def put_back(folder: Path) -> None:
    """Move a folder to its place again that was moved aside for another, if none is there."""
    if _aside(folder).is_dir() and not os.path.lexists(folder):
        _aside(folder).rename(folder)


def _aside(folder: Path) -> Path:
    return folder.with_name(f"{PREFIX}{folder.name}.old")


def put(stage: Path, folder: Path, names: Sequence[str], last: str) -> None:
    """Move staged files into a folder, and leave its other files alone.

    Without the file `last` the folder is none that anybody reads. It is removed first and put there
    in the end, so that whoever is stopped in the middle leaves no mixture of old and new.
    """
    with writing(folder), undivided():
        (folder / last).unlink(missing_ok=True)
        for name in sorted(names, key=lambda name: name == last):
            (stage / name).replace(folder / name)


def replace_export(stage: Path, target: Path) -> None:
    """Move an export to its place: what the model needs before it, what describes it after. What
    there was goes first where its parts could be taken for one with the new ones."""
    staged_model = stage / target.name
    with undivided():
        manifest_path(target).unlink(missing_ok=True)
        if sidecar_path(target).exists() or sidecar_path(staged_model).exists():
            target.unlink(missing_ok=True)
        for place in (sidecar_path, Path, manifest_path):
            if place(staged_model).exists():
                os.replace(place(staged_model), place(target))
            else:
                place(target).unlink(missing_ok=True)


def stop(number: int, frame: FrameType | None) -> None:
    """Leave at once, with what is staged removed and the workers told to do the same; after an
    undivided block where one runs."""
    if _UNDIVIDED:
        _PENDING.append(number)
        return
    # Raising here is not enough: an exception that arrives inside a destructor is dropped.
    terminate_workers()
    discard()
    if number == signal.SIGINT:
        complain(INTERRUPTION)
    os._exit(128 + number)


class Digests(dict[str, str]):
    """sha256 by name, of files as they were written last."""

    @contextmanager
    def taken(self) -> Generator[Callable[[str, bytes | memoryview], None]]:
        """Digests that are there once the files' names and bytes were told in order."""
        begun: defaultdict[str, Any] = defaultdict(hashlib.sha256)
        yield lambda name, piece: begun[name].update(piece)
        self.update({name: digest.hexdigest() for name, digest in begun.items()})
