"""Checkpoints as they lie on disk: told apart by their content, read lazily and without trust."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import BufferedReader
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
from weights.files import Checkpoint, FileBytes, sound
from weights.parameters import parameter

BEGINNING = 16  # bytes that tell the formats apart


def open_checkpoint(path: Path) -> Checkpoint:
    """Container at `path`, a file or a folder.

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
    """Open a file once, and read it with the reader of its container."""
    source = FileBytes(path)
    return _read(source, source.stream())


def _read(source: FileBytes, stream: BufferedReader) -> Checkpoint:
    """Recognise the container of a file by its first bytes, and read it."""
    return _reader(stream.peek(BEGINNING)[:BEGINNING], source.path)(source, stream)


def _reader(start: bytes, path: Path) -> Callable[[FileBytes, BufferedReader], Checkpoint]:
    """Reader of the container that begins so. **Raises** `NotACheckpoint` where there is none."""
    if start.startswith(lz4.FRAME_MAGIC):
        return equimo.read_archive
    if start.startswith(npy.ARRAY_MAGIC):
        # What lies beside a file says nothing of it, but in the one layout that Equimo writes.
        return equimo.read_folder if equimo.is_extracted(path) else npy.read_eqx
    if start.startswith(zips.MAGIC):
        return _read_zip
    if start[8:9] == b"{":
        return safetensors.read_safetensors
    if start.startswith(b"{") and path.name.endswith(".index.json"):
        return partial(safetensors.read_sharded, read=_read)
    raise NotACheckpoint(_unread(start, path))


def _read_zip(source: FileBytes, stream: BufferedReader) -> Checkpoint:
    """Arrays of numpy, perhaps with the other tower; or what PyTorch saves, with its backbone."""
    with sound(source.path, "zip archive", *zips.ERRORS):
        archive = zips.open_archive(source)
    if npz.is_npz(archive):
        tower = npz.read_npz(source, archive)
        other = tower_pairs.other_half(source.path)
        return tower_pairs.both_towers(tower, _open_file(other)) if other else tower
    members = {info.filename: info for info in archive.infolist()}
    checkpoint = heads.bare(pth.read_pth(source, members))
    if not heads.is_head(checkpoint):
        return checkpoint
    return heads.on_backbone(checkpoint, _open_file(heads.backbone_of(source.path)))


def _unread(start: bytes, path: Path) -> str:
    """Say what a file is that no reader is for, and what to do."""
    size = path.stat().st_size
    if start.startswith(LFS):
        return (
            f"{path} is a pointer of Git LFS, which stands for a file that was not fetched: run "
            "`git lfs pull` in its repository, or download the file itself."
        )
    if start.lstrip().lower().startswith(PAGES):
        return (
            f"{path} is a web page ({size} bytes), and no file that was downloaded: "
            "download it again, from another place or with the account that may have it."
        )
    descriptions = (what for beginning, what in BEGINNINGS.items() if start.startswith(beginning))
    return (
        f"{path} is {next(descriptions, 'not a checkpoint that is read')} ({size} bytes: not a "
        "PyTorch, numpy or Equimo archive, not safetensors, not leaves of Equinox): give a file "
        "that holds a state dict, or download it again."
    )


LFS = b"version https://"
"""How a pointer of Git LFS begins, of a version of its own."""

PAGES = (b"<!doctype", b"<html", b"<?xml")
"""How pages begin that servers give in place of a file."""

BEGINNINGS = {
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19": "a file of PyTorch before 1.6, which "
    "`torch.save(torch.load(PATH), PATH)` brings into today's form, and not a checkpoint that is "
    "read",
    b"\x80": "a pickle, which would have to run to be read, and not a checkpoint that is read",
    b"\x89HDF": "an HDF5 file, and not a checkpoint that is read",
    b"GGUF": "a GGUF file, and not a checkpoint that is read",
}
"""How files begin that are known and not read, and what they are."""


TENSOR_FILES = (
    safetensors.TENSORS,
    safetensors.INDEX,
    pth.TENSORS,
    pth.INDEX,
)
"""What transformers and timm call a checkpoint in its folder, the first to be taken first."""

VARIANT = re.compile(r"(model|pytorch_model)\.\w+\.(safetensors|bin)")
"""What diffusers and transformers call it in another precision."""

FILES_OF_TRAINING = re.compile(
    r"(adapter_|optimizer|scheduler|rng_state|training_args|random_states).*"
)
"""Files that training leaves beside a network's."""

ENDINGS = (".safetensors", ".bin", ".pth", ".pt", ".ckpt", ".npz", ".msgpack", ".h5", ".onnx")
"""Endings of files that may hold a network."""


OF_OTHERS = (".msgpack", ".h5", ".onnx")
"""Endings of those of other libraries, none of which is read."""


def _has_one(folder: Path) -> bool:
    """Whether a folder has a file that may be a checkpoint, as a trainer's `checkpoint-500` has."""
    return any(each.name.endswith(ENDINGS) for each in folder.iterdir())


def _open_folder(path: Path) -> Checkpoint:
    if (path / equimo.METADATA).is_file() and (path / equimo.WEIGHTS).is_file():
        return _open_file(path / equimo.WEIGHTS)
    if (path / ".metadata").is_file():
        raise NotACheckpoint(
            f"{path} is a distributed checkpoint of PyTorch, which is not read: `python -m "
            f"torch.distributed.checkpoint.format_utils dcp_to_torch {path} FILE` makes one of "
            "its files."
        )
    there = sorted(each.name for each in path.iterdir() if each.is_file())
    files = [
        name for name in there if name.endswith(ENDINGS) and not FILES_OF_TRAINING.fullmatch(name)
    ]
    usual = [name for name in TENSOR_FILES if name in there]
    usual += [name for name in files if VARIANT.fullmatch(name)]
    if not usual and len(safe := [name for name in files if name.endswith(".safetensors")]) == 1:
        usual = safe
    if usual:
        checkpoint = _open_file(path / usual[0])
        read = {file.path.name for file in checkpoint.files}
        return replace(checkpoint, unread=tuple(name for name in files if name not in read))
    if len(heads_and_towers := [*heads.heads_in(path), *tower_pairs.pairs_in(path)]) == 1:
        return _open_file(heads_and_towers[0])
    if ADAPTER in there:
        raise NotACheckpoint(
            f"{path} holds an adapter alone, of a network that is not in it: name that network's "
            f"checkpoint with {parameter('base')}, or merge both first, with peft's "
            "`merge_and_unload()`."
        )
    choices = [name for name in files if not name.endswith(OF_OTHERS)]
    choices += [each.name for each in sorted(path.iterdir()) if each.is_dir() and _has_one(each)]
    advice = "give the path of a checkpoint"
    if choices:
        advice = f"name one of {', '.join(choices[:12])}"
    elif files:
        advice = f"{files[0]} is of another library; save the network as safetensors"
    raise WeightsNotFound(
        f"{path} is a folder without a checkpoint (no {', no '.join(TENSOR_FILES)}, no single "
        f".safetensors file, no {equimo.METADATA} with {equimo.WEIGHTS}, no single "
        f"*_linear_head.pth, no single pair of *_text.npz and *_vision.npz): {advice}."
    )


ADAPTER = "adapter_config.json"
