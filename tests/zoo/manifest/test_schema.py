"""The schema that is published, and what holds of manifests that are made here."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError

from tests import folders
from zoo.errors import BadRequest
from zoo.manifest.measured import Comparison
from zoo.manifest.read import to_text
from zoo.manifest.schema import File, Manifest

PUBLISHED = Path(__file__).parents[3] / "docs" / "manifest.schema.json"
SCHEMA = json.loads(PUBLISHED.read_text())


@pytest.fixture
def manifest():
    text = json.dumps(folders.manifest(folders.contents()))
    return Manifest.model_validate_json(text)


def test_the_published_schema_is_this_one():
    command = [sys.executable, "-m", "zoo.manifest"]
    done = subprocess.run(
        command, cwd=PUBLISHED.parent.parent, capture_output=True, text=True, check=True
    )
    assert PUBLISHED.read_text() == done.stdout
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", [None, *SCHEMA["$defs"]])
def test_every_field_is_described(name):
    part = SCHEMA if name is None else SCHEMA["$defs"][name]
    assert part["description"]
    for field, content in part["properties"].items():
        assert content["description"].endswith("."), field


def test_a_schema_that_says_something():
    content = folders.manifest(folders.contents())
    jsonschema.validate(content, SCHEMA)
    for wrong in ({"files": [{"name": "../a", "bytes": 1, "sha256": "0" * 64}]}, {"size": [1]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(content | wrong, SCHEMA)


def test_changes_are_checked(manifest):
    assert manifest.changed(complete=False).complete is False
    assert manifest.complete
    assert "speeds" not in to_text(manifest.changed(sizes="any"))
    with pytest.raises(ValidationError):
        manifest.changed(files=())
    with pytest.raises(ValidationError):
        manifest.model = "another"


def test_variants_that_there_are_not(manifest):
    assert list(manifest.pick(["all"])) == list(folders.VARIANTS)
    with pytest.raises(BadRequest, match="choose among fp32, fused, fp16"):
        manifest.pick(["int8"])


def test_files(tmp_path):
    path = tmp_path / "a.onnx"
    path.write_bytes(b"abc")
    file = File.at(path)
    # The digest of FIPS 180's own example.
    wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (file.name, file.bytes, file.sha256) == ("a.onnx", 3, wanted)
    assert file.is_at(tmp_path)
    path.write_bytes(b"abd")
    assert file.is_complete(tmp_path) and not file.is_at(tmp_path)
    path.rename(tmp_path / "b.onnx")
    path.symlink_to("b.onnx")
    assert not file.is_complete(tmp_path)


def test_errors_that_are_no_numbers():
    """JSON has no word for them."""
    values = {"max_abs": float("inf"), "max_rel": float("nan"), "cosine": 0.5}
    found = Comparison(batch=1, height=8, width=8, output="x", **values)
    assert (found.error("max_abs"), found.error("cosine")) == (None, 0.5)
