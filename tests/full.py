"""Run the full tier in parts, and print how many tests ran, how many failed and how long they took.

    python -m tests.full                      all parts, one after the other
    python -m tests.full --part 3 --part 4    two of the parts

pytest-split deals the tests to the parts in turn, so that each part is a sample of all folders and
all parts take about the same time. The exit code is 1 if a test failed or a part could not run.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from pytest import ExitCode

PARTS = 12
"""The default number of parts. `.github/workflows/full.yml` has a job for each of them."""


@dataclass(frozen=True)
class Counts:
    """Numbers of tests, and the time that they took in minutes. ``errors`` also counts parts that
    pytest could not run."""

    tests: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0
    minutes: float = 0.0

    def __str__(self) -> str:
        failed = f"{self.failures} failures, {self.errors} errors, {self.skipped} skipped"
        return f"{self.tests:,} tests, {failed}, {self.minutes:.1f} minutes"


def add(counts: Iterable[Counts]) -> Counts:
    """Return the sums of several counts."""
    rows = [(c.tests, c.failures, c.errors, c.skipped, c.minutes) for c in counts]
    return Counts(*map(sum, zip(*rows, strict=True)))


def run_part(part: int, parts: int) -> Counts:
    """Run a part, numbered from 1, and return its counts."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-m", "full", "--tb=short", "-rfEsxX"]
        command += [f"--junitxml={report}", f"--splits={parts}", f"--group={part}"]
        command.append("--splitting-algorithm=least_duration")
        code = subprocess.run(command, check=False).returncode
        minutes = (time.monotonic() - start) / 60
        if not report.exists():
            return Counts(errors=1, minutes=minutes)
        suite = next(ElementTree.parse(report).iter("testsuite"))
    names = ("tests", "failures", "errors", "skipped")
    counts = Counts(*(int(suite.attrib[name]) for name in names), minutes)
    has_ended_early = code not in (ExitCode.OK, ExitCode.TESTS_FAILED, ExitCode.NO_TESTS_COLLECTED)
    return replace(counts, errors=counts.errors + 1) if has_ended_early else counts


def main() -> int:
    """Run the parts and print the counts of each and of all. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.full", description=__doc__)
    parser.add_argument("--parts", type=int, default=PARTS, help=f"number of parts ({PARTS})")
    parser.add_argument("--part", type=int, action="append", help="from 1; all parts by default")
    options = parser.parse_args()
    counts = []
    for part in options.part or range(1, options.parts + 1):
        counts.append(run_part(part, options.parts))
        print(f"part {part} of {options.parts}: {counts[-1]}", flush=True)
    total = add(counts)
    print(f"total of {len(counts)} parts: {total}")
    return 1 if total.failures or total.errors else 0


if __name__ == "__main__":
    sys.exit(main())
