"""Digests of the checkpoints of exports: in file names, of other models, of downloads."""

import json
from dataclasses import replace

import pytest

from tests.hub_server import COMMIT, Hub, serving
from weights.errors import MappingError, WrongDigest
from weights.files import sha256
from weights.progress import Quiet
from weights.sources.hub import HubFile
from zoo import info
from zoo.export.request import Options, plan_files
from zoo.export.run import run_export
from zoo.registry import lookup

MODEL, NAME, REPOSITORY = "dinov3_vits16", "w.pth", "somebody/models"


def assert_refused(checkpoint, out, error, message):
    """Assert that an export of the checkpoint raises the error and writes nothing."""
    options = Options(weights=str(checkpoint), out=out, verify=False)
    with pytest.raises(error, match=message):
        run_export(plan_files(info(MODEL), options), Quiet())
    assert list(out.iterdir()) == []


@pytest.mark.each()
@pytest.mark.parametrize("name", ["w-08c60483.pth", "w-08C60483.pth", "w-08c60483.tar.lz4"])
def test_a_name_with_another_digest(name, vits16, tmp_path):
    checkpoint = tmp_path / name
    checkpoint.symlink_to(vits16.path)
    assert_refused(checkpoint, tmp_path / "out", WrongDigest, "begins with 08c60483")


def test_the_digest_of_another_model(vits16, tmp_path, monkeypatch):
    digest = sha256(vits16.path)
    other_entry = next(e for e in lookup.MODELS.values() if e.digest and e.name != MODEL)
    monkeypatch.setitem(lookup.MODELS, other_entry.name, replace(other_entry, digest=digest))
    message = f"is the published file of {other_entry.name}, not of {MODEL}: exp"
    assert_refused(vits16.path, tmp_path / "out", MappingError, message)


def test_download_then_cache_then_offline(vits16, zoo, at, monkeypatch):
    file = HubFile(REPOSITORY, NAME, revision=COMMIT, sha256=sha256(vits16.path))
    entry = replace(info(MODEL), hub=(file,))
    monkeypatch.setitem(lookup._BY_NAME, MODEL, entry)
    hub = at(serving(Hub({f"{REPOSITORY}@{COMMIT}/{NAME}": vits16.path.read_bytes()})))
    command = ("export", MODEL, "--no-verify", "--size", 32, "--force")
    assert "--offline forbids" in zoo(*command, "--offline", code=2).error
    zoo.at(hub.url, HF_HUB_OFFLINE=True)
    assert "HF_HUB_OFFLINE forbids" in zoo(*command, code=2).error
    zoo.at(hub.url, HF_HUB_OFFLINE=False)
    assert not hub.requests and not list(zoo.here.iterdir())
    printed = zoo(*command, "--json")
    assert f"downloading {REPOSITORY}/{NAME}" in printed.err
    (record,) = json.loads(printed.out)
    weights = record["weights"]
    assert (weights["sha256"], weights["kind"]) == (file.sha256, "meta")
    assert (weights["repository"], weights["revision"]) == (REPOSITORY, COMMIT)
    assert weights["publisher"] == "somebody"
    requests = [request for request, _ in hub.asked]
    assert requests and all(f"@{COMMIT}/" in request for request in requests)
    count = len(hub.requests)
    from_cache = f"the hub's cache ({REPOSITORY}/{NAME})"
    for options in ((), ("--offline",)):
        assert from_cache in zoo(*command, *options).err
    assert len(hub.requests) == count
