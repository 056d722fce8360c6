"""`--dry-run`: nothing is written, removed or sent, whatever command has it."""

import os

import pytest

from tests import folders
from tests.hub_pushes import TOKEN, Pushes, receiving
from tests.hub_server import COMMIT, hub_of, serving
from tests.siege.doors import ZOO
from zoo.registry.lookup import info

SIGLIP = "siglip2_vitb16_224"
REPOSITORY, CHECKPOINT = info(SIGLIP).repository, "model.safetensors"
FILES = folders.published(folders.contents())

COMMANDS = {
    "export": (0, "vit_digits"),
    "build": (0, "vit_digits"),
    "push": (0, "built", "--repo", "somebody/network"),
    "pull": (0, folders.MODEL, "--out", "pulled"),
    "weights download": (2, SIGLIP),
}
"""The exit code and the arguments of each; the hub's own library has a damaged checkpoint."""


def having(command=ZOO, names=()):
    """The commands that have the option."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from having(inner, (*names, name))
    if any("--dry-run" in parameter.opts for parameter in command.params):
        yield " ".join(names)


def test_every_command_is_a_row():
    assert {*having()} == {*COMMANDS}


def state(place):
    """What there is in a folder, and when it was changed or used."""
    return {
        path: (os.lstat(path).st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in place.rglob("*")
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_written_or_sent(command, zoo, at, monkeypatch):
    code, *arguments = COMMANDS[command]
    folders.write(zoo.here / "built", FILES)
    library = zoo.home / ".cache/huggingface/hub" / f"models--{REPOSITORY.replace('/', '--')}"
    folders.write(library, {f"blobs/{'0' * 64}": b"damaged", "refs/main": COMMIT.encode()})
    (library / "snapshots" / COMMIT).mkdir(parents=True)
    (library / "snapshots" / COMMIT / CHECKPOINT).symlink_to(library / "blobs" / ("0" * 64))
    if command == "push":
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        hub = at(receiving(Pushes()), HF_HUB_DISABLE_XET=True)
    else:
        hub = at(serving(hub_of(f"somebody/{folders.MODEL}", FILES)))
    before = state(zoo.home), state(zoo.here)
    zoo(*command.split(), *arguments, "--dry-run", code=code)
    assert (state(zoo.home), state(zoo.here)) == before
    if command == "push":
        assert {*hub.steps} == {"look"} and not hub.commits
    else:
        names = [name.rpartition("/")[2] for name, _ in hub.requests if name.startswith("GET")]
        assert {*names} <= {"manifest.json"}
