"""Zip archives, read without trusting what they say of their members."""

import io
import sys
import zipfile
import zlib

from weights.containers.bounds import LARGEST_TABLE, MOST_TENSORS, within
from weights.errors import DamagedFile
from weights.files import FileBytes

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""How an archive begins, with a member or without any."""

ERRORS = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError)
"""What Python's library raises about an archive."""

OTHERS = 10  # members of an archive that are no tensors


class _Table(io.BufferedReader):
    """A file for `zipfile`, which reads the whole table at once, however large it may be."""

    largest = LARGEST_TABLE

    def read(self, size: int | None = -1, /) -> bytes:
        within("its table (in bytes)", size or 0, self.largest) if size != -1 else None
        return super().read(size)


def open_archive(source: FileBytes) -> zipfile.ZipFile:
    """An archive, whose table is read once. **Raises** `DamagedFile`, or one of `ERRORS`."""
    file = _Table(source.stream().detach())
    archive = zipfile.ZipFile(file)
    file.largest = sys.maxsize  # of what is read from now on, the members say how large it is
    names = [info.filename for info in archive.infolist()]
    within("it (in members)", len(names), MOST_TENSORS + OTHERS)
    if len({*names}) != len(names):
        raise DamagedFile("a name is given twice")
    return archive


def locate_member(source: FileBytes, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin that is stored as it is. **Raises** `DamagedFile`."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise DamagedFile(f"{info.filename} is compressed")
    local = source.read(info.header_offset, 30)
    if len(local) < 30 or local[:4] != b"PK\x03\x04":
        raise DamagedFile(f"{info.filename} is not where its archive says")
    names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    offset = info.header_offset + 30 + names
    if offset + info.file_size > source.state.size:
        raise DamagedFile(f"{info.filename} is cut off")
    return offset
