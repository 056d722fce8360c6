"""Files that somebody changed give tensors or one sentence, quickly and in little memory."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["pth", "equimo", "npz", "safetensors"])
def test_a_few_of_the_formats_with_most_in_them(name, tmp_path):
    assert not [*hunt(name, 0, 10, tmp_path)]


@pytest.mark.full
@pytest.mark.parametrize("name", FORMATS)
def test_two_thousand_files(name, tmp_path, pytestconfig):
    seed = pytestconfig.getoption("--seed")
    assert not [*hunt(name, seed, 2000 // len(FORMATS), tmp_path)]
