"""`zoo cache`: what is listed, what is removed, and that nothing is without a yes."""

import io
import os
import sys
import time

import pytest

from tests import folders
from tests.hub_server import COMMIT
from weights.sources import cache

OTHER = "e" * 40
DINOV2, DINOV3 = "checkpoints/facebook--dinov2-small", "models/somebody--dinov3_vits16"
ENTRIES = {
    f"{DINOV2}/{COMMIT}/deep/.w.bin.part": 100_000,
    f"{DINOV2}/{COMMIT}/file": 200_000,
    f"{DINOV2}/{OTHER}/file": 300_000,
    f"{DINOV3}/{COMMIT}/onnx/model.onnx": 400_000,
}
NAMES = [
    f"checkpoints/facebook/dinov2-small/{COMMIT}/deep/w.bin",
    f"checkpoints/facebook/dinov2-small/{COMMIT}/file",
    f"checkpoints/facebook/dinov2-small/{OTHER}/file",
    f"models/somebody/dinov3_vits16/{COMMIT}",
]
OURS = {f"{DINOV2}/refs/main": 40}
"""What goes with the last entry beside it."""

MINE = {f"{DINOV3}/notes/mine.txt": 1, f"other/a--b/{COMMIT}/mine.txt": 1, "mine.txt": 1}


@pytest.fixture
def root(zoo):
    """A cache with four entries, one of them a part of a file, and what is not ours."""
    root = zoo.home / ".cache" / "jax-onnx-zoo"
    files = {place: bytes(size) for place, size in (ENTRIES | OURS | MINE).items()}
    folders.write(root, files)
    for number, place in enumerate(ENTRIES, start=1):
        os.utime(root / place, (86400 * 365 * number,) * 2)
    # Links are not followed.
    (root / "models" / "somebody--linked").symlink_to(root / "other" / "a--b")
    (root / DINOV3 / OTHER).symlink_to(root / "other")
    (root / DINOV3 / COMMIT / "link").symlink_to(root / "other")
    os.utime(root / DINOV3 / COMMIT, (86400 * 365 * 4,) * 2)
    return root


def there(root):
    """Files of ours that are kept, as those of others are."""
    found = folders.listed(root)
    assert set(MINE) <= found
    return found - set(MINE)


def cleared(zoo, answer) -> str:
    """What `zoo cache clear` prints on stdout when it is given an answer."""
    zoo.patch.setattr(sys, "stdin", io.StringIO(answer))
    said = zoo("cache", "clear")
    assert "Remove" in said.err
    return said.out


def test_list(zoo, root):
    lines = zoo("cache", "list").out.splitlines()
    assert [line.split()[-1] for line in lines[:4]] == NAMES
    assert lines[1].split()[:5] == ["0.2", "MB", "last", "used", "1972-01-01"]
    assert lines[4] == f"4 entries of 1.0 MB in {root}"
    entry = {
        "kind": "models",
        "name": NAMES[3],
        "path": f"{root}/{DINOV3}/{COMMIT}",
        "bytes": 400_000,
        "last_used": "1973-12-31T00:00:00+00:00",
    }
    found = zoo.json("cache", "list", "*vits16*", "nothing")
    assert found == {"root": str(root), "entries": [entry]}
    cache.touch(root / DINOV3 / COMMIT)
    assert abs(cache.entries()[3].used - time.time()) < 60
    zoo.patch.setenv("ZOO_CACHE_DIR", "none")
    assert zoo.json("cache", "list") == {"root": "none", "entries": []}


def test_nothing_is_removed_without_a_yes(zoo, root):
    """Entries and nothing else, and no empty folders stay."""
    everything = {*ENTRIES, *OURS}
    zoo.patch.setattr(sys, "stdin", io.StringIO(""))
    assert "nobody answered" in zoo("cache", "clear", code=2).error
    assert "nothing was removed" in cleared(zoo, "n\n")
    told = zoo.json("cache", "clear", "*small*", "--dry-run")
    assert not told["removed"] and [entry["name"] for entry in told["entries"]] == NAMES[:3]
    assert there(root) == everything
    told = zoo.json("cache", "clear", f"*/{OTHER}/*", "*/w.bin", "models/*", "--yes")
    assert told["removed"]
    assert [entry["name"] for entry in told["entries"]] == [NAMES[0], *NAMES[2:]]
    assert there(root) == {f"{DINOV2}/{COMMIT}/file", *OURS}
    gone = (f"{DINOV2}/{OTHER}", f"{DINOV2}/{COMMIT}/deep", f"{DINOV3}/{COMMIT}")
    assert not any((root / place).exists() for place in gone)
    assert "all of this was removed" in cleared(zoo, "y\n")
    assert there(root) == set() and not (root / DINOV2).exists()
    assert "0 entries" in zoo("cache", "clear").out
