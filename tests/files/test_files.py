"""Changed files have to give tensors or one sentence, in limited time and memory."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.files.formats import FORMATS, INDEX

ACCEPTED = ("read", "refused")


def find_faults(name: str, seed: int, count: int, folder: Path) -> Iterator[str]:
    """Yield the faults of `count` changed files, read in a process that is restarted if it dies."""
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
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        outcomes = process.stdout.splitlines()
        if index + len(outcomes) < count:
            outcomes.append(f"the process ended with {process.returncode}")
        for file_index, outcome in enumerate(outcomes, index):
            if outcome not in ACCEPTED:
                yield f"{name} {seed}/{file_index}: {outcome}"
        index += len(outcomes)


@pytest.mark.parametrize("name", ["pth", "equimo", "npz", "safetensors"])
def test_a_few_files_of_each_container(name, tmp_path):
    assert not [*find_faults(name, 0, 10, tmp_path)]


@pytest.mark.full
@pytest.mark.parametrize("name", FORMATS)
def test_many_files_of_every_format(name, tmp_path, pytestconfig):
    seed = pytestconfig.getoption("--seed")
    assert not [*find_faults(name, seed, 2000 // len(FORMATS), tmp_path)]
