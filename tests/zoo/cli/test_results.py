"""What commands print: one document with `--json`, what a dry run foretells, and who is served."""

import json
import sys

import numpy as np
import pytest

from tests.command import Command
from weights import open_checkpoint

NAME = "dinov3_vits16-opset23.onnx"
QUICK = ("--weights", "random", "--no-verify", "--size", 32)
VARIANTS = ("fp32", "fused", "fp16", "bf16", "int8", "q4", "q4f16")
BITS = {"fp32": 32, "fused": 32, "fp16": 16, "bf16": 16, "int8": 8, "q4": 5, "q4f16": 4.5}
ENDINGS = {name: f"_{name}.onnx" for name in VARIANTS}
ENDINGS |= {"fp32": ".onnx", "int8": "_quantized.onnx"}


def foretold(zoo, *arguments, code=0):
    found = zoo.json(*arguments, "--dry-run", code=code)
    assert not [path for path in zoo.here.rglob("*") if path.is_file()]
    return found


def test_a_dry_run_of_exports(zoo):
    files = ("dinov3_vits16-opset18.onnx", NAME)
    for opsets in (("--opset", "18,23"), ("--opset", 18, 23), ("--opset", 18, "--opset", 23)):
        (found,) = foretold(zoo, "export", "dinov3_vits16", "--weights", "random:3", *opsets)
        assert found == {
            "model": "dinov3_vits16",
            "weights": "random (seed 3)",
            "files": dict.fromkeys(files, 4 * 21_601_152),
            "error": None,
        }
    told = zoo("export", "dinov3_vits16", "--opset", 18, 23, "--dry-run").out
    assert "172.8" in told and "nothing was written" in told
    assert "weights: to be downloaded, facebook/dinov3-vits16-" in told
    (large,) = foretold(zoo, "export", "dinov3_vit7b16", "--weights", "random")
    assert large["files"] == {
        "dinov3_vit7b16-opset23.onnx": 0,
        "dinov3_vit7b16-opset23.onnx_data": 4 * 6_716_043_264,
    }
    one, other = foretold(zoo, "export", "vit5_small", "vit_digits", code=2)
    assert "not on this machine" in one["error"]
    assert other["error"] is None and other["weights"].startswith("on this machine, ")


@pytest.mark.parametrize("all", [(), ("--all",)], ids=["alone", "with --all"])
def test_a_filter_is_enough(all, zoo):
    found = foretold(zoo, "export", *all, "--filter", "vit_d*,dinov3_vits16p*", *QUICK)
    assert [each["model"] for each in found] == ["dinov3_vits16plus", "vit_digits"]


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ((), ("fp32", "fused", "fp16", "int8")),
        (("--variant", "all"), VARIANTS),
        (("--variant", "bf16,fp32"), ("fp32", "bf16")),
        (("--variant", "bf16", "--variant", "fp32"), ("fp32", "bf16")),
    ],
)
def test_a_dry_run_of_a_build(asked, got, zoo):
    (found,) = foretold(zoo, "build", "vit_digits", *asked)
    folder = zoo.here / "artifacts" / "vit_digits" / "onnx"
    assert list(found["files"]) == [str(folder / f"model{ENDINGS[name]}") for name in got]
    assert list(found["files"].values()) == [round(168_586 * BITS[name] / 8) for name in got]


def test_an_export_its_check_and_its_speed(zoo):
    (planned,) = foretold(zoo, "export", "vit_digits")
    (manifest,) = zoo.json("export", "vit_digits", "--size", 8)
    (file,) = manifest["files"]
    assert file["name"] == "vit_digits-opset23.onnx"
    assert file["bytes"] == pytest.approx(planned["files"][file["name"]], rel=0.1)
    assert zoo.json("verify", file["name"])["passed"]
    (row,) = zoo.json("bench", file["name"], "--rounds", 2)["files"]
    assert row["name"] == file["name"]


def test_several_models_in_one_run(zoo):
    """One that cannot be written does not keep the others from being written."""
    (zoo.here / NAME).touch()
    command = ("export", "dinov3_vits16", "vit_digits", *QUICK)
    said = zoo(*command, code=2)
    assert "dinov3_vits16: dinov3_vits16-opset23.onnx exists already" in said.out
    assert (zoo.here / "vit_digits-opset23.onnx").stat().st_size > 600e3
    outcomes = zoo.json(*command, "--force")
    assert [outcome["model"] for outcome in outcomes] == ["dinov3_vits16", "vit_digits"]
    assert [outcome["error"] for outcome in outcomes] == [None, None]
    assert outcomes[0]["manifests"][0]["variants"]["fused"]["opset"] == 23
    assert (zoo.here / NAME).stat().st_size > 80e6


def test_the_module_without_a_model(tmp_path):
    """`python -m zoo.export`: a trained model and a large one, neither of which needs a network."""
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


def test_checkpoints(vits16, zoo):
    found = zoo.json("weights", "inspect", vits16.path)
    assert set(found["models"]) == {"dinov3_vits16", "eupe_vits16"}
    tensors = open_checkpoint(vits16.path).tensors
    assert found["checkpoint"]["tensors"] == {
        key: {"dtype": tensor.dtype, "shape": list(tensor.shape)} for key, tensor in tensors.items()
    }
    done = zoo.json("weights", "convert", vits16.path, "a.pth", "--model", "dinov3_vits16")
    assert (done["target"], done["model"], done["naming"]) == ("a.pth", "dinov3_vits16", "meta")
    assert (zoo.here / "a.pth").exists()


def test_golden(zoo):
    """The vocabulary of --weights is the same as everywhere."""
    outputs = {"last_hidden_state": np.zeros((1, 21, 64)), "pooler_output": np.zeros((1, 64))}
    np.savez(zoo.here / "reference.npz", **outputs)
    make = ("golden", "make", "vit_digits", "g.safetensors", "--weights", "auto")
    made = zoo.json(*make, "--reference", "reference.npz")
    assert made == {"file": "g.safetensors", "model": "vit_digits", "reference": "reference.npz"}
    check = ("golden", "check", "g.safetensors", "--weights", "random:1")
    checked = zoo.json(*check, code=1)
    assert not checked["passed"]
    assert [row["output"] for row in checked["comparisons"]] == list(outputs)
    assert "FAILED" in zoo(*check, code=1).out
