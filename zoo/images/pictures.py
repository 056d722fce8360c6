"""Read pictures as callers have them: one or several, of PIL, as arrays, or in files.

Every picture becomes RGB in 8 bits and upright here, and nowhere else.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weights.opening import open_regular
from zoo.common.errors import BadRequest, first_line

if TYPE_CHECKING:
    from PIL.Image import Image

UInt8 = NDArray[np.uint8]

Picture: TypeAlias = "Image | UInt8 | str | os.PathLike[str]"
"""A PIL image of any mode and size, RGB values `[height, width, 3]`, or the path of a file."""

Pictures: TypeAlias = "Picture | Sequence[Picture]"

Sides: TypeAlias = tuple[int, int]  # (height, width)
Part: TypeAlias = tuple[float, float, float, float]  # left, top, right and bottom edge

PICTURE_FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""What is read. Pillow knows more, of which EPS would be handed to Ghostscript, which runs it."""

MOST_PIXELS = 89_478_485
"""The most that a picture may have, as in Pillow, which warns of more; they take 360 MB in RGB."""

DAMAGED = (
    *(OSError, EOFError, SyntaxError, ValueError, LookupError, TypeError, OverflowError),
    *(struct.error, zlib.error),
)
"""What Pillow's readers raise for files that are not what they seem; they have no common base."""


def pictures(images: Pictures) -> list[Image]:
    """RGB images of what was given: one picture, a sequence, or an array `[n, height, width, 3]`.

    They are turned as their EXIF says, grey of 16 bits is scaled to 8, and what is transparent
    loses that. Of several pictures in one file it is the first. **Raises** `BadRequest`.
    """
    from PIL.Image import Image

    if isinstance(images, Image | str | os.PathLike):
        images = [images]
    if not isinstance(images, list | tuple):
        # One array; numpy's and JAX's alike.
        array = np.asarray(images)
        images = list(array) if array.ndim > 3 else [array]
    if not images:
        raise BadRequest("got no picture: give one or more.")
    return [_picture(image) for image in images]


def _picture(picture: Picture) -> Image:
    from PIL import Image

    if isinstance(picture, Image.Image):
        with _readable(f"a PIL image of mode {picture.mode}"):
            return _rgb(picture)
    if isinstance(picture, str | os.PathLike):
        name = repr(os.fspath(picture))
        with (
            _readable(name),
            open_regular(picture) as file,
            Image.open(file, formats=PICTURE_FORMATS) as it,
        ):
            _check_pixels(it, name)
            return _rgb(it)
    array = np.asarray(picture)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise BadRequest(
            f"got an array {array.dtype}{list(array.shape)}: give PIL images, paths, or uint8 "
            "arrays [height, width, 3] of RGB."
        )
    return Image.fromarray(array)


@dataclass(frozen=True)
class ReadPicture:
    """A picture of a file: RGB, upright, and perhaps smaller than its `sides` say that it is.

    `part` is what of the image shows the picture, whose sides need be no multiples of what it was
    made smaller by.
    """

    image: Image
    sides: Sides
    part: Part


def read_picture(
    data: bytes, name: str, least: Callable[[int, int], Sides] | None = None
) -> ReadPicture:
    """The picture in a file's bytes, the first of several.

    With `least` it is made smaller by whole numbers, in what decodes a JPEG or by taking means,
    where that leaves the height and width that it gives for the upright picture's. **Raises**
    `BadRequest`.
    """
    from PIL import Image

    drafted = None
    with _readable(name), Image.open(PictureBytes(data), formats=PICTURE_FORMATS) as it:
        _check_pixels(it, name)
        turn = _orientation(it)
        if least is not None and it.format == "JPEG":
            sides = (it.width, it.height) if turn in SIDEWAYS else (it.height, it.width)
            tall, wide = least(*sides)
            drafted = it.draft(None, (tall, wide) if turn in SIDEWAYS else (wide, tall))
        with LARGE if it.width * it.height > MANY else nullcontext():
            image = _rgb(it)
    if drafted is None:
        # Pillow may turn a TIFF while it opens it: only what was decoded is surely upright.
        return reduced_picture(image, least)
    _, (_, _, width, height) = drafted
    beside, below = it.width - width, it.height - height
    if turn in SIDEWAYS:
        beside, below = below, beside
    left, top = (beside if turn in FROM_LEFT else 0.0), (below if turn in FROM_TOP else 0.0)
    part = (left, top, image.width - beside + left, image.height - below + top)
    return _reduced(ReadPicture(image, sides, part), (tall, wide))


def reduced_picture(image: Image, least: Callable[[int, int], Sides] | None = None) -> ReadPicture:
    """A whole picture that is RGB and upright, made smaller as `read_picture` does it."""
    sides = (image.height, image.width)
    read = ReadPicture(image, sides, (0.0, 0.0, float(image.width), float(image.height)))
    return read if least is None else _reduced(read, least(*sides))


def _reduced(read: ReadPicture, least: Sides) -> ReadPicture:
    """The same made smaller by whole numbers, by means of pixels."""
    image, smallest = read.image, least[::-1]
    across, down = (max(1, int(own / side)) for own, side in zip(image.size, smallest, strict=True))
    if across * down == 1:
        return read
    left, top, right, bottom = read.part
    part = (left / across, top / down, right / across, bottom / down)
    return ReadPicture(image.reduce((across, down)), read.sides, part)


class PictureBytes(BytesIO):
    """A file's bytes. Pillow's messages show what it reads, and should be the same every time."""

    def __repr__(self) -> str:
        return f"of {self.getbuffer().nbytes} bytes"


LARGE, MANY = threading.Lock(), 16_000_000
"""Of pictures with more pixels one is decoded at a time."""

SIDEWAYS = (5, 6, 7, 8)
"""The orientations of EXIF of which the stored rows are the upright picture's columns."""

FROM_LEFT, FROM_TOP = (2, 3, 6, 7), (3, 4, 7, 8)
"""Of which what is stored at the right or bottom edge is shown at the left or at the top."""


def _orientation(image: Image) -> int:
    from PIL import ExifTags

    return image.getexif().get(ExifTags.Base.Orientation, 1)


def _check_pixels(image: Image, name: str) -> None:
    """**Raises** `BadRequest` for what the header says, before there is memory for it."""
    if image.width * image.height > MOST_PIXELS:
        raise BadRequest(
            f"{name} has {image.width} x {image.height} pixels: give a picture of at most "
            f"{MOST_PIXELS // 1_000_000} million."
        )


def extensions() -> set[str]:
    """How the names of pictures end that are read, such as `.png`."""
    from PIL import Image

    return {end for end, name in Image.registered_extensions().items() if name in PICTURE_FORMATS}


def check_begins(path: Path) -> None:
    """**Raises** `BadRequest` where a file does not begin as a picture does."""
    from PIL import Image

    name = repr(os.fspath(path))
    with _readable(name), open_regular(path) as file, Image.open(file, formats=PICTURE_FORMATS):
        pass


@contextmanager
def _readable(name: str) -> Generator[None]:
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except (*DAMAGED, MemoryError, Image.DecompressionBombError) as error:
        # Pillow quotes the file object, the system the name again.
        unknown = isinstance(error, UnidentifiedImageError)
        why = "it begins as none does" if unknown else None
        why = why or (isinstance(error, OSError) and error.strerror) or first_line(error)
        raise BadRequest(
            f"{name} is no picture that can be read ({why}): give a sound one "
            f"of the formats {', '.join(PICTURE_FORMATS)}."
        ) from error


def _rgb(image: Image) -> Image:
    from PIL import Image as pil
    from PIL import ImageOps

    upright, is_pgm = _orientation(image) == 1, image.format == "PPM"
    turned = image if upright else ImageOps.exif_transpose(image)  # which copies, whatever it does
    # Pillow scales the 16 bits of a PGM to all of them, and keeps them in 32.
    if turned.mode.startswith("I;16") or (turned.mode == "I" and is_pgm):
        # Pillow would cut off what is brighter than 255.
        grey = np.asarray(turned, np.uint32)
        return pil.fromarray(((grey * 255 + 32767) // 65535).astype(np.uint8)).convert("RGB")
    if turned.mode in ("I", "F"):
        raise BadRequest(
            f"got a picture whose pixels are numbers of 32 bits (mode {turned.mode}), which do not "
            "say what is white: give one of 8 or 16 bits."
        )
    if turned.mode in ("P", "PA"):
        turned = turned.convert("RGBA")  # as Pillow wants it where a palette has transparency
    return turned.convert("RGB")


def stack(images: Sequence[Image]) -> UInt8:
    """`[n, height, width, 3]` of equally large images. **Raises** `BadRequest`."""
    sizes = {(image.height, image.width) for image in images}
    if len(sizes) > 1:
        raise BadRequest(
            f"got images of the sizes {sorted(sizes)}: this file resizes them itself, so that "
            "those of a batch must be equally large."
        )
    return np.stack([np.asarray(image, np.uint8) for image in images])


UNREAD = {
    **dict.fromkeys((".heic", ".heif", ".hif"), "HEIC"),
    **dict.fromkeys((".avif", ".avifs"), "AVIF"),
    **dict.fromkeys((".jxl",), "JPEG XL"),
    **dict.fromkeys((".jxr", ".wdp", ".hdp"), "JPEG XR"),
    **dict.fromkeys((".mpo",), "MPO, several JPEGs in one file"),
    **dict.fromkeys((".ico", ".icns", ".cur"), "icons"),
    **dict.fromkeys((".svg", ".svgz", ".eps", ".ps", ".ai", ".wmf", ".emf"), "drawings"),
    **dict.fromkeys((".psd", ".psb", ".xcf", ".kra"), "layers of a program that draws"),
    **dict.fromkeys((".exr", ".hdr", ".pfm"), "more than 16 bits"),
    **dict.fromkeys((".tga", ".pcx", ".sgi", ".dds", ".qoi", ".xbm", ".xpm"), "that ending"),
    **dict.fromkeys((".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw"), "a camera's raw data"),
    **dict.fromkeys((".arw", ".srf", ".sr2", ".orf", ".raf", ".rw2"), "a camera's raw data"),
    **dict.fromkeys((".pef", ".srw", ".x3f", ".3fr", ".iiq", ".kdc"), "a camera's raw data"),
}
"""Endings of pictures that are not read, and what pictures those are."""


def name_ending(name: str) -> str:
    """How a file's name ends, such as `.png`; empty where nothing says what it is."""
    return PurePosixPath(name).suffix.lower()


def may_be_picture(name: str) -> bool:
    """Whether a file is a picture by its name, is one that is not read, or has no ending."""
    ending = name_ending(name)
    return not ending or ending in UNREAD or ending in extensions()


def why_unread(name: str) -> str | None:
    """Why a file of this name is not read, in a sentence; None for one that is."""
    ending = name_ending(name)
    if ending in extensions():
        return None
    kind = f"pictures of {UNREAD[ending]}" if ending in UNREAD else "files without an ending"
    formats = ", ".join(PICTURE_FORMATS)
    return f"{name} is not read, as {kind} are not: save it as one of the formats {formats}."
