"""Downloads into the cache of huggingface-hub, from a local hub that may stall, refuse or send
wrong bytes."""

import hashlib
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import close_session, constants

from tests import folders
from tests.hub_server import COMMIT, hub_of, serving
from tests.noise import checkpoint
from tests.zoo.conftest import hub_at
from weights import open_checkpoint
from weights.errors import WeightsError
from weights.files import PIECE
from weights.progress import Quiet
from weights.sources.hashing import hash_in_background
from weights.sources.hub import HubFile
from weights.sources.locate import PublishedFiles, locate
from weights.writers.safetensors_writer import write_arrays

REPOSITORY, NAME = "somebody/models", "w.bin"
CONTENT = checkpoint(700_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class HomeFolder(Quiet):
    """A home folder in which weights are searched, and the notes of the search.

    `place` is the cache of the repository, and `file` the cached file.
    """

    def __init__(self, path: Path, patch: pytest.MonkeyPatch):
        self.path, self.patch, self.notes = path, patch, []
        self.place = path / ".cache" / "huggingface" / "hub" / "models--somebody--models"
        self.file = self.place / "snapshots" / COMMIT / NAME

    def note(self, text):
        self.notes.append(text)

    def locate(self, hub, offline=False, name=NAME, **options):
        """Locate the weights. Return path, place and sha256, or the class and text of the error."""
        hub_at(self.patch, hub.url)
        file = HubFile(REPOSITORY, name, **options)
        terms = ("LICENCE", "LICENCE, PAGE, --weights PATH")
        try:
            weights_file = locate(
                PublishedFiles("w", "w.bin", "", "", (file,), *terms), self, offline
            )
        except WeightsError as error:
            return f"{type(error).__name__}: {error}"
        return [str(weights_file.path), weights_file.origin, weights_file.sha256]

    def names(self) -> set[str]:
        """Return the names of cached files by commit, and of partial files."""
        snapshots = self.place / "snapshots"
        files = (path for path in snapshots.rglob("*") if not path.is_dir())
        partial_names = {path.name for path in self.place.rglob("*.incomplete")}
        return {path.relative_to(snapshots).as_posix() for path in files} | partial_names


@pytest.fixture
def home(tmp_path, monkeypatch) -> Iterator[HomeFolder]:
    """An empty home folder, without variables of weights and tokens."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ZOO_WEIGHTS_DIR", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    library = tmp_path / ".cache" / "huggingface" / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(library))
    yield HomeFolder(tmp_path, monkeypatch)
    close_session()


hub_with_file = partial(hub_of, REPOSITORY, {NAME: CONTENT})


@pytest.mark.parametrize("small", [False, True])
def test_downloads_are_cached_by_commit(small, home):
    with serving(hub_with_file(small=small)) as hub:
        assert "`offline` forbids" in home.locate(hub, offline=True)
        expected = [str(home.file), f"the hub ({REPOSITORY}/{NAME})", DIGEST]
        assert home.locate(hub) == expected
        assert len(hub.asked) == 3 and hub.gets(f"{REPOSITORY}@main/{NAME}") == [None]
        assert home.names() == {f"{COMMIT}/{NAME}"}
        where = f"the hub's cache ({REPOSITORY}/{NAME})"
        for options in ({}, {"offline": True}, {"revision": COMMIT, "sha256": DIGEST}):
            assert home.locate(hub, **options) == [str(home.file), where, DIGEST]
        assert len(hub.asked) == 3
    assert home.file.read_bytes() == CONTENT


@pytest.mark.full
@pytest.mark.parametrize(
    "ignores_ranges", [False, True], ids=["", "a server that only sends whole files"]
)
def test_a_broken_connection_is_resumed(ignores_ranges, home):
    """The download is resumed after the last written chunk."""
    home.patch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    cuts = {f"{REPOSITORY}@{COMMIT}/{NAME}": [1000, 300_000]}
    with serving(hub_with_file(cuts=cuts, whole=ignores_ranges)) as hub:
        assert home.locate(hub)[2] == DIGEST
        parts = hub.gets(f"{REPOSITORY}@main/{NAME}")
    assert parts == [None, "bytes=1000-", "bytes=300000-"]
    assert home.file.read_bytes() == CONTENT


@pytest.mark.full
def test_a_stalled_download_is_continued(home):
    home.patch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 1)
    home.patch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    with serving(hub_with_file(stall=250_000)) as hub:
        assert home.locate(hub)[2] == DIGEST
        parts = hub.gets(f"{REPOSITORY}@main/{NAME}")
    assert parts == [None, "bytes=250000-", "bytes=500000-"]


def test_wrong_bytes(home):
    """Wrong bytes from the hub and in the cache are removed.

    A recorded digest that differs from the hub's is an error before the download.
    """
    with serving(hub_with_file(flip=True)) as hub:
        assert "was removed: run the command again" in home.locate(hub)
        assert home.names() == set()
        hub.flip = False
        downloads = len(hub.gets(f"{REPOSITORY}@main/{NAME}"))
        message = home.locate(hub, sha256="0" * 64)
        assert message.startswith("WrongDigest")
        assert f"sha256 {DIGEST[:12]}… where 000000000000… was recorded" in message
        assert len(hub.gets(f"{REPOSITORY}@main/{NAME}")) == downloads
        assert home.locate(hub)[2] == DIGEST
        home.file.write_bytes(CONTENT[::-1])
        assert "was removed" in home.locate(hub, sha256=DIGEST)
        assert home.locate(hub, sha256=DIGEST)[2] == DIGEST
        # The cache does not know the branch of the file.
        home.file.write_bytes(CONTENT[::-1])
        (home.place / "refs" / "main").unlink()
        assert "was removed" in home.locate(hub)


def test_terms_are_shown_before_a_download(home):
    with serving(hub_with_file(status=401)) as hub:
        home.locate(hub)
        assert not home.notes
    with serving(hub_with_file(statuses=[403])) as hub:
        assert "refuses it (403)" in home.locate(hub)
        assert len(home.notes) == 1
        for _ in range(2):  # the second call finds the file in the cache
            home.locate(hub)
            assert sum("their own licence: LICENCE" in text for text in home.notes) == 2


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ({"status": 401}, "refuses it (401)"),
        ({"status": 403}, "refuses it (403)"),
        ({"status": 404}, "does not have it (404)"),
        ({"status": 429}, "asked too often (429)"),
        ({"status": 500}, "answered with an error (500)"),
        ({"statuses": [403]}, "refuses it (403)"),
        ({"token": "t0ken"}, "HF_TOKEN"),
        # Waiting times of hours, and dates in the past, are not accepted.
        *(
            ({"busy": [429] * 9, "refusal": {"Retry-After": pause}}, "asked too often (429)")
            for pause in ("100000", "Wed, 21 Oct 2015 07:28:00 GMT", "-1")
        ),
        pytest.param({"stall": -1}, "did not answer in time", marks=pytest.mark.full),
    ],
    ids=str,
)
def test_refusals(behaviour, message, home):
    home.patch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 1)
    with serving(hub_with_file(**behaviour)) as hub:
        error = home.locate(hub)
    assert error.startswith("Unreachable: somebody/models/w.bin was not downloaded")
    for part in (message, "LICENCE", "PAGE", "--weights PATH"):
        assert part in error
    assert not home.names()


def test_a_busy_server_is_asked_again(home):
    """The first request and the download are repeated."""
    refusal = {"Retry-After": "0"}
    with serving(hub_with_file(busy=[429, 503], statuses=[429], refusal=refusal)) as hub:
        assert home.locate(hub)[2] == DIGEST
    assert sum("asks to wait" in text for text in home.notes) == 1


INDEX = "model.safetensors.index.json"
SHARDS = {"model-1.safetensors": checkpoint(5000, 1), "model-2.safetensors": checkpoint(7000, 2)}


def test_a_checkpoint_in_several_files(home):
    """An index in the cache is used only if its shards are complete."""
    weight_map = {str(number): name for number, name in enumerate(SHARDS)}
    files = SHARDS | {INDEX: json.dumps({"weight_map": weight_map}).encode()}
    with serving(hub_of(REPOSITORY, files, small=True)) as hub:
        held_back = {
            name: hub.files.pop(name) for name in [*hub.files] if name.endswith("2.safetensors")
        }
        assert "model-2.safetensors was not downloaded" in home.locate(hub, name=INDEX)
        assert "`offline` forbids" in home.locate(hub, name=INDEX, offline=True)
        hub.files |= held_back
        assert home.locate(hub, name=INDEX)[0] == str(home.file.parent / INDEX)
        assert home.names() == {f"{COMMIT}/{name}" for name in files}
        for name, content in files.items():
            assert (home.file.parent / name).read_bytes() == content
            revision = "main" if name == INDEX else COMMIT
            assert len(hub.gets(f"{REPOSITORY}@{revision}/{name}")) == 1


def test_a_cache_that_cannot_be_written(home):
    (home.path / "file").write_text("")
    home.patch.setattr(constants, "HF_HUB_CACHE", str(home.path / "file"))
    with serving(hub_with_file()) as hub:
        message = home.locate(hub)
    assert "w.bin was not downloaded" in message and "Not a directory" in message


def test_files_that_another_program_downloaded(home):
    """A file in the cache is compared with the sha256 in its name."""
    library = home.path / ".cache" / "huggingface" / "hub" / "models--somebody--models"
    folders.write(library, {f"blobs/{DIGEST}": CONTENT, "refs/main": COMMIT.encode()})
    snapshot = library / "snapshots" / COMMIT / NAME
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(library / "blobs" / DIGEST)
    with serving(hub_with_file()) as hub:
        where = f"the hub's cache ({REPOSITORY}/{NAME})"
        assert home.locate(hub, offline=True) == [str(snapshot), where, DIGEST]
        assert not hub.asked
        (library / "blobs" / DIGEST).write_bytes(CONTENT[::-1])
        assert "was removed" in home.locate(hub)
        assert home.locate(hub)[0] == str(home.file)


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint with one tensor of `PIECE` bytes."""
    path = tmp_path / "model.safetensors"
    write_arrays(path, {"a": np.arange(PIECE // 4, dtype=np.float32)}, {})
    return open_checkpoint(path)


def test_hashing_in_the_background(checkpoint):
    with hash_in_background(checkpoint) as digest:
        assert digest() == hashlib.sha256(checkpoint.path.read_bytes()).hexdigest()
    assert digest() == checkpoint.sha256()
    checkpoint.path.unlink()
    with hash_in_background(checkpoint) as digest, pytest.raises(FileNotFoundError):
        digest()


def test_hashing_stops_at_the_end_of_its_block(checkpoint, monkeypatch):
    pieces = []

    def hash_forever(self, step):
        while True:
            pieces.append(time.sleep(0.001))
            step(1)

    monkeypatch.setattr(type(checkpoint), "sha256", hash_forever)
    with pytest.raises(WeightsError), hash_in_background(checkpoint):
        while not pieces:
            time.sleep(0.001)
        raise WeightsError("it fits no model")
