"""`zoo push`: what it refuses, what it says, and what a hub on loopback has afterwards."""

import json
from copy import deepcopy

import pytest

from tests import folders
from tests.hub_pushes import TOKEN, Pushes, receiving
from tests.zoo.conftest import NOWHERE
from weights.progress import Quiet
from zoo.artifacts import push
from zoo.common.errors import BadFile

# huggingface-hub gives files to its client in a way that is called old.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")

REPOSITORY = "somebody/network"
FILES = folders.contents()
PUBLISHED = folders.published(FILES)
PUSH = ("push", "built", "--repo", REPOSITORY)
DRY = (*PUSH, "--dry-run")


@pytest.fixture
def hub(at, monkeypatch):
    """A hub that takes commits, and whose token the environment has."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return at(receiving(Pushes()), HF_HUB_DISABLE_XET=True)


@pytest.fixture(autouse=True)
def folder(zoo):
    """A folder as a build leaves it, with hidden files that somebody else left."""
    hidden = {".DS_Store": b"x", ".cache/a": b"y", "onnx/.b": b"z"}
    return folders.write(zoo.here / "built", PUBLISHED | hidden)


def test_a_dry_run_then_one_commit_then_what_changed(zoo, hub):
    told = zoo(*DRY).out
    assert "would be created, public" in told
    assert "nothing was uploaded: leave out --dry-run" in told
    assert f"{sum(map(len, PUBLISHED.values())):,}" in told
    assert told.count(" new") == len(PUBLISHED)
    assert zoo.json(*DRY)["committed"] is None and not hub.repositories
    assert zoo.json(*PUSH)["committed"].startswith("http")
    assert hub.repositories[REPOSITORY]["main"] == PUBLISHED
    assert len(hub.commits) == 1 and not hub.private[REPOSITORY]
    hub.repositories[REPOSITORY]["main"] |= {".gitattributes": b"", "LICENSE": b"Words.\n"}
    told = zoo(*DRY).out
    assert (told.count(" same"), told.count(" changed")) == (len(FILES), 1)
    assert "stays as it is: .gitattributes" in told
    assert "committed: " in zoo(*PUSH).out
    assert hub.commits[1:] == [["LICENSE"]]


def test_private_and_on_a_branch(zoo, hub):
    zoo(*PUSH, "--private", "--revision", "v1")
    assert hub.private[REPOSITORY]
    assert hub.repositories[REPOSITORY] == {"main": {}, "v1": PUBLISHED}
    assert "its branch v2 would be created" in zoo(*DRY, "--revision", "v2").out


@pytest.mark.parametrize(
    ("step", "status", "message"),
    [
        ("create", 403, "set HF_TOKEN to a token of yours that may write to somebody/network"),
        ("upload", 403, "refuses it (403)"),
        ("commit", 500, "answered with an error (500)"),
        ("commit", 429, "asked too often (429)"),
    ],
)
def test_a_failed_push_leaves_what_was_there(step, status, message, zoo, hub):
    before = {} if step == "create" else {REPOSITORY: {"main": {"README.md": b"Before.\n"}}}
    hub.repositories |= deepcopy(before)
    hub.failing = {step: status}
    told = zoo(*PUSH, code=2).error
    assert f"nothing was committed to {REPOSITORY}" in told and message in told
    assert hub.repositories == before and not hub.commits


def test_tokens(zoo, hub):
    for token, words in (("", "set HF_TOKEN"), ("wrong", "refuses it (401)")):
        zoo.patch.setenv("HF_TOKEN", token)
        assert words in zoo(*PUSH, code=2).error
    assert not hub.repositories
    zoo.at(NOWHERE)
    told = zoo(*DRY).out
    assert "unknown: " in told and "nothing was uploaded" in told


def linked(folder):
    (folder / "onnx").rename(folder / ".onnx")
    (folder / "onnx").symlink_to(".onnx")


def described(**changes):
    text = json.dumps(folders.manifest(FILES, **changes))
    return lambda folder: (folder / "manifest.json").write_text(text)


FAILED = folders.manifest(FILES)["variants"]
FAILED["fused"]["verification"]["passed"] = False

REFUSED = {
    "run `zoo build` to its end": described(complete=False),
    "variant fused of built failed its verification": described(variants=FAILED),
    "fused.onnx is missing": lambda folder: (folder / "onnx/model_fused.onnx").unlink(),
    "has another sha256": lambda folder: (folder / "config.json").write_bytes(b"[]\n"),
    "4 bytes instead of 3": lambda folder: (folder / "config.json").write_bytes(b"{}\n "),
    "notes.txt is not listed": lambda folder: (folder / "onnx/notes.txt").touch(),
    "onnx is a symbolic link": linked,
}


@pytest.mark.parametrize("message", REFUSED)
def test_folders_are_refused_before_the_hub_is_asked(message, zoo, hub, folder):
    REFUSED[message](folder)
    assert message in zoo(*PUSH, code=2).error
    assert not hub.steps


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "onnx/model_fp16.onnx_data"])
@pytest.mark.parametrize("held", [0, 1 << 30])
def test_what_was_checked_is_what_is_sent(name, held, zoo, hub, folder):
    """A file may change between its check and its upload."""
    zoo.patch.setattr(push, "MAX_BYTES_IN_MEMORY", held)
    planned = push.plan_push(folder, push.PushTarget(REPOSITORY), Quiet())
    (folder / name).write_bytes((folder / name).read_bytes().replace(b"0", b"1") + b" ")
    with pytest.raises(BadFile, match="was changed since it was checked"):
        push.commit_push(planned)
    assert not hub.commits
