"""Checkpoints as they lie on disk: told apart by their content, read lazily and without trust."""

import zipfile
from pathlib import Path

from weights.containers import (
    equimo,
    heads,
    lz4,
    npy,
    npz,
    pth,
    safetensors,
    tower_pairs,
    zips,
)
from weights.errors import NotACheckpoint, WeightsNotFound
from weights.files import Checkpoint, sound
from weights.opening import open_regular, read_at_most

BEGINNING = 16  # bytes that tell the formats apart


def open_checkpoint(path: Path) -> Checkpoint:
    """What lies at `path`, a file or a folder.

    **Raises** a `WeightsError` if there is nothing, or nothing that is read.
    """
    try:
        if path.is_dir():
            return _open_folder(path)
        if not path.exists():
            raise WeightsNotFound(f"{path} does not exist: give the path of a checkpoint.")
        return _open_file(path)
    except OSError as error:
        raise WeightsNotFound(
            f"{error.filename or path} cannot be read ({error.strerror}): give a file that can."
        ) from error


def _open_file(path: Path) -> Checkpoint:
    start = read_at_most(path, BEGINNING)
    if start.startswith(lz4.MAGIC):
        return equimo.read_archive(path)
    if start.startswith(npy.MAGIC):
        # What lies beside a file says nothing of it, but in the one layout that Equimo writes.
        extracted = path.name == equimo.WEIGHTS and path.with_name(equimo.METADATA).is_file()
        return equimo.read_folder(path.parent) if extracted else npy.read_eqx(path)
    if start[8:9] == b"{":
        return safetensors.read_safetensors(path)
    if start.startswith(b"{") and path.name.endswith(".index.json"):
        return safetensors.read_sharded(path)
    # Last, because the table of a zip archive lies at its end, behind anything.
    if _is_zip(path):
        with sound(path, "zip archive", *zips.ERRORS):
            members = zips.read_members(path)
        arrays = members and all(name.endswith(npz.SUFFIX) for name in members)
        if arrays:
            tower = npz.read_npz(path, members)
            other = tower_pairs.other_half(path)
            return tower_pairs.both_towers(tower, _open_file(other)) if other else tower
        archive = heads.bare(pth.read_pth(path, members))
        if not heads.is_head(archive):
            return archive
        return heads.on_backbone(archive, _open_file(heads.backbone_of(path)))
    raise NotACheckpoint(
        f"{path} is not a checkpoint that is read ({path.stat().st_size} bytes: not a PyTorch, "
        "numpy or Equimo archive, not safetensors, not leaves of Equinox): download it again, or "
        "give another path."
    )


def _is_zip(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            return zipfile.is_zipfile(file)
    except zipfile.BadZipFile:
        return True  # one that is damaged; reading it says so


def _open_folder(path: Path) -> Checkpoint:
    if (path / equimo.METADATA).is_file() and (path / equimo.WEIGHTS).is_file():
        return equimo.read_folder(path)
    if (path / safetensors.INDEX).is_file():
        return safetensors.read_sharded(path / safetensors.INDEX)
    files = sorted(path.glob("*.safetensors"))
    if len(files) == 1:
        return safetensors.read_safetensors(files[0])
    if not files and (path / pth.TENSORS).is_file():
        return _open_file(path / pth.TENSORS)
    if not files and len(found := [*heads.heads_in(path), *tower_pairs.pairs_in(path)]) == 1:
        return _open_file(found[0])
    raise WeightsNotFound(
        f"{path} is a folder without a checkpoint (no {safetensors.INDEX}, no single .safetensors "
        f"file, no {pth.TENSORS}, no {equimo.METADATA} with {equimo.WEIGHTS}, no single "
        "*_linear_head.pth, no single pair of *_text.npz and *_vision.npz): give the path of a "
        "checkpoint."
    )
