"""What may stand where a command is told to read or to write."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests import folders

OUTSIDE = "outside"
"""The folder beside the one that a command works in. What lies there is nobody's business."""

Maker = Callable[[Path], object]


def _link(target: str) -> Maker:
    return lambda place: place.symlink_to(target)


def _bytes(content: bytes) -> Maker:
    return lambda place: place.write_bytes(content)


def _folder(**files: bytes) -> Maker:
    def make(place: Path) -> None:
        place.mkdir()
        for name, content in files.items():
            (place / name).write_bytes(content)

    return make


def _closed(make: Maker, mode: int) -> Maker:
    """What nobody may read, or nobody may write."""

    def closed(place: Path) -> None:
        make(place)
        place.chmod(mode)

    return closed


def _socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(place.parent, os.O_RDONLY)  # names of sockets are at most 107 bytes long
        try:
            made.bind(f"/proc/self/fd/{here}/{place.name}")
        finally:
            os.close(here)


def _hole(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 37)


def _linked_parts(place: Path) -> None:
    """A folder whose files of the names that commands know lie elsewhere."""
    place.mkdir()
    for name in ("manifest.json", "README.md", "LICENSE", "config.json", "model.safetensors"):
        (place / name).symlink_to(f"../../{OUTSIDE}/precious.txt")
    (place / "onnx").symlink_to(f"../../{OUTSIDE}")


def _waiting_parts(place: Path) -> None:
    """A folder whose files are pipes that nobody writes to."""
    place.mkdir()
    for name in ("manifest.json", "config.json", "model.safetensors", "metadata.json"):
        os.mkfifo(place / name)


FOREIGN = dict.fromkeys(("README.md", "LICENSE", "config.json"), b"my own words\n")
FOREIGN |= {"onnx/model_mine.onnx": b"my own model"}
"""Somebody's own files under the names that commands know."""

DEEP = b"[" * 200_000

THINGS: dict[str, Maker] = {
    "nothing": lambda place: None,
    "an empty file": _bytes(b""),
    "noise": _bytes(np.random.default_rng(1).bytes(70_000)),
    "words": _bytes(b"my own words\n"),
    "an object": _bytes(b"{}"),
    "deep brackets": _bytes(DEEP),
    "a header of deep brackets": _bytes(len(DEEP).to_bytes(8, "little") + DEEP),
    "a hole of 128 GiB": _hole,
    "an empty folder": _folder(),
    "a folder": _folder(mine=b"my own words\n"),
    "a folder of links": _linked_parts,
    "a folder of pipes": _waiting_parts,
    "a folder of somebody's": lambda place: folders.write(place, FOREIGN),
    "a folder that takes nothing": _closed(_folder(mine=b""), 0o555),
    "a folder that is closed": _closed(_folder(), 0),
    "a file that is closed": _closed(_bytes(b"{}"), 0),
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a link to itself": lambda place: place.symlink_to(place.name),
    "a link to nothing": _link(f"../{OUTSIDE}/nothing"),
    "a link to a file": _link(f"../{OUTSIDE}/precious.txt"),
    "a link to a folder": _link(f"../{OUTSIDE}"),
    "endless zeros": _link("/dev/zero"),
    "a device without end": _link("/dev/full"),
}

NAMES = {
    "a plain name": "thing",
    "a name that steers": "\x1b[2J\x9b31m\u202ething",
    "a name of two lines": "thi\nng",
    "a name that is no text": os.fsdecode(b"thing\xff\xfe"),
    "a name as long as may be": "n" * 240,
    "a name that is too long": "n" * 300,
    "a name below a file": "photo.png/thing",
    "a name of markup": "[bold]<b>&thing",
}
