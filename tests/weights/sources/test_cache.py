"""Downloads into our own cache, from a hub on loopback that may misbehave; what is kept there."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.hub_server import COMMIT, Hub, serving
from weights.progress import Quiet
from weights.sources import cache

REPOSITORY, NAME = "somebody/models", "w.bin"
CONTENT = np.random.default_rng(5).bytes(700_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()

LOCATE = """
import json, sys
from weights.errors import WeightsError
from weights.sources.hub import HubFile
from weights.sources.locate import Published, locate

class Told:
    def stage(self, text, total=None):
        print(text, file=sys.stderr)
    def step(self, size):
        pass
    def note(self, text):
        print(text, file=sys.stderr)

options = json.loads(sys.argv[1])
offline = options.pop("offline", False)
file = HubFile("somebody/models", options.pop("name", "w.bin"), **options)
try:
    places = Published("w", "w.bin", "", "", (file,), "LICENCE", "LICENCE, PAGE, --weights PATH")
    found = locate(places, Told(), offline)
    print(json.dumps([str(found.path), found.where, found.sha256]))
except WeightsError as error:
    print(json.dumps(f"{type(error).__name__}: {error}"))
"""


class Home:
    """A home, in which weights are searched."""

    def __init__(self, path: Path):
        self.path = path
        (path / "work").mkdir()
        self.place = path / ".cache" / "jax-onnx-zoo" / "checkpoints" / "somebody--models"
        self.file = self.place / COMMIT / NAME

    def start(self, url, variables, options):
        environment = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        environment |= {"HOME": str(self.path), "HF_ENDPOINT": url}
        return subprocess.Popen(
            [sys.executable, "-c", LOCATE, json.dumps(options)],
            cwd=self.path / "work",
            env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def locate(self, hub, variables=None, **options):
        """The path, where it was found and the sha256; or what was wrong."""
        process = self.start(hub.url, variables or {}, options)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return json.loads(out)

    def names(self) -> set[str]:
        """All files that are kept, and what else lies around them."""
        return {
            path.relative_to(self.place).as_posix()
            for path in self.place.rglob("*")
            if not path.is_dir()
        }


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path)


def hub_of(**behaviour) -> Hub:
    files = {f"{REPOSITORY}@{COMMIT}/{NAME}": CONTENT}
    return Hub(files, branches={f"{REPOSITORY}@main": [COMMIT]}, **behaviour)


@pytest.mark.parametrize("small", [False, True])
def test_nothing_is_recorded_and_it_is_kept_by_commit(small, home):
    with serving(hub_of(small=small)) as hub:
        assert "offline forbids" in home.locate(hub, offline=True)
        fresh = [str(home.file), f"the hub ({REPOSITORY}/{NAME})", DIGEST]
        assert home.locate(hub) == fresh
        asked = [f"HEAD {REPOSITORY}@main/{NAME}", f"GET {REPOSITORY}@{COMMIT}/{NAME}"]
        assert [request for request, _ in hub.asked] == asked
        assert home.names() == {f"{COMMIT}/{NAME}", "refs/main"}
        where = f"{home.path}/.cache/jax-onnx-zoo ({REPOSITORY}/{NAME})"
        for options in ({}, {"offline": True}, {"revision": COMMIT, "sha256": DIGEST}):
            assert home.locate(hub, **options) == [str(home.file), where, DIGEST]
        assert len(hub.asked) == 2
    assert home.file.read_bytes() == CONTENT


def test_cut_anywhere_and_continued_at_the_byte(home):
    middle = sorted(int(at) for at in np.random.default_rng(0).integers(2, len(CONTENT) - 1, 20))
    places = [0, 1, *middle, len(CONTENT) - 1]
    name = f"{REPOSITORY}@{COMMIT}/{NAME}"
    with serving(hub_of(cuts={name: list(places)})) as hub:
        assert home.locate(hub)[2] == DIGEST
        assert hub.gets(name) == [None, None, *(f"bytes={at}-" for at in places[1:])]


def test_killed_and_continued_by_another_process(home):
    name = f"{REPOSITORY}@{COMMIT}/{NAME}"
    part = home.file.with_name(f".{NAME}.part")
    with serving(hub_of(stall=500_000)) as hub:
        process = home.start(hub.url, {}, {})
        begun = time.monotonic()
        while not part.exists() or part.stat().st_size < 400_000:
            assert time.monotonic() - begun < 30
            time.sleep(0.02)
        process.kill()
        process.communicate()
        have = part.stat().st_size
        assert not home.file.exists()
        hub.stall = None
        hub.go.set()
        assert home.locate(hub)[2] == DIGEST
        assert hub.gets(name) == [None, f"bytes={have}-"]
    assert home.names() == {f"{COMMIT}/{NAME}", "refs/main"}


def test_two_at_once(home):
    """The second one waits, and finds it there."""
    with serving(hub_of(stall=500_000)) as hub:
        both = [home.start(hub.url, {}, {}) for _ in range(2)]
        begun = time.monotonic()
        while len(hub.asked) < 3:
            assert time.monotonic() - begun < 30
            time.sleep(0.02)
        time.sleep(0.3)
        hub.stall = None
        hub.go.set()
        told = [process.communicate(timeout=60) for process in both]
        # The one that was stalled had its connection closed, and went on.
        assert len([asked for asked in hub.gets(f"{REPOSITORY}@{COMMIT}/{NAME}") if not asked]) == 1
    assert [json.loads(out)[2] for out, _ in told] == [DIGEST, DIGEST]
    assert sum("waiting for another process" in err for _, err in told) == 1
    assert home.names() == {f"{COMMIT}/{NAME}", "refs/main"}


def test_a_wrong_byte_is_noticed_by_the_hubs_own_digest(home):
    with serving(hub_of(flip=True)) as hub:
        assert "was removed: run the command again" in home.locate(hub)
        assert home.names() == set()
        hub.flip = False
        assert home.locate(hub)[2] == DIGEST


def test_another_file_than_recorded_is_not_downloaded(home):
    with serving(hub_of()) as hub:
        told = home.locate(hub, sha256="0" * 64)
        assert told.startswith("WrongDigest")
        assert f"sha256 {DIGEST[:12]}… where 000000000000… was recorded" in told
        assert not hub.gets(f"{REPOSITORY}@{COMMIT}/{NAME}")


def test_a_damaged_file_of_the_cache_is_refused_and_fetched_again(home):
    with serving(hub_of()) as hub:
        home.locate(hub)
        home.file.write_bytes(CONTENT[::-1])
        assert "was removed" in home.locate(hub, sha256=DIGEST)
        assert home.locate(hub, sha256=DIGEST)[2] == DIGEST


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
        pytest.param({"stall": -1}, "did not answer in time", marks=pytest.mark.full),
    ],
    ids=str,
)
def test_refusals(behaviour, message, home):
    with serving(hub_of(**behaviour)) as hub:
        told = home.locate(hub, {"HF_HUB_DOWNLOAD_TIMEOUT": "1"})
    assert told.startswith("Unreachable: somebody/models/w.bin was not downloaded")
    for part in (message, "LICENCE", "PAGE", "--weights PATH"):
        assert part in told
    assert home.names() <= {f"{COMMIT}/.{NAME}.part"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("busy", [[503], [429, 503]])
def test_a_busy_server_is_left_alone_as_long_as_it_asks(busy, home):
    """Both of the first question and of the download."""
    with serving(hub_of(busy=list(busy), statuses=list(busy), refusal={"Retry-After": "1"})) as hub:
        began = time.monotonic()
        assert home.locate(hub)[2] == DIGEST
        assert time.monotonic() - began > 2 * len(busy)


@pytest.mark.parametrize("pause", ["100000", "Wed, 21 Oct 2015 07:28:00 GMT", "-1"])
def test_nobody_waits_for_a_server_that_asks_for_hours(pause, home):
    with serving(hub_of(busy=[429], refusal={"Retry-After": pause})) as hub:
        assert "asked too often (429)" in home.locate(hub)


def test_terms_are_shown_once(home):
    with serving(hub_of()) as hub:
        for told in (True, False):
            process = home.start(hub.url, {}, {})
            assert ("terms of their own: LICENCE" in process.communicate()[1]) == told
            home.file.unlink()


INDEX = "model.safetensors.index.json"
SHARDS = {"model-1.safetensors": b"a" * 5000, "model-2.safetensors": b"b" * 7000}


def test_a_checkpoint_in_several_files(home):
    """The table comes last, so that there is none without its files."""
    places = {str(number): name for number, name in enumerate(SHARDS)}
    files = SHARDS | {INDEX: json.dumps({"weight_map": places}).encode()}
    held = {f"{REPOSITORY}@{COMMIT}/{name}": content for name, content in files.items()}
    late = {name: held.pop(name) for name in list(held) if name.endswith("model-2.safetensors")}
    branches = {f"{REPOSITORY}@main": [COMMIT]}
    with serving(Hub(held, branches=branches, small=True)) as hub:
        assert "model-2.safetensors was not downloaded" in home.locate(hub, name=INDEX)
        assert not (home.file.parent / INDEX).exists()
        hub.files |= late
        assert home.locate(hub, name=INDEX)[0] == str(home.file.parent / INDEX)
        assert home.names() == {f"{COMMIT}/{name}" for name in files} | {"refs/main"}
        for name, content in files.items():
            assert (home.file.parent / name).read_bytes() == content
            assert len(hub.gets(f"{REPOSITORY}@{COMMIT}/{name}")) == 1


def test_places_for_the_cache(home):
    with serving(hub_of()) as hub:
        for key, below in (("ZOO_CACHE_DIR", ""), ("XDG_CACHE_HOME", "jax-onnx-zoo/")):
            own = home.path / key
            found, *_ = home.locate(hub, {key: str(own)})
            assert found == f"{own}/{below}checkpoints/somebody--models/{COMMIT}/{NAME}"
        (home.path / "file").write_text("")
        told = home.locate(hub, {"ZOO_CACHE_DIR": str(home.path / "file")})
        assert "w.bin was not downloaded" in told
        assert "Not a directory" in told


def test_what_another_program_downloaded(home):
    """The cache of the hub's own library is searched too, and not written."""
    library = home.path / ".cache" / "huggingface" / "hub" / "models--somebody--models"
    for place, content in ((f"blobs/{DIGEST}", CONTENT), ("refs/main", COMMIT.encode())):
        (library / place).parent.mkdir(parents=True)
        (library / place).write_bytes(content)
    snapshot = library / "snapshots" / COMMIT / NAME
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(library / "blobs" / DIGEST)
    with serving(hub_of()) as hub:
        where = f"the hub's cache ({REPOSITORY}/{NAME})"
        assert home.locate(hub, offline=True) == [str(snapshot), where, DIGEST]
        assert not hub.asked
        (library / "blobs" / DIGEST).write_bytes(CONTENT[::-1])
        assert "was removed" in home.locate(hub)
        assert home.locate(hub)[0] == str(home.file)


OTHER = "e" * 40


@pytest.fixture
def kept(tmp_path, monkeypatch) -> Path:
    """A cache with four entries, one of them a part of a file, and what is not ours."""
    root = tmp_path / "cache"
    monkeypatch.setenv("ZOO_CACHE_DIR", str(root))
    for place, size in (
        (f"checkpoints/somebody--models/{COMMIT}/w.bin", 7),
        (f"checkpoints/somebody--models/{COMMIT}/deep/.v.bin.part", 6),
        (f"checkpoints/somebody--models/{OTHER}/w.bin", 8),
        ("checkpoints/somebody--models/refs/main", 40),
        (f"models/somebody--vits16/{COMMIT}/onnx/model.onnx", 9),
        ("models/somebody--vits16/notes/mine.txt", 1),
        (f"other/somebody--vits16/{COMMIT}/mine.txt", 1),
        ("mine.txt", 1),
    ):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_bytes(bytes(size))
    (root / "models" / "somebody--linked").symlink_to(root / "other" / "somebody--vits16")
    (root / f"models/somebody--vits16/{OTHER}").symlink_to(root / "other")
    return root


def test_what_is_kept(kept):
    model = kept / f"models/somebody--vits16/{COMMIT}"
    os.utime(model, (5, 5))
    assert [(item.name, item.bytes) for item in cache.entries()] == [
        (f"checkpoints/somebody/models/{COMMIT}/deep/v.bin", 6),
        (f"checkpoints/somebody/models/{COMMIT}/w.bin", 7),
        (f"checkpoints/somebody/models/{OTHER}/w.bin", 8),
        (f"models/somebody/vits16/{COMMIT}", 9),
    ]
    assert cache.entries()[3].used == 5
    cache.touch(model)
    assert abs(cache.entries()[3].used - time.time()) < 60
    assert [item.kind for item in cache.entries(["*vits16*", "nothing"])] == ["models"]
    assert len(cache.entries(["checkpoints/*"])) == 3


def test_what_is_removed(kept):
    """Entries and nothing else; links are not followed, and empty folders do not stay."""
    model = kept / "models" / "somebody--vits16" / COMMIT
    (model / "link").symlink_to(kept / "other")
    before = set(kept.rglob("*"))
    for item in cache.entries(["models/*", "*/v.bin", f"*/{OTHER}/*"]):
        cache.remove(item, Quiet())
    place = kept / "checkpoints" / "somebody--models"
    gone = [model, place / OTHER, place / COMMIT / "deep"]
    assert before - set(kept.rglob("*")) == {
        path for path in before if any(path.is_relative_to(folder) for folder in gone)
    }
    for item in cache.entries():
        cache.remove(item, Quiet())
    assert not place.exists()
    assert cache.entries() == []
    assert (kept / "mine.txt").exists()
    assert (kept / "models" / "somebody--vits16" / "notes" / "mine.txt").exists()
    assert (kept / "other" / "somebody--vits16" / COMMIT / "mine.txt").exists()
