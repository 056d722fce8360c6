"""`--weights auto` of the command: folders, caches, and a hub on loopback."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import zoo
from tests.hub_server import COMMIT, Hub, serving
from tests.loading import load, naming_of
from weights.progress import Quiet
from weights.writers.equimo_writer import write_archive
from weights.writers.items import items_for
from zoo.checkpoints.settings.equimo import equimo_metadata

NAME = "archive.tar.lz4"
REPOSITORY = "somebody/models"

# The command with a model whose archive has a digest that a test can know.
MAIN = """
import json, os, sys
from dataclasses import replace
from weights.sources.hub import HubFile
from zoo.registry import lookup
entry = lookup.info("dinov3_vits16")
hub = HubFile(**json.loads(os.environ["TEST_HUB_FILE"]))
lookup._BY_NAME["dinov3_vits16"] = replace(entry, hub=(hub,))
sys.argv[0] = "zoo"
from zoo.cli import main
main()
"""


COMMAND = [
    *(sys.executable, "-c", MAIN),
    *("export", "dinov3_vits16", "--no-verify", "--size", "32"),
]


@pytest.fixture(scope="session")
def archive(vits16) -> bytes:
    """The seeded ViT-S/16 as Equimo's archive."""
    weights = load(vits16.path, vits16.shapes)
    path = vits16.path.with_name(NAME)
    items = items_for(naming_of(zoo.info("dinov3_vits16"), "equimo"), weights, vits16.shapes)
    write_archive(path, items, equimo_metadata(vits16.config), Quiet())
    content = path.read_bytes()
    path.unlink()
    return content


class Home:
    """A user's home and working folder, and the command run there."""

    def __init__(self, path: Path, digest: str):
        self.path = path
        self.out = path / "out"
        (path / "work").mkdir()
        self.file = {"repository": REPOSITORY, "name": NAME, "revision": COMMIT, "sha256": digest}

    def export(self, url: str, *arguments: str, code: int = 0, **variables: str) -> str:
        """What it prints on stderr."""
        environment = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        environment |= {
            "HOME": str(self.path),
            "HF_ENDPOINT": url,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TEST_HUB_FILE": json.dumps(self.file),
        }
        done = subprocess.run(
            [*COMMAND, "--out", str(self.out), *arguments],
            cwd=self.path / "work",
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        if code:
            assert not self.out.exists() or not list(self.out.iterdir())
            errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            assert len(errors) == 1
        return done.stderr

    @property
    def manifest(self) -> dict:
        """Of the exported file."""
        return json.loads(next(self.out.glob("*.json")).read_text())


@pytest.fixture
def home(tmp_path, archive) -> Home:
    return Home(tmp_path, hashlib.sha256(archive).hexdigest())


def hub_of(archive: bytes, **behaviour) -> Hub:
    return Hub({f"{REPOSITORY}@{COMMIT}/{NAME}": archive}, **behaviour)


def test_download_then_cache_then_offline(home, archive):
    with serving(hub_of(archive)) as hub:
        told = home.export(hub.url)
        assert f"the hub ({REPOSITORY}/{NAME})" in told
        assert f"downloading {REPOSITORY}/{NAME}" in told
        assert home.manifest["weights"]["sha256"] == home.file["sha256"]
        assert home.manifest["weights"]["kind"] == "equimo"
        for key, value in (("repository", REPOSITORY), ("revision", COMMIT)):
            assert home.manifest["weights"][key] == value
        assert home.manifest["weights"]["publisher"] == "somebody"
        assert all(
            f"@{COMMIT}/" in request for request, _ in hub.requests if "/api/" not in request
        )
        count = len(hub.requests)
        kept = f"{home.path}/.cache/jax-onnx-zoo ({REPOSITORY}/{NAME})"
        assert kept in home.export(hub.url, "--force")
        assert len(hub.requests) == count
    assert kept in home.export(hub.url, "--force", "--offline")


def test_no_server(home):
    told = home.export("http://127.0.0.1:9", code=2)
    assert "the hub cannot be reached" in told or "refused" in told
    assert told.count("error:") == 1 and told.strip().count("\n") <= 1
    assert "`zoo info dinov3_vits16` says where to get it" in told


def test_offline_asks_nobody(home, archive):
    with serving(hub_of(archive)) as hub:
        assert "--offline forbids" in home.export(hub.url, "--offline", code=2)
        assert "HF_HUB_OFFLINE forbids" in home.export(hub.url, code=2, HF_HUB_OFFLINE="1")
        assert not hub.requests


@pytest.mark.full
def test_places_on_disk(home, archive, vits16):
    """Equimo's and Meta's caches are found, and a damaged file of Meta's is refused."""
    equimo = home.path / ".cache" / "equimo" / "dinov3"
    equimo.mkdir(parents=True)
    name = zoo.info("dinov3_vits16").archive
    (equimo / name).write_bytes(archive)
    assert str(equimo) in home.export("http://127.0.0.1:9")
    torch = home.path / ".cache" / "torch" / "hub" / "dinov3" / "weights"
    torch.mkdir(parents=True)
    (torch / zoo.info("dinov3_vits16").checkpoint).write_bytes(vits16.path.read_bytes())
    home.out = home.path / "other"
    told = home.export("http://127.0.0.1:9", code=2)
    assert "its name says that its sha256 begins with 08c60483" in told
