"""Lock files, so that one process at a time writes a file or folder.

A lock file lies next to the file or folder. It is removed when the block that holds it ends.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from weights.progress import Progress

if TYPE_CHECKING:
    from filelock import BaseFileLock

_HELD_LOCKS: dict[Path, "BaseFileLock"] = {}
"""Lock files that this process holds."""


@contextmanager
def hold_lock(destination: Path, progress: Progress) -> Generator[None]:
    """Hold the lock of the file or folder `destination` while the block runs. Other processes that
    take the same lock wait.

    The folder of the lock file is created if it does not exist. If another process has the lock,
    this call reports that as a stage of `progress`, and waits.

    **Raises** `OSError` if the lock file cannot be written.
    """
    from filelock import FileLock, Timeout

    path = _lock_file(destination)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        progress.stage(f"waiting for another process that writes {destination}")
        lock.acquire()
    _HELD_LOCKS[path] = lock
    try:
        yield
    finally:
        _HELD_LOCKS.pop(path, None)
        # The file is removed while the lock is held. A process that has opened it before notices
        # that: filelock compares the number of links after it acquired the lock, and then starts
        # again with a new file.
        _remove_held(path, lock)
        lock.release()


def try_lock(path: Path) -> Callable[[], None] | None:
    """Acquire the lock file at `path` without waiting. Return a function that releases it.

    Return None if another process has the lock, or if the folder of the lock file does not exist.
    The lock also ends with the process.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except (Timeout, FileNotFoundError):
        return None
    return lock.release


def discard_locks() -> None:
    """Remove the lock files of all blocks of `hold_lock` that this process runs. Call it before the
    process is killed."""
    for path, held_lock in tuple(_HELD_LOCKS.items()):
        _remove_held(path, held_lock)


def _remove_held(path: Path, lock: "BaseFileLock") -> None:
    """Remove the lock file at `path`, whose lock this process holds.

    Windows does not remove an open file. There the lock is released first, and the file stays if
    another process has acquired it by then.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError:
        lock.release(force=True)
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _lock_file(destination: Path) -> Path:
    """Return the path of the lock file of a file or folder.

    It is `.NAME.lock` in the parent folder, or in the folder itself if the parent is not writable.
    Our lock files are empty. If a file of this name has content, it belongs to the user and
    filelock would truncate it, so the name is `.NAME.zoo.lock` then.
    """
    parent, name = Path(os.path.realpath(destination.parent)), destination.name
    if destination.is_dir():
        folder = Path(os.path.realpath(destination))
        parent, name = folder.parent, folder.name
        parent = parent if os.access(parent, os.W_OK) else folder
    path = parent / f".{name}.lock"
    with suppress(FileNotFoundError):  # the process that holds it may remove it at any moment
        return path if not path.stat().st_size else parent / f".{name}.zoo.lock"
    return path
