"""`zoo weights download`: the checkpoint that `--weights auto` uses, brought to this machine."""

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
from weights.sources.locate import downloadable, search_weights, tell_owner, tell_terms
from zoo.architectures.entry import ModelInfo
from zoo.common.errors import BadOutput
from zoo.common.staging import locked_output, staged, writing


@dataclass(frozen=True)
class DownloadedCheckpoint:
    """A checkpoint, and how many bytes had to be brought from `source`; 0 if it was there."""

    model: str
    path: Path
    source: str
    bytes: int


def download_checkpoint(
    entry: ModelInfo, out: Path | None, mirror: bool, dry_run: bool, progress: Progress
) -> DownloadedCheckpoint:
    """Bring a model's checkpoint to the hub's cache, or to the folder `out`.

    With `mirror` it is the copy that somebody else than the publisher keeps. A dry run says what
    would be done, and leaves everything as it is.

    **Raises** a `WeightsError` if there is none, `BadOutput` if `out` holds another one.
    """
    if (copy := next(search_weights(entry.places, progress, dry_run), None)) is None:
        return _fetch(entry, out, mirror, dry_run, progress)
    _check_readable(copy.path)
    if out is None:
        return DownloadedCheckpoint(entry.name, copy.path, copy.where, 0)
    return _copy(entry, copy.path, out, dry_run, progress)


def _fetch(
    entry: ModelInfo, out: Path | None, mirror: bool, dry_run: bool, progress: Progress
) -> DownloadedCheckpoint:
    """Bring the file from a hub."""
    file, advice = downloadable(entry.places, mirror=mirror)
    asked = resolve_file(file, advice, progress)
    path = cache_path(asked) if out is None else _place(entry, file.name, out)
    size = 0 if path.exists() else asked.size or 0
    brought = DownloadedCheckpoint(entry.name, path, f"the hub ({file})", size)
    if dry_run:
        return brought
    tell_owner(entry.places, file, progress)
    tell = partial(tell_terms, entry.places, progress)
    if out is None:
        fetch(file, advice, progress, tell)
        return brought
    with locked_output(path, progress), staged(path.parent) as stage, writing(path):
        if path.exists():
            _check_same(path, asked.sha256)
            _check_readable(path)
        else:
            source, _ = fetch(file, advice, progress, tell, stage)
            # An index comes after its shards.
            for part in reversed(_files(source)):
                part.replace(path.with_name(part.name))
    return brought


def _copy(
    entry: ModelInfo, source: Path, out: Path, dry_run: bool, progress: Progress
) -> DownloadedCheckpoint:
    """Bring the files from another place on this machine."""
    path = out / source.name if source.is_dir() else _place(entry, source.name, out)
    folder = path if source.is_dir() else path.parent
    files = _files(source)
    missing = [file for file in files if not (folder / file.name).exists()]
    size = sum(file.stat().st_size for file in missing)
    if not dry_run:
        progress.stage(f"copying {source}", size)
        with locked_output(path, progress), staged(folder) as stage, writing(folder):
            for file in files:
                if file not in missing:
                    _check_same(folder / file.name, sha256(file))
            for file in missing:
                shutil.copyfile(file, stage / file.name)
                progress.step(file.stat().st_size)
            for file in missing:
                (stage / file.name).replace(folder / file.name)
    return DownloadedCheckpoint(entry.name, path, str(source.parent), size)


def _place(entry: ModelInfo, name: str, out: Path) -> Path:
    """The place for a file: where it is found again if `out` is the folder of weights."""
    file = Path(name).name
    named = file in (entry.checkpoint, entry.archive)
    return out / file if named else out / Path(entry.repository).name / file


def _files(source: Path) -> list[Path]:
    """The files of a checkpoint."""
    if source.is_dir():
        return sorted(filter(Path.is_file, source.iterdir()))
    others = open_checkpoint(source).files if source.suffix == ".json" else ()
    return [source, *(file.path for file in others)]


def _check_readable(path: Path) -> None:
    """**Raises** `BadOutput` for a file that is there already and holds no checkpoint."""
    if fault := find_fault(path):
        raise BadOutput(f"{path} {fault}: remove it, and run the command again.")


def _check_same(path: Path, digest: str | None) -> None:
    if digest is not None and sha256(path) != digest:
        raise BadOutput(
            f"{path} is another file: remove it, or name another folder with {parameter('out')}."
        )
