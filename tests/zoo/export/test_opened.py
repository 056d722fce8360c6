"""The system calls of an export: it changes no path outside of its destination."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHANGING_CALL = re.compile(
    r"(open\w*\(.*O_(WRONLY|RDWR|CREAT|TRUNC|TMPFILE)|creat|truncate|mk|rename|link|symlink|unlink"
    r"|rmdir|f?chmod|[fl]?chown|f?utime|l?setxattr).*\) += \d"
)
"""A system call that succeeded in changing a path."""

PATH = re.compile(r'(?:<([^<>]*)>, )?"((?:[^"\\]|\\.)*)"')

HARMLESS = ("/dev/null", "/dev/shm/", "/proc/self/")
"""Paths that are no files: the null device, shared memory, and names of threads in `/proc`."""

OPTIONS = {
    "fp32": ("--opset", "18,23", "--layers", "last4"),
    "fp16": ("--precision", "fp16", "--input", "uint8"),
    "bf16": ("--precision", "bf16"),
    "int8": ("--precision", "int8", "--size", "dynamic"),
}


def strace_obstacle() -> str | None:
    """Return the reason why strace cannot follow system calls here, or None if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed: apt-get install strace"
    process = subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True)
    return (
        f"strace may not follow a process here: {process.stderr!r}" if process.returncode else None
    )


@pytest.mark.full
@pytest.mark.skipif("strace_obstacle()", reason=f"{strace_obstacle()}")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_an_export_writes_only_in_its_destination(options, tmp_path):
    """It connects to no host, and the home, temporary and working folders stay empty."""
    home, temporary, traces, here = (tmp_path / n for n in ("home", "tmp", "traces", "here"))
    for folder in (home, temporary, traces, here):
        folder.mkdir()
    environment = {"HOME": str(home), "TMPDIR": str(temporary), "PATH": os.environ["PATH"]}
    python = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    strace = ["strace", "-ff", "-qq", "-y", "-e", "trace=%file,connect,sendto", "-o", traces / "t"]
    command = [sys.executable, "-m", "zoo", "export", "vit_digits", *options, "--out", "made"]
    process = subprocess.run(
        [*strace, *command], cwd=here, env=environment | python, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    lines = [line for file in traces.iterdir() for line in file.read_text().splitlines()]
    assert not [line for line in lines if "AF_INET" in line]
    pairs = [pair for line in lines if CHANGING_CALL.match(line) for pair in PATH.findall(line)]
    paths = {os.path.normpath(here / inside / path) for inside, path in pairs}
    assert f"{here}/made" in paths
    inside = {path for path in paths if Path(path).is_relative_to(here / "made")}
    assert len(inside) > 3
    assert not [path for path in paths - inside if not path.startswith(HARMLESS)]
    assert not [*home.iterdir(), *temporary.iterdir()]
    assert {path.name for path in here.iterdir()} == {"made"}
