"""Digests of exported files, compared with a record: the networks with embedded weights, and small
networks of each kind, in every precision."""

import json

import pytest

from tests.exports import EXPORTS, QUICK, RECORD, digests, made_with
from weights.files import sha256
from zoo import from_pretrained, to_onnx
from zoo.export.assemble.plan import VARIANTS

QUICK_NAMES = {export.name for export in QUICK}


@pytest.fixture(scope="module")
def recorded():
    """The recorded digests. The test is skipped if they are of other versions of libraries."""
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
def test_export_build_and_to_onnx_write_the_same_bytes(precision, opset, built, zoo):
    """`zoo export`, `zoo build` and `zoo.to_onnx` write the same file."""
    options = ("--precision", precision, "--opset", opset, "--size", "dynamic", "--no-verify")
    zoo("export", "vit_digits", *options, "--out", "alone.onnx")
    arguments = {"precision": precision, "opset": opset, "size": "dynamic", "verify": False}
    to_onnx(from_pretrained("vit_digits"), zoo.here / "held.onnx", **arguments)
    folder, _ = built
    in_folder = folder / VARIANTS[precision].path
    assert len({sha256(zoo.here / name) for name in ("alone.onnx", "held.onnx", in_folder)}) == 1
