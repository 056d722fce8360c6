"""Zip archives, read without trusting the sizes that they claim."""

import io
import sys
import zipfile
import zlib

from weights.containers.bounds import MAX_TABLE_BYTES, MAX_TENSORS, check_count
from weights.errors import DamagedFile
from weights.files import FileBytes

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""First bytes of an archive with members, and of an empty one."""

ERRORS = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError)
"""Errors that Python's library raises for a damaged archive."""

MAX_OTHER_MEMBERS = 10  # members of an archive in addition to its tensors


class _Table(io.BufferedReader):
    """File for `zipfile` with a limit on the size of one read.

    `zipfile` reads the complete table of members at once, whatever size the archive claims for it.
    `largest` is the limit in bytes.
    """

    largest = MAX_TABLE_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes. If it is -1, return all remaining bytes, without a limit.
        **Raises** `DamagedFile` if `size` is above the limit."""
        check_count("its table (in bytes)", size or 0, self.largest) if size != -1 else None
        return super().read(size)


def open_archive(source: FileBytes) -> zipfile.ZipFile:
    """Open a file as a zip archive, whose table of members is read once.

    **Raises** `DamagedFile` if the table is too large, has too many members or has a name twice, or
    one of `ERRORS` if the archive is invalid.
    """
    file = _Table(source.stream().detach())
    archive = zipfile.ZipFile(file)
    file.largest = sys.maxsize  # the sizes of later reads are checked against the members
    names = [info.filename for info in archive.infolist()]
    check_count("it (in members)", len(names), MAX_TENSORS + MAX_OTHER_MEMBERS)
    if len({*names}) != len(names):
        raise DamagedFile("two members have the same name")
    return archive


def locate_member(source: FileBytes, info: zipfile.ZipInfo) -> int:
    """Return the position, in the file `source`, of the first byte of an uncompressed member.
    `info` is the member's entry in the archive.

    **Raises** `DamagedFile` if the member is compressed or not within the file.
    """
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise DamagedFile(f"{info.filename} is compressed")
    local = source.read(info.header_offset, 30)
    if len(local) < 30 or local[:4] != b"PK\x03\x04":
        raise DamagedFile(f"{info.filename} is not at the offset that its archive claims")
    names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    offset = info.header_offset + 30 + names
    if offset + info.file_size > source.state.size:
        raise DamagedFile(f"{info.filename} is cut off")
    return offset
