"""Numbers of pages, compared with `zoo.load` on the same picture, for a model of every task."""

import base64
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from zoo.artifacts.session import load
from zoo.data.digits.data import split_digits
from zoo.data.digits.scattered import scatter
from zoo.images.photograph import photograph

from .conftest import BOXES, PICTURES, WORDS, read_model_input

pytestmark = pytest.mark.full

ROUNDING = 2e-5
"""Four times the largest measured difference, 4.9e-6, for outputs of unit size. The pixels are the
same 8-bit values, so that only the order of float32 sums in WebAssembly differs."""

ASK = """async ([name, text]) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.codePointAt(0));
    const [model, picture, views] = await Promise.all(
        ["model", "picture", "views"].map((module) => import(`/assets/${module}.js`)));
    const given = await picture.read(new Blob([bytes], { type: "image/png" }));
    const { values, found, classes } = await views.read(await model.run(name, given), given);
    return { values: Array.from(values), found, classes };
}"""


def compute_in_page(page, picture):
    """Run the model of a page on a picture. Return values, boxes and classes in full precision."""
    file = BytesIO()
    picture.save(file, "PNG")
    return page.evaluate(ASK, ["fp32", base64.b64encode(file.getvalue()).decode()])


def open_page_and_model(visit, site, name):
    """Open the page of a model. Return the page and the model in Python."""
    return visit.open(f"{name}.html"), load(site.folder / "models" / name)


@pytest.mark.parametrize("name", ["vit_digits", PICTURES])
@pytest.mark.parametrize("odd", [0, 1], ids=["even", "odd"])
def test_features_and_classes(visit, site, name, odd):
    """The picture needs no resizing, and is cropped by an even or an odd number of pixels."""
    page, model = open_page_and_model(visit, site, name)
    preprocessing = model.manifest.preprocessing.settings
    size = (
        preprocessing.size[::-1]
        if preprocessing.resize is None
        else (preprocessing.resize + 44 + odd, preprocessing.resize)
    )
    picture = photograph().resize(size)
    actual = compute_in_page(page, picture)
    expected = model(picture)["last_hidden_state"]
    np.testing.assert_allclose(actual["values"], expected.ravel(), rtol=0, atol=ROUNDING)
    (answer,) = model.answer(picture)
    assert [row["label"] for row in actual["classes"]] == [row.label for row in answer.answers]
    scores = [row["score"] for row in actual["classes"]]
    np.testing.assert_allclose(scores, [row.score for row in answer.answers], rtol=0, atol=ROUNDING)
    assert expected.std() > 0.1


def test_depths(visit, site):
    page, model = open_page_and_model(visit, site, "depth_digits")
    picture = photograph().resize((32, 32))
    (answer,) = model.answer(picture)
    actual = compute_in_page(page, picture)["values"]
    np.testing.assert_allclose(actual, answer.values.ravel(), rtol=0, atol=ROUNDING)
    assert np.std(actual) > 0.05


def test_boxes(visit, site):
    """The boxes are of scattered digits. The page also has boxes with lower scores."""
    page, model = open_page_and_model(visit, site, BOXES)
    canvas = scatter(split_digits()[1], 1, 3).images[0]
    picture = Image.fromarray((255 * canvas).round().astype(np.uint8)).convert("RGB")
    (answer,) = model.answer(picture, 0.5)
    boxes = [box for box in compute_in_page(page, picture)["found"] if box["score"] > 0.5]
    assert len(answer.boxes) >= 2
    assert [str(box["label"]) for box in boxes] == [row.label for row in answer.answers]
    scores = [row.score for row in answer.answers]
    np.testing.assert_allclose([box["score"] for box in boxes], scores, rtol=0, atol=ROUNDING)
    corners = 64 * np.array([box["corners"] for box in boxes])
    np.testing.assert_allclose(corners, answer.boxes, rtol=0, atol=64 * ROUNDING)


def test_sentences(visit, site):
    """Python has an empty template, because the page does not put labels into a sentence."""
    page, model = open_page_and_model(visit, site, WORDS)
    texts = page.locator("#sentences input").evaluate_all("all => all.map(({ value }) => value)")
    file = BytesIO()
    picture = photograph().resize((8, 8))
    picture.save(file, "PNG")
    page.set_input_files(
        "#file", {"name": "a.png", "mimeType": "image/png", "buffer": file.getvalue()}
    )
    page.locator("#status", has_text="The likeliest is").wait_for(timeout=60_000)
    actual = page.locator("#bars .share").evaluate_all("all => all.map(({ title }) => +title)")
    expected = {row.label: row.score for row in model.classify(picture, texts, template="{}")}
    np.testing.assert_allclose(actual, [expected[text] for text in texts], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(("name", "max_difference"), [(PICTURES, 1), ("depth_digits", 3)])
def test_resizing_is_nearly_that_of_pillow(visit, site, name, max_difference):
    """The browser resizes pictures. The mean difference in levels of 8 bits is limited: 0.7 and 2.0
    were measured. The resizing of transformers.js has no antialiasing and differs by 0.8 and
    8.3."""
    page, model = open_page_and_model(visit, site, name)
    page.get_by_role("button", name="photograph").click()
    page.locator("#status", has_text="Done.").wait_for(timeout=60_000)
    preprocessing = model.manifest.preprocessing.settings
    difference = abs(read_model_input(page, preprocessing) - model.preprocess(photograph()))
    assert (
        difference * np.array(preprocessing.std)[:, None, None]
    ).mean() / preprocessing.rescale < max_difference
