"""Manifests: reading, values that are refused, the published schema, and completeness of fields."""

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
from zoo.artifacts.descriptions import describe_calibration
from zoo.artifacts.measured import Calibration, Comparison
from zoo.artifacts.read import MAX_COMMAS, parse_manifest, read_nearby_manifest, to_text
from zoo.artifacts.schema import StatedLicence, StatedPreprocessing, StatedWeights
from zoo.common.errors import BadFile
from zoo.common.fields import without_controls
from zoo.export.describe import describe_origin
from zoo.images.preprocessing import Preprocessing
from zoo.registry.lookup import info

PUBLISHED = Path(__file__).parents[3] / "docs" / "manifest.schema.json"
SCHEMA = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text()))

FILES = folders.contents()

FILE = {"name": "a.onnx", "bytes": 1, "sha256": "0" * 64}
PREPROCESSING = folders.manifest(FILES)["preprocessing"]
VARIANT = folders.manifest(FILES)["variants"]["fp32"]
TENSOR = {"name": "x", "dtype": "float32", "shape": ["n", 3]}


def with_file(**changes):
    """Return the change of a manifest to one file with these entries."""
    return {"files": [FILE | changes]}


def with_variant(**changes):
    """Return the change of a manifest to one variant with these entries."""
    return {"variants": {"fp32": VARIANT | changes}}


def with_preprocessing(**changes):
    """Return the change of a manifest to these preprocessing settings."""
    return {"preprocessing": PREPROCESSING | changes}


NAMES = ("a/../../a.onnx", "/etc/passwd", "C:/a.onnx", "a\\b.onnx", ".zoo-pull/lock", "", "a//b")
NAMES += ("a.onnx\n", "a\0b", "ä", "a" * 201, 7)

HOSTILE = [
    *((with_file(name=name), "`files.0.name` is") for name in NAMES),
    (with_file(name="../a"), "`files.0.name` is '../a': it should be a plain"),
    ({"files": [{"name": "a"}]}, "`files.0.bytes` is missing"),
    (with_file(name="Manifest.json"), "it lists a file twice, or itself"),
    ({"files": [FILE, FILE | {"name": "A.onnx"}]}, "it lists a file twice, or itself"),
    ({"files": [FILE, FILE | {"name": "a.onnx/b"}]}, "inside of another file"),
    ({"files": [FILE, FILE | {"name": "manifest.json/b"}]}, "inside of another file"),
    ({"source": "here\n```python\nevil()\n```"}, "it should be a line of text"),
    ({"files": [FILE] * 1001}, "it should have at most 1000 items"),
    *((with_file(bytes=value), "`files.0.bytes` is") for value in (True, 1.5)),
    ({"format_version": 1}, "`format_version` is 1: it should be 2"),
    ({"model": "dinov3_vitb16"}, "it is of dinov3_vitb16, not of dinov3_vits16"),
    ({"model": "\x1b[2J"}, ""),
    ({"source": "\ud800"}, ""),
    ({"variants": {}}, ""),
    ({"variants": {"\n" * 20: 1}}, "should be small letters, digits and `_`"),
    ({"variants": {"all": VARIANT}}, ""),
    (with_variant(files=["b"]), "variant fp32 needs 'b', which is not"),
    (with_variant(files=["LICENSE"]), ""),
    (with_variant(fused={"Gelu": 10**400}), ""),
    (with_variant(inputs=[TENSOR | {"shape": [True]}]), ""),
    ({"weights": {"kind": "random"}}, ""),
    (with_preprocessing(rescale=float("nan")), ""),
    (with_preprocessing(std=[1, 0, 1]), "`preprocessing.std` has a zero"),
    (with_preprocessing(std=[1, 1e-300, 1]), "`preprocessing.std` has a zero, or less"),
    (
        with_preprocessing(mean=[1, 1e300, 1]),
        "`preprocessing.mean.1` is 1e+300: it should be less than",
    ),
    (with_preprocessing(rescale=1e300), "`preprocessing.rescale` is"),
    (with_preprocessing(size=[1 << 16, 1 << 16]), "`size` has more than"),
    ({"size": [1 << 16, 1 << 16]}, "`size` has more than"),
    (with_preprocessing(resize=1 << 16), "`preprocessing.resize.constrained-int` is"),
]
"""Changes that break rules beyond the types and limits of the schema, and words of the error."""


def manifest_text(**changes):
    """Return the text of a manifest with these changes."""
    return json.dumps(folders.manifest(FILES, **changes)).encode()


def assert_refused(text, **options):
    """Assert that a text is refused in one or two printable sentences. Return them."""
    with pytest.raises(BadFile, match="cannot be used") as error:
        parse_manifest(text, "the manifest", **options)
    message = str(error.value)
    assert len(message) < 400 and message.isprintable() and message.endswith(".")
    return message


@pytest.mark.parametrize(("change", "words"), HOSTILE)
def test_hostile_manifests(change, words):
    assert words in assert_refused(manifest_text(**change), model=folders.MODEL)


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
"""Texts, and changes of a valid manifest with many mistakes."""


@pytest.mark.parametrize("content", NOT_MANIFESTS.values(), ids=NOT_MANIFESTS)
def test_texts_that_are_no_manifests(content):
    """They are refused in less than 30 seconds of processor time."""
    start = time.process_time()
    assert_refused(content if isinstance(content, bytes) else manifest_text(**content))
    assert time.process_time() - start < 30


def test_valid_manifests():
    manifest = parse_manifest(manifest_text(), "the manifest", folders.MODEL)
    assert list(manifest.select_variants(["all"])) == list(folders.VARIANTS)
    names = {file.name for file in manifest.select_files(manifest.select_variants(["fp16"]))}
    assert names == folders.COMMON | set(folders.VARIANTS["fp16"])
    assert manifest.get_variant("fp16").file == folders.VARIANTS["fp16"][0]
    assert json.loads(to_text(manifest)) == json.loads(manifest_text())
    unchecked = parse_manifest(manifest_text(**with_variant(verification=None)), "the manifest")
    assert not unchecked.get_variant("fp32").passed
    changed = manifest.with_changes(complete=False)
    assert manifest.complete and not changed.complete and "speeds" not in to_text(changed)
    with pytest.raises(ValidationError):
        manifest.with_changes(files=())
    with pytest.raises(ValidationError):
        manifest.model = "another"


@pytest.mark.parametrize("model", ["", "my own model", "ein Größeres"])
def test_manifests_of_models_outside_of_the_zoo(model):
    """Any name is accepted, and fields of a later version are ignored."""
    text = manifest_text(model=model, weights={"kind": "own"}, later=[1e999])
    manifest = parse_manifest(text, "the manifest")
    assert (manifest.model, manifest.weights.kind) == (model, "own")
    assert "later" not in to_text(manifest)


def test_manifests_near_a_file(tmp_path):
    """The manifest beside the file is read, or else that in the folder above. Wrong ones are
    ignored."""
    file = tmp_path / "onnx" / "model.onnx"
    assert read_nearby_manifest(file) is None
    folders.write(tmp_path, folders.published(FILES))
    assert read_nearby_manifest(file).preprocessing.size == folders.SIZE
    (tmp_path / "manifest.json").write_bytes(b"{}")
    assert read_nearby_manifest(file) is None
    (tmp_path / "onnx" / "model.manifest.json").write_bytes(manifest_text(model="own"))
    assert read_nearby_manifest(file).model == "own"


COMPARISON = {"batch": 1, "height": 2, "width": 3, "output": "x", "max_abs": 0.5, "max_rel": None}
CHECKED = folders.VERIFICATION | {"comparisons": [COMPARISON | {"cosine": 1.0}]}
SPEEDS = {"runtime": "", "machine": "", "input": [1, 3, 4, 4], "rounds": 1}
FULL = folders.manifest(
    FILES,
    **with_variant(
        inputs=[TENSOR],
        fused={"Gelu": 1},
        near_misses=[{"pattern": "Gelu", "reason": "another one"}],
        verification=CHECKED | {"measure": "cosine"},
    ),
    speeds=SPEEDS | {"variants": {"fp32": {"p50_ms": 1.0, "ratio": None}}},
)


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.full)])
def test_random_changes(count):
    """A changed manifest is refused in a sentence, or is valid under the published schema."""
    rng, read = random.Random(count), 0
    for _ in range(count):
        text = changes.change_json(rng, json.dumps(FULL).encode())
        try:
            manifest = parse_manifest(text, "the manifest")
        except BadFile:
            assert_refused(text)
            continue
        read += 1
        rewritten = to_text(manifest)
        SCHEMA.validate(json.loads(rewritten))
        assert parse_manifest(rewritten.encode(), "the manifest") == manifest
        assert to_text(parse_manifest(rewritten.encode(), "the manifest")) == rewritten
    assert read > count / 20


@pytest.mark.skipif(
    is_older(pydantic.VERSION, "2.13"), reason="pydantic before 2.13 describes other classes"
)
def test_the_published_schema_is_current(capsys):
    runpy.run_module("zoo.artifacts", run_name="__main__")
    assert PUBLISHED.read_text() == capsys.readouterr().out
    jsonschema.Draft202012Validator.check_schema(SCHEMA.schema)


def test_infinite_errors_are_stored_as_null():
    """JSON has no infinity and no NaN."""
    values = {"max_abs": float("inf"), "max_rel": float("nan"), "cosine": 0.5}
    comparison = Comparison(batch=1, height=8, width=8, output="x", **values)
    assert (comparison.error("max_abs"), comparison.error("cosine")) == (None, 0.5)


@pytest.mark.parametrize("name", ["a\n\x9b[2J.eqx", "\udcff.eqx", "a" * 255])
def test_a_checkpoint_may_be_called_anything(name):
    name_in_manifest = describe_origin(Provenance("eqx", name), info(folders.MODEL)).name
    assert name_in_manifest.isprintable() and name_in_manifest.endswith(name[-4:])


@pytest.mark.parametrize(
    ("schema_class", "record_class", "further_fields"),
    [
        (StatedLicence, Licence, set()),
        (StatedPreprocessing, Preprocessing, {"in_file"}),
        (StatedWeights, Provenance, {"is_published_file", "is_embedded_file"}),
    ],
)
def test_schema_classes_have_all_fields(schema_class, record_class, further_fields):
    assert (
        schema_class.model_fields.keys()
        == {field.name for field in fields(record_class)} | further_fields
    )


def test_candidates_without_a_speed_are_described():
    """The ratio is null if the float32 file was not measured."""
    file = {"cosine": None, "speed": {"p50_ms": 1.0, "ratio": None}}
    text = describe_calibration(
        Calibration(
            method="dynamic",
            pictures=3,
            held_out=1,
            sha256="0" * 64,
            candidates={"dynamic": file, "minmax": file | {"speed": {"p50_ms": 1, "ratio": 2}}},
        )
    )
    assert text.endswith("(dynamic cosine no number; minmax cosine no number, x 2.00)")


def test_marks_of_direction_are_escaped():
    assert without_controls("a\u200eb\u200fc\u061cd\u202ae\u2028") == (
        r"a\u200eb\u200fc\u061cd\u202ae\u2028"
    )
