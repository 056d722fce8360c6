"""One process at a time: a lock file beside what is written, which goes when nobody waits."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from weights.progress import Progress

if TYPE_CHECKING:
    from filelock import BaseFileLock

_HELD: dict[Path, "BaseFileLock"] = {}


@contextmanager
def locked(destination: Path, progress: Progress) -> Generator[None]:
    """Keep other processes from a file or folder while the block runs; wait for one that has it.
    **Raises** `OSError` where the lock file cannot be written."""
    from filelock import FileLock, Timeout

    path = _lock_file(destination)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        progress.stage(f"waiting for another process that writes {destination}")
        lock.acquire()
    _HELD[path] = lock
    try:
        yield
    finally:
        _HELD.pop(path, None)
        # Removed while it is held: who has opened it before sees that it lost its name (filelock
        # looks at the count of links once it has the lock), and begins again with a new file.
        _remove_held(path, lock)
        lock.release()


def try_lock(path: Path) -> Callable[[], None] | None:
    """Take a lock file now, and give what releases it; None where another process has it. It is
    None where the file's folder is gone, too. The lock ends with the process."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except (Timeout, FileNotFoundError):
        return None
    return lock.release


def discard_locks() -> None:
    """Remove the lock files that are held: for a process that is about to end."""
    for path, lock in tuple(_HELD.items()):
        _remove_held(path, lock)


def _remove_held(path: Path, lock: "BaseFileLock") -> None:
    """Remove a lock file that this process has. Windows removes none that is open: there it is
    released first, and stays if another process has it by then."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        lock.release(force=True)
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _lock_file(destination: Path) -> Path:
    """`.NAME.lock` beside a place; in it, if it is a folder whose parent is not ours to write. Ours
    are empty: one that is not is somebody's own, which filelock would empty, so that it is
    `.NAME.zoo.lock` then."""
    parent, name = Path(os.path.realpath(destination.parent)), destination.name
    if destination.is_dir():
        folder = Path(os.path.realpath(destination))
        parent, name = folder.parent, folder.name
        parent = parent if os.access(parent, os.W_OK) else folder
    path = parent / f".{name}.lock"
    with suppress(FileNotFoundError):  # who has it may remove it at any moment
        return path if not path.stat().st_size else parent / f".{name}.zoo.lock"
    return path
