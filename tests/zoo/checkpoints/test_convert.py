"""The commands `zoo weights convert`, `inspect` and `zoo golden`: what they write and refuse."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.synthetic import save_pth
from zoo.architectures.entry import DATA
from zoo.common.golden_file import read_golden

MODEL = ("--model", "dinov3_vits16")


def test_force_replaces_what_the_command_writes_and_nothing_else(vits16, zoo):
    folder, convert = zoo.here / "home", ("weights", "convert", vits16.path)
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "cat.png").write_bytes(b"mine")
    (folder / "config.json").write_text("{}")
    assert "dinov3_vits16 for" in zoo(*convert, folder, "--force", *MODEL).out
    printed = zoo("weights", "inspect", folder).out
    for words in ("Hugging Face transformers", "dinov3_vits16", "safetensors", "computed"):
        assert words in printed
    assert "rounded to bfloat16" in zoo("weights", "convert", folder, "a.pth", *MODEL).out
    assert "--force" in zoo("weights", "convert", folder, "a.pth", *MODEL, code=2).error
    assert (folder / "photos" / "cat.png").read_bytes() == b"mine"
    names = {path.name for path in folder.iterdir()}
    assert names == {"photos", "config.json", "preprocessor_config.json", "model.safetensors"}
    assert json.loads((folder / "config.json").read_text())["hidden_size"] == 384
    # The command never replaces a folder by a file. It also never adds a file to a folder that
    # has a checkpoint in several files.
    (zoo.here / "w.pth").mkdir()
    assert "w.pth is a folder" in zoo(*convert, "w.pth", "--force", code=2).error
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "in several files" in zoo(*convert, folder, "--force", *MODEL, code=2).error


def test_wrong_arguments_are_refused(vits16, zoo):
    save_pth(zoo.here / "small.pth", {"layer.weight": np.ones((3, 4), np.float32)})
    (zoo.here / "no.safetensors").write_bytes(b"no")
    convert = ("weights", "convert")
    for arguments, message in (
        ((*convert, vits16.path, "a.txt"), "does not say which format to write"),
        ((*convert, "small.pth", "a.pth"), "holds no network of an architecture of the zoo"),
        ((*convert, vits16.path, "a.pth", "--model", "dinov3_vitb16"), "not like dinov3_vitb16"),
        # EUPE's file of this size has the same keys and shapes, but another licence.
        ((*convert, vits16.path, "a.pth"), "may be of dinov3_vits16 or eupe_vits16"),
        (("golden", "dinov3_vits16", "a.safetensors"), "--weights"),
        (("verify", "nothing.safetensors", "--weights", "w.pth"), "does not exist"),
        (("verify", "no.safetensors", "--onnx", "w"), "not a valid"),
        (("verify", "no.safetensors", "--plot", "a.png"), "leave it out"),
        (("verify", "small.pth", "--onnx", "w"), "golden numbers"),
    ):
        assert message in zoo(*arguments, code=2).error
    assert sorted(path.name for path in zoo.here.iterdir()) == ["no.safetensors", "small.pth"]


def test_a_text_tower_replaces_the_files_of_a_folder(zoo):
    """A network without pictures has no settings of an image processor."""
    folder, source = zoo.here / "home", DATA / "siglip_digits.safetensors"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    printed = zoo(
        *("weights", "convert", source, folder), *("--model", "siglip_digits_text", "--force")
    )
    assert "text_model" in printed.err and "vision_model.encoder.*" in printed.err
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert json.loads((folder / "config.json").read_text())["hidden_size"]


@pytest.mark.full
def test_transformers_as_reference(vits16, zoo):
    command = ("golden", "dinov3_vits16", "a.safetensors", "--weights", vits16.path)
    zoo(*command)
    golden = read_golden(Path("a.safetensors"))
    assert golden.feeds["pixel_values"].shape == (1, 3, 224, 224)
    assert golden.outputs["last_hidden_state"].shape == (1, 201, 384)
    assert golden.reference.startswith("transformers ")
    assert "FAILED" not in zoo("verify", "a.safetensors", "--weights", vits16.path).out
    zoo("export", "dinov3_vits16", "--weights", vits16.path, "--no-verify", "--out", "a.onnx")
    assert "FAILED" not in zoo("verify", "a.safetensors", "--onnx", "a.onnx").out
    assert "exists already" in zoo(*command, code=2).error
