"""Documents: what they show of the sources is there, and the measured tables are still true."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

import zoo
from benchmarks import answers, performance
from benchmarks.pages import with_part
from tests import measure
from weights.containers import bounds, lz4, npy
from weights.containers.equimo import MAX_METADATA_BYTES
from weights.containers.pickles import BUDGET
from weights.containers.safetensors import MAX_VALUES
from zoo.artifacts.read import MAX_COMMAS as MOST_IN_MANIFEST
from zoo.artifacts.read import MAX_MANIFEST_BYTES
from zoo.export.precisions import PRECISIONS

pytestmark = pytest.mark.full

CONTENT = json.loads((measure.RESULTS / "models.json").read_text())
ANSWERS = json.loads((measure.RESULTS / "answers.json").read_text())
JAX, ONNX, EQUIMO = 3e-5, 1e-4, 1e-5
"""Largest errors: of the model, of a file, and relative to the largest output of Equimo."""

FEATURES = 4
"""The largest of features of unit size, for which JAX is meant; logits of masks reach 40."""

ROOT = Path(__file__).parents[1]


def test_the_page_on_security_says_what_the_readers_hold():
    said = (ROOT / "docs" / "security.md").read_text()
    counts = (bounds.MAX_TENSORS, MAX_VALUES, BUDGET, MOST_IN_MANIFEST)
    assert all(f" {count:,}" in said for count in counts)
    mebibytes = (bounds.MAX_TABLE_BYTES, MAX_METADATA_BYTES, lz4.FREE_CONTENT, MAX_MANIFEST_BYTES)
    assert all(f"{Fraction(size, 1 << 20)} MiB" in said for size in mebibytes)
    assert f"{Fraction(npy.MAX_HEADER_BYTES, 1 << 10)} KiB" in said
    assert f"| {bounds.MAX_DIMENSIONS}, each below 2^48" in said and bounds.MAX_SIDE == 1 << 48
    assert f"{lz4.RATIO} bytes for one" in said


def test_pages_and_readme_show_the_numbers():
    assert (measure.FOLDER / "models.md").read_text() == measure.render(CONTENT)
    content = json.loads((measure.RESULTS / "performance.json").read_text())
    assert (measure.FOLDER / "performance.md").read_text() == performance.render(content)
    for page in performance.PAGES_WITH_NUMBERS:
        text = page.read_text()
        assert text == performance.with_numbers(text, content)
        assert "written by benchmarks/performance.py -->" in text
    page = (measure.FOLDER / "how-to" / "answers.md").read_text()
    assert page == with_part(page, "answers", answers.tables_of(ANSWERS))


def test_answers_are_pytorch_s():
    """In float32 to the noise of it, and in lower precision within the limits of exports, but for
    random networks that find things, which are sure of nothing that they could say otherwise."""
    for name, found in ANSWERS["networks"].items():
        for opset in (18, 23):
            row = found["zoo"][f"zoo, opset {opset}"]
            assert row["max_abs"] <= JAX * max(1, row["largest"]), name
        for precision in ("int8", "fp16"):
            row = found["zoo"][f"zoo, {precision}"]
            assert row.get("ranks") or row["cosine"] >= PRECISIONS[precision].limit.value, name


def test_every_family_is_measured():
    """`test_naflex.py` compares the networks that take a picture as several arrays."""
    measured = {row["family"] for row in CONTENT["models"]}
    entries = map(zoo.info, zoo.list_models())
    assert measured == {entry.family for entry in entries if entry.config.takes_only_pixels}
    assert {row["model"] for row in CONTENT["goldens"]} == set(measure.GOLDENS)


def test_errors_are_small():
    for row in CONTENT["models"]:
        for who, error in row["against"].items():
            assert error["rel"] <= (EQUIMO if who == "equimo" else JAX / FEATURES), (row, who)
        assert max(row["onnxruntime"].values()) <= ONNX, row
    for row in CONTENT["goldens"]:
        assert row["jax"] <= JAX, row
        assert max(*row["fixed"].values(), *row["open"].values()) <= ONNX, row
