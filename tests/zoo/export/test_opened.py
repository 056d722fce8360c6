"""What an export writes, by the system calls that it makes: nothing outside of its destination."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHANGE = re.compile(
    r"(open\w*\(.*O_(WRONLY|RDWR|CREAT|TRUNC|TMPFILE)|creat|truncate|mk|rename|link|symlink|unlink"
    r"|rmdir|f?chmod|[fl]?chown|f?utime|l?setxattr).*\) += \d"
)
"""A system call that has changed what lies at a path."""

PATH = re.compile(r'(?:<([^<>]*)>, )?"((?:[^"\\]|\\.)*)"')

HARMLESS = ("/dev/null", "/dev/shm/", "/proc/self/")
"""No files: nothing, memory that processes share, and names that a process gives its threads."""

OPTIONS = {
    "fp32": ("--opset", "18,23", "--layers", "last4"),
    "fp16": ("--precision", "fp16", "--input", "uint8"),
    "bf16": ("--precision", "bf16"),
    "int8": ("--precision", "int8", "--size", "dynamic"),
}


def why_not() -> str | None:
    """Why system calls cannot be followed here."""
    if shutil.which("strace") is None:
        return "strace is not installed: apt-get install strace"
    done = subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True)
    return f"strace may not follow a process here: {done.stderr!r}" if done.returncode else None


@pytest.mark.full
@pytest.mark.skipif("why_not()", reason=f"{why_not()}")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_an_export(options, tmp_path):
    """It writes in its destination alone, and asks no host for anything."""
    home, elsewhere, traces, here = (tmp_path / n for n in ("home", "tmp", "traces", "here"))
    for folder in (home, elsewhere, traces, here):
        folder.mkdir()
    own = {"HOME": str(home), "TMPDIR": str(elsewhere), "PATH": os.environ["PATH"]}
    python = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    strace = ["strace", "-ff", "-qq", "-y", "-e", "trace=%file,connect,sendto", "-o", traces / "t"]
    command = [sys.executable, "-m", "zoo", "export", "vit_digits", *options, "--out", "made"]
    done = subprocess.run(
        [*strace, *command], cwd=here, env=own | python, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = [line for file in traces.iterdir() for line in file.read_text().splitlines()]
    assert not [line for line in lines if "AF_INET" in line]
    found = [pair for line in lines if CHANGE.match(line) for pair in PATH.findall(line)]
    paths = {os.path.normpath(here / inside / path) for inside, path in found}
    assert f"{here}/made" in paths
    inside = {path for path in paths if Path(path).is_relative_to(here / "made")}
    assert len(inside) > 3
    assert not [path for path in paths - inside if not path.startswith(HARMLESS)]
    assert not [*home.iterdir(), *elsewhere.iterdir()]
    assert {path.name for path in here.iterdir()} == {"made"}
