"""Read pictures: one or several PIL images, arrays or paths of files.

No other module converts pictures to upright RGB with 8 bits.
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
"""The formats that are read, by Pillow's names.

Pillow reads more formats. One of them is EPS, which Pillow runs as a program in Ghostscript.
"""

MAX_PIXELS = 89_478_485
"""The largest number of pixels of a picture. Pillow warns above it. So many take 360 MB in RGB."""

DAMAGED = (
    *(OSError, EOFError, SyntaxError, ValueError, LookupError, TypeError, OverflowError),
    *(struct.error, zlib.error),
)
"""The exceptions of Pillow's readers for damaged files. They have no common base class."""


def pictures(images: Pictures) -> list[Image]:
    """Return upright RGB images of one picture, a list or tuple, or an array `[n, height, width,
    3]`.

    Images are rotated by their EXIF orientation. Grey values of 16 bits are scaled to 8 bits, and
    transparency is dropped. Only the first picture of a file is read.

    **Raises** `BadRequest` for a picture that cannot be read, and for an empty sequence.
    """
    from PIL.Image import Image

    if isinstance(images, Image | str | os.PathLike):
        images = [images]
    if not isinstance(images, list | tuple):
        # One array, of numpy or of JAX.
        array = np.asarray(images)
        images = list(array) if array.ndim > 3 else [array]
    if not images:
        raise BadRequest("got no pictures: give at least one.")
    return [_to_picture(image) for image in images]


def _to_picture(picture: Picture) -> Image:
    """Return a PIL image, an array or the picture in a file as an upright RGB image.

    **Raises** `BadRequest` if it cannot be read or is no picture.
    """
    from PIL import Image

    if isinstance(picture, Image.Image):
        with _translated_errors(f"a PIL image of mode {picture.mode}"):
            return _to_rgb(picture)
    if isinstance(picture, str | os.PathLike):
        name = repr(os.fspath(picture))
        with (
            _translated_errors(name),
            open_regular(picture) as file,
            Image.open(file, formats=PICTURE_FORMATS) as opened,
        ):
            _check_pixels(opened, name)
            return _to_rgb(opened)
    array = np.asarray(picture)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise BadRequest(
            f"got an array {array.dtype}{list(array.shape)}: give PIL images, paths, or uint8 "
            "arrays [height, width, 3] of RGB."
        )
    return Image.fromarray(array)


@dataclass(frozen=True)
class ReadPicture:
    """A decoded picture: RGB, upright, and perhaps smaller than its original.

    - `image`: the decoded picture.
    - `original_size`: the (height, width) of the original picture.
    - `part`: the part of `image` that shows the picture. Its edges are not whole numbers if the
      sides of the original are not multiples of the factor of reduction.
    """

    image: Image
    original_size: Sides
    part: Part


def read_picture(
    data: bytes, name: str, minimum_size: Callable[[int, int], Sides] | None = None
) -> ReadPicture:
    """Return the first picture in the bytes of a file, upright and in RGB.

    **Arguments**

    - `data`: the bytes of the file.
    - `name`: the name of the file for error messages.
    - `minimum_size`: a function that returns the smallest useful (height, width) for the height and
      width of the upright picture. With it, the picture is reduced by whole factors, by the JPEG
      decoder or by means of pixels.

    **Raises** `BadRequest` for a picture that cannot be read.
    """
    from PIL import Image

    drafted = None
    with (
        _translated_errors(name),
        Image.open(PictureBytes(data), formats=PICTURE_FORMATS) as opened,
    ):
        _check_pixels(opened, name)
        orientation = _read_orientation(opened)
        if minimum_size is not None and opened.format == "JPEG":
            sides = (
                (opened.width, opened.height)
                if orientation in SIDEWAYS
                else (opened.height, opened.width)
            )
            min_height, min_width = minimum_size(*sides)
            drafted = opened.draft(
                None,
                (min_height, min_width) if orientation in SIDEWAYS else (min_width, min_height),
            )
        with (
            LARGE_PICTURE_LOCK
            if opened.width * opened.height > LARGE_PICTURE_PIXELS
            else nullcontext()
        ):
            image = _to_rgb(opened)
    if drafted is None:
        # Pillow may rotate a TIFF while it opens it, so only the decoded image is surely upright.
        return to_read_picture(image, minimum_size)
    _, (_, _, width, height) = drafted
    cut_columns, cut_rows = opened.width - width, opened.height - height
    if orientation in SIDEWAYS:
        cut_columns, cut_rows = cut_rows, cut_columns
    left, top = (
        (cut_columns if orientation in FROM_LEFT else 0.0),
        (cut_rows if orientation in FROM_TOP else 0.0),
    )
    part = (left, top, image.width - cut_columns + left, image.height - cut_rows + top)
    return _reduce(ReadPicture(image, sides, part), (min_height, min_width))


def to_read_picture(
    image: Image, minimum_size: Callable[[int, int], Sides] | None = None
) -> ReadPicture:
    """Return an upright RGB image as a decoded picture.

    With `minimum_size` the image is reduced by whole factors. `minimum_size` returns the smallest
    useful (height, width) for the height and width of the image.
    """
    sides = (image.height, image.width)
    decoded = ReadPicture(image, sides, (0.0, 0.0, float(image.width), float(image.height)))
    return decoded if minimum_size is None else _reduce(decoded, minimum_size(*sides))


def _reduce(decoded: ReadPicture, minimum_size: Sides) -> ReadPicture:
    """Reduce a picture by the largest whole factors that keep it at least `minimum_size` large.

    Each pixel of the result is the mean of a rectangle of pixels. Height and width have factors of
    their own. `minimum_size` is (height, width).
    """
    image, smallest = decoded.image, minimum_size[::-1]
    across, down = (
        max(1, int(length / side)) for length, side in zip(image.size, smallest, strict=True)
    )
    if across * down == 1:
        return decoded
    left, top, right, bottom = decoded.part
    part = (left / across, top / down, right / across, bottom / down)
    return ReadPicture(image.reduce((across, down)), decoded.original_size, part)


class PictureBytes(BytesIO):
    """The bytes of a picture file, as a file object with a constant `repr`.

    Pillow quotes this `repr` in its error messages.
    """

    def __repr__(self) -> str:
        return f"of {self.getbuffer().nbytes} bytes"


LARGE_PICTURE_LOCK, LARGE_PICTURE_PIXELS = threading.Lock(), 16_000_000
"""Pictures with more than `LARGE_PICTURE_PIXELS` pixels are decoded one at a time, under this
lock."""

SIDEWAYS = (5, 6, 7, 8)
"""EXIF orientations in which the rows of the file are the columns of the upright picture."""

FROM_LEFT, FROM_TOP = (2, 3, 6, 7), (3, 4, 7, 8)
"""EXIF orientations in which the right edge of the file is the left edge of the upright picture,
and those in which its bottom edge is the top edge."""


def _read_orientation(image: Image) -> int:
    """Return the EXIF orientation of an image, from 1 to 8. 1 means upright."""
    from PIL import ExifTags

    return image.getexif().get(ExifTags.Base.Orientation, 1)


def _check_pixels(image: Image, name: str) -> None:
    """Check that the header of a picture states at most `MAX_PIXELS` pixels.

    This is done before memory for the pixels is allocated. `name` is used in the error message.
    **Raises** `BadRequest`.
    """
    if image.width * image.height > MAX_PIXELS:
        raise BadRequest(
            f"{name} has {image.width} x {image.height} pixels: give a picture of at most "
            f"{MAX_PIXELS // 1_000_000} million pixels."
        )


def picture_extensions() -> set[str]:
    """Return the lower-case endings of names of pictures that can be read, such as `.png`."""
    from PIL import Image

    return {end for end, name in Image.registered_extensions().items() if name in PICTURE_FORMATS}


def check_picture_header(path: Path) -> None:
    """Check that the first bytes of a file are those of a picture that can be read.

    The pixels are not decoded. **Raises** `BadRequest`.
    """
    from PIL import Image

    name = repr(os.fspath(path))
    with (
        _translated_errors(name),
        open_regular(path) as file,
        Image.open(file, formats=PICTURE_FORMATS),
    ):
        pass


@contextmanager
def _translated_errors(name: str) -> Generator[None]:
    """Raise `BadRequest` in place of the exceptions of Pillow's readers in the `with` block.

    `name` is the name of the picture for the message.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except (*DAMAGED, MemoryError, Image.DecompressionBombError) as error:
        # Pillow quotes the file object, the system the name again.
        is_unidentified = isinstance(error, UnidentifiedImageError)
        reason = "its first bytes are those of no picture" if is_unidentified else None
        reason = reason or (isinstance(error, OSError) and error.strerror) or first_line(error)
        raise BadRequest(
            f"{name} is no picture that can be read ({reason}): give an undamaged one "
            f"in one of the formats {', '.join(PICTURE_FORMATS)}."
        ) from error


def _to_rgb(image: Image) -> Image:
    """Return an image in 8-bit RGB, rotated upright by its EXIF orientation.

    **Raises** `BadRequest` for an image with 32-bit pixels, whose white is not defined.
    """
    from PIL import Image as pil
    from PIL import ImageOps

    is_upright, is_pgm = _read_orientation(image) == 1, image.format == "PPM"
    upright_image = image if is_upright else ImageOps.exif_transpose(image)  # always makes a copy
    # Pillow scales a PGM to the full range of 16 bits and stores it in 32 bits.
    if upright_image.mode.startswith("I;16") or (upright_image.mode == "I" and is_pgm):
        # Pillow would clip values above 255.
        grey = np.asarray(upright_image, np.uint32)
        return pil.fromarray(((grey * 255 + 32767) // 65535).astype(np.uint8)).convert("RGB")
    if upright_image.mode in ("I", "F"):
        raise BadRequest(
            f"got a picture whose pixels are 32-bit numbers (mode {upright_image.mode}), for which "
            "white is not defined: give a picture of 8 or 16 bits."
        )
    if upright_image.mode in ("P", "PA"):
        upright_image = upright_image.convert(
            "RGBA"
        )  # Pillow requires this for palettes with transparency
    return upright_image.convert("RGB")


def stack_images(images: Sequence[Image]) -> UInt8:
    """Return images of equal size as one array `[n, height, width, 3]`.

    **Raises** `BadRequest` if their sizes differ.
    """
    sizes = {(image.height, image.width) for image in images}
    if len(sizes) > 1:
        raise BadRequest(
            f"got images of the sizes {sorted(sizes)}: this file resizes images itself, and all "
            "images of a batch need the same size. Resize them, or run them one by one."
        )
    return np.stack([np.asarray(image, np.uint8) for image in images])


UNREAD_KINDS = {
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
"""Endings of pictures that are not read, and the kind of these pictures."""


def name_ending(name: str) -> str:
    """Return the ending of a file's name in lower case, such as `.png`, or `""` if it has none."""
    return PurePosixPath(name).suffix.lower()


def may_be_picture(name: str) -> bool:
    """Return whether the name of a file allows it to be a picture.

    This is so if the name has no ending, or the ending of a picture format, even of one that is not
    read.
    """
    ending = name_ending(name)
    return not ending or ending in UNREAD_KINDS or ending in picture_extensions()


def why_unread(name: str) -> str | None:
    """Return a sentence with the reason why a file of this name is not read as a picture.

    The name must be one of which `may_be_picture` is true. Return None if the ending is that of a
    format that is read.
    """
    ending = name_ending(name)
    if ending in picture_extensions():
        return None
    kind = (
        f"pictures of {UNREAD_KINDS[ending]}"
        if ending in UNREAD_KINDS
        else "files without an ending"
    )
    formats = ", ".join(PICTURE_FORMATS)
    return f"{name} is not read, as {kind} are not: save it as one of the formats {formats}."
