"""Files, folders and other things at a path that a command reads or writes."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests import folders

OUTSIDE = "outside"
"""A folder outside of the working folder. Commands must not change it."""

Maker = Callable[[Path], object]


def _make_link(target: str) -> Maker:
    return lambda path: path.symlink_to(target)


def _make_file(content: bytes) -> Maker:
    return lambda path: path.write_bytes(content)


def _make_folder(**files: bytes) -> Maker:
    def make(path: Path) -> None:
        path.mkdir()
        for name, content in files.items():
            (path / name).write_bytes(content)

    return make


def _make_inaccessible(make: Maker, mode: int) -> Maker:
    """Return a function that makes a thing and sets its mode to forbid reading or writing."""

    def make_inaccessible(path: Path) -> None:
        make(path)
        path.chmod(mode)

    return make_inaccessible


def _make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as new_socket:
        folder = os.open(path.parent, os.O_RDONLY)  # paths of sockets have at most 107 bytes
        try:
            new_socket.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


def _make_sparse_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 37)


def _make_folder_of_links(path: Path) -> None:
    """Make a folder with links to files elsewhere, under names that commands read and write."""
    path.mkdir()
    for name in ("manifest.json", "README.md", "LICENSE", "config.json", "model.safetensors"):
        (path / name).symlink_to(f"../../{OUTSIDE}/precious.txt")
    (path / "onnx").symlink_to(f"../../{OUTSIDE}")


def _make_folder_of_pipes(path: Path) -> None:
    """Make a folder of pipes without a writer, under names that commands read."""
    path.mkdir()
    for name in ("manifest.json", "config.json", "model.safetensors", "metadata.json"):
        os.mkfifo(path / name)


USER_FILES = dict.fromkeys(("README.md", "LICENSE", "config.json"), b"my own words\n")
USER_FILES |= {"onnx/model_mine.onnx": b"my own model"}
"""Files of the user under names that commands write."""

DEEP = b"[" * 200_000

THINGS: dict[str, Maker] = {
    "nothing": lambda path: None,
    "an empty file": _make_file(b""),
    "noise": _make_file(np.random.default_rng(1).bytes(70_000)),
    "words": _make_file(b"my own words\n"),
    "an object": _make_file(b"{}"),
    "deep brackets": _make_file(DEEP),
    "a header of deep brackets": _make_file(len(DEEP).to_bytes(8, "little") + DEEP),
    "a hole of 128 GiB": _make_sparse_file,
    "an empty folder": _make_folder(),
    "a folder": _make_folder(mine=b"my own words\n"),
    "a folder of links": _make_folder_of_links,
    "a folder of pipes": _make_folder_of_pipes,
    "a folder of somebody's": lambda path: folders.write(path, USER_FILES),
    "a folder that takes nothing": _make_inaccessible(_make_folder(mine=b""), 0o555),
    "a folder that is closed": _make_inaccessible(_make_folder(), 0),
    "a file that is closed": _make_inaccessible(_make_file(b"{}"), 0),
    "a pipe": os.mkfifo,
    "a socket": _make_socket,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": _make_link(f"../{OUTSIDE}/nothing"),
    "a link to a file": _make_link(f"../{OUTSIDE}/precious.txt"),
    "a link to a folder": _make_link(f"../{OUTSIDE}"),
    "endless zeros": _make_link("/dev/zero"),
    "a device without end": _make_link("/dev/full"),
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
