"""Processes of ours do not execute what lies in the current folder."""

import sys
from pathlib import Path

import pytest

from zoo.artifacts.build.pools import processes
from zoo.processes import fresh, run_program, workers

TRAPPED = ("multiprocessing", "concurrent", "threading", "signal", "selectors", "numpy", "zoo")


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A folder of modules that say so when they are imported, and what they said."""
    said = tmp_path / "said"
    folder = tmp_path / "downloaded"
    folder.mkdir()
    for name in TRAPPED:
        (folder / f"{name}.py").write_text(f"open({str(said)!r}, 'a').write(__name__ + ' ')\n")
    monkeypatch.chdir(folder)
    return said


def test_a_worker(trap):
    with fresh() as context, workers(context, 1) as pool:
        assert pool.submit(len, "abc").result() == 3
    assert not trap.exists()


def test_workers_of_a_build(trap):
    """The second job has a process of its own, which is started later."""
    with processes(1, print) as pool, pool.open() as executor:
        assert list(executor.map(len, ("a", "bc"))) == [1, 2]
    assert not trap.exists()


def test_the_trap_would_be_seen(trap):
    """A process that is started as Python starts one executes what lies there."""
    run_program([sys.executable, "-c", "import multiprocessing.spawn"], Path.cwd())
    assert trap.read_text().startswith("multiprocessing")
