"""`--json` of the commands that are tested nowhere else: one document, and nothing beside it."""

import json

import numpy as np

from tests import folders
from tests.command import Command
from tests.hub_pushes import TOKEN, Pushes, receiving
from weights import open_checkpoint


def test_an_export_its_check_and_its_speed(zoo):
    (manifest,) = json.loads(zoo("export", "vit_digits", "--json").out)
    file = manifest["files"][0]["name"]
    assert json.loads(zoo("verify", file, "--json").out)["passed"]
    (row,) = json.loads(zoo("bench", file, "--rounds", 2, "--json").out)["files"]
    assert row["name"] == file


def test_a_build(zoo):
    command = ("build", "vit_digits", "--variant", "fp32", "--out", "o", "--json")
    (outcome,) = json.loads(zoo(*command).out)
    assert (outcome["model"], outcome["built"]) == ("vit_digits", ["fp32"])
    assert json.loads(zoo("verify", "o/vit_digits", "--json").out)["passed"]


def test_checkpoints(vits16, zoo, tmp_path):
    found = json.loads(zoo("weights", "inspect", vits16.path, "--json").out)
    assert set(found["models"]) == {"dinov3_vits16", "eupe_vits16"}
    tensors = open_checkpoint(vits16.path).tensors
    assert found["checkpoint"]["tensors"] == {
        key: {"dtype": tensor.dtype, "shape": list(tensor.shape)} for key, tensor in tensors.items()
    }
    command = ("weights", "convert", vits16.path, "a.pth", "--model", "dinov3_vits16", "--json")
    done = json.loads(zoo(*command).out)
    assert (done["target"], done["model"], done["naming"]) == ("a.pth", "dinov3_vits16", "meta")
    assert (tmp_path / "here" / "a.pth").exists()


def test_golden(zoo, tmp_path):
    """The vocabulary of --weights is the same as everywhere."""
    outputs = {"last_hidden_state": np.zeros((1, 21, 64)), "pooler_output": np.zeros((1, 64))}
    np.savez(tmp_path / "here" / "reference.npz", **outputs)
    make = ("golden", "make", "vit_digits", "g.npz", "--weights", "auto", "--json")
    made = json.loads(zoo(*make, "--reference", "reference.npz").out)
    assert made == {"file": "g.npz", "model": "vit_digits", "reference": "reference.npz"}
    check = ("golden", "check", "g.npz", "--weights", "random:1", "--json")
    checked = json.loads(zoo(*check, code=1).out)
    assert not checked["passed"]
    assert [row["output"] for row in checked["comparisons"]] == list(outputs)
    assert "FAILED" in zoo(*check[:-1], code=1).out


def test_a_push(tmp_path):
    folders.write(tmp_path / "built", folders.published(folders.contents()))
    with receiving(Pushes()) as hub:
        zoo = Command(tmp_path, hub.url)
        settings = {"HF_HUB_DISABLE_XET": "1", "HF_TOKEN": TOKEN}
        push = ("push", "built", "--repo", "somebody/network", "--json")
        planned = json.loads(zoo(*push, "--dry-run", **settings))
        assert planned["committed"] is None
        assert {row["change"] for row in planned["rows"]} == {"new"}
        assert not hub.repositories
        assert json.loads(zoo(*push, **settings))["committed"].startswith("http")
        assert hub.repositories
