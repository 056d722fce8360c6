"""Progress in a log, below a notebook cell and in a terminal. The clock is the test's."""

import io
import sys
import time
from types import SimpleNamespace

import pytest
from rich import progress as rich
from rich.console import Console

from zoo.common.progress import CellProgress, LogProgress, TerminalProgress


@pytest.fixture
def advance_clock(monkeypatch):
    """A function that advances the clock by a number of seconds."""
    seconds = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])

    def advance(by):
        seconds[0] += by

    return advance


def test_a_log_has_a_line_for_a_stage_and_one_every_ten_seconds(advance_clock, capsys):
    progress = LogProgress()
    progress.stage("reading", 40_000_000)
    for seconds in (4, 5.875, 0.125, 9.875, 0.125):
        advance_clock(seconds)
        progress.step(6_000_000)
    progress.stage("sorting")
    advance_clock(60)
    progress.step(6_000_000)
    assert capsys.readouterr().err.splitlines() == [
        *("reading", "  18 of 40 MB, 2 MB/s", "  30 of 40 MB, 2 MB/s", "sorting"),
    ]


def test_a_cell_has_one_line_after_the_first_second(advance_clock, monkeypatch):
    shown = []

    class Handle:
        def update(self, data, raw):
            assert raw
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        assert raw and display_id
        shown.append(data["text/plain"])
        return Handle()

    module = SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    with CellProgress() as progress:
        progress.stage("starting")
        advance_clock(0.75)
        progress.stage("reading", 40_000_000)
        assert shown == []
        advance_clock(0.375)
        progress.step(10_000_000)
        advance_clock(0.125)
        progress.step(10_000_000)
        advance_clock(0.125)
        progress.step(4_000_000)
        advance_clock(0.25)
        progress.stage("sorting")
    assert shown == [
        "reading █████░░░░░░░░░░░░░░░ 10 of 40 MB",
        "reading ████████████░░░░░░░░ 24 of 40 MB",
        "sorting",
        "",
    ]


def test_a_bar_in_a_terminal_has_the_size_and_the_speed():
    """The speed is that of the library rich, which needs two steps to compute one."""
    seconds, output = [0.0], io.StringIO()
    console = Console(file=output, force_terminal=True, width=80)
    bar = rich.Progress(console=console, auto_refresh=False, get_time=lambda: seconds[0])
    progress = TerminalProgress(bar)
    progress.stage("reading", 40_000_000)
    seen = []
    for _ in range(3):
        seconds[0] += 2
        progress.step(5_000_000)
        seen.append(bar.tasks[0].fields["moved"])
    progress.note("a note [of brackets]")
    assert seen == ["5.0 of 40.0 MB", "10.0 of 40.0 MB, 2.5 MB/s", "15.0 of 40.0 MB, 2.5 MB/s"]
    assert "a note [of brackets]" in output.getvalue()
    progress.stage("sorting")
    progress.step(5)
    (task,) = bar.tasks
    assert task.total is None
    assert (task.description, task.fields["moved"]) == ("sorting", "")
