"""Zip archives, read without trusting what they say of their members."""

import io
import zipfile
import zlib
from pathlib import Path

from weights.containers.bounds import LARGEST_TABLE, MOST_TENSORS, within
from weights.errors import DamagedFile
from weights.opening import State, open_regular

ERRORS = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError)
"""What Python's library raises about an archive."""

OTHERS = 10  # members of an archive that are no tensors


class _Table(io.BufferedReader):
    """A file for `zipfile`, which reads the whole table at once, however large it may be."""

    def read(self, size: int | None = -1, /) -> bytes:
        within("its table (in bytes)", size or 0, LARGEST_TABLE) if size != -1 else None
        return super().read(size)


def read_members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """The table of an archive. **Raises** `DamagedFile`, or one of `ERRORS`."""
    with _Table(open_regular(path).detach()) as file, zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
    within("it (in members)", len(infos), MOST_TENSORS + OTHERS)
    members = {info.filename: info for info in infos}
    if len(members) != len(infos):
        raise DamagedFile("a name is given twice")
    return members


def locate_member(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin that is stored as it is. **Raises** `DamagedFile`."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise DamagedFile(f"{info.filename} is compressed")
    with open_regular(path) as file:
        file.seek(info.header_offset)
        local = file.read(30)
        size = State.of(file).size
    if len(local) < 30 or local[:4] != b"PK\x03\x04":
        raise DamagedFile(f"{info.filename} is not where its archive says")
    names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    offset = info.header_offset + 30 + names
    if offset + info.file_size > size:
        raise DamagedFile(f"{info.filename} is cut off")
    return offset
