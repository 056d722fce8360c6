"""Bounds on what a pickle may take, which Python's own reader does not have."""

import os
import struct
import subprocess
import sys

import pytest

# With 100 MB more than the process has when it begins to read.
OURS = """
import os, resource, sys, time
from pathlib import Path
from weights.containers.pickles import Malformed, unpickle

program = Path(sys.argv[1]).read_bytes()
size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (size + 100_000_000,) * 2)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
seconds = int(time.process_time()) + 3
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
began = time.process_time()
try:
    unpickle(program)
except Malformed as error:
    print(time.process_time() - began)
"""


def many_dictionaries() -> bytes:
    """20,000 dictionaries of one list of 40,000 pairs."""
    pairs = b"".join(b"M" + struct.pack("<H", i) + b"N\x86" for i in range(40_000))
    head = b"\x80\x02ccollections\nOrderedDict\nq\x00](" + pairs + b"eq\x01"
    return head + b"(" + b"h\x00h\x01\x85R" * 20_000 + b"l."


def many_names() -> bytes:
    """1,000 names of 8 MB."""
    name = b"X" + struct.pack("<I", 8_000_000) + b"a" * 8_000_000
    return b"\x80\x02X\x05\x00\x00\x00torchq\x00" + name + b"q\x01" + b"h\x00h\x01\x93" * 1000


SIZES = b"\x80\x02ctorch\nSize\nq\x00](" + b"N" * 60_000 + b"eq\x01("

BOMBS = {
    "many dictionaries": many_dictionaries(),
    "many copies": SIZES + b"h\x00h\x01\x85R" * 20_000 + b"l.",
    "many names": many_names(),
    "many values": b"\x80\x02" + b"}" * 16_000_000 + b".",
    # Hashing it would overflow the interpreter's stack.
    "a nested key": b"\x80\x02})" + b"\x85" * 200_000 + b"Ns.",
    "a doubled key": b"\x80\x02})" + b"q\x00h\x00\x86" * 40 + b"Ns.",
}


@pytest.mark.parametrize("program", BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused_at_once(program, tmp_path):
    (tmp_path / "pickle").write_bytes(program)
    command = [sys.executable, "-c", OURS, str(tmp_path / "pickle")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1
