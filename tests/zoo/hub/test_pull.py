"""`zoo pull` against a hub on loopback that cuts, stalls, refuses and lies."""

import json
import time

import numpy as np
import pytest

from tests import folders
from tests.command import Command
from tests.hub_server import COMMIT, Hub, serving

REPOSITORY = f"somebody/{folders.MODEL}"
OTHER = "f" * 40
LARGE = "onnx/model_fp16.onnx_data"
FILES = folders.contents()


def hub_of(files=None, commit=COMMIT, **behaviour) -> Hub:
    """A hub with a built folder at one commit, which `main` is at."""
    held = folders.published(FILES) if files is None else files
    named = {f"{REPOSITORY}@{commit}/{name}": data for name, data in held.items()}
    return Hub(named, branches={f"{REPOSITORY}@main": [commit]}, **behaviour)


@pytest.fixture
def zoo_at(tmp_path):
    """The command in a folder, for a hub."""
    return lambda hub: Command(tmp_path, hub.url)


def content(folder) -> dict[str, bytes]:
    """All files below a folder; none of them a link."""
    paths = [path for path in folder.rglob("*") if not path.is_dir()]
    assert not any(path.is_symlink() for path in paths)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def expected(*variants, files=FILES, **changes) -> dict[str, bytes]:
    """What a folder holds after these variants were pulled."""
    names = folders.COMMON.union(*(folders.VARIANTS[name] for name in variants))
    held = folders.published(files, **changes)
    return {name: held[name] for name in (*names, "manifest.json")}


def test_a_variant_then_another_then_nothing_new(zoo_at, tmp_path):
    with serving(hub_of()) as hub:
        zoo = zoo_at(hub)
        told = zoo("pull", "dinov3_vits16_pretrain_lvd1689m")
        assert "7 files" in told
        assert f"fp32: {folders.MODEL}/onnx/model.onnx\n" in told
        assert content(tmp_path / folders.MODEL) == expected("fp32")
        asked = [request for request, _ in hub.asked if "@main/" in request]
        assert asked == [f"HEAD {REPOSITORY}@main/manifest.json"]
        count = len(hub.asked)
        assert "2 files" in zoo("pull", folders.MODEL, "--variant", "fp16", "--variant", "fp32")
        assert content(tmp_path / folders.MODEL) == expected("fp32", "fp16")
        assert len(hub.asked) == count + 4  # the manifest twice, and what was missing
        assert "1 files" in zoo("pull", folders.MODEL, "--variant", "all")
        assert content(tmp_path / folders.MODEL) == expected("fp32", "fp16", "fused")
        zoo("pull", folders.MODEL, "--variant", "all", "--out", "elsewhere", "--revision", COMMIT)
        assert content(tmp_path / "elsewhere") == content(tmp_path / folders.MODEL)


def test_cut_anywhere_and_continued_at_the_byte(zoo_at, tmp_path):
    size = len(FILES[LARGE])
    middle = sorted(int(at) for at in np.random.default_rng(0).integers(2, size - 1, 60))
    places = [0, 1, *middle, size - 1]
    name = f"{REPOSITORY}@{COMMIT}/{LARGE}"
    with serving(hub_of(cuts={name: list(places)}, cut=[3])) as hub:
        zoo_at(hub)("pull", folders.MODEL, "--variant", "fp16")
        assert hub.gets(name) == [None, None, *(f"bytes={at}-" for at in places[1:])]
    assert content(tmp_path / folders.MODEL) == expected("fp16")


def test_cut_by_a_server_that_only_sends_whole_files(zoo_at, tmp_path):
    name = f"{REPOSITORY}@{COMMIT}/{LARGE}"
    with serving(hub_of(cuts={name: [400_000]}, whole=True)) as hub:
        zoo_at(hub)("pull", folders.MODEL, "--variant", "fp16")
        assert hub.gets(name) == [None, "bytes=400000-"]
    assert content(tmp_path / folders.MODEL) == expected("fp16")


def test_killed_and_continued_by_another_process(zoo_at, tmp_path):
    name = f"{REPOSITORY}@{COMMIT}/{LARGE}"
    with serving(hub_of(stall=500_000)) as hub:
        process = zoo_at(hub).start("pull", folders.MODEL, "--variant", "fp16")
        begun = time.monotonic()
        while not (parts := list(tmp_path.rglob(f".zoo-pull/*/{LARGE}"))) or (
            parts[0].stat().st_size < 400_000
        ):
            assert time.monotonic() - begun < 30
            time.sleep(0.02)
        process.kill()
        process.communicate()
        have = parts[0].stat().st_size
        assert not (tmp_path / folders.MODEL / "manifest.json").exists()
        assert set(content(tmp_path / folders.MODEL)) <= {
            path.relative_to(tmp_path / folders.MODEL).as_posix()
            for path in (tmp_path / folders.MODEL / ".zoo-pull").rglob("*")
        }
        hub.stall = None
        hub.go.set()
        zoo_at(hub)("pull", folders.MODEL, "--variant", "fp16")
        assert hub.gets(name) == [None, f"bytes={have}-"]
    assert content(tmp_path / folders.MODEL) == expected("fp16")


@pytest.mark.full
def test_wrong_bytes_are_removed_and_fetched_again(zoo_at, tmp_path):
    with serving(hub_of()) as hub:
        name = f"{REPOSITORY}@{COMMIT}/onnx/model.onnx"
        right = hub.files[name]
        hub.files[name] = bytes([right[0] ^ 1]) + right[1:]
        told = zoo_at(hub)("pull", folders.MODEL, code=2)
        assert "onnx/model.onnx from the hub has sha256" in told
        assert "was removed: run the command again" in told
        assert not (tmp_path / folders.MODEL).exists()
        for wrong in (right + b"x", right[:-1]):
            hub.files[name] = wrong
            told = zoo_at(hub)("pull", folders.MODEL, code=2)
            assert f"has {len(wrong)} bytes where {len(right)} were recorded" in told
        hub.files[name] = right
        zoo_at(hub)("pull", folders.MODEL)
    assert content(tmp_path / folders.MODEL) == expected("fp32")


@pytest.mark.full
def test_the_branch_moves_in_between(zoo_at, tmp_path):
    old, new = hub_of(), folders.contents(1)
    old.files |= hub_of(folders.published(new), OTHER).files
    old.branches = {f"{REPOSITORY}@main": [COMMIT, OTHER]}
    with serving(old) as hub:
        zoo_at(hub)("pull", folders.MODEL)
        assert content(tmp_path / folders.MODEL) == expected("fp32")
        told = zoo_at(hub)("pull", folders.MODEL, code=2)
        assert "replace it with --force" in told
        assert content(tmp_path / folders.MODEL) == expected("fp32")
        zoo_at(hub)("pull", folders.MODEL, "--force")
        assert content(tmp_path / folders.MODEL) == expected("fp32", files=new)
        zoo_at(hub)("pull", folders.MODEL, "--revision", COMMIT, "--force")
        assert content(tmp_path / folders.MODEL) == expected("fp32")


def test_a_file_that_differs(zoo_at, tmp_path):
    with serving(hub_of()) as hub:
        zoo_at(hub)("pull", folders.MODEL, "--variant", "fp32", "--variant", "fused")
        licence, fused = (
            tmp_path / folders.MODEL / name for name in ("LICENSE", "onnx/model_fused.onnx")
        )
        licence.write_text("Mine.\n")
        told = zoo_at(hub)("pull", folders.MODEL, code=2)
        assert f"{folders.MODEL}/LICENSE is not the file of {REPOSITORY} at {COMMIT[:12]}" in told
        assert licence.read_text() == "Mine.\n"
        # A link is no file of ours, and what nobody asked for is removed rather than left wrong.
        licence.unlink()
        (tmp_path / "terms").write_bytes(FILES["LICENSE"])
        licence.symlink_to(tmp_path / "terms")
        fused.write_bytes(b"")
        zoo_at(hub)("pull", folders.MODEL, "--force")
    assert content(tmp_path / folders.MODEL) == expected("fp32")
    assert (tmp_path / "terms").exists()


@pytest.mark.parametrize("name", ["onnx", ".zoo-pull"])
def test_nothing_goes_through_a_link(name, zoo_at, tmp_path):
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / folders.MODEL
    elsewhere.mkdir()
    folder.mkdir()
    (elsewhere / "model.onnx").write_bytes(b"mine")
    (folder / name).symlink_to(elsewhere)
    with serving(hub_of()) as hub:
        told = zoo_at(hub)("pull", folders.MODEL, "--force", code=2)
    assert f"{folders.MODEL}/{name} is a link" in told
    assert [path.name for path in elsewhere.iterdir()] == ["model.onnx"]
    assert (elsewhere / "model.onnx").read_bytes() == b"mine"


def test_offline(zoo_at, tmp_path):
    with serving(hub_of()) as hub:
        zoo = zoo_at(hub)
        assert "--offline forbids" in zoo("pull", folders.MODEL, "--offline", code=2)
        zoo("pull", folders.MODEL)
        count = len(hub.asked)
        assert "0 files" in zoo("pull", folders.MODEL, "--offline")
        told = zoo("pull", folders.MODEL, "--offline", "--variant", "fused", code=2)
        assert "model_fused.onnx is neither in" in told
        assert "HF_HUB_OFFLINE forbids" in zoo("pull", folders.MODEL, code=2, HF_HUB_OFFLINE="1")
        assert len(hub.asked) == count
    assert content(tmp_path / folders.MODEL) == expected("fp32")


def test_from_the_cache_of_the_hub(zoo_at, tmp_path):
    """What another program downloaded is copied, not linked, and not believed."""
    blobs = tmp_path / ".cache" / "huggingface" / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
    folders.write(blobs / "snapshots" / COMMIT, folders.published(FILES))
    folders.write(blobs / "refs", {"main": COMMIT.encode()})
    with serving(hub_of()) as hub:
        zoo = zoo_at(hub)
        zoo("pull", folders.MODEL, "--offline", "--variant", "fp16")
        assert not hub.asked
        assert content(tmp_path / folders.MODEL) == expected("fp16")
        zoo("pull", folders.MODEL, "--out", "other")
        assert len(hub.asked) == 2
        damaged = blobs / "snapshots" / COMMIT / "photograph.png"
        damaged.write_bytes(damaged.read_bytes()[::-1])
        assert "sha256" in zoo("pull", folders.MODEL, "--offline", "--out", "third", code=2)
        assert [path.name for path in (tmp_path / "third").iterdir()] == [".zoo-pull"]


@pytest.mark.parametrize(
    ("behaviour", "arguments", "message"),
    [
        ({"status": 401}, (), "refuses it (401)"),
        ({"status": 403}, (), "refuses it (403)"),
        ({"status": 429}, (), "asked too often (429)"),
        ({"status": 500}, (), "answered with an error (500)"),
        ({"token": "t0ken"}, (), "HF_TOKEN"),
        ({}, ("--revision", "v9"), "not that revision of it (404)"),
        ({}, ("--variant", "fp8"), "has no variant 'fp8' there: choose among fp32, fused, fp16"),
        ({"files": {}}, (), "does not have it (404)"),
        ({"statuses": [429]}, (), "asked too often (429)"),
    ],
    ids=str,
)
def test_refusals(behaviour, arguments, message, zoo_at, tmp_path):
    with serving(hub_of(**behaviour)) as hub:
        assert message in zoo_at(hub)("pull", folders.MODEL, *arguments, code=2)
    assert not (tmp_path / folders.MODEL).exists()


@pytest.mark.full
def test_no_server_slow_server_and_passing_errors(zoo_at, tmp_path):
    told = Command(tmp_path)("pull", folders.MODEL, code=2)
    assert "refused" in told or "cannot be reached" in told
    with serving(hub_of(stall=-1)) as hub:
        told = zoo_at(hub)("pull", folders.MODEL, code=2, HF_HUB_DOWNLOAD_TIMEOUT="1")
        assert "did not answer in time" in told
    assert not (tmp_path / folders.MODEL).exists()
    # A stalled download is asked for again, and so is one that met an error of the server.
    with serving(hub_of(stall=250_000, statuses=[502])) as hub:
        zoo = zoo_at(hub)
        zoo("pull", folders.MODEL, "--variant", "fp16", HF_HUB_DOWNLOAD_TIMEOUT="1")
        ranges = hub.gets(f"{REPOSITORY}@{COMMIT}/{LARGE}")
    assert len(ranges) == 3
    assert content(tmp_path / folders.MODEL) == expected("fp16")


def test_a_token_is_not_shown_to_another_host(zoo_at, tmp_path):
    with serving(hub_of(token="t0ken", cdn=True)) as hub:
        zoo_at(hub)("pull", folders.MODEL, HF_TOKEN="t0ken")
    assert content(tmp_path / folders.MODEL) == expected("fp32")


def test_two_at_once(zoo_at, tmp_path):
    with serving(hub_of()) as hub:
        zoo = zoo_at(hub)
        both = [zoo.start("pull", folders.MODEL, "--variant", "fp16") for _ in range(2)]
        told = [process.communicate(timeout=60)[1] for process in both]
        assert [process.returncode for process in both] == [0, 0], told
        assert len(hub.gets(f"{REPOSITORY}@{COMMIT}/{LARGE}")) == 1
    assert content(tmp_path / folders.MODEL) == expected("fp16")


def test_names_that_make_no_sense(zoo_at, tmp_path):
    with serving(hub_of()) as hub:
        zoo = zoo_at(hub)
        assert "did you mean" in zoo("pull", "dinov3_vits17", code=2)
        assert "ZOO_HUB is" in zoo("pull", folders.MODEL, code=2, ZOO_HUB="../a")
        (tmp_path / "file").write_text("")
        assert "cannot write" in zoo("pull", folders.MODEL, "--out", "file", code=2)


UNFIT = json.loads(json.dumps(folders.manifest(FILES)))
UNFIT["variants"]["fp32"]["verification"]["passed"] = False
UNCHECKED = json.loads(json.dumps(folders.manifest(FILES)))
UNCHECKED["variants"]["fp32"]["verification"] = None


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(folders.manifest(FILES, complete=False)).encode(),
        json.dumps(UNFIT).encode(),
        json.dumps(UNCHECKED).encode(),
        json.dumps(
            folders.manifest(FILES, files=[{"name": "../a.onnx", "bytes": 1, "sha256": "0" * 64}])
        ).encode(),
        b" " * ((4 << 20) + 1),
    ],
    ids=["broken off", "wrong", "not verified", "dots", "large"],
)
def test_a_hostile_hub(text, zoo_at, tmp_path):
    with serving(hub_of({**FILES, "manifest.json": text})) as hub:
        zoo_at(hub)("pull", folders.MODEL, code=2)
        # One that is too large is not even downloaded.
        assert len(hub.asked) == (1 if len(text) > 4 << 20 else 2)
    assert not (tmp_path / folders.MODEL).exists()
