"""`zoo export` and `python -m zoo.export`: what may be asked for, and for how many models."""

import json
import sys

import pytest

from tests.command import Command
from zoo.cli.console import call
from zoo.cli.export import app as alone

NAME = "dinov3_vits16-opset23.onnx"
QUICK = ("--weights", "random", "--no-verify", "--size", 32)

WRONG_USE = {
    "unknown model": (["dinov3_vits61"], "did you mean dinov3_vits16"),
    "opset too low": (["dinov3_vits16", "--opset", "16"], "17 to 26"),
    "one of several too low": (["dinov3_vits16", "--opset", "18,16"], "17 to 26"),
    "opset no number": (["dinov3_vits16", "--opset", "x"], "--opset"),
    "size": (["dinov3_vits16", "--size", "225"], "multiples of its patch size, 16"),
    "batch": (["dinov3_vits16", "--batch", "0"], "positive number"),
    "seed": (["dinov3_vits16", "--weights", "random:x"], "no seed"),
    "layout": (["dinov3_vits16", "--attention-layout", "5d"], "--attention-layout"),
    "precision": (["dinov3_vits16", "--precision", "fp8"], "precision"),
    "no weights": (["dinov3_vits16", "--offline"], "`zoo info dinov3_vits16` says where to get it"),
    "missing file": (["dinov3_vits16", "--weights", "no.pth"], "does not exist"),
    "unknown option": (["dinov3_vits16", "--frobnicate"], "--frobnicate"),
    "no model": (["--weights", "random"], "none was named"),
    "one name for two": (["--out", "a.onnx"], "name a folder"),
    "a model and all": (["dinov3_vits16", "--all"], "name models, or ask for all"),
    "a model and a filter": (["dinov3_vits16", "--filter", "*"], "name models, or ask for all"),
    "no model fits": (["--filter", "resnet*"], "no model fits"),
    "one name for all": (["--all", "--weights", "random", "--out", "a.onnx"], "name a folder"),
    "layers": (["dinov3_vits16", "--layers", "13"], "layers 1 to 12"),
    "reshape": (["dinov3_vits16", "--reshape"], "say of which layers"),
}


@pytest.mark.parametrize("program", ["zoo export", "zoo.export"])
@pytest.mark.parametrize(("arguments", "message"), WRONG_USE.values(), ids=WRONG_USE)
def test_wrong_use(program, arguments, message, zoo, tmp_path, capsys):
    if program == "zoo export":
        said = zoo("export", *arguments, code=2)
        out, err = said.out, said.err
    else:
        assert call(alone, arguments) == 2
        out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert list((tmp_path / "here").iterdir()) == []


def test_several_models_in_one_run(zoo, tmp_path):
    """One that cannot be written does not keep the others from being written."""
    (tmp_path / "here" / NAME).touch()
    command = ("export", "dinov3_vits16", "vit_digits", *QUICK)
    said = zoo(*command, code=2)
    assert "dinov3_vits16: dinov3_vits16-opset23.onnx exists already" in said.out
    assert (tmp_path / "here" / "vit_digits-opset23.onnx").stat().st_size > 600e3
    outcomes = json.loads(zoo(*command, "--force", "--json").out)
    assert [outcome["model"] for outcome in outcomes] == ["dinov3_vits16", "vit_digits"]
    assert [outcome["error"] for outcome in outcomes] == [None, None]
    assert outcomes[0]["manifests"][0]["variants"]["fused"]["opset"] == 23
    assert (tmp_path / "here" / NAME).stat().st_size > 80e6


@pytest.mark.parametrize("all", [(), ("--all",)], ids=["alone", "with --all"])
def test_a_filter_is_enough(all, zoo):
    found = json.loads(
        zoo("export", *all, "--filter", "vit_d*,dinov3_vits16p*", *QUICK, "--dry-run", "--json").out
    )
    assert [each["model"] for each in found] == ["dinov3_vits16plus", "vit_digits"]


@pytest.mark.parametrize(
    "opsets", [("--opset", 18, 23), ("--opset", "18,23"), ("--opset", 18, "--opset", 23)]
)
def test_opsets_through_the_command(opsets, zoo):
    (found,) = json.loads(zoo("export", "vit_digits", *opsets, "--dry-run", "--json").out)
    assert list(found["files"]) == ["vit_digits-opset18.onnx", "vit_digits-opset23.onnx"]


def test_without_a_model(tmp_path):
    """A trained model and a large one, neither of which needs a network."""
    program = [sys.executable, "-m", "zoo.export"]
    process = Command(tmp_path).start("--no-verify", "--opset", "23", program=program)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "vit_digits: weights: vit_digits.safetensors" in out
    assert "vit_digits: fused: 4 Attention, " in out
    assert "dinov3_vits16: weights: random (seed 0)" in out
    records = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json"))]
    assert [record["model"] for record in records] == ["dinov3_vits16", "vit_digits"]
    assert [record["weights"]["kind"] for record in records] == ["random", "meta"]


def test_zoo_export_is_the_same_command(zoo, tmp_path):
    zoo("export", "vit_digits", "--no-verify")
    assert (tmp_path / "here" / "vit_digits-opset23.onnx").exists()
