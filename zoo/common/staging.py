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
from zoo.common.terminal import print_stderr

PREFIX = ".zoo-"  # prefix of the names of staged folders
STAGED_NAME = re.compile(r"\.zoo-[0-9a-f]{16}")
LOCK = ".lock"  # a file in a staged folder, which its process locks

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
"""Pattern of the names of files in a manifest. No part begins with a dot, so that a name can mean
neither `..` nor a hidden file."""

INTERRUPTION = "interrupted; nothing unfinished was put in place"

_STAGED_FOLDERS: dict[Path, Callable[[], None] | None] = {}
"""The staged folders of this process, with the functions that release their locks."""

_CRITICAL_BLOCKS: list[object] = []
"""Blocks that must finish before this process is stopped."""

_PENDING_SIGNALS: list[int] = []
"""Numbers of the signals that arrived during such a block."""


@contextmanager
def staged(folder: Path) -> Generator[Path]:
    """Yield a hidden folder inside `folder` for new files, to be renamed to their final paths.

    `folder` is created if it does not exist. The hidden folder is removed when the `with` block
    ends, also after an exception. A process that exits at once calls `remove_staged_folders` to
    remove it. If the process is killed, the hidden folder remains until files are next staged in
    `folder`.

    **Raises** `BadOutput` if `folder` cannot be written.
    """
    release = None
    with ExitStack() as stack:
        with translate_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            remove_stale_folders(folder)
            # Try again if another process has removed the new folder.
            while release is None:
                stage = folder / f"{PREFIX}{secrets.token_hex(8)}"
                # Set before the folder exists, so that a signal handler can remove the folder.
                _STAGED_FOLDERS[stage] = None
                stack.callback(_STAGED_FOLDERS.pop, stage, None)
                stack.callback(shutil.rmtree, stage, ignore_errors=True)
                stage.mkdir(mode=0o700)
                _STAGED_FOLDERS[stage] = release = _lock_stage(stage)
        stack.callback(release)
        yield stage


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield a temporary path for a new file. When the `with` block ends, move the file to `path`.

    The folder of `path` is created if it does not exist. An existing file at `path` is replaced. If
    the block raises an exception, the new file is removed and `path` is not changed.

    **Raises** `BadOutput` in place of any `OSError` of the block or of the move.
    """
    with staged(path.parent) as stage, translate_write_errors(path):
        yield stage / path.name
        (stage / path.name).replace(path)


def check_free(path: Path, force: bool = False, advice: str = "") -> None:
    """Check that nothing exists at a path, not even a broken link. With `force` nothing is checked.

    `advice` replaces the part of the message that says what to do. **Raises** `BadOutput`.
    """
    if os.path.lexists(path) and not force:
        advice = advice or f"replace it with {parameter('force')}, or name another place"
        raise BadOutput(f"{path} exists already: {advice}.")


def check_output_path(target: Path, force: bool) -> None:
    """Check that an ONNX file can be written to the path `target`, with its manifest and sidecar
    beside it.

    **Raises** `BadOutput` if one of the three paths is a folder, or exists and `force` is false.
    """
    for path in (target, manifest_path(target), sidecar_path(target)):
        if path.is_dir():
            raise BadOutput(f"{path} is a folder: name another place with {parameter('out')}.")
        check_free(path, force)


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8. Lines end in a line feed on every operating system."""
    path.write_text(text, encoding="utf-8", newline="\n")


def remove_stale_folders(folder: Path) -> None:
    """Remove the staged folders in `folder` that killed processes have left.

    A running process holds a lock in its staged folder. A folder whose lock is free is removed.
    """
    for stage in folder.glob(f"{PREFIX}*"):
        if stage.is_symlink() or not STAGED_NAME.fullmatch(stage.name):
            continue
        with suppress(OSError):  # the folder may belong to another user
            if (release := _lock_stage(stage)) is not None:
                # Hold the lock, so that the process that created the folder cannot take it.
                _remove_staged(stage, release)


def _lock_stage(stage: Path) -> Callable[[], None] | None:
    """Lock a staged folder without waiting. Return a function that releases the lock, or None if
    another process has the lock or the folder does not exist."""
    return lock.try_lock(stage / LOCK)


def _remove_staged(stage: Path, release: Callable[[], None] | None) -> None:
    """Remove a staged folder, then call `release` to release its lock.

    This process must hold the lock. On Windows the open lock file cannot be removed, so the removal
    is tried again after the release.
    """
    shutil.rmtree(stage, ignore_errors=True)
    if release is not None:
        release()
    if stage.exists():
        shutil.rmtree(stage, ignore_errors=True)


def remove_staged_folders() -> None:
    """Remove all staged folders, partial downloads and locks of this process, before it exits."""
    for stage, release in tuple(_STAGED_FOLDERS.items()):
        _remove_staged(stage, release)
    discard_partial_downloads()
    lock.discard_locks()


@contextmanager
def translate_write_errors(path: Path) -> Generator[None]:
    """Raise `BadOutput` about `path` in place of any `OSError` of the `with` block."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise BadOutput(
            f"cannot write {path} ({reason}): make room there, or choose another place."
        ) from error


@contextmanager
def locked_output(destination: Path, progress: Progress) -> Generator[None]:
    """Hold the lock of an output file or folder during the `with` block.

    Other processes of the zoo wait until the lock is free. `progress` tells the user if this
    process has to wait.

    **Raises** `BadOutput` if the output cannot be written, if it or a parent folder is a broken
    link, or if its name is not valid UTF-8, which ONNX Runtime and manifests need.
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
        with translate_write_errors(destination):
            stack.enter_context(lock.hold_lock(destination, progress))
        yield


def manifest_path(model_file: Path) -> Path:
    """Return the path of the manifest of an ONNX file: `vit.manifest.json` for `vit.onnx`."""
    return model_file.with_suffix(".manifest.json")


def sidecar_path(model_file: Path) -> Path:
    """Return the path of an ONNX file's sidecar: `vit.onnx_data` for `vit.onnx`.

    The sidecar holds the tensors of a model of more than 2 GB. The path need not exist.
    """
    return model_file.with_name(model_file.name + "_data")


def find_links(folder: Path, name: str) -> list[Path]:
    """Return the symbolic links among a file and its parent folders below `folder`.

    `name` is the file's path relative to `folder`. `folder` itself is not examined. The file comes
    first, then its parent folders from the innermost.
    """
    parts = (Path(name), *Path(name).parents[:-1])
    return [path for part in parts if (path := folder / part).is_symlink()]


def check_no_links(folder: Path, names: Iterable[str]) -> None:
    """Check that the folders between `folder` and its files are not symbolic links.

    `names` are the files' paths relative to `folder`. `folder` and the files may be links.

    **Raises** `BadOutput` if one of the folders is a link.
    """
    for parent in {str(Path(name).parent) for name in names} - {"."}:
        if linked := find_links(folder, parent):
            raise BadOutput(
                f"{linked[0]} is a link: remove it, or name another folder with {parameter('out')}."
            )


@contextmanager
def delay_signals() -> Generator[None]:
    """Delay the signals that stop this process until the `with` block has ended.

    Use it around a few renames that must all be done, because the files are unusable if only some
    of them are moved.
    """
    token = object()
    _CRITICAL_BLOCKS.append(token)
    try:
        yield
    finally:
        _CRITICAL_BLOCKS.remove(token)
        if _PENDING_SIGNALS and not _CRITICAL_BLOCKS:
            handle_stop_signal(_PENDING_SIGNALS[0], None)


def replace_folder(new: Path, folder: Path) -> None:
    """Move the folder `new` to the path `folder` and delete the folder that was there.

    If the move fails, the previous folder is moved back and the `OSError` is raised. If the process
    is killed between the two renames, a call of `restore_folder` restores the previous folder.
    """
    moved_folder = _previous_folder_path(folder)
    shutil.rmtree(moved_folder, ignore_errors=True)
    with delay_signals():
        try:
            if folder.exists():
                folder.rename(moved_folder)
            new.rename(folder)
        finally:
            restore_folder(folder)
    shutil.rmtree(moved_folder, ignore_errors=True)


def restore_folder(folder: Path) -> None:
    """Restore the previous folder after an interrupted `replace_folder`.

    Nothing is done if `folder` exists, or if `replace_folder` has not moved a folder away.
    """
    if _previous_folder_path(folder).is_dir() and not os.path.lexists(folder):
        _previous_folder_path(folder).rename(folder)


def _previous_folder_path(folder: Path) -> Path:
    """Return the hidden path to which `replace_folder` moves the previous folder."""
    return folder.with_name(f"{PREFIX}{folder.name}.old")


def move_staged_files(stage: Path, folder: Path, names: Sequence[str], last_name: str) -> None:
    """Move staged files from the folder `stage` into `folder`. Other files there are not changed.

    **Arguments**

    - `names`: the files' paths relative to both folders. Their subfolders must exist in `folder`.
    - `last_name`: the member of `names` without which a folder is not read, such as the manifest.

    The existing file `last_name` is removed first and the new one is moved last, so that an
    interruption cannot leave a usable mixture of old and new files.

    **Raises** `BadOutput` if a file cannot be moved.
    """
    with translate_write_errors(folder), delay_signals():
        (folder / last_name).unlink(missing_ok=True)
        for name in sorted(names, key=lambda name: name == last_name):
            (stage / name).replace(folder / name)


def replace_export(stage: Path, target: Path) -> None:
    """Move an exported ONNX file with its sidecar and manifest from `stage` to `target`'s path.

    The sidecar is moved first and the manifest last. A file that has no successor in `stage` is
    removed. If the old or the new model has a sidecar, the old model is removed first, so that no
    model stands next to the sidecar of another one.
    """
    staged_model = stage / target.name
    with delay_signals():
        manifest_path(target).unlink(missing_ok=True)
        if sidecar_path(target).exists() or sidecar_path(staged_model).exists():
            target.unlink(missing_ok=True)
        for path_of in (sidecar_path, Path, manifest_path):
            if path_of(staged_model).exists():
                os.replace(path_of(staged_model), path_of(target))
            else:
                path_of(target).unlink(missing_ok=True)


def handle_stop_signal(number: int, frame: FrameType | None) -> None:
    """Handle a signal: remove staged folders, terminate the workers and exit the process.

    Within a `delay_signals` block, the signal is only recorded. It is handled when the block ends.
    The exit code is 128 plus the number of the signal.
    """
    if _CRITICAL_BLOCKS:
        _PENDING_SIGNALS.append(number)
        return
    # Raising here is not enough: an exception that arrives inside a destructor is dropped.
    terminate_workers()
    remove_staged_folders()
    if number == signal.SIGINT:
        print_stderr(INTERRUPTION)
    os._exit(128 + number)


class Digests(dict[str, str]):
    """The sha256 of each file as it was last written, by file name."""

    @contextmanager
    def compute(self) -> Generator[Callable[[str, bytes | memoryview], None]]:
        """Yield a function that adds the next bytes of a file to the file's digest.

        The function takes the name of the file and the bytes. The digests are stored in this
        dictionary when the `with` block ends without an exception.
        """
        hashes: defaultdict[str, Any] = defaultdict(hashlib.sha256)
        yield lambda name, piece: hashes[name].update(piece)
        self.update({name: digest.hexdigest() for name, digest in hashes.items()})
