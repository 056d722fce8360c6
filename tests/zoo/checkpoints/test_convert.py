"""`zoo weights convert`, `inspect` and `zoo golden`: what they write and what they refuse."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import GOLDEN
from tests.formats import NANO
from tests.loading import load
from tests.seeded import as_file, state_of
from tests.synthetic import digest, save_pth
from weights import open_checkpoint, random_weights
from weights.namings.meta_names import DINOV3_VIT
from weights.progress import Quiet
from weights.writers.pth_writer import write_pth
from zoo.files.golden_file import read_golden

MODEL = ("--model", "dinov3_vits16")


def test_torch_begins_every_storage_at_a_multiple_of_64(tmp_path):
    shapes = {f"t{i}": shape for i, shape in enumerate(((3,), (2, 5), (1,), ()))}
    state = {key: np.ones(shape, np.float32) for key, shape in shapes.items()}
    write_pth(tmp_path / "w.pth", as_file(state), Quiet())
    with zipfile.ZipFile(tmp_path / "w.pth") as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            if "/data/" in info.filename:
                raw = (tmp_path / "w.pth").read_bytes()[info.header_offset :]
                names = int.from_bytes(raw[26:28], "little") + int.from_bytes(raw[28:30], "little")
                assert (info.header_offset + 30 + names) % 64 == 0
    assert torch.load(tmp_path / "w.pth", weights_only=True)["t3"].shape == ()


def test_force_replaces_what_the_command_writes_and_nothing_else(vits16, zoo):
    folder, convert = zoo.here / "home", ("weights", "convert", vits16.path)
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "cat.png").write_bytes(b"mine")
    (folder / "config.json").write_text("{}")
    assert "dinov3_vits16 for" in zoo(*convert, folder, "--force", *MODEL).out
    told = zoo("weights", "inspect", folder).out
    for words in ("Hugging Face transformers", "dinov3_vits16", "safetensors", "computed"):
        assert words in told
    assert "rounded to bfloat16" in zoo("weights", "convert", folder, "a.pth", *MODEL).out
    assert "--force" in zoo("weights", "convert", folder, "a.pth", *MODEL, code=2).error
    assert (folder / "photos" / "cat.png").read_bytes() == b"mine"
    names = {path.name for path in folder.iterdir()}
    assert names == {"photos", "config.json", "preprocessor_config.json", "model.safetensors"}
    assert json.loads((folder / "config.json").read_text())["hidden_size"] == 384
    # A folder is never replaced by a file, nor mixed with a checkpoint in several files.
    (zoo.here / "w.pth").mkdir()
    assert "w.pth is a folder" in zoo(*convert, "w.pth", "--force", code=2).error
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "in several files" in zoo(*convert, folder, "--force", *MODEL, code=2).error


def test_wrong_use(vits16, zoo):
    save_pth(zoo.here / "small.pth", state_of(NANO, DINOV3_VIT, 1))
    for arguments, message in (
        ((vits16.path, "a.txt"), "does not say which format to write"),
        (("small.pth", "a.pth"), "fits no model of the zoo"),
        ((vits16.path, "a.pth", "--model", "dinov3_vitb16"), "not dinov3_vitb16"),
        # EUPE's file of this size has the same keys and shapes, and another licence.
        ((vits16.path, "a.pth"), "fits dinov3_vits16 and eupe_vits16: say which"),
    ):
        assert message in zoo("weights", "convert", *arguments, code=2).error
    assert [path.name for path in zoo.here.iterdir()] == ["small.pth"]


def test_a_seeded_checkpoint_holds_the_random_weights_of_its_seed(vits16, zoo):
    zoo("golden", "make", "dinov3_vits16", "w.pth", "--seed", 3)
    got = torch.load("w.pth", weights_only=True)
    assert {key: tuple(value.shape) for key, value in got.items()} == {
        key: value.shape for key, value in vits16.state.items()
    }
    values = load(zoo.here / "w.pth", vits16.shapes).arrays
    assert digest(values) == digest(random_weights(vits16.shapes, 3).arrays)
    assert open_checkpoint(zoo.here / "w.pth").tensors["rope_embed.periods"].dtype == "bfloat16"


@pytest.mark.full
def test_transformers_as_reference(vits16, zoo):
    make = ("golden", "make", "dinov3_vits16", "a.safetensors", "--weights", vits16.path)
    zoo(*make)
    made = read_golden(Path("a.safetensors"))
    assert made.fed.shape == (1, 3, 224, 224)
    assert made.outputs["last_hidden_state"].shape == (1, 201, 384)
    assert made.reference.startswith("transformers ")
    assert "FAILED" not in zoo("golden", "check", "a.safetensors", "--weights", vits16.path).out
    zoo("export", "dinov3_vits16", "--weights", vits16.path, "--no-verify", "--out", "a.onnx")
    assert "FAILED" not in zoo("golden", "check", "a.safetensors", "--onnx", "a.onnx").out
    assert "exists already" in zoo(*make, code=2).error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("make", "dinov3_vits16", "a.safetensors"), "--weights"),
        (("check", "nothing.safetensors", "--weights", "w.pth"), "is missing"),
        (("check", GOLDEN / "dinov3_vits16.npz", "--weights", "w"), "no sound"),
        (("check", GOLDEN / "equimo_v1_dinov3_nano.tar.lz4", "--onnx", "w"), "no sound"),
    ],
)
def test_wrong_use_of_golden(arguments, message, zoo):
    assert message in zoo("golden", *arguments, code=2).error
    assert list(zoo.here.iterdir()) == []
