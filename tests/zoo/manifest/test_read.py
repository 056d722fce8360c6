"""Manifests: what is read from them, what is not believed, and the schema that is published."""

import hashlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError

from tests import folders
from tests.files import changes
from zoo.errors import BadFile, BadRequest
from zoo.manifest.measured import Comparison
from zoo.manifest.read import MOST_VALUES, near, parse, read_folder_manifest, to_text
from zoo.manifest.schema import File, Manifest

PUBLISHED = Path(__file__).parents[3] / "docs" / "manifest.schema.json"
SCHEMA = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text()))

FILES = folders.contents()
LARGE = "onnx/model_fp16.onnx_data"

FILE = {"name": "a.onnx", "bytes": 1, "sha256": "0" * 64}
HOW = folders.manifest(FILES)["preprocessing"]
VARIANT = folders.manifest(FILES)["variants"]["fp32"]
TENSOR = {"name": "x", "dtype": "float32", "shape": ["n", 3]}


def listing(**changes):
    return {"files": [FILE | changes]}


def variant(**changes):
    return {"variants": {"fp32": VARIANT | changes}}


def how(**changes):
    return {"preprocessing": HOW | changes}


NAMES = ("a/../../a.onnx", "/etc/passwd", "C:/a.onnx", "a\\b.onnx", ".zoo-pull/lock", "", "a//b")
NAMES += ("a.onnx\n", "a\0b", "ä", "a" * 201, 7)

HOSTILE = [
    *((listing(name=name), "`files.0.name` is") for name in NAMES),
    (listing(name="../a"), "`files.0.name` is '../a': it should be a plain"),
    ({"files": [{"name": "a"}]}, "`files.0.bytes` is missing"),
    ({"files": [None]}, ""),
    ({"files": {"a": 1}}, ""),
    (listing(name="Manifest.json"), "it lists a file twice, or itself"),
    ({"files": [FILE, FILE | {"name": "A.onnx"}]}, "it lists a file twice, or itself"),
    ({"files": [FILE, FILE | {"name": "a.onnx/b"}]}, "inside of another file"),
    ({"files": [FILE] * 1001}, "it should have at most 1000 items"),
    *((listing(bytes=value), "`files.0.bytes` is") for value in (-1, 1 << 41, True, 1.5)),
    (listing(sha256="Z" * 64), "`files.0.sha256` is"),
    ({"format_version": 1}, "`format_version` is 1: it should be 2"),
    ({"format_version": 3}, ""),
    ({"format": "jax-onnx-zoo folder"}, ""),
    ({"model": "dinov3_vitb16"}, "it is of dinov3_vitb16, not of dinov3_vits16"),
    ({"model": "\x1b[2J"}, ""),
    ({"source": "\ud800"}, ""),
    ({"complete": 1}, ""),
    ({"variants": {}}, ""),
    ({"variants": {"../x": VARIANT}}, ""),
    ({"variants": {"\n" * 20: 1}}, "should be small letters, digits and `_`"),
    ({"variants": {"all": VARIANT}}, ""),
    (variant(files=["b"]), "variant fp32 needs 'b', which is not"),
    (variant(files=[[]]), ""),
    (variant(files=["LICENSE"]), ""),
    (variant(verification=True), ""),
    (variant(precision="float32"), ""),
    (variant(attention_layout="5d"), ""),
    (variant(fused={"Gelu": 10**400}), ""),
    (variant(inputs=[TENSOR | {"shape": [None]}]), ""),
    (variant(inputs=[TENSOR | {"shape": [True]}]), ""),
    ({"weights": {"kind": "random"}}, ""),
    ({"weights": {"kind": "random", "seed": -1}}, ""),
    ({"input": "float64"}, ""),
    ({"input": ["float32"]}, ""),
    ({"size": [0, 32]}, "`size.0` is 0: it should be greater than or equal to 1"),
    ({"size": [1 << 30, 1 << 30]}, ""),
    (how(rescale=float("nan")), ""),
    (how(rescale=10**400), ""),
    (how(mean=["a", 1, 2]), ""),
    (how(mean=[1e999, 1, 2]), ""),
    (how(std=[1, 0, 1]), "`preprocessing.std` has a zero"),
    (how(resize=1 << 40), ""),
    (how(resample="nearest"), ""),
]


def refused(text, **options):
    """What is said of a manifest: a sentence or two that a terminal can show."""
    with pytest.raises(BadFile, match="cannot be used") as caught:
        parse(text, "the manifest", **options)
    told = str(caught.value)
    assert len(told) < 400
    assert told.isprintable()
    assert told.endswith(".")
    return told


@pytest.mark.parametrize(("change", "words"), HOSTILE)
def test_hostile_manifests(change, words):
    text = json.dumps(folders.manifest(FILES, **change)).encode()
    assert words in refused(text, model=folders.MODEL)


NOT_MANIFESTS = {
    "nothing": b"",
    "broken off": b"{",
    "list": b"[]",
    "bytes": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "deep inside": b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "long number": b'{"a": ' + b"9" * 5000 + b"}",
    "large": b" " * ((4 << 20) + 1),
}


@pytest.mark.parametrize("text", NOT_MANIFESTS.values(), ids=NOT_MANIFESTS)
def test_what_is_no_manifest(text):
    refused(text)


@pytest.mark.parametrize(
    "many",
    [
        {"variants": {f"v{number}": {} for number in range(MOST_VALUES - 1000)}},
        {"aliases": [0] * (MOST_VALUES - 1000)},
        {"files": [{}] * (1 << 20)},
    ],
    ids=["variants", "aliases", "files"],
)
def test_many_mistakes_take_no_time(many):
    began = time.monotonic()
    refused(json.dumps(folders.manifest(FILES, **many)).encode())
    assert time.monotonic() - began < 30


def test_a_good_manifest():
    text = json.dumps(folders.manifest(FILES)).encode()
    manifest = parse(text, "the manifest", folders.MODEL)
    assert set(manifest.listed) == set(FILES)
    needed = {file.name for file in manifest.needed(manifest.pick(["fp16"]))}
    assert needed == folders.COMMON | set(folders.VARIANTS["fp16"])
    assert manifest.listed[LARGE].sha256 == hashlib.sha256(FILES[LARGE]).hexdigest()
    assert manifest.one("fp16").file == folders.VARIANTS["fp16"][0]
    assert json.loads(to_text(manifest)) == json.loads(text)


@pytest.mark.parametrize("model", ["", "my own model", "ein Größeres"])
def test_models_that_are_not_of_the_zoo(model):
    """Nor may fields of a later version be in the way."""
    changes = {"model": model, "weights": {"kind": "own"}, "later": [1e999]}
    manifest = parse(json.dumps(folders.manifest(FILES, **changes)).encode(), "the manifest")
    assert (manifest.model, manifest.weights.kind) == (model, "own")
    assert "later" not in to_text(manifest)


def test_a_file_that_was_not_checked():
    variants = {"fp32": VARIANT | {"verification": None}}
    text = json.dumps(folders.manifest(FILES, variants=variants)).encode()
    assert not parse(text, "the manifest").one("fp32").passed


def test_a_folder_without(tmp_path):
    with pytest.raises(BadFile, match=r"has no manifest\.json"):
        read_folder_manifest(tmp_path)
    with pytest.raises(BadFile, match="does not exist"):
        read_folder_manifest(tmp_path / "none")


def test_manifests_near_a_file(tmp_path):
    """Beside it, or else in the folder above; what makes no sense counts as nothing."""
    file = tmp_path / "onnx" / "model.onnx"
    assert near(file) is None
    folders.write(tmp_path, folders.published(FILES))
    assert near(file).preprocessing.size == folders.SIZE
    (tmp_path / "manifest.json").write_bytes(b"{}")
    assert near(file) is None
    beside = json.dumps(folders.manifest(FILES, model="own")).encode()
    (tmp_path / "onnx" / "model.manifest.json").write_bytes(beside)
    assert near(file).model == "own"


COMPARISON = {"batch": 1, "height": 2, "width": 3, "output": "x", "max_abs": 0.5, "max_rel": None}
CHECKED = folders.VERIFICATION | {"comparisons": [COMPARISON | {"cosine": 1.0}]}
FULL = folders.manifest(
    FILES,
    **variant(
        inputs=[TENSOR],
        fused={"Gelu": 1},
        near_misses=[{"pattern": "Gelu", "reason": "another one"}],
        verification=CHECKED | {"measure": "cosine"},
    ),
    speeds={
        "runtime": "",
        "machine": "",
        "input": [1, 3, 4, 4],
        "rounds": 1,
        "variants": {"fp32": {"p50_ms": 1.0, "ratio": None}},
    },
)


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.full)])
def test_any_change(count):
    """A manifest is refused in a sentence, or all that it says is as the published schema says."""
    rng, read = random.Random(count), 0
    for _ in range(count):
        text = changes.table(rng, json.dumps(FULL).encode())
        try:
            manifest = parse(text, "the manifest")
        except BadFile:
            refused(text)
            continue
        read += 1
        again = to_text(manifest)
        SCHEMA.validate(json.loads(again))
        assert parse(again.encode(), "the manifest") == manifest
        assert to_text(parse(again.encode(), "the manifest")) == again
    assert read > count / 20


def test_the_published_schema_is_this_one():
    command = [sys.executable, "-m", "zoo.manifest"]
    done = subprocess.run(
        command, cwd=PUBLISHED.parents[1], capture_output=True, text=True, check=True
    )
    assert PUBLISHED.read_text() == done.stdout
    jsonschema.Draft202012Validator.check_schema(SCHEMA.schema)


@pytest.mark.parametrize("name", [None, *SCHEMA.schema["$defs"]])
def test_every_field_is_described(name):
    part = SCHEMA.schema if name is None else SCHEMA.schema["$defs"][name]
    assert part["description"]
    for field, content in part["properties"].items():
        assert content["description"].endswith("."), field


def test_changes_are_checked():
    manifest = Manifest.model_validate_json(json.dumps(folders.manifest(FILES)))
    assert manifest.changed(complete=False).complete is False
    assert manifest.complete
    assert "speeds" not in to_text(manifest.changed(sizes="any"))
    with pytest.raises(ValidationError):
        manifest.changed(files=())
    with pytest.raises(ValidationError):
        manifest.model = "another"
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
