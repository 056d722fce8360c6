"""Commands and libraries work without names of the operating system that Windows lacks, and without
removing or replacing open files.

The tests run on Linux. Each test removes what Windows lacks, as far as one process can.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.windows import OPEN, refusing
from weights import lock
from weights.progress import Quiet
from zoo.architectures.entry import DATA
from zoo.checkpoints.convert import convert_file
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common import staging
from zoo.images.photograph import photograph

pytestmark = pytest.mark.skipif(not OPEN.exists(), reason="asks Linux which files are open")


@pytest.fixture
def windows(monkeypatch):
    """Make calls of `os` refuse to remove or replace open files, as on Windows."""
    for name, call in refusing().items():
        monkeypatch.setattr(os, name, call)


def test_the_simulation_refuses(tmp_path, windows):
    """The simulation refuses to remove or replace open files, mapped files and folders with
    either."""
    for name in ("open", "mapped", "free"):
        (tmp_path / name).write_bytes(b"some")
    with open(tmp_path / "open") as opened:
        mapped = np.memmap(tmp_path / "mapped", np.uint8, "r")
        for name in ("open", "mapped"):
            with pytest.raises(PermissionError):
                (tmp_path / name).unlink()
            with pytest.raises(PermissionError):
                (tmp_path / "free").replace(tmp_path / name)
        with pytest.raises(PermissionError):
            tmp_path.rename(tmp_path.with_name("other"))
        assert not opened.closed and mapped.size == 4
    del mapped
    (tmp_path / "free").replace(tmp_path / "mapped")
    (tmp_path / "open").unlink()
    assert os.listdir(tmp_path) == ["mapped"]


def test_an_interrupt_while_a_lock_is_held(tmp_path, windows):
    with lock.hold_lock(tmp_path / "file.onnx", Quiet()):
        assert os.listdir(tmp_path) == [".file.onnx.lock"]
        lock.discard_locks()
        assert not os.listdir(tmp_path)
    assert not os.listdir(tmp_path)


def test_an_interrupt_while_files_are_staged(tmp_path, windows):
    with staging.staged(tmp_path) as stage:
        (stage / "file").write_text("half")
        staging.remove_staged_folders()
        assert not os.listdir(tmp_path)


def test_files_of_a_killed_process_are_removed_with_their_folder(tmp_path, windows):
    stage = tmp_path / f"{staging.PREFIX}{'0' * 16}"
    stage.mkdir()
    (stage / staging.LOCK).touch()
    staging.remove_stale_folders(tmp_path)
    assert not os.listdir(tmp_path)


def test_a_checkpoint_is_written_over_itself(tmp_path, windows):
    """The checkpoint is open while it is read."""
    path, digits = tmp_path / "digits.eqx", GivenCheckpoint(DATA / "vit_digits.safetensors")
    convert_file(digits, path, "vit_digits", False, Quiet())
    written = path.read_bytes()
    convert_file(GivenCheckpoint(path), path, "vit_digits", True, Quiet())
    assert path.read_bytes() == written


PROGRAM = """
import json, os, sys, signal
from pathlib import Path
import equinox, filelock, huggingface_hub, jax, jinja2, numpy, onnx, onnx_ir, onnxruntime, PIL.Image
import psutil, pydantic, rich.console, typer, subprocess, multiprocessing.connection
import asyncio, concurrent.futures.process, multiprocessing.pool, rich.progress, rich.live
import lance, matplotlib.font_manager, matplotlib.figure
import multiprocessing.resource_tracker, multiprocessing.popen_spawn_posix, typer.rich_utils
system, commands = json.loads(sys.argv[1])
if system == "win32":
    for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "fork", "sysconf"):
        delattr(os, name)
    for name in ("getuid", "geteuid", "mkfifo"):
        delattr(os, name)
    for name in ("SIGKILL", "SIGHUP", "SIGPIPE", "SIGALRM", "SIGUSR1"):
        delattr(signal, name)
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None
    os.supports_dir_fd = set()
    os.O_BINARY = 0
    from tests.windows import simulate
    simulate(os.getcwd())
delattr(os, "sched_getaffinity")
sys.platform = system
from zoo.export.timing import footprint, rounds
from zoo.cli.app import app
from zoo.cli.console import run_command
for module, names in ((rounds, ("CPUINFO", "STAT")), (footprint, ("STATUS", "RESET"))):
    for name in names:
        setattr(module, name, Path("nowhere", "proc"))
for words in commands:
    code = run_command(app, words, "zoo")
    if code:
        sys.exit(f"{words} ended with {code}")
"""
"""Run commands without the names that an operating system lacks. Other libraries are imported
before, because they may fail without these names."""

FOLDER = "artifacts/vit_digits"
EXPORTED = [
    ["export", "vit_digits", "--out", "digits.onnx"],
    ["verify", "digits.onnx"],
    ["run", "digits.onnx", "cat.png"],
    ["export", "vit_digits", "--out", "digits.onnx", "--force"],
    ["list"],
]
BUILT = [
    ["build", "vit_digits", "--variant", "fp32,int8"],
    ["verify", FOLDER],
    ["build", "vit_digits", "--variant", "fp32", "--force"],
    ["show", "vit_digits", "cat.png", "--out", "shown.png"],
    ["embed", "pictures", "--model", FOLDER, "--out", "vectors.lance"],
    ["search", "vectors.lance", "cat.png", "--pictures", "pictures"],
    ["golden", "vit_digits", "golden.pth"],
    ["weights", "inspect", "golden.pth"],
    ["weights", "convert", "golden.pth", "golden.eqx"],
]
BENCH = ["bench", f"{FOLDER}/onnx/model.onnx", "--rounds", "2"]
"""A command that starts a process. Linux does so with names that Windows lacks."""


@pytest.mark.parametrize(
    ("system", "commands"),
    [
        pytest.param("win32", EXPORTED, id="win32, export", marks=pytest.mark.full),
        pytest.param("win32", BUILT, id="win32, build", marks=pytest.mark.full),
        pytest.param("darwin", [*EXPORTED, *BUILT, BENCH], id="darwin", marks=pytest.mark.full),
    ],
)
def test_commands_without_the_names_of_posix(system, commands, tmp_path):
    """Commands succeed without these names, as far as one process can be without them, and leave no
    temporary files."""
    photograph().save(tmp_path / "cat.png")
    (tmp_path / "pictures").mkdir()
    photograph().save(tmp_path / "pictures" / "cat.png")
    command = [sys.executable, "-c", PROGRAM, json.dumps([system, commands])]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": path, "HOME": str(tmp_path)}
    process = subprocess.run(
        command, cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr[-2000:]
    assert not [path for kind in (".zoo-*", "*.lock", "*.part") for path in tmp_path.rglob(kind)]
