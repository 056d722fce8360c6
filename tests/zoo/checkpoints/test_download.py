"""The command `zoo weights download`: to the cache, to a folder, and as a dry run."""

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
"""Contents that a mirror may serve in place of a checkpoint."""
DOWNLOAD = ("weights", "download", MODEL)


@pytest.fixture
def hub(at):
    return at(serving(hub_of(REPOSITORY, {NAME: CONTENT})))


def cache(zoo):
    """Return the folder of the repository in the hub's cache."""
    return zoo.home / ".cache" / "huggingface" / "hub" / f"models--google--{TITLE}"


def record(path, source, size) -> dict:
    """Return the record that the command prints."""
    return {"model": MODEL, "path": str(path), "source": str(source), "bytes": size}


@pytest.mark.parametrize("is_cached", [False, True])
def test_download_to_a_folder(is_cached, zoo, hub):
    """The file comes from the hub or from the cache. A later download uses the folder."""
    if is_cached:
        zoo(*DOWNLOAD)
    snapshot = cache(zoo) / "snapshots" / COMMIT
    out_folder, to_folder = zoo.here / "out", (*DOWNLOAD, "--out", zoo.here / "out")
    path = out_folder / TITLE / NAME
    expected = [record(path, snapshot if is_cached else FROM_THE_HUB, len(CONTENT))]
    assert zoo.json(*to_folder, "--dry-run") == expected and not out_folder.exists()
    assert zoo.json(*to_folder) == expected
    assert path.read_bytes() == CONTENT and snapshot.exists() == is_cached
    assert [item.name for item in out_folder.rglob("*")] == [TITLE, NAME]
    assert zoo.json(*to_folder, "--dry-run")[0]["bytes"] == 0
    path.write_bytes(OTHER)
    assert "is another file" in zoo(*to_folder, code=2).error
    assert path.read_bytes() == OTHER
    zoo.patch.setenv("ZOO_WEIGHTS_DIR", str(out_folder))
    assert zoo.json(*DOWNLOAD) == [record(path.parent, out_folder, 0)]


@pytest.mark.full
def test_two_downloads_at_once(tmp_path):
    """The second process waits for the first and then uses its file."""
    with serving(hub_of(REPOSITORY, {NAME: CONTENT}, stall=100_000)) as hub:
        processes = [Command(tmp_path, hub.url).start(*DOWNLOAD) for _ in range(2)]
        name = f"{REPOSITORY}@main/{NAME}"
        # Each process sends two requests for metadata, and one of them starts the download.
        while len(hub.asked) < 5 and all(process.poll() is None for process in processes):
            time.sleep(0.02)
        assert len(hub.gets(name)) == 1
        hub.stall = None
        hub.go.set()
        errors = [process.communicate(timeout=60)[1] for process in processes]
        # The server closed the stalled connection, and that process requested the file again.
        assert len(hub.gets(name)) == 2
    assert [process.returncode for process in processes] == [0, 0], errors


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


def test_a_folder_is_copied_with_all_its_files(zoo, hub):
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
    """The folders of an archive on the hub need not exist in a local folder."""
    (archive,) = info("dinov3_vits16").mirrors
    hub.files[f"{archive.repository}@{archive.revision}/{archive.name}"] = CONTENT
    download = ("weights", "download", "dinov3_vits16")
    # Without `--mirror`, the command does not use a copy in another user's repository.
    message = zoo(*download, "--out", "out", code=2).error
    assert "facebook/dinov3-vits16-pretrain-lvd1689m/model.safetensors was not" in message
    assert "`zoo info dinov3_vits16` says where to get it" in message
    assert not any("poiretclement" in request for request, _ in hub.requests)
    assert "was recorded" in zoo(*download, "--out", "out", "--mirror", code=2).error
    name = archive.name.split("/")[-1]
    folders.write(zoo.here / "out", {name: CONTENT})
    zoo.patch.setenv("ZOO_WEIGHTS_DIR", "out")
    assert [item["path"] for item in zoo.json(*download)] == [f"out/{name}"]


@pytest.mark.parametrize("page", [*filter(PAGES.get, PAGES)])
@pytest.mark.parametrize("is_cached", [False, True])
def test_a_mirror_that_gives_something_else(page, is_cached, zoo, at):
    """Every command refuses and removes such a file, also one that another program downloaded.

    When the mirror serves the checkpoint, the same command works.
    """
    at(serving(hub_of(REPOSITORY, {NAME: PAGES[page]})))
    folder = cache(zoo)
    path = folder / "snapshots" / COMMIT / NAME
    if is_cached:
        folders.write(path.parent, {NAME: PAGES[page]})
        folders.write(folder / "refs", {"main": COMMIT.encode()})
        assert "without a dry run" in zoo(*DOWNLOAD, "--dry-run", code=2).error
        assert path.exists()
    for command in (DOWNLOAD, ("export", MODEL), DOWNLOAD):
        error = zoo(*command, code=2).error
        assert "holds no checkpoint" in error and "was removed" in error and NAME in error
        assert not path.exists() and not any((folder / "blobs").glob("*"))
    at(serving(hub_of(REPOSITORY, {NAME: CONTENT})))
    (record,) = zoo.json(*DOWNLOAD)
    assert record["bytes"] == len(CONTENT)


@pytest.mark.parametrize("page", PAGES)
def test_a_file_that_is_no_checkpoint_is_not_accepted(page, zoo, hub):
    """A file in the user's folder is not removed, and the error asks the user to remove it."""
    path = zoo.here / TITLE / NAME
    path.parent.mkdir()
    path.write_bytes(PAGES[page])
    assert "remove it" in zoo(*DOWNLOAD, code=2).error
    assert "remove it" in zoo(*DOWNLOAD, "--out", zoo.here, code=2).error
    assert path.read_bytes() == PAGES[page]
