"""`python -m tests.files --format pth --mutations 1000 --seed 7`; ends with 1 if one is wrong."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.files.formats import FORMATS, INDEX

FINE = ("read", "refused")


def hunt(name: str, seed: int, count: int, folder: Path) -> Iterator[str]:
    """What is wrong with any of so many files, read in a process that may die of one."""
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
        if index + len(outcomes) < count:
            outcomes.append(f"the process ended with {done.returncode}")
        for at, outcome in enumerate(outcomes, index):
            if outcome not in FINE:
                yield f"{name} {seed}/{at}: {outcome}"
        index += len(outcomes)


def main() -> bool:
    parser = argparse.ArgumentParser(prog="python -m tests.files", description=__doc__)
    parser.add_argument("--format", choices=FORMATS, action="append", help="all if none is named")
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    count = 0
    for name in options.format or FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            for wrong in hunt(name, options.seed, options.mutations, Path(folder)):
                count += 1
                print(wrong, flush=True)
        print(f"{name}, and those before it: {count} wrong", flush=True)
    return count > 0


if __name__ == "__main__":
    sys.exit(main())
