"""Exports have the bytes that they had before: of the networks with embedded weights, and of each
kind with few blocks, in every precision."""

import json

import pytest

from tests.exports import EXPORTS, QUICK, RECORD, digests, made_with
from weights.files import sha256
from zoo import from_pretrained, to_onnx
from zoo.export.assemble.plan import VARIANTS

QUICK_NAMES = {export.name for export in QUICK}


@pytest.fixture(scope="module")
def recorded():
    record = json.loads(RECORD.read_text())
    if record["made_with"] != made_with():
        pytest.skip(f"recorded with {record['made_with']}, and this is {made_with()}")
    return record["exports"]


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK_NAMES else pytest.param(n, marks=pytest.mark.full) for n in EXPORTS],
)
def test_bytes_are_those_of_the_record(name, recorded):
    assert digests(EXPORTS[name]) == recorded[name]


@pytest.mark.each()
@pytest.mark.parametrize(("precision", "opset"), [("fp32", 18), ("fp16", 18), ("int8", 23)])
def test_a_file_a_folder_and_to_onnx_have_the_same_bytes(precision, opset, built, zoo):
    """They differ in their plans alone."""
    options = ("--precision", precision, "--opset", opset, "--size", "dynamic", "--no-verify")
    zoo("export", "vit_digits", *options, "--out", "alone.onnx")
    how = {"precision": precision, "opset": opset, "size": "dynamic", "verify": False}
    to_onnx(from_pretrained("vit_digits"), zoo.here / "held.onnx", **how)
    folder, _ = built
    in_folder = folder / VARIANTS[precision].path
    assert len({sha256(zoo.here / name) for name in ("alone.onnx", "held.onnx", in_folder)}) == 1
