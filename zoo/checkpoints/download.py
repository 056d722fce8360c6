"""Download the checkpoint that `--weights auto` uses (`zoo weights download`)."""

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from weights import open_checkpoint
from weights.files import sha256
from weights.parameters import parameter
from weights.progress import Progress
from weights.sources.content import find_fault
from weights.sources.fetch import fetch
from weights.sources.hub import cache_path, resolve_file
from weights.sources.locate import (
    choose_download,
    report_owner,
    report_weights_licence,
    search_weights,
)
from zoo.architectures.entry import ModelInfo
from zoo.common.errors import BadOutput
from zoo.common.staging import locked_output, staged, translate_write_errors


@dataclass(frozen=True)
class DownloadedCheckpoint:
    """A checkpoint on this machine, and where it comes from.

    Arguments:
        model: name of the model.
        path: path of the checkpoint.
        source: where it comes from, in words.
        bytes: number of bytes that were downloaded or copied, 0 if the checkpoint was at `path`
            already.
    """

    model: str
    path: Path
    source: str
    bytes: int


def download_checkpoint(
    entry: ModelInfo, out: Path | None, mirror: bool, dry_run: bool, progress: Progress
) -> DownloadedCheckpoint:
    """Download the checkpoint of a model, and return where it is.

    A copy that is found on this machine is used in place of the hub.

    **Arguments:**

    - `entry`: registry entry of the model.
    - `out`: folder to write to, or None for the cache of the hub.
    - `mirror`: whether to download the copy of another account in place of the publisher's file. It
      has no effect if a copy is found on this machine.
    - `dry_run`: whether nothing is downloaded or written. The result is the same.
    - `progress`: reports progress.

    **Raises** a `WeightsError` if there is no checkpoint. Raises `BadOutput` if `out` holds another
    file of the same name, or if a copy that is found cannot be read.
    """
    if (copy := next(search_weights(entry.published_files, progress, dry_run), None)) is None:
        return _fetch_checkpoint(entry, out, mirror, dry_run, progress)
    _check_readable(copy.path)
    if out is None:
        return DownloadedCheckpoint(entry.name, copy.path, copy.origin, 0)
    return _copy_checkpoint(entry, copy.path, out, dry_run, progress)


def _fetch_checkpoint(
    entry: ModelInfo, out: Path | None, mirror: bool, dry_run: bool, progress: Progress
) -> DownloadedCheckpoint:
    """Download the checkpoint from a hub. The arguments are those of `download_checkpoint`."""
    file, advice = choose_download(entry.published_files, mirror=mirror)
    hub_file = resolve_file(file, advice, progress)
    path = cache_path(hub_file) if out is None else _target_path(entry, file.name, out)
    missing_bytes = 0 if path.exists() else hub_file.size or 0
    result = DownloadedCheckpoint(entry.name, path, f"the hub ({file})", missing_bytes)
    if dry_run:
        return result
    report_owner(entry.published_files, file, progress)
    show_terms = partial(report_weights_licence, entry.published_files, progress)
    if out is None:
        fetch(file, advice, progress, show_terms)
        return result
    with locked_output(path, progress), staged(path.parent) as stage, translate_write_errors(path):
        if path.exists():
            _check_same(path, hub_file.sha256)
            _check_readable(path)
        else:
            source, _ = fetch(file, advice, progress, show_terms, stage)
            # The index is moved last, because it refers to its shards.
            for part in reversed(_list_files(source)):
                part.replace(path.with_name(part.name))
    return result


def _copy_checkpoint(
    entry: ModelInfo, source: Path, out: Path, dry_run: bool, progress: Progress
) -> DownloadedCheckpoint:
    """Copy the checkpoint `source` from another folder of this machine to the folder `out`. Files
    that are there already are not copied.

    **Raises** `BadOutput` if `out` holds another file of the same name.
    """
    path = out / source.name if source.is_dir() else _target_path(entry, source.name, out)
    folder = path if source.is_dir() else path.parent
    files = _list_files(source)
    missing = [file for file in files if not (folder / file.name).exists()]
    missing_bytes = sum(file.stat().st_size for file in missing)
    if not dry_run:
        progress.stage(f"copying {source}", missing_bytes)
        with locked_output(path, progress), staged(folder) as stage, translate_write_errors(folder):
            for file in files:
                if file not in missing:
                    _check_same(folder / file.name, sha256(file))
            for file in missing:
                shutil.copyfile(file, stage / file.name)
                progress.step(file.stat().st_size)
            for file in missing:
                (stage / file.name).replace(folder / file.name)
    return DownloadedCheckpoint(entry.name, path, str(source.parent), missing_bytes)


def _target_path(entry: ModelInfo, name: str, out: Path) -> Path:
    """Return the path in the folder `out` for a downloaded file.

    It is `out/FILE` if FILE is the name of the model's own checkpoint or archive, and
    `out/REPOSITORY/FILE` for any other name, with the name of the repository without its owner. The
    file is found in both if `out` is the folder of weights.
    """
    file = Path(name).name
    is_named = file in (entry.checkpoint, entry.archive)
    return out / file if is_named else out / Path(entry.repository).name / file


def _list_files(source: Path) -> list[Path]:
    """Return the files of a checkpoint: those of a folder, or a file with its shards if it is an
    index (`.json`).

    The files of a folder are sorted, and its subfolders are left out. The index comes first.
    """
    if source.is_dir():
        return sorted(filter(Path.is_file, source.iterdir()))
    shards = open_checkpoint(source).files if source.suffix == ".json" else ()
    return [source, *(file.path for file in shards)]


def _check_readable(path: Path) -> None:
    """Check that an existing file is a readable checkpoint. **Raises** `BadOutput` if it is not."""
    if fault := find_fault(path):
        raise BadOutput(f"{path} {fault}: remove it, and run the command again.")


def _check_same(path: Path, digest: str | None) -> None:
    """Check that a file has the sha256 `digest`. A digest of None is not compared.

    **Raises** `BadOutput` if it has another one.
    """
    if digest is not None and sha256(path) != digest:
        raise BadOutput(
            f"{path} is another file: remove it, or name another folder with {parameter('out')}."
        )
