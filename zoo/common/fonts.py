"""The font for text from users, such as names of files and classes."""

import io
from importlib.resources import files

from PIL import ImageFont

FONT_FILE = "DejaVuSans.ttf"
"""The name of the font file in `zoo/data`. Pillow's default font has no letters with accents."""


def font(height: float) -> ImageFont.FreeTypeFont:
    """Return the font DejaVu Sans with letters of this height in pixels.

    The font is read from the package's data. It has the letters of European languages.
    """
    return ImageFont.truetype(io.BytesIO((files("zoo") / "data" / FONT_FILE).read_bytes()), height)
