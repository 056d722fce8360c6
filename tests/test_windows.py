"""What Windows has not: names of the operating system's, and removing files that are open.

Linux stands in for it. Each test takes away what Windows lacks, as far as one process can.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weights import lock
from weights.progress import Quiet
from zoo.files import staging

OPEN = Path("/proc/self/fd")

pytestmark = pytest.mark.skipif(not OPEN.exists(), reason="asks Linux which files are open")


def open_files():
    """The files that this process has open."""
    found = set()
    for number in OPEN.iterdir():
        try:
            found.add(os.readlink(number))
        except OSError:
            continue
    return found


@pytest.fixture
def windows(monkeypatch):
    """No open file is removed, by whatever name it is asked for."""

    def refusing(real):
        def remove(path, *args, dir_fd=None, **kwargs):
            place = os.fspath(path)
            if dir_fd is not None:
                place = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), place)
            if os.path.realpath(place) in open_files():
                raise PermissionError(13, "being used by another process", place)
            return real(path, *args, dir_fd=dir_fd, **kwargs)

        return remove

    for name in ("unlink", "remove"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))


def test_an_interrupt_while_a_lock_is_held(tmp_path, windows):
    with lock.locked(tmp_path / "file.onnx", Quiet()):
        assert os.listdir(tmp_path) == [".file.onnx.lock"]
        lock.discard_locks()
        assert not os.listdir(tmp_path)
    assert not os.listdir(tmp_path)


def test_a_lock_goes_when_it_is_released(tmp_path, windows):
    with lock.locked(tmp_path / "file.onnx", Quiet()):
        pass
    assert not os.listdir(tmp_path)


def test_an_interrupt_while_something_is_staged(tmp_path, windows):
    with staging.staged(tmp_path) as stage:
        (stage / "file").write_text("half")
        staging.discard()
        assert not os.listdir(tmp_path)


def test_what_a_killed_process_left_is_removed_with_its_folder(tmp_path, windows):
    stage = tmp_path / f"{staging.PREFIX}{'0' * 16}"
    stage.mkdir()
    (stage / staging.LOCK).touch()
    staging.sweep(tmp_path)
    assert not os.listdir(tmp_path)


PROGRAM = """
import os, sys, signal
import equinox, filelock, huggingface_hub, jax, jinja2, numpy, onnx, onnx_ir, onnxruntime, PIL.Image
import psutil, pydantic, rich.console, typer, subprocess, multiprocessing.connection
import asyncio, concurrent.futures.process, multiprocessing.pool, rich.progress, rich.live
import typer.rich_utils
for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "fork", "sysconf"):
    delattr(os, name)
for name in ("sched_getaffinity", "getuid", "geteuid", "mkfifo"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGPIPE", "SIGALRM", "SIGUSR1"):
    delattr(signal, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
os.supports_dir_fd = set()
os.O_BINARY = 0
sys.platform = "win32"
from zoo.cli.app import app
from zoo.cli.console import call
sys.exit(call(app, sys.argv[1:], "zoo"))
"""
"""A command without the names that only POSIX has. Other libraries are imported before."""


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "vit_digits", "--out", "digits.onnx"),
        ("list",),
        pytest.param(("build", "vit_digits", "--variant", "fp32"), marks=pytest.mark.full),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_without_the_names_of_posix(arguments, tmp_path):
    command = [sys.executable, "-c", PROGRAM, *arguments]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
