"""`zoo export`: the files, their manifests, and `zoo verify` on them.

Exports that are stopped are in tests/test_killed.py.
"""

import json
import os

import pytest
from safetensors.numpy import load_file, save_file

from weights.files import sha256
from zoo import info
from zoo.architectures.entry import DATA
from zoo.export.describe import describe_sizes
from zoo.export.request import Signature

NAME = "vit_digits-opset23.onnx"


def test_exports_of_a_named_checkpoint(zoo):
    """The checkpoint is exported at two opsets. `zoo verify` passes with this checkpoint only."""
    arrays = load_file(DATA / "vit_digits.safetensors")
    save_file(arrays | {"cls_token": arrays["cls_token"] + 1}, "mine.safetensors")
    command = ("export", "vit_digits", "--weights", "mine.safetensors", "--out", "made")
    manifests = zoo.json(*command, "--opset", 23, "--opset", 18)
    umask = os.umask(0)
    os.umask(umask)
    names = [f"vit_digits-opset{n}.{e}" for n in (18, 23) for e in ("manifest.json", "onnx")]
    assert sorted(path.name for path in (zoo.here / "made").iterdir()) == names
    for path in (zoo.here / "made").iterdir():
        assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    for record, name in zip(manifests, ("fused", "fp32"), strict=True):
        assert list(record["variants"]) == [name]
        assert record["variants"][name]["near_misses"] == []
        verification = record["variants"][name]["verification"]
        assert verification["passed"]
        assert {row["batch"] for row in verification["comparisons"]} == {1, 3}
        outputs = {row["output"] for row in verification["comparisons"]}
        assert outputs == {"last_hidden_state", "pooler_output", "logits"}
        assert all(0 < row["max_abs"] <= 1e-4 for row in verification["comparisons"])
    record, path = manifests[0], zoo.here / "made" / NAME
    assert json.loads(path.with_suffix(".manifest.json").read_text()) == record
    file = {"name": NAME, "bytes": path.stat().st_size, "sha256": sha256(path)}
    assert record["files"] == [file]
    assert record["model"] == "vit_digits" and record["complete"]
    variant = record["variants"]["fused"]
    assert (variant["files"], variant["opset"], variant["ir_version"]) == ([NAME], 23, 10)
    assert [(output["name"], output["shape"]) for output in variant["outputs"]] == [
        ("last_hidden_state", ["batch_size", 21, 64]),
        ("pooler_output", ["batch_size", 64]),
        ("logits", ["batch_size", 10]),
    ]
    assert record["weights"] == {
        "kind": "meta",
        "name": "mine.safetensors",
        "sha256": sha256(zoo.here / "mine.safetensors"),
        "rope_periods": "file",
        "is_published_file": False,
        "is_embedded_file": False,
    }
    assert variant["nodes"] == sum(variant["histogram"].values())
    assert str(zoo.here) not in json.dumps(record)
    assert "passed" in zoo("verify", path, "--weights", "mine.safetensors").out
    (zoo.here / "mine.safetensors").rename("other.safetensors")
    assert "mine.safetensors" in zoo("verify", path, code=2).error
    assert "other weights" in zoo("verify", path, "--weights", "random", code=2).error


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("tips_vits14_hr_text", "none: a text is 64 tokens, a shorter one is padded"),
        ("clip_vitb32_text", "none: a text is 77 tokens, or fewer"),
        ("tips_vits14_hr_dual", "any height and width"),
        ("dinov3_vits16", "any height and width from 16 on"),
    ],
)
def test_descriptions_of_sizes(name, beginning):
    """A network of pictures and texts has the sizes of its pictures."""
    assert describe_sizes(info(name), Signature(None, None)).startswith(beginning)


def test_a_file_with_open_sizes(zoo):
    """The sizes are open and hidden states are maps. It is verified at five sizes."""
    options = ("--size", "dynamic", "--layers", "2,4", "--reshape")
    (record,) = zoo.json("export", "vit_digits", *options)
    variant = record["variants"]["fused"]
    assert (record["size"], record["layers"], record["reshape"]) == (None, [2, 4], True)
    assert variant["inputs"][0]["shape"] == ["batch_size", 3, "height", "width"]
    hidden = [output for output in variant["outputs"] if "hidden_state_" in output["name"]]
    assert [output["name"] for output in hidden] == ["hidden_state_2", "hidden_state_4"]
    assert hidden[0]["shape"] == ["batch_size", 64, "grid_height", "grid_width"]
    assert "multiples of 2" in record["sizes"]
    sizes = {(item["height"], item["width"]) for item in variant["verification"]["comparisons"]}
    assert len(sizes) == 5
    assert min(sizes) < (8, 8) < max(sizes)
    assert any(height != width for height, width in sizes)
    assert "passed" in zoo("verify", NAME).out
