"""`--dry-run`: what is foretold is what then happens, and nothing is written."""

import json

import pytest

from tests import folders
from tests.command import Command
from tests.hub_server import COMMIT, Hub, serving

VARIANTS = ("fp32", "fused", "fp16", "bf16", "int8", "q4", "q4f16")


@pytest.fixture(autouse=True)
def nothing_was_written(tmp_path):
    yield
    assert not [path for path in (tmp_path / "here").rglob("*") if path.is_file()]


def foretold(zoo, *arguments, code=0):
    return json.loads(zoo(*arguments, "--dry-run", "--json", code=code).out)


def test_an_export(zoo):
    (found,) = foretold(zoo, "export", "dinov3_vits16", "--weights", "random:3", "--opset", "18,23")
    assert found == {
        "model": "dinov3_vits16",
        "weights": "random (seed 3)",
        "files": dict.fromkeys(
            ("dinov3_vits16-opset18.onnx", "dinov3_vits16-opset23.onnx"), 4 * 21_601_152
        ),
        "error": None,
    }
    told = zoo("export", "dinov3_vits16", "--opset", 18, 23, "--dry-run").out
    assert "172.8" in told
    assert "weights: to be downloaded, facebook/dinov3-vits16-" in told
    assert "nothing was written" in told


def test_a_large_model_has_a_sidecar(zoo):
    (found,) = foretold(zoo, "export", "dinov3_vit7b16", "--weights", "random")
    assert found["files"] == {
        "dinov3_vit7b16-opset23.onnx": 0,
        "dinov3_vit7b16-opset23.onnx_data": 4 * 6_716_043_264,
    }


def test_weights_that_are_not_to_be_had(zoo, tmp_path):
    for arguments in (("vit5_small",), ("dinov3_vits16", "--offline")):
        said = zoo("export", *arguments, "--dry-run", code=2)
        assert said.out == ""
        assert "not on this machine" in said.err
    assert (
        "does not exist"
        in zoo("export", "vit_digits", "--weights", "no.pth", "--dry-run", code=2).err
    )
    one, other = foretold(zoo, "export", "vit5_small", "vit_digits", code=2)
    assert "not on this machine" in one["error"]
    assert other["error"] is None
    assert other["weights"].startswith("on this machine, ")


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ((), ("fp32", "fused", "fp16", "int8")),
        (("--variant", "all"), VARIANTS),
        (("--variant", "bf16,fp32"), ("fp32", "bf16")),
        (("--variant", "bf16", "--variant", "fp32"), ("fp32", "bf16")),
    ],
)
def test_a_build(asked, got, zoo, tmp_path):
    (found,) = foretold(zoo, "build", "vit_digits", *asked)
    folder = tmp_path / "here" / "artifacts" / "vit_digits" / "onnx"
    endings = {name: f"_{name}.onnx" for name in VARIANTS}
    endings |= {"fp32": ".onnx", "int8": "_quantized.onnx"}
    assert list(found["files"]) == [str(folder / f"model{endings[name]}") for name in got]
    bits = {"fp32": 32, "fused": 32, "fp16": 16, "bf16": 16, "int8": 8, "q4": 5, "q4f16": 4.5}
    assert list(found["files"].values()) == [round(168_586 * bits[name] / 8) for name in got]


def test_guesses_are_near(zoo, tmp_path):
    (found,) = foretold(zoo, "export", "vit_digits")
    try:
        zoo("export", "vit_digits", "--no-verify")
        for name, size in found["files"].items():
            assert (tmp_path / "here" / name).stat().st_size == pytest.approx(size, rel=0.1)
    finally:
        for path in (tmp_path / "here").iterdir():
            path.unlink()


def test_a_pull(tmp_path):
    files = folders.published(folders.contents())
    repository = f"somebody/{folders.MODEL}"
    named = {f"{repository}@{COMMIT}/{name}": data for name, data in files.items()}
    (tmp_path / "here").mkdir()
    with serving(Hub(named, branches={f"{repository}@main": [COMMIT]})) as hub:
        zoo = Command(tmp_path / "here", hub.url)
        arguments = ("pull", folders.MODEL, "--variant", "fp32,fp16", "--dry-run")
        found = json.loads(zoo(*arguments, "--json"))
        wanted = {*folders.COMMON, *folders.VARIANTS["fp32"], *folders.VARIANTS["fp16"]}
        assert {file["name"]: file["bytes"] for file in found["missing"]} == {
            name: len(files[name]) for name in wanted
        }
        assert found["bytes"] == sum(len(files[name]) for name in wanted)
        assert found["kept"] == 0
        told = zoo(*arguments)
        assert f"{found['bytes']:,}" in told
        assert "nothing was downloaded" in told
        assert not [request for request, _ in hub.asked if "manifest.json" not in request]
        assert not (tmp_path / "here" / folders.MODEL).exists()
        pulled = Command(tmp_path, hub.url)("pull", folders.MODEL, "--variant", "fp32", "--json")
        assert list(json.loads(pulled)["variants"]) == ["fp32"]
        again = json.loads(Command(tmp_path, hub.url)("pull", folders.MODEL, "--dry-run", "--json"))
        assert (again["missing"], again["bytes"]) == ([], 0)
        assert again["kept"] == json.loads(pulled)["brought"]
