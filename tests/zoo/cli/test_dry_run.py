"""`--dry-run`: no command with this option writes, removes or sends anything."""

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
"""Exit code and arguments of each command. The cache of the hub's library has a damaged
checkpoint."""


def commands_with_dry_run(command=ZOO, names=()):
    """Yield the names of the commands that have the option."""
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from commands_with_dry_run(subcommand, (*names, name))
    if any("--dry-run" in parameter.opts for parameter in command.params):
        yield " ".join(names)


def test_every_command_is_a_row():
    assert {*commands_with_dry_run()} == {*COMMANDS}


def read_state(folder):
    """Return the modification time and the content of every file below a folder."""
    return {
        path: (os.lstat(path).st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_written_or_sent(command, zoo, at, monkeypatch):
    code, *arguments = COMMANDS[command]
    folders.write(zoo.here / "built", FILES)
    cache = zoo.home / ".cache/huggingface/hub" / f"models--{REPOSITORY.replace('/', '--')}"
    folders.write(cache, {f"blobs/{'0' * 64}": b"damaged", "refs/main": COMMIT.encode()})
    (cache / "snapshots" / COMMIT).mkdir(parents=True)
    (cache / "snapshots" / COMMIT / CHECKPOINT).symlink_to(cache / "blobs" / ("0" * 64))
    if command == "push":
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        hub = at(receiving(Pushes()), HF_HUB_DISABLE_XET=True)
    else:
        hub = at(serving(hub_of(f"somebody/{folders.MODEL}", FILES)))
    before = read_state(zoo.home), read_state(zoo.here)
    zoo(*command.split(), *arguments, "--dry-run", code=code)
    assert (read_state(zoo.home), read_state(zoo.here)) == before
    if command == "push":
        assert {*hub.steps} == {"look"} and not hub.commits
    else:
        names = [name.rpartition("/")[2] for name, _ in hub.requests if name.startswith("GET")]
        assert {*names} <= {"manifest.json"}
