"""Processes of the zoo: imports from the current folder, staging folders, links, progress bars."""

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

TRAPPED_MODULES = (
    "multiprocessing",
    "concurrent",
    "threading",
    "signal",
    "selectors",
    "numpy",
    "zoo",
)


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """Change to a folder of modules that log their import. Return the path of that log."""
    log, folder = tmp_path / "said", tmp_path / "downloaded"
    source = f"open({str(log)!r}, 'a').write(__name__ + ' ')\n".encode()
    monkeypatch.chdir(folders.write(folder, {f"{name}.py": source for name in TRAPPED_MODULES}))
    return log


def test_workers_execute_nothing_of_the_folder(trap, monkeypatch):
    # Coverage imports multiprocessing before the folder is on the path.
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)
    # The second job of a build runs in a process that is started later.
    with process_pool(1, print) as pool, pool.open_workers() as executor:
        assert list(executor.map(len, ("a", "bc"))) == [1, 2]
    assert not trap.exists()
    # A process that Python starts without our settings imports the modules of the folder.
    run_program([sys.executable, "-c", "import multiprocessing.spawn"], Path.cwd())
    assert trap.read_text().startswith("multiprocessing")


def test_blocks_that_overlap_leave_the_environment_as_it_was(monkeypatch):
    """The blocks may end in any order."""
    monkeypatch.delenv(SAFE_PATH, raising=False)
    for earlier_value in (None, "0"):
        if earlier_value:
            monkeypatch.setenv(SAFE_PATH, earlier_value)
        first, second = isolated_context(), isolated_context()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert os.environ[SAFE_PATH] == "1"
        second.__exit__(None, None, None)
        assert os.environ.get(SAFE_PATH) == earlier_value


@pytest.mark.parametrize(
    ("in_notebook", "progress_class"), [(False, TerminalProgress), (True, LogProgress)]
)
def test_notebook_cells_get_lines_instead_of_a_bar(in_notebook, progress_class, monkeypatch):
    """Jupyter's `!` gives a command a terminal that keeps every redrawn state of a bar."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    if in_notebook:
        monkeypatch.setenv("JPY_PARENT_PID", "1")
    with progress_bar(fallback=LogProgress()) as progress:
        assert type(progress) is progress_class


def test_a_bar_shows_bytes_only_in_stages_of_bytes(monkeypatch, capsys):
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
STAGING_PROGRAM = """
import sys, time
from pathlib import Path
from zoo.common.staging import staged
with staged(Path(sys.argv[1])) as stage:
    (stage / "half").touch()
    print(flush=True)
    time.sleep(600)
"""


def test_staging_folders_of_killed_processes_are_removed(tmp_path):
    """Staging folders of running processes stay, and so do folders whose names differ."""
    other_folders = [
        tmp_path / ".zoo-pull",
        tmp_path / ".zoo-mine",
        tmp_path / ".zoo-0123456789abcdeg",
    ]
    for folder in other_folders:
        folder.mkdir()
    command = [sys.executable, "-c", STAGING_PROGRAM, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with staged(tmp_path):
            assert len(list(tmp_path.glob(".zoo-*"))) == len(other_folders) + 2
        process.kill()
    assert len(list(tmp_path.glob(".zoo-*"))) == len(other_folders) + 1
    with staged(tmp_path) as stage:
        assert sorted(tmp_path.iterdir()) == sorted([*other_folders, stage])


@pytest.mark.parametrize("by_folder", [True, False])
@pytest.mark.parametrize(
    ("link", "target"), [(MODEL, "../other"), ("onnx", "."), (MODEL, "/dev/stdin")]
)
def test_links_inside_a_folder_are_not_followed(link, target, by_folder, tmp_path, monkeypatch):
    if not by_folder:  # a system that cannot open a path relative to an open folder
        monkeypatch.setattr(os, "supports_dir_fd", set())
    folders.write(tmp_path, {"other": b"secret", "model.onnx": b"secret"})
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(target)
    with pytest.raises(OSError, match=r"symbolic|directory"):
        open_inside(tmp_path, MODEL)
    link_to_folder = tmp_path / "around"  # the folder itself may be reached through a link
    link_to_folder.symlink_to(tmp_path)
    with open_inside(link_to_folder, "other") as file:
        assert file.read() == b"secret"
