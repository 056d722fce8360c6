"""`zoo push` to a local hub: commits, errors, and folders that are refused."""

import json
from copy import deepcopy

import pytest

from tests import folders
from tests.hub_pushes import TOKEN, Pushes, receiving
from tests.zoo.conftest import NOWHERE
from weights.progress import Quiet
from zoo.artifacts import push
from zoo.common.errors import BadFile

# huggingface-hub passes files to its client in a deprecated way.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")

REPOSITORY = "somebody/network"
FILES = folders.contents()
PUBLISHED = folders.published(FILES)
PUSH = ("push", "built", "--repo", REPOSITORY)
DRY_RUN = (*PUSH, "--dry-run")


@pytest.fixture
def hub(at, monkeypatch):
    """A hub that accepts commits, with its token in the environment."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return at(receiving(Pushes()), HF_HUB_DISABLE_XET=True)


@pytest.fixture(autouse=True)
def folder(zoo):
    """A built folder with hidden files of other programs."""
    hidden = {".DS_Store": b"x", ".cache/a": b"y", "onnx/.b": b"z"}
    return folders.write(zoo.here / "built", PUBLISHED | hidden)


def test_dry_run_and_commits(zoo, hub):
    printed = zoo(*DRY_RUN).out
    assert "would be created, public" in printed
    assert "nothing was uploaded: leave out --dry-run" in printed
    assert f"{sum(map(len, PUBLISHED.values())):,}" in printed
    assert printed.count(" new") == len(PUBLISHED)
    assert zoo.json(*DRY_RUN)["committed"] is None and not hub.repositories
    assert zoo.json(*PUSH)["committed"].startswith("http")
    assert hub.repositories[REPOSITORY]["main"] == PUBLISHED
    assert len(hub.commits) == 1 and not hub.private[REPOSITORY]
    hub.repositories[REPOSITORY]["main"] |= {".gitattributes": b"", "LICENSE": b"Words.\n"}
    printed = zoo(*DRY_RUN).out
    assert (printed.count(" same"), printed.count(" changed")) == (len(FILES), 1)
    assert "stays as it is: .gitattributes" in printed
    assert "committed: " in zoo(*PUSH).out
    assert hub.commits[1:] == [["LICENSE"]]


def test_private_and_on_a_branch(zoo, hub):
    zoo(*PUSH, "--private", "--revision", "v1")
    assert hub.private[REPOSITORY]
    assert hub.repositories[REPOSITORY] == {"main": {}, "v1": PUBLISHED}
    assert "its branch v2 would be created" in zoo(*DRY_RUN, "--revision", "v2").out


@pytest.mark.parametrize(
    ("step", "status", "message"),
    [
        ("create", 403, "set HF_TOKEN to a token of yours that may write to somebody/network"),
        ("upload", 403, "refuses it (403)"),
        ("commit", 500, "answered with an error (500)"),
        ("commit", 429, "asked too often (429)"),
    ],
)
def test_a_failed_push_changes_nothing(step, status, message, zoo, hub):
    before = {} if step == "create" else {REPOSITORY: {"main": {"README.md": b"Before.\n"}}}
    hub.repositories |= deepcopy(before)
    hub.failing = {step: status}
    error = zoo(*PUSH, code=2).error
    assert f"nothing was committed to {REPOSITORY}" in error and message in error
    assert hub.repositories == before and not hub.commits


def test_tokens(zoo, hub):
    for token, message in (("", "set HF_TOKEN"), ("wrong", "refuses it (401)")):
        zoo.patch.setenv("HF_TOKEN", token)
        assert message in zoo(*PUSH, code=2).error
    assert not hub.repositories
    zoo.at(NOWHERE)
    printed = zoo(*DRY_RUN).out
    assert "unknown: " in printed and "nothing was uploaded" in printed


def link_subfolder(folder):
    """Replace the subfolder `onnx` by a link."""
    (folder / "onnx").rename(folder / ".onnx")
    (folder / "onnx").symlink_to(".onnx")


def write_manifest(**changes):
    """Return a function that writes a changed manifest."""
    text = json.dumps(folders.manifest(FILES, **changes))
    return lambda folder: (folder / "manifest.json").write_text(text)


FAILED = folders.manifest(FILES)["variants"]
FAILED["fused"]["verification"]["passed"] = False

REFUSED = {
    "run `zoo build` to its end": write_manifest(complete=False),
    "variant fused of built failed its verification": write_manifest(variants=FAILED),
    "fused.onnx is missing": lambda folder: (folder / "onnx/model_fused.onnx").unlink(),
    "has another sha256": lambda folder: (folder / "config.json").write_bytes(b"[]\n"),
    "4 bytes instead of 3": lambda folder: (folder / "config.json").write_bytes(b"{}\n "),
    "notes.txt is not listed": lambda folder: (folder / "onnx/notes.txt").touch(),
    "onnx is a symbolic link": link_subfolder,
}

"""Words of an error, and the change of a folder that causes it."""


@pytest.mark.parametrize("message", REFUSED)
def test_folders_are_refused_before_the_hub_is_asked(message, zoo, hub, folder):
    REFUSED[message](folder)
    assert message in zoo(*PUSH, code=2).error
    assert not hub.steps


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "onnx/model_fp16.onnx_data"])
@pytest.mark.parametrize("max_bytes", [0, 1 << 30])
def test_files_that_changed_after_the_check_are_not_sent(name, max_bytes, zoo, hub, folder):
    """A file may change between its check and its upload, whether it was kept in memory or not."""
    zoo.patch.setattr(push, "MAX_BYTES_IN_MEMORY", max_bytes)
    plan = push.plan_push(folder, push.PushTarget(REPOSITORY), Quiet())
    (folder / name).write_bytes((folder / name).read_bytes().replace(b"0", b"1") + b" ")
    with pytest.raises(BadFile, match="was changed since it was checked"):
        push.commit_push(plan)
    assert not hub.commits
