"""`zoo cache`: what is listed, what is removed, and that nothing is without a yes."""

import json
import os
import subprocess

import pytest

from tests.command import PROGRAM, Command
from tests.hub_server import COMMIT

OTHER = "e" * 40
NAMES = (
    f"checkpoints/facebook/dinov2-small/{COMMIT}/file",
    f"checkpoints/facebook/dinov2-small/{OTHER}/file",
    f"models/somebody/dinov3_vits16/{COMMIT}",
)


@pytest.fixture
def zoo(tmp_path):
    """The command, and a cache with three entries and a file of somebody's."""
    root = tmp_path / ".cache" / "jax-onnx-zoo"
    for number, name in enumerate(NAMES, start=1):
        kind, owner, model, commit, *_ = name.split("/")
        folder = root / kind / f"{owner}--{model}" / commit
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(number * 100_000))
        for path in (folder / "file", folder):
            os.utime(path, (86400 * 365 * number,) * 2)
    (root / "mine.txt").write_text("")
    return Command(tmp_path)


def files(zoo):
    root = zoo.folder / ".cache" / "jax-onnx-zoo"
    return sum(path.is_file() for path in root.rglob("*")), (root / "mine.txt").exists()


def test_list(zoo):
    lines = zoo("cache", "list").splitlines()
    assert [line.split()[-1] for line in lines[:3]] == list(NAMES)
    assert lines[1].split()[:5] == ["0.2", "MB", "last", "used", "1972-01-01"]
    assert lines[3] == f"3 entries of 0.6 MB in {zoo.folder}/.cache/jax-onnx-zoo"
    told = json.loads(zoo("cache", "list", "*vits16*", "--json"))
    place = f"{zoo.folder}/.cache/jax-onnx-zoo"
    assert told == {
        "root": place,
        "entries": [
            {
                "kind": "models",
                "name": NAMES[2],
                "path": f"{place}/models/somebody--dinov3_vits16/{COMMIT}",
                "bytes": 300_000,
                "last_used": "1972-12-31T00:00:00+00:00",
            }
        ],
    }
    assert "0 entries" in zoo("cache", "list", "nothing")
    empty = json.loads(zoo("cache", "list", "--json", ZOO_CACHE_DIR="none"))
    assert empty == {"root": "none", "entries": []}


def test_nothing_is_removed_without_a_yes(zoo):
    assert "nobody answered" in zoo("cache", "clear", code=2)
    assert "nothing was removed" in answered(zoo, "n\n", "cache", "clear")
    told = zoo("cache", "clear", "--dry-run")
    assert all(name in told for name in NAMES)
    told = json.loads(zoo("cache", "clear", "*small*", "--dry-run", "--json"))
    assert not told["removed"]
    assert [entry["bytes"] for entry in told["entries"]] == [100_000, 200_000]
    assert files(zoo) == (4, True)


def test_clear(zoo):
    told = json.loads(zoo("cache", "clear", f"*/{OTHER}/*", "--yes", "--json"))
    assert told["removed"]
    assert [entry["name"] for entry in told["entries"]] == [NAMES[1]]
    assert files(zoo) == (3, True)
    assert "all of this was removed" in answered(zoo, "y\n", "cache", "clear")
    assert files(zoo) == (1, True)
    assert "0 entries" in zoo("cache", "clear")


def answered(zoo, text, *arguments) -> str:
    """What it prints on stdout when it is given an answer."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        input=text,
        cwd=zoo.folder,
        env=zoo.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Remove" in done.stderr
    return done.stdout
