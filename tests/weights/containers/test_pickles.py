"""Bounds on what a pickle may take, which Python's own reader does not have."""

import os
import struct
import subprocess
import sys

import pytest

# So many bytes more than the process has when it begins to read.
LIMIT = """
import os, resource, sys, time
from pathlib import Path
from weights.containers.pickles import Malformed, Refused, unpickle

path, room = sys.argv[1:]
program = Path(path).read_bytes()
size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (size + int(room),) * 2)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
seconds = int(time.process_time()) + 3
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
began = time.process_time()
"""

OURS = f"""
{LIMIT}
try:
    unpickle(program)
    kind = "loaded"
except (Malformed, Refused) as error:
    kind = type(error).__name__
print(kind, time.process_time() - began)
"""


def run(program, folder, room):
    """The exit code; and how it ended and seconds of work, if it got so far."""
    (folder / "pickle").write_bytes(program)
    done = subprocess.run(
        [sys.executable, "-c", OURS, str(folder / "pickle"), str(room)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    kind, seconds = done.stdout.split() or ("", "0")
    return done.returncode, kind, float(seconds)


def many_dictionaries() -> bytes:
    """20,000 dictionaries of one list of 40,000 pairs."""
    pairs = b"".join(b"M" + struct.pack("<H", i) + b"N\x86" for i in range(40_000))
    head = b"\x80\x02ccollections\nOrderedDict\nq\x00](" + pairs + b"eq\x01"
    return head + b"(" + b"h\x00h\x01\x85R" * 20_000 + b"l."


def many_names() -> bytes:
    """1,000 names of 8 MB."""
    name = b"X" + struct.pack("<I", 8_000_000) + b"a" * 8_000_000
    return b"\x80\x02X\x05\x00\x00\x00torchq\x00" + name + b"q\x01" + b"h\x00h\x01\x93" * 1000


NESTED = b"\x80\x02})" + b"\x85" * 200_000 + b"Ns."
DOUBLED = b"\x80\x02})" + b"q\x00h\x00\x86" * 40 + b"Ns."

BOMBS = {
    "many dictionaries": many_dictionaries(),
    "many copies": b"\x80\x02ctorch\nSize\nq\x00](" + b"N" * 60_000 + b"eq\x01("
    b"" + b"h\x00h\x01\x85R" * 20_000 + b"l.",
    "many names": many_names(),
    "many values": b"\x80\x02" + b"}" * 16_000_000 + b".",
    "a nested key": NESTED,
    "a doubled key": DOUBLED,
}


@pytest.mark.parametrize("program", BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused_at_once(program, tmp_path):
    code, kind, seconds = run(program, tmp_path, room=100_000_000)
    assert (code, kind) == (0, "Malformed")
    assert seconds < 1
