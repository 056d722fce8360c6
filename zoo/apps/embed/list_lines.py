"""The lines of a list of pictures, in the encodings that systems write lists in."""

import codecs
import os
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from zoo.common.errors import BadRequest

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How UTF-16 begins, in which Windows PowerShell's `>` writes."""


def list_lines(file: BinaryIO, path: str) -> Iterator[str]:
    """Yield the lines of a list: bytes that are names of files, or UTF-16 with its mark.

    A byte order mark is no part of the first line. **Raises** `BadRequest` for what is no text.
    """
    first = file.readline()
    for line in _decoded(first, file, path):
        if "\0" in line:
            raise BadRequest(
                f"{path} is no list of pictures, one name a line (it holds bytes of zero): give a "
                "text file in UTF-8."
            )
        yield line


def _decoded(first: bytes, file: BinaryIO, path: str) -> Iterator[str]:
    if not first.startswith(UTF_16):
        yield from map(os.fsdecode, chain([first.removeprefix(codecs.BOM_UTF8)], file))
        return
    try:
        text = (first + file.read()).decode("utf-16")
    except UnicodeError as error:
        raise BadRequest(
            f"{path} begins as UTF-16 and is none: save the list as UTF-8, one name a line."
        ) from error
    yield from text.split("\n")
