"""What processes do not execute, leave or take from a folder; and where progress is drawn."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import folders
from weights.opening import open_inside
from zoo.common.processes import SAFE_PATH, isolated_context, run_program
from zoo.common.progress import LogProgress, TerminalProgress, progress_bar
from zoo.common.staging import staged
from zoo.export.assemble.schedule import process_pool

TRAPPED = ("multiprocessing", "concurrent", "threading", "signal", "selectors", "numpy", "zoo")


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A folder of modules that say so when they are imported, and what they said."""
    said, folder = tmp_path / "said", tmp_path / "downloaded"
    code = f"open({str(said)!r}, 'a').write(__name__ + ' ')\n".encode()
    monkeypatch.chdir(folders.write(folder, {f"{name}.py": code for name in TRAPPED}))
    return said


def test_workers_execute_nothing_of_the_folder(trap, monkeypatch):
    # Coverage imports multiprocessing before the folder is on the path.
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)
    # The second job of a build has a process of its own, which is started later.
    with process_pool(1, print) as pool, pool.open_workers() as executor:
        assert list(executor.map(len, ("a", "bc"))) == [1, 2]
    assert not trap.exists()
    # A process that is started as Python starts one does.
    run_program([sys.executable, "-c", "import multiprocessing.spawn"], Path.cwd())
    assert trap.read_text().startswith("multiprocessing")


def test_blocks_that_overlap_leave_the_environment_as_it_was(monkeypatch):
    """In whatever order they end."""
    monkeypatch.delenv(SAFE_PATH, raising=False)
    for before in (None, "0"):
        if before:
            monkeypatch.setenv(SAFE_PATH, before)
        first, second = isolated_context(), isolated_context()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert os.environ[SAFE_PATH] == "1"
        second.__exit__(None, None, None)
        assert os.environ.get(SAFE_PATH) == before


@pytest.mark.parametrize(("cell", "kind"), [(False, TerminalProgress), (True, LogProgress)])
def test_a_cell_of_a_notebook_gets_lines(cell, kind, monkeypatch):
    """What Jupyter's `!` runs has a terminal, but one that keeps every picture of a moving bar."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    if cell:
        monkeypatch.setenv("JPY_PARENT_PID", "1")
    with progress_bar(fallback=LogProgress()) as progress:
        assert type(progress) is kind


def test_a_bar_shows_bytes_where_bytes_are_counted(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    with progress_bar() as progress:
        progress.stage("looking for pictures")
        progress.rich.refresh()
        progress.stage("9 pictures, 3 a second")
        progress.rich.refresh()
        assert "bytes" not in capsys.readouterr().err
        progress.stage("downloading", 4_000_000)
        progress.step(1_000_000)
        progress.rich.refresh()
        assert "1.0 of 4.0 MB" in capsys.readouterr().err


MODEL = "onnx/model.onnx"
STAGE = """
import sys, time
from pathlib import Path
from zoo.common.staging import staged
with staged(Path(sys.argv[1])) as stage:
    (stage / "half").touch()
    print(flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_staged_goes(tmp_path):
    """What a living one staged stays, and so does what is named otherwise."""
    others = [tmp_path / ".zoo-pull", tmp_path / ".zoo-mine", tmp_path / ".zoo-0123456789abcdeg"]
    for other in others:
        other.mkdir()
    command = [sys.executable, "-c", STAGE, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with staged(tmp_path):
            assert len(list(tmp_path.glob(".zoo-*"))) == len(others) + 2
        process.kill()
    assert len(list(tmp_path.glob(".zoo-*"))) == len(others) + 1
    with staged(tmp_path) as stage:
        assert sorted(tmp_path.iterdir()) == sorted([*others, stage])


@pytest.mark.parametrize("by_folder", [True, False])
@pytest.mark.parametrize(
    ("link", "to"), [(MODEL, "../other"), ("onnx", "."), (MODEL, "/dev/stdin")]
)
def test_links_inside_a_folder_are_not_followed(link, to, by_folder, tmp_path, monkeypatch):
    if not by_folder:  # where the system opens nothing from a folder that is open
        monkeypatch.setattr(os, "supports_dir_fd", set())
    folders.write(tmp_path, {"other": b"secret", "model.onnx": b"secret"})
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(to)
    with pytest.raises(OSError, match=r"symbolic|directory"):
        open_inside(tmp_path, MODEL)
    around = tmp_path / "around"  # the folder itself may be reached as its owner likes
    around.symlink_to(tmp_path)
    with open_inside(around, "other") as file:
        assert file.read() == b"secret"
