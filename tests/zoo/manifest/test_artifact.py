"""Manifests of built folders: what is read from them, and what is not believed."""

import hashlib
import json

import pytest

from tests import folders
from zoo.errors import BadFile
from zoo.manifest.read import parse

FILES = folders.contents()
LARGE = "onnx/model_fp16.onnx_data"

FILE = {"name": "a.onnx", "bytes": 1, "sha256": "0" * 64}
HOW = folders.manifest(FILES)["preprocessing"]
VARIANT = folders.manifest(FILES)["variants"]["fp32"]

HOSTILE = {
    "dots": {"files": [FILE | {"name": "../a.onnx"}]},
    "dots inside": {"files": [FILE | {"name": "a/../../a.onnx"}]},
    "absolute": {"files": [FILE | {"name": "/etc/passwd"}]},
    "drive": {"files": [FILE | {"name": "C:/a.onnx"}]},
    "backslash": {"files": [FILE | {"name": "a\\b.onnx"}]},
    "hidden": {"files": [FILE | {"name": ".zoo-pull/lock"}]},
    "empty name": {"files": [FILE | {"name": ""}]},
    "empty part": {"files": [FILE | {"name": "a//b"}]},
    "line break": {"files": [FILE | {"name": "a.onnx\n"}]},
    "long": {"files": [FILE | {"name": "a" * 201}]},
    "no string": {"files": [FILE | {"name": 7}]},
    "nothing": {"files": [None]},
    "itself": {"files": [FILE | {"name": "Manifest.json"}]},
    "twice": {"files": [FILE, FILE | {"name": "A.onnx"}]},
    "file as folder": {"files": [FILE, FILE | {"name": "a.onnx/b"}]},
    "negative": {"files": [FILE | {"bytes": -1}]},
    "huge": {"files": [FILE | {"bytes": 1 << 41}]},
    "true": {"files": [FILE | {"bytes": True}]},
    "fraction": {"files": [FILE | {"bytes": 1.5}]},
    "digest": {"files": [FILE | {"sha256": "Z" * 64}]},
    "many": {"files": [FILE | {"name": f"{number}"} for number in range(1001)]},
    "no list": {"files": {"a": 1}},
    "another model": {"model": "dinov3_vitb16"},
    "version": {"format_version": 2},
    "format": {"format": "jax-onnx-zoo manifest"},
    "no variants": {"variants": {}},
    "variant's name": {"variants": {"../x": VARIANT}},
    "all": {"variants": {"all": VARIANT}},
    "unknown file": {"variants": {"fp32": VARIANT | {"files": ["b.onnx"]}}},
    "list as file": {"variants": {"fp32": VARIANT | {"files": [[]]}}},
    "no model": {"variants": {"fp32": VARIANT | {"files": ["LICENSE"]}}},
    "not verified": {"variants": {"fp32": VARIANT | {"verification": None}}},
    "input": {"input": "float64"},
    "input's type": {"input": ["float32"]},
    "size": {"size": [0, 32]},
    "large size": {"size": [1 << 30, 1 << 30]},
    "complete": {"complete": 1},
    "no numbers": {"preprocessing": HOW | {"mean": ["a", 1, 2]}},
    "infinite": {"preprocessing": HOW | {"mean": [1e999, 1, 2]}},
    "overflow": {"preprocessing": HOW | {"rescale": 10**400}},
    "division": {"preprocessing": HOW | {"std": [0, 1, 1]}},
    "resize": {"preprocessing": HOW | {"resize": 1 << 40}},
    "filter": {"preprocessing": HOW | {"resample": "nearest"}},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_manifests(case):
    text = json.dumps(folders.manifest(FILES, **HOSTILE[case])).encode()
    with pytest.raises(BadFile, match="cannot be used") as caught:
        parse(text, "the manifest", folders.MODEL)
    told = str(caught.value)
    assert len(told) < 400
    assert "\n" not in told


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_what_is_no_manifest(text):
    with pytest.raises(BadFile, match="cannot be used"):
        parse(text, "the manifest")


def test_a_good_manifest():
    text = json.dumps(folders.manifest(FILES)).encode()
    artifact = parse(text, "the manifest", folders.MODEL)
    assert set(artifact.files) == set(FILES)
    needed = {file.name for file in artifact.needed(artifact.pick(["fp16"]))}
    assert needed == folders.COMMON | set(folders.VARIANTS["fp16"])
    assert artifact.files[LARGE].sha256 == hashlib.sha256(FILES[LARGE]).hexdigest()
