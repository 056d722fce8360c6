"""Manifests: what is read from them, and what is not believed."""

import copy
import hashlib
import json
import time
from functools import reduce
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import folders
from zoo.errors import BadFile
from zoo.manifest.read import MOST_VALUES, near, parse, read_folder, to_text

PUBLISHED = Path(__file__).parents[3] / "docs" / "manifest.schema.json"
SCHEMA = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text()))

FILES = folders.contents()
LARGE = "onnx/model_fp16.onnx_data"

FILE = {"name": "a.onnx", "bytes": 1, "sha256": "0" * 64}
HOW = folders.manifest(FILES)["preprocessing"]
VARIANT = folders.manifest(FILES)["variants"]["fp32"]
TENSOR = {"name": "x", "dtype": "float32", "shape": ["n", 3]}

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
    "version": {"format_version": 1},
    "later version": {"format_version": 3},
    "format": {"format": "jax-onnx-zoo folder"},
    "no variants": {"variants": {}},
    "variant's name": {"variants": {"../x": VARIANT}},
    "all": {"variants": {"all": VARIANT}},
    "unknown file": {"variants": {"fp32": VARIANT | {"files": ["b.onnx"]}}},
    "list as file": {"variants": {"fp32": VARIANT | {"files": [[]]}}},
    "no model": {"variants": {"fp32": VARIANT | {"files": ["LICENSE"]}}},
    "verified": {"variants": {"fp32": VARIANT | {"verification": True}}},
    "no precision": {"variants": {"fp32": VARIANT | {"precision": "float32"}}},
    "no layout": {"variants": {"fp32": VARIANT | {"attention_layout": "5d"}}},
    "counts": {"variants": {"fp32": VARIANT | {"fused": {"Gelu": 10**400}}}},
    "open side": {"variants": {"fp32": VARIANT | {"inputs": [TENSOR | {"shape": [None]}]}}},
    "no side": {"variants": {"fp32": VARIANT | {"inputs": [TENSOR | {"shape": [True]}]}}},
    "no seed": {"weights": {"kind": "random"}},
    "seed": {"weights": {"kind": "random", "seed": -1}},
    "control": {"model": "\x1b[2J"},
    "surrogate": {"source": "\ud800"},
    "not a number": {"preprocessing": HOW | {"rescale": float("nan")}},
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


def refused(text, **options):
    """What is said of a manifest: a sentence or two that a terminal can show."""
    with pytest.raises(BadFile, match="cannot be used") as caught:
        parse(text, "the manifest", **options)
    told = str(caught.value)
    assert len(told) < 400
    assert told.isprintable()
    assert told.endswith(".")
    return told


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_manifests(case):
    text = json.dumps(folders.manifest(FILES, **HOSTILE[case])).encode()
    refused(text, model=folders.MODEL)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"files": [FILE | {"name": "../a"}]}, "`files.0.name` is '../a': it should be a plain"),
        ({"files": [{"name": "a"}]}, "`files.0.bytes` is missing"),
        ({"format_version": 1}, "`format_version` is 1: it should be 2"),
        ({"size": [0, 32]}, "`size.0` is 0: it should be greater than or equal to 1"),
        (
            {"variants": {"fp32": VARIANT | {"files": ["b"]}}},
            "variant fp32 needs 'b', which is not",
        ),
        ({"preprocessing": HOW | {"std": [1, 0, 1]}}, "`preprocessing.std` has a zero"),
        ({"variants": {"\n" * 20: 1}}, r"should be small letters, digits and `_`"),
        ({"files": [FILE] * 1001}, "it should have at most 1000 items"),
        ({"model": "other"}, "it is of other, not of dinov3_vits16"),
    ],
)
def test_what_is_said(change, words):
    text = json.dumps(folders.manifest(FILES, **change)).encode()
    assert words in refused(text, model=folders.MODEL)


NOT_MANIFESTS = {
    "nothing": b"",
    "broken off": b"{",
    "list": b"[]",
    "null": b"null",
    "text": b'"text"',
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
        read_folder(tmp_path)
    with pytest.raises(BadFile, match="does not exist"):
        read_folder(tmp_path / "none")


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


def paths(value, path=()):
    """The way to every value in JSON."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(item, (*path, key))


FULL = folders.manifest(
    FILES,
    variants={
        "fp32": VARIANT
        | {
            "inputs": [TENSOR],
            "fused": {"Gelu": 1},
            "near_misses": [{"pattern": "Gelu", "reason": "another one"}],
            "verification": {
                "input": "",
                "measure": "cosine",
                "limit": 0.9,
                "passed": True,
                "comparisons": [
                    {
                        "batch": 1,
                        "height": 2,
                        "width": 3,
                        "output": "x",
                        "max_abs": 0.5,
                        "max_rel": None,
                        "cosine": 1.0,
                    }
                ],
            },
        }
    },
    speeds={
        "runtime": "",
        "machine": "",
        "input": [1, 3, 4, 4],
        "rounds": 1,
        "variants": {"fp32": {"p50_ms": 1.0, "ratio": None}},
    },
)
NUMBERS = st.integers() | st.integers(-3, 3) | st.floats() | st.booleans()
TEXTS = st.text(max_size=9) | st.text(st.characters(exclude_categories=()), max_size=3)
SCALARS = st.none() | NUMBERS | TEXTS | st.sampled_from(["fp32", "a.onnx", "0" * 64])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
)


LIKE = {bool: st.booleans(), int: st.integers(-1, 99), float: NUMBERS, str: TEXTS}


def change(path):
    """Another value for a place, half of them of the same type."""
    value = reduce(lambda content, key: content[key], path, FULL)
    return st.tuples(st.just(path), LIKE.get(type(value), VALUES) | VALUES)


CHANGES = st.sampled_from(list(paths(FULL))).flatmap(change)


@pytest.mark.full
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CHANGES, min_size=1, max_size=2))
def test_any_change(changes):
    """A manifest is refused in a sentence, or all that it says is as the published schema says."""
    content = copy.deepcopy(FULL)
    for path, value in changes:
        content = replaced(content, path, value)
    text = json.dumps(content).encode()
    try:
        manifest = parse(text, "the manifest")
    except BadFile:
        refused(text)
        return
    again = to_text(manifest)
    SCHEMA.validate(json.loads(again))
    assert parse(again.encode(), "the manifest") == manifest
    assert to_text(parse(again.encode(), "the manifest")) == again


def replaced(content, path, value):
    """With another value at the end of a way, if that is still there."""
    if not path:
        return value
    first, *rest = path
    if isinstance(content, dict) and first in content:
        return content | {first: replaced(content[first], rest, value)}
    if isinstance(content, list) and isinstance(first, int) and first < len(content):
        return [*content[:first], replaced(content[first], rest, value), *content[first + 1 :]]
    return content
