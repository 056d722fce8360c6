"""Members of zip archives, found without trusting what the archive says of them."""

from __future__ import annotations

import zipfile
from pathlib import Path


class BadMember(ValueError):
    """A member is not where, or not what, the archive's table says."""


def locate(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin that is stored as it is. **Raises** `BadMember`."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise BadMember(f"{info.filename} is compressed")
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
    if len(local) < 30 or local[:4] != b"PK\x03\x04":
        raise BadMember(f"{info.filename} is not where its archive says")
    names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    offset = info.header_offset + 30 + names
    if offset + info.file_size > path.stat().st_size:
        raise BadMember(f"{info.filename} is cut off")
    return offset
