"""`zoo show`: features as pictures, beside scikit-learn and transformers; and charts of `--plot`.

The charts of `zoo bench` and `zoo verify` are asked for by tests/test_pages.py.
"""

import jax
import numpy as np
import pytest
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

from zoo import from_pretrained, preprocess
from zoo.images.photograph import photographs
from zoo.show.chart import bars, draw_residuals, patch_means, summary
from zoo.show.draw import components, likeness, ramp
from zoo.show.features import of_file, of_model

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


def test_the_ramp_goes_from_dark_to_bright():
    brightness = ramp(np.linspace(-3, 7, 50, dtype=np.float32)).astype(int).sum(-1)
    assert (np.diff(brightness) >= 0).all()
    assert ramp(np.zeros((2, 2), np.float32)).shape == (2, 2, 3)


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
    assert "gives no last_hidden_state" in zoo("show", "a.onnx", "a.png", code=2).error


def test_the_command(zoo):
    for index, picture in enumerate(photographs(2)):
        picture.save(f"{index}.png")
    command = ["show", "vit_digits", "0.png", "1.png", "--size", "8x12", "--patch", "3,0"]
    assert zoo(*command).out == "features.png: 4 x 6 patches an image\n"
    picture = np.asarray(Image.open("features.png"))
    assert picture.shape == (24 + 2 * (152 + 8) + 8, 4 * (228 + 8) + 8, 3)
    assert "features.png exists already" in zoo(*command, code=2).error
    told = zoo(*command[:-1], "4,0", "--force", code=2).error
    assert "--patch 4,0 is outside: there are 4 rows and 6" in told


def test_bars_are_as_long_as_the_numbers():
    groups = {"one.onnx": {"median": 1.0, "fastest": 2.0}, "two.onnx": {"median": None}}
    (axes,) = bars("Ratios", groups, mark=1).axes
    assert [bar.get_width() for bar in axes.patches] == [1.0, 0.0, 2.0]
    assert [text.get_text() for text in axes.texts] == ["1.00", "not run", "2.00"]


def test_errors_are_drawn_where_they_are():
    """The last two rows of three are wrong; two tokens lie before the patches."""
    errors = np.zeros((1, 2 + 3 * 5, 4), np.float32)
    errors[0, 0], errors[0, 2 + 5 :] = 3e-4, 1e-3
    np.testing.assert_allclose(patch_means(errors, (3, 5)), [[0] * 5, [1e-3] * 5, [1e-3] * 5])
    told = "largest 1.0e-03, mean 6.1e-04, of the 2 tokens before the patches 1.5e-04"
    assert summary("last_hidden_state", errors, (3, 5)).endswith(told)
    left, right = draw_residuals([("a file", {"last_hidden_state": errors}, (3, 5))]).axes
    np.testing.assert_array_equal(left.images[0].get_array(), patch_means(errors, (3, 5)))
    counts = {bar.get_x(): bar.get_height() for bar in right.patches if bar.get_height()}
    assert list(counts.values()) == [6 * 4, 4, 10 * 4] and sorted(counts) == [*counts]
    as_map = np.moveaxis(errors[:, 2:].reshape(1, 3, 5, 4), 3, 1)
    np.testing.assert_array_equal(patch_means(as_map, (3, 5)), patch_means(errors, (3, 5)))
    assert patch_means(np.ones((1, 7), np.float32), (3, 5)).shape == (1, 7)
    heads = np.moveaxis(errors[:, 2:], 2, 1)
    np.testing.assert_array_equal(patch_means(heads, (3, 5)), patch_means(errors, (3, 5)))
