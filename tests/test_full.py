"""The command that runs the full tier takes each test in one part, and counts failures."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

TESTS = """
import pytest
from pathlib import Path

pytestmark = pytest.mark.full


@pytest.mark.parametrize("number", range(5))
def test_number(number):
    with Path("ran.txt").open("a") as file:
        print(number, file=file)
    assert number != 4
"""


def test_each_test_is_in_one_part(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = full: the second tier\n")
    (tmp_path / "test_numbers.py").write_text(TESTS)
    command = [sys.executable, "-m", "tests.full", "--parts", "2"]
    options = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(ROOT)}, "text": True}
    process = subprocess.run(command, capture_output=True, **options)
    rows = [line for line in process.stdout.splitlines() if line.startswith(("part ", "total "))]
    assert [row.rpartition(",")[0] for row in rows] == [
        "part 1 of 2: 3 tests, 1 failures, 0 errors, 0 skipped",
        "part 2 of 2: 2 tests, 0 failures, 0 errors, 0 skipped",
        "total of 2 parts: 5 tests, 1 failures, 0 errors, 0 skipped",
    ]
    assert sorted((tmp_path / "ran.txt").read_text().split()) == list("01234")
    assert process.returncode == 1


def test_a_part_that_cannot_run_is_an_error(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    command = [sys.executable, "-m", "tests.full", "--part", "1"]
    options = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(ROOT)}, "text": True}
    process = subprocess.run(command, capture_output=True, **options)
    assert process.returncode == 1
    assert "0 tests, 0 failures, 1 errors" in process.stdout
