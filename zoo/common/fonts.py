"""The font of words that are somebody's own: names of files and of classes."""

import io
from importlib.resources import files

from PIL import ImageFont

STORED = "DejaVuSans.ttf"
"""In `zoo/data`. Pillow's own font has no letter with an accent."""


def font(height: float) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, for European languages, in letters of so many pixels."""
    return ImageFont.truetype(io.BytesIO((files("zoo") / "data" / STORED).read_bytes()), height)
