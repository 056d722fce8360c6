"""`zoo cache`: what is listed, what is removed, and that nothing is without a yes."""

import io
import os
import sys

import pytest

from tests import folders
from tests.hub_server import COMMIT

OTHER = "e" * 40
NAMES = (
    f"checkpoints/facebook/dinov2-small/{COMMIT}/file",
    f"checkpoints/facebook/dinov2-small/{OTHER}/file",
    f"models/somebody/dinov3_vits16/{COMMIT}",
)


@pytest.fixture
def root(zoo):
    """A cache with three entries and a file of somebody's."""
    root = zoo.home / ".cache" / "jax-onnx-zoo"
    for number, name in enumerate(NAMES, start=1):
        kind, owner, model, commit, *_ = name.split("/")
        folder = root / kind / f"{owner}--{model}" / commit
        folders.write(folder, {"file": bytes(number * 100_000)})
        for path in (folder / "file", folder):
            os.utime(path, (86400 * 365 * number,) * 2)
    (root / "mine.txt").write_text("")
    return root


def count(root):
    assert (root / "mine.txt").exists()
    return sum(path.is_file() for path in root.rglob("*")) - 1


def answered(zoo, text, *arguments) -> str:
    """What it prints on stdout when it is given an answer."""
    zoo.patch.setattr(sys, "stdin", io.StringIO(text))
    said = zoo(*arguments)
    assert "Remove" in said.err
    return said.out


def test_list(zoo, root):
    lines = zoo("cache", "list").out.splitlines()
    assert [line.split()[-1] for line in lines[:3]] == list(NAMES)
    assert lines[1].split()[:5] == ["0.2", "MB", "last", "used", "1972-01-01"]
    assert lines[3] == f"3 entries of 0.6 MB in {root}"
    entry = {
        "kind": "models",
        "name": NAMES[2],
        "path": f"{root}/models/somebody--dinov3_vits16/{COMMIT}",
        "bytes": 300_000,
        "last_used": "1972-12-31T00:00:00+00:00",
    }
    found = zoo.json("cache", "list", "*vits16*")
    assert found == {"root": str(root), "entries": [entry]}
    assert "0 entries" in zoo("cache", "list", "nothing").out
    zoo.patch.setenv("ZOO_CACHE_DIR", "none")
    assert zoo.json("cache", "list") == {"root": "none", "entries": []}


def test_nothing_is_removed_without_a_yes(zoo, root):
    zoo.patch.setattr(sys, "stdin", io.StringIO(""))
    assert "nobody answered" in zoo("cache", "clear", code=2).error
    assert "nothing was removed" in answered(zoo, "n\n", "cache", "clear")
    told = zoo.json("cache", "clear", "*small*", "--dry-run")
    assert not told["removed"]
    assert [entry["name"] for entry in told["entries"]] == list(NAMES[:2])
    assert count(root) == 3
    told = zoo.json("cache", "clear", f"*/{OTHER}/*", "--yes")
    assert told["removed"]
    assert [entry["name"] for entry in told["entries"]] == [NAMES[1]]
    assert count(root) == 2
    assert "all of this was removed" in answered(zoo, "y\n", "cache", "clear")
    assert count(root) == 0
    assert "0 entries" in zoo("cache", "clear").out
