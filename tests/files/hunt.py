"""Many changed files, read in a process that may die of one."""

import select
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.files.formats import FORMATS, INDEX

SECONDS = 5
"""For one file; the machine may have more to do, so that a second look is taken."""

FINE = ("read", "refused")


def hunt(name: str, seed: int, indices: Iterable[int], folder: Path) -> Iterator[tuple[int, str]]:
    """Of each index what became of its file."""
    seeds = folder / "seeds"
    seeds.mkdir(parents=True)
    for key, content in FORMATS[name].seeds(folder).items():
        (seeds / key).write_bytes(content)
        if key != INDEX:
            (folder / key).write_bytes(content)
    waiting = iter(indices)
    index = next(waiting, None)
    while index is not None:
        with working(name, seed, folder) as process:
            while index is not None and process.poll() is None:
                yield index, ask(process, index)
                index = next(waiting, None)


def ask(process: subprocess.Popen[str], index: int) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{index}\n")
    process.stdin.flush()
    if not select.select([process.stdout], [], [], SECONDS)[0]:
        process.kill()
        process.wait()
        return f"took more than {SECONDS} s"
    outcome = process.stdout.readline().strip()
    if not outcome:
        process.wait()
        return f"the process ended with {process.returncode}"
    return outcome


@contextmanager
def working(name: str, seed: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.files.worker", name, str(seed), str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()
