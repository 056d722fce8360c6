"""Where progress is drawn, and where it is told in lines."""

import sys

import pytest

from zoo.progress import Bar, Lines, bar


@pytest.mark.parametrize(("cell", "kind"), [(False, Bar), (True, Lines)])
def test_a_cell_of_a_notebook_gets_lines(cell, kind, monkeypatch):
    """What Jupyter's `!` runs has a terminal, but one that keeps every picture of a moving bar."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    if cell:
        monkeypatch.setenv("JPY_PARENT_PID", "1")
    with bar(elsewhere=Lines()) as progress:
        assert type(progress) is kind
