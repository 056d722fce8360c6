"""Downloads into the hub's cache, from a hub on loopback that may misbehave."""

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


class Home(Quiet):
    """A home in which weights are searched, and what is told there."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch):
        self.path, self.patch, self.told = path, patch, []
        self.place = path / ".cache" / "huggingface" / "hub" / "models--somebody--models"
        self.file = self.place / "snapshots" / COMMIT / NAME

    def note(self, text):
        self.told.append(text)

    def locate(self, hub, offline=False, name=NAME, **options):
        """The path, where it was found and the sha256; or what was wrong."""
        hub_at(self.patch, hub.url)
        file = HubFile(REPOSITORY, name, **options)
        terms = ("LICENCE", "LICENCE, PAGE, --weights PATH")
        try:
            found = locate(PublishedFiles("w", "w.bin", "", "", (file,), *terms), self, offline)
        except WeightsError as error:
            return f"{type(error).__name__}: {error}"
        return [str(found.path), found.where, found.sha256]

    def names(self) -> set[str]:
        """All files of commits, and partial files."""
        snapshots = self.place / "snapshots"
        files = (path for path in snapshots.rglob("*") if not path.is_dir())
        partial = {path.name for path in self.place.rglob("*.incomplete")}
        return {path.relative_to(snapshots).as_posix() for path in files} | partial


@pytest.fixture
def home(tmp_path, monkeypatch) -> Iterator[Home]:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ZOO_WEIGHTS_DIR", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    library = tmp_path / ".cache" / "huggingface" / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(library))
    yield Home(tmp_path, monkeypatch)
    close_session()


holding = partial(hub_of, REPOSITORY, {NAME: CONTENT})


@pytest.mark.parametrize("small", [False, True])
def test_nothing_is_recorded_and_it_is_kept_by_commit(small, home):
    with serving(holding(small=small)) as hub:
        assert "`offline` forbids" in home.locate(hub, offline=True)
        fresh = [str(home.file), f"the hub ({REPOSITORY}/{NAME})", DIGEST]
        assert home.locate(hub) == fresh
        assert len(hub.asked) == 3 and hub.gets(f"{REPOSITORY}@main/{NAME}") == [None]
        assert home.names() == {f"{COMMIT}/{NAME}"}
        where = f"the hub's cache ({REPOSITORY}/{NAME})"
        for options in ({}, {"offline": True}, {"revision": COMMIT, "sha256": DIGEST}):
            assert home.locate(hub, **options) == [str(home.file), where, DIGEST]
        assert len(hub.asked) == 3
    assert home.file.read_bytes() == CONTENT


@pytest.mark.full
@pytest.mark.parametrize("whole", [False, True], ids=["", "a server that only sends whole files"])
def test_a_connection_that_breaks(whole, home):
    """The library continues after the last piece that it has written."""
    home.patch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    cuts = {f"{REPOSITORY}@{COMMIT}/{NAME}": [1000, 300_000]}
    with serving(holding(cuts=cuts, whole=whole)) as hub:
        assert home.locate(hub)[2] == DIGEST
        parts = hub.gets(f"{REPOSITORY}@main/{NAME}")
    assert parts == [None, "bytes=1000-", "bytes=300000-"]
    assert home.file.read_bytes() == CONTENT


@pytest.mark.full
def test_a_stalled_download_is_continued(home):
    home.patch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 1)
    home.patch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    with serving(holding(stall=250_000)) as hub:
        assert home.locate(hub)[2] == DIGEST
        parts = hub.gets(f"{REPOSITORY}@main/{NAME}")
    assert parts == [None, "bytes=250000-", "bytes=500000-"]


def test_wrong_bytes(home):
    """Of the hub, by its own digest or by the one that was recorded; and in the cache."""
    with serving(holding(flip=True)) as hub:
        assert "was removed: run the command again" in home.locate(hub)
        assert home.names() == set()
        hub.flip = False
        downloads = len(hub.gets(f"{REPOSITORY}@main/{NAME}"))
        told = home.locate(hub, sha256="0" * 64)
        assert told.startswith("WrongDigest")
        assert f"sha256 {DIGEST[:12]}… where 000000000000… was recorded" in told
        assert len(hub.gets(f"{REPOSITORY}@main/{NAME}")) == downloads
        assert home.locate(hub)[2] == DIGEST
        home.file.write_bytes(CONTENT[::-1])
        assert "was removed" in home.locate(hub, sha256=DIGEST)
        assert home.locate(hub, sha256=DIGEST)[2] == DIGEST
        # Of a branch that the cache does not know.
        home.file.write_bytes(CONTENT[::-1])
        (home.place / "refs" / "main").unlink()
        assert "was removed" in home.locate(hub)


def test_terms_are_shown_before_a_download(home):
    with serving(holding(status=401)) as hub:
        home.locate(hub)
        assert not home.told
    with serving(holding(statuses=[403])) as hub:
        assert "refuses it (403)" in home.locate(hub)
        assert len(home.told) == 1
        for _ in range(2):  # the second finds it in the cache
            home.locate(hub)
            assert sum("their own licence: LICENCE" in text for text in home.told) == 2


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
        # Nobody waits for hours, or for a date that has been.
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
    with serving(holding(**behaviour)) as hub:
        told = home.locate(hub)
    assert told.startswith("Unreachable: somebody/models/w.bin was not downloaded")
    for part in (message, "LICENCE", "PAGE", "--weights PATH"):
        assert part in told
    assert not home.names()


def test_a_busy_server_is_asked_again(home):
    """Both the first question and the download."""
    refusal = {"Retry-After": "0"}
    with serving(holding(busy=[429, 503], statuses=[429], refusal=refusal)) as hub:
        assert home.locate(hub)[2] == DIGEST
    assert sum("asks to wait" in text for text in home.told) == 1


INDEX = "model.safetensors.index.json"
SHARDS = {"model-1.safetensors": checkpoint(5000, 1), "model-2.safetensors": checkpoint(7000, 2)}


def test_a_checkpoint_in_several_files(home):
    """An index in the cache counts only with its shards."""
    places = {str(number): name for number, name in enumerate(SHARDS)}
    files = SHARDS | {INDEX: json.dumps({"weight_map": places}).encode()}
    with serving(hub_of(REPOSITORY, files, small=True)) as hub:
        late = {
            name: hub.files.pop(name) for name in [*hub.files] if name.endswith("2.safetensors")
        }
        assert "model-2.safetensors was not downloaded" in home.locate(hub, name=INDEX)
        assert "`offline` forbids" in home.locate(hub, name=INDEX, offline=True)
        hub.files |= late
        assert home.locate(hub, name=INDEX)[0] == str(home.file.parent / INDEX)
        assert home.names() == {f"{COMMIT}/{name}" for name in files}
        for name, content in files.items():
            assert (home.file.parent / name).read_bytes() == content
            revision = "main" if name == INDEX else COMMIT
            assert len(hub.gets(f"{REPOSITORY}@{revision}/{name}")) == 1


def test_a_cache_that_cannot_be_written(home):
    (home.path / "file").write_text("")
    home.patch.setattr(constants, "HF_HUB_CACHE", str(home.path / "file"))
    with serving(holding()) as hub:
        told = home.locate(hub)
    assert "w.bin was not downloaded" in told and "Not a directory" in told


def test_what_another_program_downloaded(home):
    """A file in the cache is held to the sha256 that it is named by."""
    library = home.path / ".cache" / "huggingface" / "hub" / "models--somebody--models"
    folders.write(library, {f"blobs/{DIGEST}": CONTENT, "refs/main": COMMIT.encode()})
    snapshot = library / "snapshots" / COMMIT / NAME
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(library / "blobs" / DIGEST)
    with serving(holding()) as hub:
        where = f"the hub's cache ({REPOSITORY}/{NAME})"
        assert home.locate(hub, offline=True) == [str(snapshot), where, DIGEST]
        assert not hub.asked
        (library / "blobs" / DIGEST).write_bytes(CONTENT[::-1])
        assert "was removed" in home.locate(hub)
        assert home.locate(hub)[0] == str(home.file)


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model.safetensors"
    write_arrays(path, {"a": np.arange(PIECE // 4, dtype=np.float32)}, {})
    return open_checkpoint(path)


def test_the_digest_of_the_file(checkpoint):
    with hash_in_background(checkpoint) as digest:
        assert digest() == hashlib.sha256(checkpoint.path.read_bytes()).hexdigest()
    assert digest() == checkpoint.sha256()
    checkpoint.path.unlink()
    with hash_in_background(checkpoint) as digest, pytest.raises(FileNotFoundError):
        digest()


def test_a_block_that_ends_stops_it(checkpoint, monkeypatch):
    pieces = []

    def slowly(self, step):
        while True:
            pieces.append(time.sleep(0.001))
            step(1)

    monkeypatch.setattr(type(checkpoint), "sha256", slowly)
    with pytest.raises(WeightsError), hash_in_background(checkpoint):
        while not pieces:
            time.sleep(0.001)
        raise WeightsError("it fits no model")
