"""Manifests: what is read from them, what is not believed, and the schema that is published; they
have all fields of what they are about."""

import json
import random
import runpy
import time
from dataclasses import fields
from pathlib import Path

import jsonschema
import pydantic
import pytest
from pydantic import ValidationError

from converter.opsets import is_older
from tests import folders
from tests.files import changes
from weights.tensors import Provenance
from zoo.architectures.entry import Licence
from zoo.artifacts.measured import Comparison
from zoo.artifacts.read import MAX_COMMAS, parse_manifest, read_nearby_manifest, to_text
from zoo.artifacts.schema import StatedLicence, StatedPreprocessing, StatedWeights
from zoo.common.errors import BadFile
from zoo.export.describe import describe_origin
from zoo.images.preprocessing import Preprocessing
from zoo.registry.lookup import info

PUBLISHED = Path(__file__).parents[3] / "docs" / "manifest.schema.json"
SCHEMA = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text()))

FILES = folders.contents()

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
    (listing(name="Manifest.json"), "it lists a file twice, or itself"),
    ({"files": [FILE, FILE | {"name": "A.onnx"}]}, "it lists a file twice, or itself"),
    ({"files": [FILE, FILE | {"name": "a.onnx/b"}]}, "inside of another file"),
    ({"files": [FILE, FILE | {"name": "manifest.json/b"}]}, "inside of another file"),
    ({"source": "here\n```python\nevil()\n```"}, "it should be a line of text"),
    ({"files": [FILE] * 1001}, "it should have at most 1000 items"),
    *((listing(bytes=value), "`files.0.bytes` is") for value in (True, 1.5)),
    ({"format_version": 1}, "`format_version` is 1: it should be 2"),
    ({"model": "dinov3_vitb16"}, "it is of dinov3_vitb16, not of dinov3_vits16"),
    ({"model": "\x1b[2J"}, ""),
    ({"source": "\ud800"}, ""),
    ({"variants": {}}, ""),
    ({"variants": {"\n" * 20: 1}}, "should be small letters, digits and `_`"),
    ({"variants": {"all": VARIANT}}, ""),
    (variant(files=["b"]), "variant fp32 needs 'b', which is not"),
    (variant(files=["LICENSE"]), ""),
    (variant(fused={"Gelu": 10**400}), ""),
    (variant(inputs=[TENSOR | {"shape": [True]}]), ""),
    ({"weights": {"kind": "random"}}, ""),
    (how(rescale=float("nan")), ""),
    (how(std=[1, 0, 1]), "`preprocessing.std` has a zero"),
    (how(std=[1, 1e-300, 1]), "`preprocessing.std` has a zero, or less"),
    (how(mean=[1, 1e300, 1]), "`preprocessing.mean.1` is 1e+300: it should be less than"),
    (how(rescale=1e300), "`preprocessing.rescale` is"),
    (how(size=[1 << 16, 1 << 16]), "`size` has more than"),
    ({"size": [1 << 16, 1 << 16]}, "`size` has more than"),
    (how(resize=1 << 16), "`preprocessing.resize.constrained-int` is"),
]
"""What else than the types and limits of the schema, which is published and compared below."""


def said(**changes):
    """The text of a manifest."""
    return json.dumps(folders.manifest(FILES, **changes)).encode()


def refused(text, **options):
    """What is said of a manifest: a sentence or two that a terminal can show."""
    with pytest.raises(BadFile, match="cannot be used") as caught:
        parse_manifest(text, "the manifest", **options)
    told = str(caught.value)
    assert len(told) < 400 and told.isprintable() and told.endswith(".")
    return told


@pytest.mark.parametrize(("change", "words"), HOSTILE)
def test_hostile_manifests(change, words):
    assert words in refused(said(**change), model=folders.MODEL)


DEEP = b"[" * 100_000
MANY = MAX_COMMAS - 1000
NOT_MANIFESTS = {
    "nothing": b"",
    "list": b"[]",
    "bytes": b"\xff\xfe",
    "deep": DEEP,
    "deep inside": b'{"a": ' + DEEP + b"]" * 100_000 + b"}",
    "long number": b'{"a": ' + b"9" * 5000 + b"}",
    "large": b" " * ((4 << 20) + 1),
    "variants": {"variants": {f"v{number}": {} for number in range(MANY)}},
    "aliases": {"aliases": [0] * MANY},
    "files": {"files": [{}] * (1 << 20)},
}
"""Texts, and what one says that is right otherwise, with a great many mistakes."""


@pytest.mark.parametrize("given", NOT_MANIFESTS.values(), ids=NOT_MANIFESTS)
def test_what_is_no_manifest(given):
    """It takes no time to say so."""
    began = time.process_time()
    refused(given if isinstance(given, bytes) else said(**given))
    assert time.process_time() - began < 30


def test_a_good_manifest():
    manifest = parse_manifest(said(), "the manifest", folders.MODEL)
    assert list(manifest.select_variants(["all"])) == list(folders.VARIANTS)
    needed = {file.name for file in manifest.select_files(manifest.select_variants(["fp16"]))}
    assert needed == folders.COMMON | set(folders.VARIANTS["fp16"])
    assert manifest.get_variant("fp16").file == folders.VARIANTS["fp16"][0]
    assert json.loads(to_text(manifest)) == json.loads(said())
    unchecked = parse_manifest(said(**variant(verification=None)), "the manifest")
    assert not unchecked.get_variant("fp32").passed
    changed = manifest.with_changes(complete=False)
    assert manifest.complete and not changed.complete and "speeds" not in to_text(changed)
    with pytest.raises(ValidationError):
        manifest.with_changes(files=())
    with pytest.raises(ValidationError):
        manifest.model = "another"


@pytest.mark.parametrize("model", ["", "my own model", "ein Größeres"])
def test_models_that_are_not_of_the_zoo(model):
    """Nor may fields of a later version be in the way."""
    text = said(model=model, weights={"kind": "own"}, later=[1e999])
    manifest = parse_manifest(text, "the manifest")
    assert (manifest.model, manifest.weights.kind) == (model, "own")
    assert "later" not in to_text(manifest)


def test_manifests_near_a_file(tmp_path):
    """Beside it, or else in the folder above; what makes no sense counts as nothing."""
    file = tmp_path / "onnx" / "model.onnx"
    assert read_nearby_manifest(file) is None
    folders.write(tmp_path, folders.published(FILES))
    assert read_nearby_manifest(file).preprocessing.size == folders.SIZE
    (tmp_path / "manifest.json").write_bytes(b"{}")
    assert read_nearby_manifest(file) is None
    (tmp_path / "onnx" / "model.manifest.json").write_bytes(said(model="own"))
    assert read_nearby_manifest(file).model == "own"


COMPARISON = {"batch": 1, "height": 2, "width": 3, "output": "x", "max_abs": 0.5, "max_rel": None}
CHECKED = folders.VERIFICATION | {"comparisons": [COMPARISON | {"cosine": 1.0}]}
SPEEDS = {"runtime": "", "machine": "", "input": [1, 3, 4, 4], "rounds": 1}
FULL = folders.manifest(
    FILES,
    **variant(
        inputs=[TENSOR],
        fused={"Gelu": 1},
        near_misses=[{"pattern": "Gelu", "reason": "another one"}],
        verification=CHECKED | {"measure": "cosine"},
    ),
    speeds=SPEEDS | {"variants": {"fp32": {"p50_ms": 1.0, "ratio": None}}},
)


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.full)])
def test_any_change(count):
    """A manifest is refused in a sentence, or all that it says is as the published schema says."""
    rng, read = random.Random(count), 0
    for _ in range(count):
        text = changes.table(rng, json.dumps(FULL).encode())
        try:
            manifest = parse_manifest(text, "the manifest")
        except BadFile:
            refused(text)
            continue
        read += 1
        again = to_text(manifest)
        SCHEMA.validate(json.loads(again))
        assert parse_manifest(again.encode(), "the manifest") == manifest
        assert to_text(parse_manifest(again.encode(), "the manifest")) == again
    assert read > count / 20


@pytest.mark.skipif(
    is_older(pydantic.VERSION, "2.13"), reason="pydantic before 2.13 describes other classes"
)
def test_the_published_schema_is_this_one(capsys):
    runpy.run_module("zoo.artifacts", run_name="__main__")
    assert PUBLISHED.read_text() == capsys.readouterr().out
    jsonschema.Draft202012Validator.check_schema(SCHEMA.schema)


def test_errors_that_are_no_numbers():
    """JSON has no word for them."""
    values = {"max_abs": float("inf"), "max_rel": float("nan"), "cosine": 0.5}
    found = Comparison(batch=1, height=8, width=8, output="x", **values)
    assert (found.error("max_abs"), found.error("cosine")) == (None, 0.5)


@pytest.mark.parametrize("name", ["a\n\x9b[2J.eqx", "\udcff.eqx", "a" * 255])
def test_a_checkpoint_may_be_called_anything(name):
    told = describe_origin(Provenance("eqx", name), info(folders.MODEL)).name
    assert told.isprintable() and told.endswith(name[-4:])


@pytest.mark.parametrize(
    ("stated", "about", "more"),
    [
        (StatedLicence, Licence, set()),
        (StatedPreprocessing, Preprocessing, {"in_file"}),
        (StatedWeights, Provenance, {"is_published_file", "is_embedded_file"}),
    ],
)
def test_it_has_all_fields(stated, about, more):
    assert stated.model_fields.keys() == {each.name for each in fields(about)} | more
