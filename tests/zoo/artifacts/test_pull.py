"""`zoo pull` against a hub on loopback that cuts, stalls, refuses and lies."""

import signal
import time
from pathlib import Path

import pytest

from tests import folders
from tests.command import Command
from tests.hub_server import COMMIT, hub_of, serving

MODEL = folders.MODEL
REPOSITORY = f"somebody/{MODEL}"
OTHER = "f" * 40
LARGE = "onnx/model_fp16.onnx_data"
FILES = folders.contents()
PULL = ("pull", MODEL)
FP16 = (*PULL, "--variant", "fp16")


def serve(files=None, **behaviour):
    """Runs a hub with a built folder."""
    held = folders.published(FILES) if files is None else files
    return serving(hub_of(REPOSITORY, held, **behaviour))


def content(folder) -> dict[str, bytes]:
    """All files below a folder; none of them a link."""
    paths = [path for path in folder.rglob("*") if not path.is_dir()]
    assert not any(path.is_symlink() for path in paths)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def expected(*variants, files=FILES) -> dict[str, bytes]:
    """What a folder holds after these variants were pulled."""
    names = folders.COMMON.union(*(folders.VARIANTS[name] for name in variants))
    held = folders.published(files)
    return {name: held[name] for name in (*names, "manifest.json")}


def test_a_variant_then_another_then_nothing_new(zoo, at):
    hub, folder = at(serve()), zoo.here / MODEL
    wanted = {name: len(data) for name, data in expected("fp32", "fp16").items()}
    del wanted["manifest.json"]
    plan = zoo.json(*PULL, "--variant", "fp32,fp16", "--dry-run")
    assert {file["name"]: file["bytes"] for file in plan["missing"]} == wanted
    assert (plan["bytes"], plan["kept"]) == (sum(wanted.values()), 0)
    told = zoo(*PULL, "--dry-run").out
    assert "nothing was downloaded" in told and not folder.exists()
    assert not [request for request, _ in hub.asked if "manifest.json" not in request]
    hub.requests.clear()
    told = zoo("pull", "dinov3_vits16_pretrain_lvd1689m").out
    assert "7 files" in told and f"fp32: {MODEL}/onnx/model.onnx\n" in told
    assert content(folder) == expected("fp32")
    asked = [request for request, _ in hub.asked if "@main/" in request]
    assert asked == [f"HEAD {REPOSITORY}@main/manifest.json"]
    hub.requests.clear()
    assert "2 files" in zoo(*FP16, "--variant", "fp32").out
    assert content(folder) == expected("fp32", "fp16")
    assert [request for request, _ in hub.asked if request.startswith("GET")] == [
        f"GET {REPOSITORY}@{COMMIT}/{name}"
        for name in ("manifest.json", "onnx/model_fp16.onnx", LARGE)
    ]
    done = zoo.json(*PULL, "--variant", "all")
    assert (done["brought"], done["kept"]) == (1, len(FILES) - 1)
    assert list(done["variants"]) == ["fp32", "fused", "fp16"]
    assert content(folder) == expected("fp32", "fp16", "fused")
    again = zoo.json(*PULL, "--variant", "all", "--dry-run")
    assert (again["missing"], again["bytes"], again["kept"]) == ([], 0, len(FILES))
    zoo(*PULL, "--variant", "all", "--out", "elsewhere", "--revision", COMMIT)
    assert content(zoo.here / "elsewhere") == content(folder)


@pytest.mark.each()
@pytest.mark.parametrize("small", [False, True])
def test_wrong_bytes_are_removed_and_fetched_again(small, zoo, at):
    """The hub names large files by their sha256, which is compared before a download."""
    hub, name = at(serve(small=small)), f"{REPOSITORY}@{COMMIT}/onnx/model.onnx"
    right = hub.files[name]
    hub.files[name] = bytes([right[0] ^ 1]) + right[1:]
    told = zoo(*PULL, code=2).error
    if small:
        assert "onnx/model.onnx from the hub has sha256" in told
        assert "was removed: run the command again" in told
    else:
        assert "onnx/model.onnx on the hub has sha256" in told and "not downloaded" in told
        hub.files[name] = right
        hub.flip = True
        told = zoo(*PULL, code=2).error
        assert "the manifest of" in told
        hub.flip = False
    assert not (zoo.here / MODEL).exists()
    hub.small, hub.files[name] = True, right[:-1]
    told = zoo(*PULL, code=2).error
    assert f"has {len(right) - 1} bytes where {len(right)} were recorded" in told
    assert not hub.gets(name)[small:]
    hub.files[name] = right
    zoo(*PULL)
    assert content(zoo.here / MODEL) == expected("fp32")


def test_a_file_that_differs(zoo, at):
    """It is somebody's, or the branch has moved, be it while files are brought."""
    hub = at(serve())
    zoo(*PULL, "--variant", "fp32", "--variant", "fused")
    licence, fused = (zoo.here / MODEL / name for name in ("LICENSE", "onnx/model_fused.onnx"))
    licence.write_text("Mine.\n")
    told = zoo(*PULL, code=2).error
    assert f"{MODEL}/LICENSE is not the file of {REPOSITORY} at {COMMIT[:12]}" in told
    assert licence.read_text() == "Mine.\n"
    # A link is no file of ours, and what nobody asked for is removed rather than left wrong.
    licence.unlink()
    terms = zoo.here / "terms"
    terms.write_bytes(FILES["LICENSE"])
    licence.symlink_to(terms)
    fused.write_bytes(b"")
    zoo(*PULL, "--force")
    assert content(zoo.here / MODEL) == expected("fp32")
    assert terms.exists()
    new = folders.contents(1)
    hub.files |= {f"{REPOSITORY}@{OTHER}/{k}": v for k, v in folders.published(new).items()}
    hub.branches = {f"{REPOSITORY}@main": [COMMIT, OTHER]}
    zoo(*PULL, "--variant", "fused")
    assert "replace it with --force" in zoo(*PULL, code=2).error
    assert content(zoo.here / MODEL) == expected("fp32", "fused")
    zoo(*PULL, "--force")
    assert content(zoo.here / MODEL) == expected("fp32", files=new)
    zoo(*PULL, "--revision", COMMIT, "--force")
    assert content(zoo.here / MODEL) == expected("fp32")


def test_the_manifest_goes_first(zoo, at):
    """Who is stopped while a folder changes leaves none that says that it is whole."""
    hub = at(serve())
    zoo(*PULL)
    new = folders.contents(1)
    hub.files |= {f"{REPOSITORY}@{OTHER}/{k}": v for k, v in folders.published(new).items()}
    hub.branches = {f"{REPOSITORY}@main": [OTHER]}
    unlink = Path.unlink

    def stopped(path, missing_ok=False):
        if path == Path(MODEL, "onnx", "model.onnx"):
            raise OSError("stopped")
        unlink(path, missing_ok)

    with zoo.patch.context() as patch:
        patch.setattr(Path, "unlink", stopped)
        zoo(*PULL, "--force", code=2)
    left = content(zoo.here / MODEL).keys()
    assert "onnx/model.onnx" in left and "manifest.json" not in left
    zoo(*PULL, "--force")
    assert content(zoo.here / MODEL) == expected("fp32", files=new)


@pytest.mark.parametrize("name", ["onnx", ".zoo-pull", ".zoo-pull/manifest.json", ".zoo-pull/a/b"])
def test_nothing_goes_through_a_link(name, zoo, at):
    at(serve())
    folders.write(zoo.here / "elsewhere", {"model.onnx": b"mine"})
    (zoo.here / MODEL / name).parent.mkdir(parents=True)
    (zoo.here / MODEL / name).symlink_to(zoo.here / "elsewhere")
    assert f"{MODEL}/{name} is a link" in zoo(*PULL, "--force", code=2).error
    assert content(zoo.here / "elsewhere") == {"model.onnx": b"mine"}


def test_offline(zoo, at):
    hub, offline = at(serve()), (*PULL, "--offline")
    assert "--offline forbids" in zoo(*offline, code=2).error
    zoo(*PULL)
    count = len(hub.asked)
    assert "0 files" in zoo(*offline).out
    told = zoo(*offline, "--variant", "fused", code=2).error
    assert "model_fused.onnx is neither in" in told and len(hub.asked) == count
    assert content(zoo.here / MODEL) == expected("fp32")


def test_from_the_cache_of_the_hub(zoo, at):
    """What another program downloaded is copied, not linked, and not believed."""
    place = zoo.home / ".cache/huggingface/hub" / f"models--{REPOSITORY.replace('/', '--')}"
    folders.write(place / "snapshots" / COMMIT, folders.published(FILES))
    folders.write(place / "refs", {"main": COMMIT.encode()})
    hub = at(serve())
    zoo(*FP16, "--offline")
    assert not hub.asked
    assert content(zoo.here / MODEL) == expected("fp16")
    zoo(*PULL, "--out", "other")
    assert len(hub.asked) == 2
    damaged = place / "snapshots" / COMMIT / "photograph.png"
    damaged.write_bytes(damaged.read_bytes()[::-1])
    assert "was removed" in zoo(*PULL, "--offline", "--out", "third", code=2).error
    assert not damaged.exists()
    assert [path.name for path in (zoo.here / "third").iterdir()] == [".zoo-pull"]
    zoo(*PULL, "--out", "third")
    assert content(zoo.here / "third") == expected("fp32")


@pytest.mark.each()
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_pull_that_was_stopped_keeps_the_files_that_arrived(number, tmp_path):
    """The same command completes it."""
    name, small = f"{REPOSITORY}@{COMMIT}/{LARGE}", f"{REPOSITORY}@{COMMIT}/onnx/model_fp16.onnx"
    with serve(stall=len(FILES[LARGE]) - 1) as hub:
        zoo = Command(tmp_path, hub.url)
        process = zoo.start(*FP16)
        while not list((tmp_path / MODEL).rglob("*.incomplete")) or not hub.gets(name):
            time.sleep(0.02)
        time.sleep(0.2)  # the file begins to arrive
        process.send_signal(number)
        process.communicate(timeout=60)
        hub.stall = None
        hub.go.set()
        partial = list((tmp_path / MODEL).rglob("*.incomplete"))
        assert [*(tmp_path / MODEL).iterdir()] == [tmp_path / MODEL / ".zoo-pull"]
        assert bool(partial) == (number == signal.SIGKILL)
        zoo(*FP16)
        assert (len(hub.gets(name)), len(hub.gets(small))) == (2, 1)
    assert content(tmp_path / MODEL) == expected("fp16")


@pytest.mark.parametrize(
    ("behaviour", "arguments", "message"),
    [
        ({}, ("--revision", "v9"), "not that revision of it (404)"),
        ({}, ("--variant", "fp8"), "has no variant 'fp8' there: choose among fp32, fused, fp16"),
        ({"files": {"manifest.json": b""}}, (), "the answer is not that of a model hub"),
    ],
    ids=str,
)
def test_refusals(behaviour, arguments, message, zoo, at):
    at(serve(**behaviour))
    assert message in zoo(*PULL, *arguments, code=2).error
    assert not [*zoo.here.iterdir()]


FAILED, UNCHECKED = (folders.manifest(FILES)["variants"] for _ in range(2))
FAILED["fp32"]["verification"]["passed"] = False
UNCHECKED["fp32"]["verification"] = None


@pytest.mark.parametrize(
    "changes",
    [{"complete": False}, {"variants": FAILED}, {"variants": UNCHECKED}, {}],
    ids=["broken off", "wrong", "not verified", "large"],
)
def test_a_hostile_hub(changes, zoo, at):
    """A manifest that is too large is not even downloaded."""
    large = {**FILES, "manifest.json": b" " * ((4 << 20) + 1)}
    hub = at(serve(folders.published(FILES, **changes) if changes else large))
    zoo(*PULL, code=2)
    assert len(hub.asked) == (3 if changes else 1) and not (zoo.here / MODEL).exists()


def test_another_owner_and_no_server(zoo):
    told = zoo(*PULL, code=2).error
    assert "refused" in told or "cannot be reached" in told
    zoo.patch.setenv("ZOO_HUB", "../a")
    assert "ZOO_HUB is" in zoo(*PULL, code=2).error


def test_a_token_is_not_shown_to_another_host(zoo, at):
    at(serve(token="t0ken", cdn=True))
    zoo.patch.setenv("HF_TOKEN", "t0ken")
    zoo(*PULL)
    assert content(zoo.here / MODEL) == expected("fp32")


def test_two_at_once(tmp_path):
    with serve() as hub:
        zoo = Command(tmp_path, hub.url)
        both = [zoo.start(*FP16) for _ in range(2)]
        told = [process.communicate(timeout=60)[1] for process in both]
        assert [process.returncode for process in both] == [0, 0], told
        assert len(hub.gets(f"{REPOSITORY}@{COMMIT}/{LARGE}")) == 1
    assert content(tmp_path / MODEL) == expected("fp16")
