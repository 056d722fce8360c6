"""Results of commands: documents of `--json`, dry runs, several models, checkpoints, references."""

import jax
import numpy as np
import pytest

from weights import open_checkpoint
from zoo import from_pretrained, preprocess
from zoo.images.photograph import photograph

NAME = "dinov3_vits16-opset23.onnx"
QUICK = ("--weights", "random", "--no-verify", "--size", 32)
VARIANTS = ("fp32", "fused", "fp16", "bf16", "int8", "q4", "q4f16")
BITS = {"fp32": 32, "fused": 32, "fp16": 16, "bf16": 16, "int8": 8, "q4": 5, "q4f16": 4.5}
ENDINGS = {name: f"_{name}.onnx" for name in VARIANTS}
ENDINGS |= {"fp32": ".onnx", "int8": "_quantized.onnx"}


def dry_run(zoo, *arguments, code=0):
    """Return the document of a dry run, which must write no file."""
    result = zoo.json(*arguments, "--dry-run", code=code)
    assert not [path for path in zoo.here.rglob("*") if path.is_file()]
    return result


def test_a_dry_run_of_exports(zoo):
    files = ("dinov3_vits16-opset18.onnx", NAME)
    for opsets in (("--opset", "18,23"), ("--opset", 18, 23), ("--opset", 18, "--opset", 23)):
        (result,) = dry_run(zoo, "export", "dinov3_vits16", "--weights", "random:3", *opsets)
        expected = {"model": "dinov3_vits16", "weights": "random (seed 3)", "error": None}
        assert result == expected | {"files": dict.fromkeys(files, 4 * 21_601_152)}
    printed = zoo("export", "dinov3_vits16", "--opset", 18, 23, "--dry-run").out
    assert "172.8" in printed and "nothing was written" in printed
    assert "weights: to be downloaded, facebook/dinov3-vits16-" in printed
    (large,) = dry_run(zoo, "export", "dinov3_vit7b16", "--weights", "random")
    name = "dinov3_vit7b16-opset23.onnx"
    assert large["files"] == {name: 0, f"{name}_data": 4 * 6_716_043_264}
    missing, available = dry_run(zoo, "export", "vit5_small", "vit_digits", code=2)
    assert "not on this machine" in missing["error"]
    assert available["error"] is None and available["weights"].startswith("on this machine, ")
    result = dry_run(zoo, "export", "--filter", "vit_d*,dinov3_vits16p*", "--weights", "random")
    assert [plan["model"] for plan in result] == ["dinov3_vits16plus", "vit_digits"]


@pytest.mark.parametrize(
    ("options", "variants"),
    [
        ((), ("fp32", "fused", "fp16", "int8")),
        (("--variant", "all"), VARIANTS),
        (("--variant", "bf16,q4", "--variant", "fp32"), ("fp32", "bf16", "q4")),
    ],
)
def test_a_dry_run_of_a_build(options, variants, zoo):
    (result,) = dry_run(zoo, "build", "vit_digits", *options)
    folder = zoo.here / "artifacts" / "vit_digits" / "onnx"
    sizes = {ENDINGS[name]: round(168_586 * BITS[name] / 8) for name in variants}
    assert result["files"] == {f"{folder}/model{end}": size for end, size in sizes.items()}


def test_several_models_in_one_run(zoo):
    """A model whose files cannot be written does not stop the others."""
    ((name, size),) = dry_run(zoo, "export", "vit_digits")[0]["files"].items()
    (zoo.here / NAME).touch()
    command = ("export", "dinov3_vits16", "vit_digits", *QUICK)
    printed = zoo(*command, code=2)
    assert "dinov3_vits16: dinov3_vits16-opset23.onnx exists already" in printed.out
    assert "2/2 vit_digits: " in printed.err
    assert (zoo.here / name).stat().st_size == pytest.approx(size, rel=0.1)
    outcomes = zoo.json(*command, "--force")
    assert [outcome["model"] for outcome in outcomes] == ["dinov3_vits16", "vit_digits"]
    assert [outcome["error"] for outcome in outcomes] == [None, None]
    assert outcomes[0]["manifests"][0]["variants"]["fused"]["opset"] == 23
    assert (zoo.here / NAME).stat().st_size > 80e6


def test_weights_inspect_and_convert(vits16, zoo):
    result = zoo.json("weights", "inspect", vits16.path)
    assert set(result["models"]) == {"dinov3_vits16", "eupe_vits16"}
    tensor_facts = result["checkpoint"]["tensors"].items()
    facts = {key: (facts["dtype"], *facts["shape"]) for key, facts in tensor_facts}
    tensors = open_checkpoint(vits16.path).tensors
    assert facts == {key: (tensor.dtype, *tensor.shape) for key, tensor in tensors.items()}
    converted = zoo.json("weights", "convert", vits16.path, "a.pth", "--model", "dinov3_vits16")
    assert (converted["target"], converted["model"], converted["naming"]) == (
        "a.pth",
        "dinov3_vits16",
        "meta",
    )
    assert (zoo.here / "a.pth").exists()


def test_golden_numbers_of_a_reference(zoo):
    """`zoo golden` reads a reference with Meta's names, and `zoo verify` compares with it."""
    photograph().resize((64, 48)).save("a.png")
    model = from_pretrained("vit_digits")
    tokens, pooled, *_ = jax.vmap(model)(preprocess("vit_digits", "a.png"))
    token_arrays = {"x_storage_tokens": tokens[:, 1:5], "x_norm_patchtokens": tokens[:, 5:]}
    np.savez("reference.npz", x_norm_clstoken=pooled, **token_arrays)
    command = ("golden", "vit_digits", "g.safetensors", "--weights", "auto")
    result = zoo.json(*command, "--image", "a.png", "--reference", "reference.npz")
    assert result == {"file": "g.safetensors", "model": "vit_digits", "reference": "reference.npz"}
    assert zoo.json("verify", "g.safetensors", "--weights", "auto")["passed"]
    np.savez("whole.npz", last_hidden_state=np.arange(3), pooler_output=np.arange(3))
    assert "in floats" in zoo(*command, "--force", "--reference", "whole.npz", code=2).error
    zoo("golden", "vit_digits", "other.pth", "--seed", 9)
    verification = zoo.json("verify", "g.safetensors", "--weights", "other.pth", code=1)
    assert not verification["passed"]
    outputs = [row["output"] for row in verification["comparisons"]]
    assert outputs == ["last_hidden_state", "pooler_output"]
    assert "FAILED" in zoo("verify", "g.safetensors", "--weights", "random", code=1).out
