"""The photograph with which exported files are checked. `data/README.md` names its licence."""

from importlib.resources import as_file, files

from PIL import Image, ImageOps
from PIL.Image import Transpose

STORED = "chelsea.png"

INSET = 0.04  # the share of each side that one crop removes
CROPS = 8  # the number of different crops


def photograph() -> Image.Image:
    """Return the photograph of a cat, 336 x 224 pixels, RGB."""
    with as_file(files("zoo") / "data" / STORED) as path, Image.open(path) as image:
        return image.convert("RGB")


def photographs(count: int) -> list[Image.Image]:
    """Return `count` variants of the photograph of a cat.

    They are the photograph itself, its mirror image, a crop, the mirror image of the crop, a
    smaller crop, and so on. There are 16 different variants, which are repeated in turn.
    """
    image = photograph()
    return [_make_variant(image, index) for index in range(count)]


def photographs_of_one_size(count: int, step: int) -> list[Image.Image]:
    """Return `count` variants of the photograph that have all the same size.

    A larger `step`, up to 7, removes a wider margin from the photograph. If `step` is odd, it is
    rotated by 90°. The variants are the result itself, mirrored, flipped and rotated by 180°, in
    turn.
    """
    image = _make_variant(photograph(), 2 * step)
    image = image.transpose(Transpose.ROTATE_90) if step % 2 else image
    flips = (Transpose.FLIP_LEFT_RIGHT, Transpose.FLIP_TOP_BOTTOM, Transpose.ROTATE_180)
    variants = [image, *map(image.transpose, flips)]
    return [variants[index % len(variants)] for index in range(count)]


def _make_variant(image: Image.Image, index: int) -> Image.Image:
    """Return the photograph without a margin of `index // 2 % 8` times 4 % of its sides.

    It is mirrored if `index` is odd.
    """
    inset = INSET * (index // 2 % CROPS)
    width, height = image.size
    left, top = round(inset * width), round(inset * height)
    cropped = image.crop((left, top, width - left, height - top))
    return ImageOps.mirror(cropped) if index % 2 else cropped
