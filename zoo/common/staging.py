"""Write files atomically: they appear under their final names only when they are complete."""

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

PREFIX = ".zoo-"  # prefix of the names of staged folders
STAGED_NAME = re.compile(r"\.zoo-[0-9a-f]{16}")
LOCK = ".lock"  # a file in a staged folder, which its process locks

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
"""Pattern of the names of files in a manifest. No part begins with a dot, so that a name can mean
neither `..` nor a hidden file."""

INTERRUPTION = "interrupted; nothing unfinished was put in place"

_OPEN: dict[Path, Callable[[], None] | None] = {}
"""The staged folders of this process, with the functions that release their locks."""

_UNDIVIDED: list[object] = []
"""Blocks that must finish before this process is stopped."""

_PENDING: list[int] = []
"""Numbers of the signals that arrived during such a block."""


@contextmanager
def staged(folder: Path) -> Generator[Path]:
    """Yield a hidden folder inside `folder`, from which files are moved to their paths by a rename.

    It is removed when the block ends, also after an exception; `discard` removes it before an
    immediate exit. The folder of a killed process is removed when files are staged in the same
    folder again.

    **Raises** `BadOutput` if `folder` cannot be written.
    """
    release = None
    with ExitStack() as stack:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            sweep(folder)
            # Try again if another process has removed the new folder.
            while release is None:
                stage = folder / f"{PREFIX}{secrets.token_hex(8)}"
                # Set before the folder exists, so that a signal handler can remove the folder.
                _OPEN[stage] = None
                stack.callback(_OPEN.pop, stage, None)
                stack.callback(shutil.rmtree, stage, ignore_errors=True)
                stage.mkdir(mode=0o700)
                _OPEN[stage] = release = lock.try_lock(stage / LOCK)
        stack.callback(release)
        yield stage


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield a path for a new file. When the block ends, move the file to `path`.

    If the block raises an exception, the file is removed and `path` is not changed.
    """
    with staged(path.parent) as stage, writing(path):
        yield stage / path.name
        (stage / path.name).replace(path)


def check_free(path: Path, force: bool = False, advice: str = "") -> None:
    """Check that nothing exists at a path, not even a broken link, unless `force` is set.

    `advice` replaces the end of the message. **Raises** `BadOutput`.
    """
    if os.path.lexists(path) and not force:
        advice = advice or f"replace it with {parameter('force')}, or name another place"
        raise BadOutput(f"{path} exists already: {advice}.")


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8 with line feeds, on every operating system."""
    path.write_text(text, encoding="utf-8", newline="\n")


def sweep(folder: Path) -> None:
    """Remove the staged folders of processes that were killed.

    The lock of such a folder is free. A running process holds the lock of its folder.
    """
    for stage in folder.glob(f"{PREFIX}*"):
        if stage.is_symlink() or not STAGED_NAME.fullmatch(stage.name):
            continue
        with suppress(OSError):  # the folder may belong to another user
            if (release := lock.try_lock(stage / LOCK)) is not None:
                # Hold the lock, so that the process that created the folder cannot take it.
                _remove_staged(stage, release)


def _remove_staged(stage: Path, release: Callable[[], None] | None) -> None:
    """Remove a staged folder. This process holds its lock.

    On Windows an open file cannot be removed. There the folder is removed after the lock is
    released.
    """
    shutil.rmtree(stage, ignore_errors=True)
    if release is not None:
        release()
    if stage.exists():
        shutil.rmtree(stage, ignore_errors=True)


def discard() -> None:
    """Remove all staged folders, partial downloads and locks of this process before it exits."""
    for stage, release in tuple(_OPEN.items()):
        _remove_staged(stage, release)
    discard_partial_downloads()
    lock.discard_locks()


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Raise `BadOutput` in place of an `OSError` in the block."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise BadOutput(
            f"cannot write {path} ({why}): make room there, or choose another place."
        ) from error


@contextmanager
def locked_output(destination: Path, progress: Progress) -> Generator[None]:
    """Hold the lock of a file or folder while the block runs, so that no other process writes it.

    **Raises** `BadOutput` if it cannot be written, if it is a broken link or lies behind one, or if
    its name is no UTF-8, which neither ONNX Runtime nor a manifest accepts.
    """
    try:
        str(destination).encode()
    except UnicodeEncodeError as error:
        raise BadOutput(
            f"the name of {destination} is no UTF-8: name another place with {parameter('out')}."
        ) from error
    for path in (destination, *destination.parents):
        if path.is_symlink() and not path.exists():
            raise BadOutput(
                f"{path} is a link to nothing: name another place with {parameter('out')}."
            )
    with ExitStack() as stack:
        with writing(destination):
            stack.enter_context(lock.hold_lock(destination, progress))
        yield


def manifest_path(model_file: Path) -> Path:
    """Return the path of the manifest of an ONNX file, which ends in `.manifest.json`."""
    return model_file.with_suffix(".manifest.json")


def sidecar_path(model_file: Path) -> Path:
    """Return the path of the file with the tensors of a model of more than 2 GB."""
    return model_file.with_name(model_file.name + "_data")


def links(folder: Path, name: str) -> list[Path]:
    """Return the symbolic links on the path of a file: the file itself and its parent folders."""
    parts = (Path(name), *Path(name).parents[:-1])
    return [path for part in parts if (path := folder / part).is_symlink()]


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Check that no folder between `folder` and one of its files is a symbolic link.

    **Raises** `BadOutput`.
    """
    for parent in {str(Path(name).parent) for name in names} - {"."}:
        if linked := links(folder, parent):
            raise BadOutput(
                f"{linked[0]} is a link: remove it, or name another folder with {parameter('out')}."
            )


@contextmanager
def undivided() -> Generator[None]:
    """Delay the signals that stop this process until the block has ended.

    Use it for a few renames that must all be done, because the files cannot be used if only some
    are.
    """
    token = object()
    _UNDIVIDED.append(token)
    try:
        yield
    finally:
        _UNDIVIDED.remove(token)
        if _PENDING and not _UNDIVIDED:
            stop(_PENDING[0], None)


def replace_folder(new: Path, folder: Path) -> None:
    """Move the folder `new` to the path `folder`, or keep the old folder if that fails.

    If the process is killed between the two renames, `put_back` restores the old folder.
    """
    moved_folder = _moved_away(folder)
    shutil.rmtree(moved_folder, ignore_errors=True)
    with undivided():
        try:
            if folder.exists():
                folder.rename(moved_folder)
            new.rename(folder)
        finally:
            put_back(folder)
    shutil.rmtree(moved_folder, ignore_errors=True)


def put_back(folder: Path) -> None:
    """Move a folder back to its path, if `replace_folder` moved it away and the path is free."""
    if _moved_away(folder).is_dir() and not os.path.lexists(folder):
        _moved_away(folder).rename(folder)


def _moved_away(folder: Path) -> Path:
    return folder.with_name(f"{PREFIX}{folder.name}.old")


def put(stage: Path, folder: Path, names: Sequence[str], last: str) -> None:
    """Move staged files into a folder. Other files in the folder are not changed.

    `last` is the name of the manifest. A folder without its manifest is never read. The manifest is
    removed first and moved last, so that an interruption never leaves a mixture of old and new
    files.
    """
    with writing(folder), undivided():
        (folder / last).unlink(missing_ok=True)
        for name in sorted(names, key=lambda name: name == last):
            (stage / name).replace(folder / name)


def replace_export(stage: Path, target: Path) -> None:
    """Move an export to its path: the sidecar first, then the model, then the manifest.

    The old model is removed first if it could be taken for one with the new sidecar, or the new
    model for one with the old sidecar.
    """
    staged_model = stage / target.name
    with undivided():
        manifest_path(target).unlink(missing_ok=True)
        if sidecar_path(target).exists() or sidecar_path(staged_model).exists():
            target.unlink(missing_ok=True)
        for path_of in (sidecar_path, Path, manifest_path):
            if path_of(staged_model).exists():
                os.replace(path_of(staged_model), path_of(target))
            else:
                path_of(target).unlink(missing_ok=True)


def stop(number: int, frame: FrameType | None) -> None:
    """Handle a signal: remove staged folders, terminate the workers and exit the process.

    Within an `undivided` block, the signal is handled when the block ends.
    """
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
    """The sha256 of files as they were last written, by file name."""

    @contextmanager
    def taken(self) -> Generator[Callable[[str, bytes | memoryview], None]]:
        """Yield a function that adds bytes to the digest of a file. Store the digests at the end.

        The function takes the name of a file and its next bytes. The digests are stored when the
        block ends without an exception.
        """
        hashes: defaultdict[str, Any] = defaultdict(hashlib.sha256)
        yield lambda name, piece: hashes[name].update(piece)
        self.update({name: digest.hexdigest() for name, digest in hashes.items()})
