"""`zoo weights download`: to the cache, to a folder, and what a dry run says."""

import json

import pytest

from tests.command import Command
from tests.hub_server import COMMIT, Hub, serving
from zoo.registry.lookup import info as zoo_info

MODEL, NAME = "siglip2_vitb16_224", "model.safetensors"
TITLE = "siglip2-base-patch16-224"
REPOSITORY = f"google/{TITLE}"
CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def hub():
    files = {f"{REPOSITORY}@{COMMIT}/{NAME}": CONTENT}
    with serving(Hub(files, branches={f"{REPOSITORY}@main": [COMMIT]})) as server:
        yield server


@pytest.fixture
def zoo(tmp_path, hub):
    return Command(tmp_path, hub.url)


def told(zoo, *options, **variables) -> list[dict]:
    return json.loads(zoo("weights", "download", *options, "--json", **variables))


def record(path, source, size) -> dict:
    return {"model": MODEL, "path": str(path), "source": str(source), "bytes": size}


def test_to_the_cache(zoo, hub):
    root = zoo.folder / ".cache" / "jax-onnx-zoo"
    path = root / "checkpoints" / f"google--{TITLE}" / COMMIT / NAME
    expected = [record(path, f"the hub ({REPOSITORY}/{NAME})", len(CONTENT))]
    assert told(zoo, MODEL, "--dry-run") == expected
    assert not root.exists()
    assert not hub.gets(f"{REPOSITORY}@{COMMIT}/{NAME}")
    assert told(zoo, MODEL) == expected
    assert path.read_bytes() == CONTENT
    count = len(hub.asked)
    there = [record(path, f"{root} ({REPOSITORY}/{NAME})", 0)]
    assert told(zoo, MODEL) == told(zoo, MODEL, "--dry-run") == there
    line = f"{MODEL}: {path} (already there)\n"
    assert zoo("weights", "download", MODEL, MODEL) == 2 * line
    assert len(hub.asked) == count


@pytest.mark.sampled(2)
@pytest.mark.parametrize("from_cache", [False, True])
def test_to_a_folder(from_cache, zoo, hub):
    if from_cache:
        told(zoo, MODEL)
    cache = zoo.folder / ".cache" / "jax-onnx-zoo" / "checkpoints"
    kept = cache / f"google--{TITLE}" / COMMIT
    source = kept if from_cache else f"the hub ({REPOSITORY}/{NAME})"
    out = zoo.folder / "out"
    path = out / TITLE / NAME
    expected = [record(path, source, len(CONTENT))]
    assert told(zoo, MODEL, "--out", str(out), "--dry-run") == expected
    assert not out.exists()
    assert told(zoo, MODEL, "--out", str(out)) == expected
    assert path.read_bytes() == CONTENT
    assert cache.exists() == from_cache
    assert [item.name for item in out.rglob("*")] == [TITLE, NAME]
    assert told(zoo, MODEL, "--out", str(out), "--dry-run")[0]["bytes"] == 0
    # Who names that folder finds it there.
    found = told(zoo, MODEL, ZOO_WEIGHTS_DIR=str(out))
    assert found == [record(path.parent, out, 0)]
    again = zoo("weights", "download", MODEL, "--out", str(out))
    assert f"{MODEL}: {path} (" in again
    path.write_bytes(CONTENT[::-1])
    assert "is another file" in zoo("weights", "download", MODEL, "--out", str(out), code=2)
    assert path.read_bytes() == CONTENT[::-1]


def test_a_folder_is_copied_whole(zoo, hub):
    source = zoo.folder / "mine" / TITLE
    source.mkdir(parents=True)
    for name in (NAME, "config.json"):
        (source / name).write_bytes(CONTENT)
    own = {"ZOO_WEIGHTS_DIR": str(source.parent)}
    place = zoo.folder / "out" / TITLE
    assert told(zoo, MODEL, "--out", "out", **own) == [
        record(f"out/{TITLE}", source.parent, 2 * len(CONTENT))
    ]
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {
        NAME: CONTENT,
        "config.json": CONTENT,
    }
    assert told(zoo, MODEL, "--out", "out", **own)[0]["bytes"] == 0
    assert not hub.asked


def test_an_archive_is_known_by_its_name(zoo, hub):
    """Its folders on the hub do not matter in ours."""
    (archive,) = zoo_info("dinov3_vits16").mirrors
    hub.files[f"{archive.repository}@{archive.revision}/{archive.name}"] = CONTENT
    download = ("weights", "download", "dinov3_vits16", "--out", "out")
    # Nobody gets the copy of somebody else who has not asked for it.
    message = zoo(*download, code=2)
    assert "facebook/dinov3-vits16-pretrain-lvd1689m/model.safetensors was not" in message
    assert "`zoo info dinov3_vits16` says where to get it" in message
    assert not any("poiretclement" in request for request, _ in hub.requests)
    assert "was recorded" in zoo(*download, "--mirror", code=2)
    out = zoo.folder / "out" / archive.name.split("/")[-1]
    out.parent.mkdir()
    out.write_bytes(CONTENT)
    found = told(zoo, "dinov3_vits16", ZOO_WEIGHTS_DIR="out")
    assert [item["path"] for item in found] == [f"out/{out.name}"]


def test_what_there_is_not(zoo, hub):
    hub.status = 401
    message = zoo("weights", "download", MODEL, "--dry-run", code=2)
    assert "refuses it (401)" in message
    assert "--weights PATH" in message
    assert "did you mean" in zoo("weights", "download", "siglip2_vitb16_225", code=2)
    # The package brings this one along.
    assert told(zoo, "vit_digits")[0]["bytes"] == 0
