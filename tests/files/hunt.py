"""Many changed files, read in a process that may die of one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.files.formats import FORMATS, INDEX

FINE = ("read", "refused")


def hunt(name: str, seed: int, count: int, folder: Path) -> Iterator[tuple[int, str]]:
    """Of each of so many files what became of it."""
    seeds = folder / "seeds"
    seeds.mkdir(parents=True)
    for key, content in FORMATS[name].seeds(folder).items():
        (seeds / key).write_bytes(content)
        if key != INDEX:
            (folder / key).write_bytes(content)
    index = 0
    while index < count:
        numbers = map(str, (seed, index, count))
        command = [sys.executable, "-m", "tests.files.worker", name, *numbers, str(folder)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        outcomes = done.stdout.splitlines()
        yield from enumerate(outcomes, index)
        index += len(outcomes)
        if index < count:
            yield index, f"the process ended with {done.returncode}"
            index += 1
