"""The photograph that exported files are checked on. `data/README.md` states its licence."""

from importlib.resources import as_file, files

from PIL import Image, ImageOps
from PIL.Image import Transpose

STORED = "chelsea.png"

INSET = 0.04  # what one step of cropping takes off each side
CROPS = 8  # how many crops there are before they repeat


def photograph() -> Image.Image:
    """A cat, 336 x 224 pixels, RGB."""
    with as_file(files("zoo") / "data" / STORED) as path, Image.open(path) as image:
        return image.convert("RGB")


def photographs(count: int) -> list[Image.Image]:
    """The photograph, mirrored, cropped, mirrored and cropped, cropped further …"""
    image = photograph()
    return [_variant(image, index) for index in range(count)]


def photographs_of_one_size(count: int, step: int) -> list[Image.Image]:
    """The photograph cropped so many steps, every other step on its side; mirrored, flipped …"""
    image = _variant(photograph(), 2 * step)
    image = image.transpose(Transpose.ROTATE_90) if step % 2 else image
    turns = (Transpose.FLIP_LEFT_RIGHT, Transpose.FLIP_TOP_BOTTOM, Transpose.ROTATE_180)
    turned = [image, *map(image.transpose, turns)]
    return [turned[index % len(turned)] for index in range(count)]


def _variant(image: Image.Image, index: int) -> Image.Image:
    inset = INSET * (index // 2 % CROPS)
    width, height = image.size
    left, top = round(inset * width), round(inset * height)
    cropped = image.crop((left, top, width - left, height - top))
    return ImageOps.mirror(cropped) if index % 2 else cropped
