"""What `zoo verify FILE` takes from a manifest, and what it refuses."""

import json

import pytest

import zoo
from tests import folders
from weights.errors import WeightsNotFound
from zoo.artifacts.audit.exported import find_variant, read_choice, read_signature
from zoo.checkpoints.choice import Seed
from zoo.cli.console import Lines
from zoo.errors import BadFile
from zoo.export.request import Signature
from zoo.manifest.read import parse

ENTRY = zoo.info(folders.MODEL)
FILES = {"a.onnx": b"network", "a.onnx_data": b"tensors"}
VARIANT = folders.manifest(folders.contents())["variants"]["fp32"] | {"files": list(FILES)}
PIXELS = {"name": "pixel_values", "dtype": "float32", "shape": ["batch_size", 3, 32, 48]}


def described(inputs=(PIXELS,), **changes):
    """The manifest of one file with a sidecar, and its variant."""
    variant = VARIANT | {"inputs": list(inputs)}
    content = folders.manifest(FILES, variants={"fp32": variant}, **changes)
    manifest = parse(json.dumps(content).encode(), "the manifest")
    return manifest, manifest.only


def test_the_signature():
    assert read_signature(*described(), ENTRY) == Signature((32, 48), None)
    fixed = described([PIXELS | {"shape": [2, 3, "h", "w"]}], size=None, layers=[1, 12])
    assert read_signature(*fixed, ENTRY) == Signature(None, 2, (1, 12))
    images = described(input="uint8", reshape=True, layers=[3])
    assert read_signature(*images, ENTRY) == Signature((32, 48), None, (3,), True, "uint8")


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": []},
        {"inputs": [PIXELS | {"shape": []}]},
        {"inputs": [PIXELS | {"shape": [0, 3]}]},
        {"size": [33, 48]},
        {"layers": [0]},
        {"layers": [13]},
    ],
)
def test_what_the_model_cannot_do(changes):
    with pytest.raises(BadFile, match="describes no export of dinov3_vits16"):
        read_signature(*described(**changes), ENTRY)


def test_files(tmp_path):
    manifest, variant = described()
    folders.write(tmp_path, FILES)
    assert find_variant(tmp_path / "a.onnx", manifest) is variant
    with pytest.raises(BadFile, match="keep the names"):
        find_variant(tmp_path / "b.onnx", manifest)
    (tmp_path / "a.onnx_data").write_bytes(b"Tensors")
    with pytest.raises(BadFile, match=r"a\.onnx_data has changed"):
        find_variant(tmp_path / "a.onnx", manifest)
    (tmp_path / "a.onnx_data").unlink()
    with pytest.raises(BadFile, match=r"a\.onnx_data is missing"):
        find_variant(tmp_path / "a.onnx", manifest)


def test_weights():
    random, _ = described(weights={"kind": "random", "seed": 7})
    assert read_choice(None, random, ENTRY, Lines()) == Seed(7)
    assert read_choice("random", random, ENTRY, Lines()) == Seed(0)
    own, _ = described(weights={"kind": "own"})
    with pytest.raises(BadFile, match="names no checkpoint"):
        read_choice(None, own, ENTRY, Lines())
    named, _ = described(weights={"kind": "meta", "name": "nowhere.pth", "sha256": "0" * 64})
    with pytest.raises(WeightsNotFound, match=r"no nowhere\.pth in"):
        read_choice(None, named, ENTRY, Lines())
