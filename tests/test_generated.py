"""A committed file that a command writes is not older than its inputs."""

import json

import pytest

from tests import generated
from tests.generated import (
    FILES,
    PYTHON,
    ROOT,
    Generated,
    digest,
    digested_text,
    find_stale,
    read,
    record,
)

recorded_here = pytest.mark.skipif(
    read()[0] != PYTHON, reason=f"the digests were recorded with Python {read()[0]}"
)


@recorded_here
def test_no_file_is_stale():
    assert not [*find_stale()]


def test_every_row_is_a_file_or_folder():
    assert [row.path for row in FILES if not (ROOT / row.path).exists()] == []
    assert {row.path for row in FILES} == {*read()[1]}


def test_a_changed_input_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "table.py").write_text("ROWS = (1, 2)\n")
    row = Generated("page.md", "python table.py", ("*.py",))
    for name, value in {"ROOT": tmp_path, "RECORD": tmp_path / "digests", "FILES": (row,)}.items():
        monkeypatch.setattr(generated, name, value)
    assert [*find_stale()] == ["page.md is older than *.py: python table.py"]
    record("page.md")
    assert [*find_stale()] == []
    (tmp_path / "test_table.py").write_text("ROWS = 0\n")
    (tmp_path / "table.py").write_text('"""Rows."""\n\nROWS = (\n    1,  # the first\n    2,\n)\n')
    assert [*find_stale()] == []
    (tmp_path / "table.py").write_text("ROWS = (1, 3)\n")
    assert [*find_stale()] == ["page.md is older than *.py: python table.py"]
    (tmp_path / "table.py").unlink()
    with pytest.raises(AssertionError, match="no file matches"):
        digest(row)


def test_digests_of_two_versions_of_python_are_not_mixed(tmp_path, monkeypatch):
    (tmp_path / "table.py").write_text("ROWS = (1, 2)\n")
    rows = tuple(Generated(page, "python table.py", ("*.py",)) for page in ("a.md", "b.md"))
    for name, value in {"ROOT": tmp_path, "RECORD": tmp_path / "digests", "FILES": rows}.items():
        monkeypatch.setattr(generated, name, value)
    record("a.md", "b.md")
    monkeypatch.setattr(generated, "PYTHON", "4.0")
    with pytest.raises(SystemExit, match="recorded with Python"):
        record("a.md")
    record("a.md", "b.md")
    assert read()[0] == "4.0"


def test_outputs_of_notebooks_are_no_inputs(tmp_path):
    path = tmp_path / "one.ipynb"

    def content_with(source, outputs, kind="code"):
        path.write_text(
            json.dumps({"cells": [{"cell_type": kind, "source": source, "outputs": outputs}]})
        )
        return digested_text(path)

    assert content_with(["x = 1"], []) == content_with(["x = 1"], ["1"]) == "x = 1"
    assert content_with(["# A heading"], [], "markdown") == ""
