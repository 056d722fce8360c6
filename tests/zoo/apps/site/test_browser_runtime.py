"""Copies of npm packages that a user gives."""

import gzip
import io
import tarfile

import pytest

from zoo.apps.site.browser_runtime import ONNXRUNTIME_WEB, write_package
from zoo.common.errors import BadFile
from zoo.common.progress import LogProgress


def pack_files(files):
    """Return the bytes of a compressed archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/dist/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


COMPLETE = pack_files(dict.fromkeys(ONNXRUNTIME_WEB.files, b"another version"))
ARCHIVES = {
    "zeros": (bytes(20_000), "not a gzip file"),
    "compressed zeros": (gzip.compress(bytes(20_000)), "not found"),
    "a file is missing": (pack_files({}), "not found"),
    "cut off": (COMPLETE[:-30], "end-of-stream"),
    "another version": (COMPLETE, "is missing or differs"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_other_archives_are_refused(name, tmp_path):
    """Zeros are no archive, although tarfile reads them as an empty one if it may guess."""
    content, message = ARCHIVES[name]
    copy = tmp_path / "package.tgz"
    copy.write_bytes(content)
    with pytest.raises(BadFile, match=message):
        write_package(ONNXRUNTIME_WEB, copy, tmp_path / "dist", tmp_path, LogProgress())
