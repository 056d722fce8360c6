"""`zoo show`: figures and features, compared with scikit-learn, and the charts of `--plot`.

tests/test_pages.py runs `zoo bench` and `zoo verify` with `--plot`.
"""

from itertools import combinations
from pathlib import Path

import jax
import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

from zoo import from_pretrained, preprocess
from zoo.apps.show.chart import (
    TimedRow,
    describe_errors,
    draw_residuals,
    draw_times,
    patch_means,
    residual_rows,
)
from zoo.apps.show.feature_figure import cosine_to_patch, draw_features
from zoo.apps.show.features import (
    Features,
    compute_file_features,
    compute_model_features,
    legible_size,
)
from zoo.artifacts.measured import Comparison, Verification, describe_load
from zoo.common.errors import BadFile
from zoo.images.photograph import photographs
from zoo.images.pictures import pictures
from zoo.tasks.maps import principal_components

ROOT = Path(__file__).parents[4]

PATCHES = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(np.float32)


def test_components_are_those_of_all_images_together():
    rows = PATCHES.reshape(-1, 8)
    scores = PCA(3).fit_transform(rows)
    components = principal_components(PATCHES).reshape(-1, 3).astype(np.float32)
    for actual, expected in zip(components.T, scores.T, strict=True):
        levels = 255 * (expected - expected.min()) / np.ptp(expected)
        nearest = min((levels, 255 - levels), key=lambda s: abs(s - actual).max())
        np.testing.assert_allclose(actual, nearest, atol=0.51)  # colours are rounded to integers


def test_likeness_is_the_cosine_to_one_patch():
    expected = cosine_similarity(PATCHES.reshape(-1, 8), PATCHES[0, 2, 4][None])
    np.testing.assert_allclose(
        cosine_to_patch(PATCHES, (2, 4)).ravel(), expected.ravel(), atol=1e-6
    )


@pytest.mark.full
def test_features_of_a_file_are_those_of_its_model(zoo):
    zoo("export", "vit_digits", "--size", "8x12")
    model = from_pretrained("vit_digits")
    of_model = compute_model_features(model, photographs(2), (8, 12))
    of_file = compute_file_features(zoo.here / "vit_digits-opset23.onnx", photographs(2), None)
    assert of_model.grid == of_file.grid == (4, 6) and of_file.attention is None
    np.testing.assert_array_equal(of_model.pixels, of_file.pixels)
    np.testing.assert_allclose(of_model.patches, of_file.patches, atol=1e-4)
    pixels = preprocess(model, photographs(2), size=(8, 12))
    outputs = jax.vmap(lambda image: model(image, attentions=True))(pixels)
    tokens = np.asarray(outputs.last_hidden_state)
    np.testing.assert_allclose(of_model.patches[1, 2, 5], tokens[1, 5 + 2 * 6 + 5], atol=1e-6)
    (weights,) = outputs.attentions
    expected = weights[:, :, 0, 5:].mean(1).reshape(2, 4, 6)
    np.testing.assert_allclose(of_model.attention, expected, atol=1e-6)
    photographs(1)[0].save("a.png")
    zoo("export", "vit_digits", "--output", "logits", "--no-verify", "--out", "a.onnx")
    assert "and no last_hidden_state" in zoo("show", "a.onnx", "a.png", code=2).error


def test_show_command(zoo, monkeypatch):
    for index, picture in enumerate(photographs(2)):
        picture.save(f"{index}.png")
    command = ["show", "vit_digits", "0.png", "1.png", "--size", "8x12", "--patch", "3,0"]
    assert zoo(*command).out == "features.png: 4 x 6 patches an image\n"
    zoo("export", "vit_digits", "--size", "8x12", "--out", "v.onnx")
    for model in (ROOT / "zoo" / "data" / "vit_digits.safetensors", "v.onnx"):
        printed = zoo("show", model, *command[2:], "--out", "again.webp", "--force").out
        assert printed == "again.webp: 4 x 6 patches an image\n"
    random = zoo.json(*command, "--weights", "random:3", "--out", "random.jpg")
    assert random == {"file": "random.jpg", "images": 2, "patches": [4, 6]}
    figures = pictures([Path("features.png"), Path("again.webp"), Path("random.jpg")])
    sizes = [picture.size for picture in figures]
    # Panels are 324 pixels wide. A file has no attention. Random weights add a line of text.
    assert sizes[0][0] >= 4 * 324 and sizes[1][0] < sizes[0][0] and sizes[2][1] > sizes[0][1]
    assert "features.png exists already" in zoo(*command, code=2).error
    printed = zoo(*command[:-1], "4,0", "--force", code=2).error
    assert "--patch 4,0 is outside: there are 4 rows and 6" in printed
    monkeypatch.setattr("zoo.apps.show.save.find_spec", lambda name: None)
    printed = zoo(*command, "--force", code=2).error
    assert "`zoo show` needs matplotlib" in printed and "pip install matplotlib" in printed


def test_a_figure_has_panels_colour_bars_and_a_note():
    pixels = np.random.default_rng(1).integers(0, 256, (2, 6, 10, 3), np.uint8)
    attention = np.random.default_rng(2).random((2, 3, 5), np.float32)
    figure = draw_features(Features(pixels, PATCHES, attention, "Random weights."), (2, 4))
    figure.draw_without_rendering()
    assert figure.get_suptitle() == "⚠ Random weights."
    cells = np.reshape(figure.axes, (3, 4))  # two rows of images, and a row of colour bars
    likeness = cosine_to_patch(PATCHES, (2, 4))
    for column, values in zip(
        cells.T, (pixels, principal_components(PATCHES), likeness, attention), strict=True
    ):
        for axes, expected in zip(column, values, strict=False):
            np.testing.assert_array_equal(axes.images[0].get_array(), expected)
    titles = ["image", "principal components", "likeness to patch 2,4"]
    assert [axes.get_title() for axes in cells[0]] == [*titles, "attention of the class token"]
    labels = ["6 x 10 pixels, 3 x 5 patches", "red, green, blue: the first, second, third"]
    assert [axes.get_xlabel() for axes in cells[2]] == [*labels, "cosine", "share of a patch"]
    for axes, values, form in zip(cells[2, 2:], (likeness, attention), (".2f", ".2%"), strict=True):
        ends = [tick.get_text() for tick in axes.get_xticklabels()]
        assert ends == [format(values.min(), form), format(values.max(), form)]
    assert_apart(
        [text for axes in cells[2] for text in (*axes.get_xticklabels(), axes.xaxis.label)]
    )
    (frame,) = cells[0, 0].patches
    assert frame.get_bbox().bounds == (8, 4, 2, 2)  # the frame of a patch of 2 x 2 pixels
    assert not draw_features(Features(pixels, PATCHES, None)).get_suptitle()
    many = Features(np.zeros((90, 6, 10, 3), np.uint8), np.zeros((90, 3, 5, 8), np.float32), None)
    figure = draw_features(many)
    assert max(figure.get_size_inches() * figure.dpi) == pytest.approx(16_383)
    with pytest.raises(BadFile, match="are not finite"):
        Features(pixels, np.full_like(PATCHES, np.nan), None)
    assert [legible_size((224, 224), 16), legible_size((448, 448), 14)] == [(448, 448)] * 2


def test_times_are_milliseconds():
    rows = [TimedRow("first.onnx", 9.0, 12.5, 20.0, 1.0), TimedRow("a/b.onnx", 2.0, 2.5, 3.0, 0.2)]
    chart = draw_times("Time", rows, 4.0)
    (axes,) = chart.axes
    assert [bar.get_width() for bar in axes.patches] == [12.5, 2.5]
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["12.5 ms", "2.5 ms, 0.20 of the first", "first.onnx", "a/b.onnx"]
    (products,) = (line for line in axes.lines if "products" in line.get_label())
    assert list(products.get_xdata()) == [4, 4]
    (spreads,) = axes.collections
    assert [line[:, 0].tolist() for line in spreads.get_segments()] == [[9, 20], [2, 3]]
    assert "milliseconds" in axes.get_xlabel()
    chart.draw_without_rendering()
    assert_apart([*axes.texts, *axes.get_xticklabels()])
    busy_chart = draw_times("Time", rows, None, describe_load(12.34))
    busy_chart.draw_without_rendering()
    assert "the machine was busy" in busy_chart.get_suptitle()


def assert_apart(texts):
    """Assert that texts of a figure do not overlap."""
    boxes = [text.get_window_extent() for text in texts]
    assert not any(first.overlaps(other) for first, other in combinations(boxes, 2))


def verification_of(output, measure, limit, error):
    """Return a verification with one comparison. Its relative error is half of `error`."""
    comparison = Comparison(batch=1, output=output, max_abs=error, max_rel=error / 2, cosine=0.9)
    verdict = {"measure": measure, "limit": limit, "passed": error <= limit}
    return Verification(input="pixels", comparisons=(comparison,), **verdict)


def test_errors_are_drawn_at_their_patches():
    """Errors are in the last two of three rows of patches. Two tokens precede the patches."""
    errors = np.zeros((1, 2 + 3 * 5, 4), np.float32)
    errors[0, 0], errors[0, 2 + 5 :] = 3e-4, 1e-3
    np.testing.assert_allclose(patch_means(errors, (3, 5)), [[0] * 5, [1e-3] * 5, [1e-3] * 5])
    ending = "largest 1.0e-03, mean 6.1e-04, of the 2 tokens before the patches 1.5e-04"
    assert describe_errors(errors, (3, 5)).endswith(ending)
    outputs, verdict = {"last_hidden_state": errors}, "at worst 1.0e-03, allowed ≤ 1e-04"
    rows = residual_rows(
        "a file", outputs, (3, 5), verification_of(*outputs, "max_abs", 1e-4, 1e-3)
    ) + residual_rows("another", outputs, (3, 5), verification_of(*outputs, "max_rel", 1e-1, 1e-3))
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
