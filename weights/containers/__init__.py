"""Open checkpoints on disk.

The format is recognised from the first bytes. Tensors are read lazily, and nothing that a file
claims is trusted.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import BufferedReader
from pathlib import Path

from weights.containers import (
    equimo,
    lz4,
    npy,
    npz,
    pth,
    safetensors,
    split_networks,
    zips,
)
from weights.errors import NotACheckpoint, WeightsNotFound
from weights.files import Checkpoint, FileBytes, translate_damage
from weights.parameters import parameter

BEGINNING = 16  # number of bytes from which the format is recognised


def open_checkpoint(path: Path) -> Checkpoint:
    """Open the checkpoint at a path, which may be a file or a folder. Values of tensors are not
    read yet.

    A head without its backbone and its backbone, or a text tower and its image tower, are joined:
    for their folder, and for the file of the head or of the text tower.

    **Raises** `WeightsNotFound` if there is none or it cannot be read, and another `WeightsError`
    if it is damaged or its format is not supported.
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
    """Open the file at a path, and return its checkpoint."""
    source = FileBytes(path)
    return _read(source, source.stream())


def _read(source: FileBytes, stream: BufferedReader) -> Checkpoint:
    """Return the checkpoint of the open file `source`, whose format is recognised by the first
    bytes. `stream` starts at the beginning of the file."""
    return _find_reader(stream.peek(BEGINNING)[:BEGINNING], source.path)(source, stream)


def _find_reader(start: bytes, path: Path) -> Callable[[FileBytes, BufferedReader], Checkpoint]:
    """Return the function that reads the format of a file that begins with the bytes `start`.
    `path` is the path of the file.

    **Raises** `NotACheckpoint` if the format is not supported.
    """
    if start.startswith(lz4.FRAME_MAGIC):
        return equimo.read_archive
    if start.startswith(npy.ARRAY_MAGIC):
        # Only in the folder layout that Equimo writes does the format depend on another file.
        return equimo.read_folder if equimo.is_extracted(path) else npy.read_eqx
    if start.startswith(zips.MAGIC):
        return _read_zip
    if start[8:9] == b"{":
        return safetensors.read_safetensors
    if start.startswith(b"{") and path.name.endswith(".index.json"):
        return partial(safetensors.read_sharded, read=_read)
    raise NotACheckpoint(_describe_unsupported(start, path))


def _read_zip(source: FileBytes, stream: BufferedReader) -> Checkpoint:
    """Return the checkpoint of the zip archive `source`, which is numpy's or PyTorch's. `stream` is
    not used.

    If the file is the text tower of a pair of towers, the file of the image tower is read too if it
    lies in the same folder. If it is a head without its backbone, the file of the backbone is read
    too. Both are joined.

    **Raises** `NotACheckpoint` if the archive is invalid, and `WeightsNotFound` if a head's
    backbone is missing.
    """
    with translate_damage(source.path, "zip archive", *zips.ERRORS):
        archive = zips.open_archive(source)
    if npz.is_npz(archive):
        tower = npz.read_npz(source, archive)
        vision_file = split_networks.find_vision_tower(source.path)
        return split_networks.join_towers(tower, _open_file(vision_file)) if vision_file else tower
    members = {info.filename: info for info in archive.infolist()}
    checkpoint = split_networks.strip_shared_prefix(pth.read_pth(source, members))
    if not split_networks.is_head_alone(checkpoint):
        return checkpoint
    return split_networks.join_head_to_backbone(
        checkpoint, _open_file(split_networks.find_backbone_file(source.path))
    )


def _describe_unsupported(start: bytes, path: Path) -> str:
    """Return a message that says what the file at a path is instead of a checkpoint, and what to
    do. `start` are its first bytes."""
    size = path.stat().st_size
    if start.startswith(LFS_BEGINNING):
        return (
            f"{path} is a Git LFS pointer in place of a file that was not fetched: run "
            "`git lfs pull` in its repository, or download the file itself."
        )
    if start.lstrip().lower().startswith(PAGE_BEGINNINGS):
        return (
            f"{path} is a web page ({size} bytes), not a checkpoint: "
            "download it again, from another address or with an account that has access to it."
        )
    descriptions = (
        description
        for beginning, description in KNOWN_BEGINNINGS.items()
        if start.startswith(beginning)
    )
    return (
        f"{path} ({size} bytes) is {next(descriptions, 'not a supported checkpoint')}. Supported "
        "are PyTorch, numpy and Equimo archives, safetensors, and leaves of Equinox: give a file "
        "that contains a state dict, or download it again."
    )


LFS_BEGINNING = b"version https://"
"""First bytes of a Git LFS pointer file, before its version."""

PAGE_BEGINNINGS = (b"<!doctype", b"<html", b"<?xml")
"""First bytes of web pages, which servers may return in place of a file."""

KNOWN_BEGINNINGS = {
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19": "a file of PyTorch before 1.6, not a supported "
    "checkpoint (`torch.save(torch.load(PATH), PATH)` converts it to the current format)",
    b"\x80": "a pickle, which cannot be read without running it, not a supported checkpoint",
    b"\x89HDF": "an HDF5 file, not a supported checkpoint",
    b"GGUF": "a GGUF file, not a supported checkpoint",
}
"""Descriptions of unsupported formats by their first bytes."""


TENSOR_FILES = (
    safetensors.TENSORS,
    safetensors.INDEX,
    pth.TENSORS,
    pth.INDEX,
)
"""Names of checkpoints in folders of transformers and timm, in order of preference."""

VARIANT = re.compile(r"(model|pytorch_model)\.\w+\.(safetensors|bin)")
"""Names that diffusers and transformers give a checkpoint in another precision."""

FILES_OF_TRAINING = re.compile(
    r"(adapter_|optimizer|scheduler|rng_state|training_args|random_states).*"
)
"""Names of files that training writes next to the checkpoint."""

ENDINGS = (".safetensors", ".bin", ".pth", ".pt", ".ckpt", ".npz", ".msgpack", ".h5", ".onnx")
"""Endings of files that may contain a network."""


FOREIGN_ENDINGS = (".msgpack", ".h5", ".onnx")
"""Endings of files of other libraries, which are not supported."""


def _has_checkpoint(folder: Path) -> bool:
    """Return True if a folder directly contains a file or folder with the ending of a checkpoint.

    A trainer's folder `checkpoint-500` does.
    """
    return any(path.name.endswith(ENDINGS) for path in folder.iterdir())


def _open_folder(path: Path) -> Checkpoint:
    """Return the checkpoint in a folder: Equimo's, that of transformers or timm, a single
    safetensors file, a head with its backbone, or two towers.

    Of several files of transformers or timm, the first one in the order of `TENSOR_FILES` is read.
    The others are listed in `Checkpoint.unread`.

    **Raises** `NotACheckpoint` if the folder has an unsupported format or contains only an adapter,
    and `WeightsNotFound` if it contains no checkpoint or several of another kind.
    """
    if (path / equimo.METADATA).is_file() and (path / equimo.WEIGHTS).is_file():
        return _open_file(path / equimo.WEIGHTS)
    if (path / ".metadata").is_file():
        raise NotACheckpoint(
            f"{path} is a distributed checkpoint of PyTorch, which is not supported: `python -m "
            f"torch.distributed.checkpoint.format_utils dcp_to_torch {path} FILE` converts it to "
            "a single file."
        )
    file_names = sorted(entry.name for entry in path.iterdir() if entry.is_file())
    files = [
        name
        for name in file_names
        if name.endswith(ENDINGS) and not FILES_OF_TRAINING.fullmatch(name)
    ]
    checkpoint_names = [name for name in TENSOR_FILES if name in file_names]
    checkpoint_names += [name for name in files if VARIANT.fullmatch(name)]
    if (
        not checkpoint_names
        and len(safetensors_names := [name for name in files if name.endswith(".safetensors")]) == 1
    ):
        checkpoint_names = safetensors_names
    if checkpoint_names:
        checkpoint = _open_file(path / checkpoint_names[0])
        read = {file.path.name for file in checkpoint.files}
        return replace(checkpoint, unread=tuple(name for name in files if name not in read))
    if len(first_files := split_networks.find_first_files(path)) == 1:
        return _open_file(first_files[0])
    if ADAPTER in file_names:
        raise NotACheckpoint(
            f"{path} contains an adapter without the network that it adapts: name that network's "
            f"checkpoint with {parameter('base')}, or merge both first, with peft's "
            "`merge_and_unload()`."
        )
    choices = [name for name in files if not name.endswith(FOREIGN_ENDINGS)]
    choices += [
        entry.name for entry in sorted(path.iterdir()) if entry.is_dir() and _has_checkpoint(entry)
    ]
    advice = "give the path of a checkpoint"
    if choices:
        advice = f"name one of {', '.join(choices[:12])}"
    elif files:
        advice = f"{files[0]} is a file of another library; save the network as safetensors"
    raise WeightsNotFound(
        f"{path} is a folder without a checkpoint (no {', no '.join(TENSOR_FILES)}, no single "
        f".safetensors file, no {equimo.METADATA} with {equimo.WEIGHTS}, no single "
        f"*_linear_head.pth, no single pair of *_text.npz and *_vision.npz): {advice}."
    )


ADAPTER = "adapter_config.json"
"""Name of the settings file in a folder of a PEFT adapter."""
