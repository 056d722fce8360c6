"""`zoo show`: features as pictures, beside scikit-learn and transformers; and charts of `--plot`.

The charts of `zoo bench` and `zoo verify` are asked for by tests/test_pages.py.
"""

from itertools import combinations
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

from zoo import from_pretrained, preprocess
from zoo.apps.show.chart import TimedRow, bars, draw_residuals, draw_times, patch_means, summary
from zoo.apps.show.draw import WARNING, draw_grid, likeness
from zoo.apps.show.features import Features, legible, of_file, of_model
from zoo.apps.show.residual_rows import residual_rows
from zoo.artifacts.measured import Comparison, Verification, busy_words
from zoo.common.errors import BadFile
from zoo.images.photograph import photographs
from zoo.tasks.maps import RAMP, components

ROOT = Path(__file__).parents[4]

PATCHES = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(np.float32)


def test_components_are_those_of_all_images_together():
    rows = PATCHES.reshape(-1, 8)
    scores = PCA(3).fit_transform(rows)
    ours = components(PATCHES).reshape(-1, 3).astype(np.float32)
    for mine, theirs in zip(ours.T, scores.T, strict=True):
        spread = 255 * (theirs - theirs.min()) / np.ptp(theirs)
        nearest = min((spread, 255 - spread), key=lambda s: abs(s - mine).max())
        np.testing.assert_allclose(mine, nearest, atol=0.51)  # rounded to whole levels


def test_likeness_is_the_cosine_with_one_patch():
    wanted = cosine_similarity(PATCHES.reshape(-1, 8), PATCHES[0, 2, 4][None])
    np.testing.assert_allclose(likeness(PATCHES, (2, 4)).ravel(), wanted.ravel(), atol=1e-6)


@pytest.mark.full
def test_a_file_and_its_model_show_the_same(zoo):
    zoo("export", "vit_digits", "--size", "8x12")
    model = from_pretrained("vit_digits")
    ours = of_model(model, photographs(2), (8, 12))
    theirs = of_file(zoo.here / "vit_digits-opset23.onnx", photographs(2), None)
    assert ours.grid == theirs.grid == (4, 6) and theirs.attention is None
    np.testing.assert_array_equal(ours.pixels, theirs.pixels)
    np.testing.assert_allclose(ours.patches, theirs.patches, atol=1e-4)
    pixels = preprocess(model, photographs(2), size=(8, 12))
    found = jax.vmap(lambda image: model(image, attentions=True))(pixels)
    tokens = np.asarray(found.last_hidden_state)
    np.testing.assert_allclose(ours.patches[1, 2, 5], tokens[1, 5 + 2 * 6 + 5], atol=1e-6)
    (weights,) = found.attentions
    wanted = weights[:, :, 0, 5:].mean(1).reshape(2, 4, 6)
    np.testing.assert_allclose(ours.attention, wanted, atol=1e-6)
    photographs(1)[0].save("a.png")
    zoo("export", "vit_digits", "--output", "logits", "--no-verify", "--out", "a.onnx")
    heights = []
    for weights in ("auto", "random:3"):
        zoo("show", "vit_digits", "a.png", "--weights", weights, "--out", f"{weights[:4]}.png")
        heights.append(np.asarray(Image.open(f"{weights[:4]}.png")).shape[0])
    assert heights[1] > heights[0]  # a line says that nothing was learned
    assert "gives no last_hidden_state" in zoo("show", "a.onnx", "a.png", code=2).error


def test_the_command(zoo):
    for index, picture in enumerate(photographs(2)):
        picture.save(f"{index}.png")
    command = ["show", "vit_digits", "0.png", "1.png", "--size", "8x12", "--patch", "3,0"]
    assert zoo(*command).out == "features.png: 4 x 6 patches an image\n"
    picture = np.asarray(Image.open("features.png"))
    again = [*command[2:], "--out", "again.png", "--force"]
    zoo("export", "vit_digits", "--size", "8x12", "--out", "v.onnx")
    for place in ("v.onnx", ROOT / "zoo" / "data" / "vit_digits.safetensors"):
        assert zoo("show", place, *again).out == "again.png: 4 x 6 patches an image\n"
    line = 14 + 8 + 4
    assert picture.shape == (line + 2 * (216 + 8) + 12 + line, 4 * (324 + 8) + 8, 3)
    dark, *_, bright = picture[line + 2 * (216 + 8) + 6, 2 * (324 + 8) + 8 : 3 * (324 + 8)]
    np.testing.assert_array_equal((dark, bright), RAMP[[0, -1]])  # the scale of the likeness
    framed = [np.ptp(each) + 1 for each in np.nonzero((picture == (255, 64, 64)).all(-1))]
    assert framed == [54, 54]  # one patch
    assert "features.png exists already" in zoo(*command, code=2).error
    told = zoo(*command[:-1], "4,0", "--force", code=2).error
    assert "--patch 4,0 is outside: there are 4 rows and 6" in told


def test_a_picture_is_shown_at_a_size_with_patches_and_its_note():
    pixels = np.zeros((2, 6, 10, 3), np.uint8)
    plain = draw_grid(Features(pixels, PATCHES, None))
    noted = np.asarray(draw_grid(Features(pixels, PATCHES, None, "Random weights.")))
    assert (noted[1, 1] == WARNING).all()
    np.testing.assert_array_equal(noted[-plain.height :], plain)
    with pytest.raises(BadFile, match="are no numbers"):
        Features(pixels, np.full_like(PATCHES, np.nan), None)
    assert [legible((224, 224), 16), legible((448, 448), 14)] == [(448, 448)] * 2


def test_times_are_milliseconds():
    rows = [TimedRow("first.onnx", 9.0, 12.5, 20.0, 1.0), TimedRow("a/b.onnx", 2.0, 2.5, 3.0, 0.2)]
    chart = draw_times("Time", rows, 4.0)
    (axes,) = chart.axes
    assert [bar.get_width() for bar in axes.patches] == [12.5, 2.5]
    told = [text.get_text() for text in axes.texts]
    assert told == ["12.5 ms", "first.onnx", "2.5 ms, 0.20 of the first", "a/b.onnx"]
    (marks,) = (found for found in axes.collections if "products" in found.get_label())
    assert [line[:, 0].tolist() for line in marks.get_segments()] == [[4, 4]] * 2
    assert "milliseconds" in axes.get_xlabel()
    chart.draw_without_rendering()
    assert_apart([*axes.texts, *axes.get_xticklabels()])
    busy = draw_times("Time", rows, None, busy_words(12.34))
    busy.draw_without_rendering()
    assert_apart(busy.axes[0].texts)
    (mark,) = (text for text in busy.axes[0].texts if "the machine was busy" in text.get_text())
    box = mark.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= busy.bbox.width


def test_bars_are_as_long_as_what_was_measured():
    chart = bars("Time", {"first": {"zoo": 2.0, "peer": None}, "second": {"peer": 0.5}}, mark=1)
    (axes,) = chart.axes
    assert [bar.get_width() for bar in axes.patches] == [2.0, 0, 0.5]
    assert [text.get_text() for text in axes.texts] == ["2.00", "not run", "0.50"]
    places = [bar.get_y() + bar.get_height() / 2 for bar in axes.patches]
    np.testing.assert_allclose(places, [-0.2, 0.2, 1.2])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["first", "second"]


def assert_apart(texts):
    """No word is on another."""
    boxes = [text.get_window_extent() for text in texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def verified(output, measure, limit, error):
    found = Comparison(batch=1, output=output, max_abs=error, max_rel=error / 2, cosine=0.9)
    told = {"measure": measure, "limit": limit, "passed": error <= limit}
    return Verification(input="pixels", comparisons=(found,), **told)


def test_errors_are_drawn_where_they_are():
    """The last two rows of three are wrong; two tokens lie before the patches."""
    errors = np.zeros((1, 2 + 3 * 5, 4), np.float32)
    errors[0, 0], errors[0, 2 + 5 :] = 3e-4, 1e-3
    np.testing.assert_allclose(patch_means(errors, (3, 5)), [[0] * 5, [1e-3] * 5, [1e-3] * 5])
    told = "largest 1.0e-03, mean 6.1e-04, of the 2 tokens before the patches 1.5e-04"
    assert summary(errors, (3, 5)).endswith(told)
    outputs, verdict = {"last_hidden_state": errors}, "at worst 1.0e-03, where ≤ 1e-04 is asked"
    rows = residual_rows(
        "a file", outputs, (3, 5), verified(*outputs, "max_abs", 1e-4, 1e-3)
    ) + residual_rows("another", outputs, (3, 5), verified(*outputs, "max_rel", 1e-1, 1e-3))
    assert [row.allowed for row in rows] == [1e-4, pytest.approx(0.2)]
    assert [rows[0].verdict, rows[1].verdict[:7]] == [f"FAILED: {verdict}", "passed:"]
    left, right, *_, other = draw_residuals(rows).axes
    (image,) = left.images
    np.testing.assert_allclose(image.get_array()[1:], patch_means(errors, (3, 5))[1:])
    heights = {bar.get_x(): bar.get_height() for bar in right.patches if bar.get_height()}
    shares = [100 * count * 4 / errors.size for count in (6, 1, 10)]
    np.testing.assert_allclose([heights[x] for x in sorted(heights)], shares)
    assert right.get_xlim() == other.get_xlim() == image.get_clim() == (1e-8, 1)
    assert [axes.lines[0].get_xdata()[0] for axes in (right, other)] == [
        row.allowed for row in rows
    ]
    as_map = np.moveaxis(errors[:, 2:].reshape(1, 3, 5, 4), 3, 1)
    np.testing.assert_array_equal(patch_means(as_map, (3, 5)), patch_means(errors, (3, 5)))
    assert patch_means(np.ones((1, 7), np.float32), (3, 5)).shape == (1, 7)
    heads = np.moveaxis(errors[:, 2:], 2, 1)
    np.testing.assert_array_equal(patch_means(heads, (3, 5)), patch_means(errors, (3, 5)))
