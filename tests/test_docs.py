"""The documentation states the limits that the readers enforce, its tables show the stored
measurements, and these measurements are within their tolerances."""

import json
from fractions import Fraction
from pathlib import Path

import zoo
from benchmarks import answers, boxes, performance
from benchmarks.pages import with_part
from tests import measure
from weights.containers import bounds, lz4, npy
from weights.containers.equimo import MAX_METADATA_BYTES
from weights.containers.pickles import BUDGET
from weights.containers.safetensors import MAX_VALUES
from zoo.artifacts.read import MAX_COMMAS as MOST_IN_MANIFEST
from zoo.artifacts.read import MAX_MANIFEST_BYTES
from zoo.export.precisions import PRECISIONS

CONTENT = json.loads((measure.RESULTS / "models.json").read_text())
ANSWERS = json.loads((measure.RESULTS / "answers.json").read_text())
JAX, ONNX, EQUIMO = 3e-5, 1e-4, 1e-5
"""Largest errors: of the model in JAX, of a file in ONNX Runtime, and of Equimo relative to its
largest output."""

FEATURES = 4
"""The largest feature of unit-size features, for which the limit `JAX` is stated; logits of masks
reach 40."""

ROOT = Path(__file__).parents[1]


def test_the_page_on_security_states_the_limits_of_readers():
    page = (ROOT / "docs" / "security.md").read_text()
    counts = (bounds.MAX_TENSORS, MAX_VALUES, BUDGET, MOST_IN_MANIFEST)
    assert all(f" {count:,}" in page for count in counts)
    mebibytes = (bounds.MAX_TABLE_BYTES, MAX_METADATA_BYTES, lz4.FREE_CONTENT, MAX_MANIFEST_BYTES)
    assert all(f"{Fraction(size, 1 << 20)} MiB" in page for size in mebibytes)
    assert f"{Fraction(npy.MAX_HEADER_BYTES, 1 << 10)} KiB" in page
    assert f"| {bounds.MAX_DIMENSIONS}, each below 2^48" in page and bounds.MAX_SIDE == 1 << 48
    assert f"{lz4.RATIO} bytes for one" in page


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
    assert page == with_part(page, "boxes", boxes.render(json.loads(boxes.RESULTS.read_text())))


def test_measured_answers_agree_with_pytorch():
    """Answers in float32 differ by rounding, and those in lower precision are within the limits of
    exports. Random networks that detect objects are not compared in lower precision: rounding
    decides their answers."""
    for name, measured in ANSWERS["networks"].items():
        for opset in (18, 23):
            row = measured["zoo"][f"zoo, opset {opset}"]
            assert row["max_abs"] <= JAX * max(1, row["largest"]), name
        for precision in ("int8", "fp16"):
            row = measured["zoo"][f"zoo, {precision}"]
            assert row.get("ranks") or row["cosine"] >= PRECISIONS[precision].limit.value, name


def test_every_family_is_measured():
    """Networks that take a picture as several arrays are compared in `test_naflex.py` instead."""
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
