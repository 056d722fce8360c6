"""`zoo pull` from a local hub, which may stall, refuse, cut files or send wrong bytes."""

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
    """Return a server of a hub with a built folder, or with these files."""
    published = folders.published(FILES) if files is None else files
    return serving(hub_of(REPOSITORY, published, **behaviour))


def read_files(folder) -> dict[str, bytes]:
    """Return the content of all files below a folder by path. Fail if one is a link."""
    paths = [path for path in folder.rglob("*") if not path.is_dir()]
    assert not any(path.is_symlink() for path in paths)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def pulled_files(*variants, files=FILES) -> dict[str, bytes]:
    """Return the files of a folder into which these variants were pulled."""
    names = folders.COMMON.union(*(folders.VARIANTS[name] for name in variants))
    published = folders.published(files)
    return {name: published[name] for name in (*names, "manifest.json")}


def test_a_variant_then_another_then_nothing_new(zoo, at):
    hub, folder = at(serve()), zoo.here / MODEL
    sizes = {name: len(data) for name, data in pulled_files("fp32", "fp16").items()}
    del sizes["manifest.json"]
    plan = zoo.json(*PULL, "--variant", "fp32,fp16", "--dry-run")
    assert {file["name"]: file["bytes"] for file in plan["missing"]} == sizes
    assert (plan["bytes"], plan["kept"]) == (sum(sizes.values()), 0)
    printed = zoo(*PULL, "--dry-run").out
    assert "nothing was downloaded" in printed and not folder.exists()
    assert not [request for request, _ in hub.asked if "manifest.json" not in request]
    hub.requests.clear()
    printed = zoo("pull", "dinov3_vits16_pretrain_lvd1689m").out
    assert "7 files" in printed and f"fp32: {MODEL}/onnx/model.onnx\n" in printed
    assert read_files(folder) == pulled_files("fp32")
    requests = [request for request, _ in hub.asked if "@main/" in request]
    assert requests == [f"HEAD {REPOSITORY}@main/manifest.json"]
    hub.requests.clear()
    assert "2 files" in zoo(*FP16, "--variant", "fp32").out
    assert read_files(folder) == pulled_files("fp32", "fp16")
    assert [request for request, _ in hub.asked if request.startswith("GET")] == [
        f"GET {REPOSITORY}@{COMMIT}/{name}"
        for name in ("manifest.json", "onnx/model_fp16.onnx", LARGE)
    ]
    record = zoo.json(*PULL, "--variant", "all")
    assert (record["brought"], record["kept"]) == (1, len(FILES) - 1)
    assert list(record["variants"]) == ["fp32", "fused", "fp16"]
    assert read_files(folder) == pulled_files("fp32", "fp16", "fused")
    dry_run = zoo.json(*PULL, "--variant", "all", "--dry-run")
    assert (dry_run["missing"], dry_run["bytes"], dry_run["kept"]) == ([], 0, len(FILES))
    zoo(*PULL, "--variant", "all", "--out", "elsewhere", "--revision", COMMIT)
    assert read_files(zoo.here / "elsewhere") == read_files(folder)


@pytest.mark.each()
@pytest.mark.parametrize("small", [False, True])
def test_wrong_bytes_are_removed_and_fetched_again(small, zoo, at):
    """Files with another digest are removed. The hub states the sha256 of large files, which is
    compared before the download."""
    hub, name = at(serve(small=small)), f"{REPOSITORY}@{COMMIT}/onnx/model.onnx"
    correct = hub.files[name]
    hub.files[name] = bytes([correct[0] ^ 1]) + correct[1:]
    error = zoo(*PULL, code=2).error
    if small:
        assert "onnx/model.onnx from the hub has sha256" in error
        assert "was removed: run the command again" in error
    else:
        assert "onnx/model.onnx on the hub has sha256" in error and "not downloaded" in error
        hub.files[name] = correct
        hub.flip = True
        error = zoo(*PULL, code=2).error
        assert "the manifest of" in error
        hub.flip = False
    assert not (zoo.here / MODEL).exists()
    hub.small, hub.files[name] = True, correct[:-1]
    error = zoo(*PULL, code=2).error
    assert f"has {len(correct) - 1} bytes where {len(correct)} were recorded" in error
    assert not hub.gets(name)[small:]
    hub.files[name] = correct
    zoo(*PULL)
    assert read_files(zoo.here / MODEL) == pulled_files("fp32")


def test_files_that_differ_from_the_hub(zoo, at):
    """Files of the user are kept without `--force`. Files of an older commit are replaced when the
    branch has moved, also during a pull."""
    hub = at(serve())
    zoo(*PULL, "--variant", "fp32", "--variant", "fused")
    licence, fused = (zoo.here / MODEL / name for name in ("LICENSE", "onnx/model_fused.onnx"))
    licence.write_text("Mine.\n")
    error = zoo(*PULL, code=2).error
    assert f"{MODEL}/LICENSE is not the file of {REPOSITORY} at {COMMIT[:12]}" in error
    assert licence.read_text() == "Mine.\n"
    # A link is replaced. A wrong file of a variant that was not requested is removed.
    licence.unlink()
    terms = zoo.here / "terms"
    terms.write_bytes(FILES["LICENSE"])
    licence.symlink_to(terms)
    fused.write_bytes(b"")
    zoo(*PULL, "--force")
    assert read_files(zoo.here / MODEL) == pulled_files("fp32")
    assert terms.exists()
    new = folders.contents(1)
    hub.files |= {f"{REPOSITORY}@{OTHER}/{k}": v for k, v in folders.published(new).items()}
    hub.branches = {f"{REPOSITORY}@main": [COMMIT, OTHER]}
    zoo(*PULL, "--variant", "fused")
    assert "replace it with --force" in zoo(*PULL, code=2).error
    assert read_files(zoo.here / MODEL) == pulled_files("fp32", "fused")
    zoo(*PULL, "--force")
    assert read_files(zoo.here / MODEL) == pulled_files("fp32", files=new)
    zoo(*PULL, "--revision", COMMIT, "--force")
    assert read_files(zoo.here / MODEL) == pulled_files("fp32")


def test_the_manifest_is_removed_first(zoo, at):
    """A pull that stops while it changes a folder leaves no manifest, which would say it is
    complete."""
    hub = at(serve())
    zoo(*PULL)
    new = folders.contents(1)
    hub.files |= {f"{REPOSITORY}@{OTHER}/{k}": v for k, v in folders.published(new).items()}
    hub.branches = {f"{REPOSITORY}@main": [OTHER]}
    unlink = Path.unlink

    def unlink_or_stop(path, missing_ok=False):
        if path == Path(MODEL, "onnx", "model.onnx"):
            raise OSError("stopped")
        unlink(path, missing_ok)

    with zoo.patch.context() as patch:
        patch.setattr(Path, "unlink", unlink_or_stop)
        zoo(*PULL, "--force", code=2)
    names = read_files(zoo.here / MODEL).keys()
    assert "onnx/model.onnx" in names and "manifest.json" not in names
    zoo(*PULL, "--force")
    assert read_files(zoo.here / MODEL) == pulled_files("fp32", files=new)


@pytest.mark.parametrize("name", ["onnx", ".zoo-pull", ".zoo-pull/manifest.json", ".zoo-pull/a/b"])
def test_links_are_refused(name, zoo, at):
    at(serve())
    folders.write(zoo.here / "elsewhere", {"model.onnx": b"mine"})
    (zoo.here / MODEL / name).parent.mkdir(parents=True)
    (zoo.here / MODEL / name).symlink_to(zoo.here / "elsewhere")
    assert f"{MODEL}/{name} is a link" in zoo(*PULL, "--force", code=2).error
    assert read_files(zoo.here / "elsewhere") == {"model.onnx": b"mine"}


def test_offline(zoo, at):
    hub, offline = at(serve()), (*PULL, "--offline")
    assert "--offline forbids" in zoo(*offline, code=2).error
    zoo(*PULL)
    count = len(hub.asked)
    assert "0 files" in zoo(*offline).out
    error = zoo(*offline, "--variant", "fused", code=2).error
    assert "model_fused.onnx is neither in" in error and len(hub.asked) == count
    assert read_files(zoo.here / MODEL) == pulled_files("fp32")


def test_from_the_cache_of_the_hub(zoo, at):
    """Files that another program downloaded are copied, not linked, and their digests compared."""
    cache = zoo.home / ".cache/huggingface/hub" / f"models--{REPOSITORY.replace('/', '--')}"
    folders.write(cache / "snapshots" / COMMIT, folders.published(FILES))
    folders.write(cache / "refs", {"main": COMMIT.encode()})
    hub = at(serve())
    zoo(*FP16, "--offline")
    assert not hub.asked
    assert read_files(zoo.here / MODEL) == pulled_files("fp16")
    zoo(*PULL, "--out", "other")
    assert len(hub.asked) == 2
    damaged = cache / "snapshots" / COMMIT / "photograph.png"
    damaged.write_bytes(damaged.read_bytes()[::-1])
    assert "was removed" in zoo(*PULL, "--offline", "--out", "third", code=2).error
    assert not damaged.exists()
    assert [path.name for path in (zoo.here / "third").iterdir()] == [".zoo-pull"]
    zoo(*PULL, "--out", "third")
    assert read_files(zoo.here / "third") == pulled_files("fp32")


@pytest.mark.each()
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_a_pull_that_was_stopped_keeps_the_files_that_arrived(signal_number, tmp_path):
    """The same command completes the folder and does not download the kept files again."""
    name, other_name = (
        f"{REPOSITORY}@{COMMIT}/{LARGE}",
        f"{REPOSITORY}@{COMMIT}/onnx/model_fp16.onnx",
    )
    with serve(stall=len(FILES[LARGE]) - 1) as hub:
        zoo = Command(tmp_path, hub.url)
        process = zoo.start(*FP16)
        while not list((tmp_path / MODEL).rglob("*.incomplete")) or not hub.gets(name):
            time.sleep(0.02)
        time.sleep(0.2)  # wait until bytes of the file arrive
        process.send_signal(signal_number)
        process.communicate(timeout=60)
        hub.stall = None
        hub.go.set()
        partial = list((tmp_path / MODEL).rglob("*.incomplete"))
        assert [*(tmp_path / MODEL).iterdir()] == [tmp_path / MODEL / ".zoo-pull"]
        assert bool(partial) == (signal_number == signal.SIGKILL)
        zoo(*FP16)
        assert (len(hub.gets(name)), len(hub.gets(other_name))) == (2, 1)
    assert read_files(tmp_path / MODEL) == pulled_files("fp16")


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
def test_manifests_that_are_refused(changes, zoo, at):
    """Manifests of incomplete folders and of unverified files are refused. One that is too large is
    not downloaded."""
    large = {**FILES, "manifest.json": b" " * ((4 << 20) + 1)}
    hub = at(serve(folders.published(FILES, **changes) if changes else large))
    zoo(*PULL, code=2)
    assert len(hub.asked) == (3 if changes else 1) and not (zoo.here / MODEL).exists()


def test_another_owner_and_no_server(zoo):
    error = zoo(*PULL, code=2).error
    assert "refused" in error or "cannot be reached" in error
    zoo.patch.setenv("ZOO_HUB", "../a")
    assert "ZOO_HUB is" in zoo(*PULL, code=2).error


def test_a_token_is_not_shown_to_another_host(zoo, at):
    at(serve(token="t0ken", cdn=True))
    zoo.patch.setenv("HF_TOKEN", "t0ken")
    zoo(*PULL)
    assert read_files(zoo.here / MODEL) == pulled_files("fp32")


def test_two_processes_download_once(tmp_path):
    with serve() as hub:
        zoo = Command(tmp_path, hub.url)
        processes = [zoo.start(*FP16) for _ in range(2)]
        errors = [process.communicate(timeout=60)[1] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], errors
        assert len(hub.gets(f"{REPOSITORY}@{COMMIT}/{LARGE}")) == 1
    assert read_files(tmp_path / MODEL) == pulled_files("fp16")
