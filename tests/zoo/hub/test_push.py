"""`zoo push`: what it refuses, what it says, and what a hub on loopback has afterwards."""

import json

import pytest

from tests import folders
from tests.command import Command
from tests.hub_pushes import TOKEN, Pushes, receiving
from zoo.artifacts.audit.files import check_folder
from zoo.errors import BadFile
from zoo.progress import Lines

REPOSITORY = "somebody/network"
FILES = folders.contents()
UPLOAD = ("--repo", REPOSITORY)
DRY = (*UPLOAD, "--dry-run")


@pytest.fixture
def folder(tmp_path):
    """A folder as a build leaves it, with hidden files that somebody else left."""
    hidden = {".DS_Store": b"x", ".cache/a": b"y", "onnx/.b": b"z"}
    return folders.write(tmp_path / "built", folders.published(FILES) | hidden)


@pytest.fixture
def hub():
    """A hub that takes commits."""
    with receiving(Pushes()) as running:
        yield running


def push(folder, hub, *arguments, **variables) -> str:
    settings = {"HF_HUB_DISABLE_XET": "1", "HF_TOKEN": TOKEN} | variables
    code = settings.pop("code", 0)
    return Command(folder.parent, hub.url)("push", "built", *arguments, code=code, **settings)


def test_a_dry_run_then_one_commit_then_what_changed(folder, hub):
    told = push(folder, hub, *DRY)
    assert "would be created, public" in told
    assert "nothing was uploaded: leave out --dry-run" in told
    total = sum(map(len, folders.published(FILES).values()))
    assert f"{total:,}" in told
    assert told.count(" new") == len(FILES) + 1
    assert not hub.repositories
    assert "committed: " in push(folder, hub, *UPLOAD)
    assert hub.repositories[REPOSITORY]["main"] == folders.published(FILES)
    assert [sorted(names) for names in hub.commits] == [sorted([*FILES, "manifest.json"])]
    assert not hub.private[REPOSITORY]
    hub.repositories[REPOSITORY]["main"] |= {".gitattributes": b"", "LICENSE": b"Words.\n"}
    told = push(folder, hub, *DRY)
    assert (told.count(" same"), told.count(" changed")) == (len(FILES), 1)
    assert "stays as it is: .gitattributes" in told
    push(folder, hub, *UPLOAD)
    assert hub.commits[1:] == [["LICENSE"]]


def test_private_and_on_a_branch(folder, hub):
    push(folder, hub, *UPLOAD, "--private", "--revision", "v1")
    assert hub.private[REPOSITORY]
    assert hub.repositories[REPOSITORY] == {"main": {}, "v1": folders.published(FILES)}
    told = push(folder, hub, *DRY, "--revision", "v2")
    assert "its branch v2 would be created" in told


@pytest.mark.parametrize(
    ("step", "status", "message"),
    [
        ("create", 500, "answered with an error (500)"),
        ("create", 403, "set HF_TOKEN to a token of yours that may write to somebody/network"),
        ("upload", 403, "refuses it (403)"),
        ("commit", 500, "answered with an error (500)"),
        ("commit", 429, "asked too often (429)"),
    ],
)
def test_a_failed_push_leaves_what_was_there(step, status, message, folder, hub):
    before = {"README.md": b"Before.\n"}
    if step != "create":
        hub.repositories[REPOSITORY] = {"main": dict(before)}
    hub.failing = {step: status}
    told = push(folder, hub, *UPLOAD, code=2)
    assert f"nothing was committed to {REPOSITORY}" in told
    assert message in told
    assert hub.repositories.get(REPOSITORY, {"main": before})["main"] == before
    assert not hub.commits


def test_tokens_and_names(folder, hub):
    assert "set HF_TOKEN" in push(folder, hub, *UPLOAD, code=2, HF_TOKEN="")
    assert "refuses it (401)" in push(folder, hub, *UPLOAD, code=2, HF_TOKEN="wrong")
    assert "write OWNER/NAME" in push(folder, hub, "--repo", "network", code=2)
    assert not hub.repositories


def test_a_dry_run_without_a_hub(folder):
    told = push(folder, Pushes(url="http://127.0.0.1:9"), *DRY)
    assert "unknown: " in told
    assert "nothing was uploaded" in told


def changed(**changes):
    """A change of the manifest."""

    def change(folder):
        text = json.dumps(folders.manifest(FILES, **changes))
        (folder / "manifest.json").write_text(text)

    return change


def failed(folder):
    record = folders.manifest(FILES)
    record["variants"]["fused"]["verification"]["passed"] = False
    (folder / "manifest.json").write_text(json.dumps(record))


def linked(folder):
    (folder / "LICENSE").rename(folder / ".terms")
    (folder / "LICENSE").symlink_to(".terms")


def linked_folder(folder):
    (folder / "onnx").rename(folder / ".onnx")
    (folder / "onnx").symlink_to(".onnx")


REFUSED = {
    "no folder": (lambda folder: folder.rename(folder.parent / "other"), "does not exist"),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "has no manifest.json"),
    "not complete": (changed(complete=False), "run `zoo build` to its end"),
    "not verified": (failed, "variant fused of .* failed its verification"),
    "missing": (
        lambda folder: (folder / "onnx/model_fused.onnx").unlink(),
        "fused.onnx is missing",
    ),
    "altered": (lambda folder: (folder / "config.json").write_bytes(b"[]\n"), "has another sha256"),
    "longer": (
        lambda folder: (folder / "config.json").write_bytes(b"{}\n "),
        "4 bytes instead of 3",
    ),
    "unknown": (
        lambda folder: (folder / "onnx/notes.txt").touch(),
        "notes.txt is not listed",
    ),
    "link": (linked, "LICENSE is a symbolic link"),
    "link to a folder": (linked_folder, "onnx is a symbolic link"),
    "hostile": (changed(files=[{"name": "../a", "bytes": 1, "sha256": "0" * 64}]), "a plain rel"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_folders_that_are_refused(case, folder):
    change, message = REFUSED[case]
    change(folder)
    with pytest.raises(BadFile, match=message):
        check_folder(folder, Lines())


def test_the_command_refuses_before_it_asks(folder, hub):
    (folder / "LICENSE").unlink()
    assert "LICENSE is missing" in push(folder, hub, *UPLOAD, code=2)
    assert not hub.steps
