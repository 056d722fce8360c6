"""`zoo weights download`: to the cache, to a folder, and what a dry run says."""

import signal
import time

import pytest

from tests import folders
from tests.command import Command
from tests.hub_server import COMMIT, hub_of, serving
from tests.noise import checkpoint
from zoo.registry.lookup import info

MODEL, NAME = "siglip2_vitb16_224", "model.safetensors"
TITLE = "siglip2-base-patch16-224"
REPOSITORY = f"google/{TITLE}"
FROM_THE_HUB = f"the hub ({REPOSITORY}/{NAME})"
CONTENT, OTHER = checkpoint(256_000), checkpoint(256_000, seed=1)
PAGES = {
    "a page": b"<html>the mirror is being repaired</html>",
    "a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64,
    "nothing": b"",
    "a file that is cut": CONTENT[: len(CONTENT) // 2],
}
DOWNLOAD = ("weights", "download", MODEL)


@pytest.fixture
def hub(at):
    return at(serving(hub_of(REPOSITORY, {NAME: CONTENT})))


def cache(zoo):
    """The folder of the repository in the hub's cache."""
    return zoo.home / ".cache" / "huggingface" / "hub" / f"models--google--{TITLE}"


def record(path, source, size) -> dict:
    return {"model": MODEL, "path": str(path), "source": str(source), "bytes": size}


@pytest.mark.parametrize("kept", [False, True])
def test_to_a_folder(kept, zoo, hub):
    """Of the hub, or of the cache; who names that folder finds it there."""
    if kept:
        zoo(*DOWNLOAD)
    place = cache(zoo) / "snapshots" / COMMIT
    out, to_folder = zoo.here / "out", (*DOWNLOAD, "--out", zoo.here / "out")
    path = out / TITLE / NAME
    expected = [record(path, place if kept else FROM_THE_HUB, len(CONTENT))]
    assert zoo.json(*to_folder, "--dry-run") == expected and not out.exists()
    assert zoo.json(*to_folder) == expected
    assert path.read_bytes() == CONTENT and place.exists() == kept
    assert [item.name for item in out.rglob("*")] == [TITLE, NAME]
    assert zoo.json(*to_folder, "--dry-run")[0]["bytes"] == 0
    path.write_bytes(OTHER)
    assert "is another file" in zoo(*to_folder, code=2).error
    assert path.read_bytes() == OTHER
    zoo.patch.setenv("ZOO_WEIGHTS_DIR", str(out))
    assert zoo.json(*DOWNLOAD) == [record(path.parent, out, 0)]


@pytest.mark.full
def test_two_at_once(tmp_path):
    """The second one waits, and finds it there."""
    with serving(hub_of(REPOSITORY, {NAME: CONTENT}, stall=100_000)) as hub:
        both = [Command(tmp_path, hub.url).start(*DOWNLOAD) for _ in range(2)]
        name = f"{REPOSITORY}@main/{NAME}"
        # Each asks twice, and one of them begins to download.
        while len(hub.asked) < 5 and all(process.poll() is None for process in both):
            time.sleep(0.02)
        assert len(hub.gets(name)) == 1
        hub.stall = None
        hub.go.set()
        told = [process.communicate(timeout=60)[1] for process in both]
        # The one that was stalled had its connection closed, and asked again.
        assert len(hub.gets(name)) == 2
    assert [process.returncode for process in both] == [0, 0], told


@pytest.mark.each()
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_download_that_is_interrupted(number, tmp_path):
    """No partial file stays, and the same command completes the download."""
    with serving(hub_of(REPOSITORY, {NAME: CONTENT}, stall=100_000)) as hub:
        command = Command(tmp_path, hub.url)
        process = command.start(*DOWNLOAD)
        while not list(tmp_path.rglob("*.incomplete")):
            time.sleep(0.02)
        time.sleep(0.2)  # the file begins to arrive
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode == 128 + number
        assert not list(tmp_path.rglob("*.incomplete"))
        hub.stall = None
        hub.go.set()
        command(*DOWNLOAD)
        assert "already there" in command(*DOWNLOAD)


def test_a_folder_is_copied_whole(zoo, hub):
    source, files = zoo.here / "mine", {NAME: CONTENT, "config.json": CONTENT}
    folders.write(source / TITLE, files)
    zoo.patch.setenv("ZOO_WEIGHTS_DIR", str(source))
    expected = record(f"out/{TITLE}", source, 2 * len(CONTENT))
    assert zoo.json(*DOWNLOAD, "--out", "out") == [expected]
    copied = (zoo.here / "out" / TITLE).iterdir()
    assert {path.name: path.read_bytes() for path in copied} == files
    assert zoo.json(*DOWNLOAD, "--out", "out")[0]["bytes"] == 0
    assert not hub.asked


def test_an_archive_is_known_by_its_name(zoo, hub):
    """Its folders on the hub do not matter in ours."""
    (archive,) = info("dinov3_vits16").mirrors
    hub.files[f"{archive.repository}@{archive.revision}/{archive.name}"] = CONTENT
    download = ("weights", "download", "dinov3_vits16")
    # Nobody gets the copy of somebody else who has not asked for it.
    message = zoo(*download, "--out", "out", code=2).error
    assert "facebook/dinov3-vits16-pretrain-lvd1689m/model.safetensors was not" in message
    assert "`zoo info dinov3_vits16` says where to get it" in message
    assert not any("poiretclement" in request for request, _ in hub.requests)
    assert "was recorded" in zoo(*download, "--out", "out", "--mirror", code=2).error
    name = archive.name.split("/")[-1]
    folders.write(zoo.here / "out", {name: CONTENT})
    zoo.patch.setenv("ZOO_WEIGHTS_DIR", "out")
    assert [item["path"] for item in zoo.json(*download)] == [f"out/{name}"]


@pytest.mark.parametrize("given", [*filter(PAGES.get, PAGES)])
@pytest.mark.parametrize("known", [False, True])
def test_a_mirror_that_gives_something_else(given, known, zoo, at):
    """It is refused and not kept, by every command that asks for it; once the mirror is well, the
    same command works. So it is with what another
    program has downloaded."""
    at(serving(hub_of(REPOSITORY, {NAME: PAGES[given]})))
    folder = cache(zoo)
    path = folder / "snapshots" / COMMIT / NAME
    if known:
        folders.write(path.parent, {NAME: PAGES[given]})
        folders.write(folder / "refs", {"main": COMMIT.encode()})
        assert "without a dry run" in zoo(*DOWNLOAD, "--dry-run", code=2).error
        assert path.exists()
    for command in (DOWNLOAD, ("export", MODEL), DOWNLOAD):
        said = zoo(*command, code=2).error
        assert "holds no checkpoint" in said and "was removed" in said and NAME in said
        assert not path.exists() and not any((folder / "blobs").glob("*"))
    at(serving(hub_of(REPOSITORY, {NAME: CONTENT})))
    (record,) = zoo.json(*DOWNLOAD)
    assert record["bytes"] == len(CONTENT)


@pytest.mark.parametrize("given", PAGES)
def test_what_is_no_checkpoint_is_not_already_there(given, zoo, hub):
    """Of somebody's own folder nothing is removed, and the sentence says what to do."""
    place = zoo.here / TITLE / NAME
    place.parent.mkdir()
    place.write_bytes(PAGES[given])
    assert "remove it" in zoo(*DOWNLOAD, code=2).error
    assert "remove it" in zoo(*DOWNLOAD, "--out", zoo.here, code=2).error
    assert place.read_bytes() == PAGES[given]
