"""The site in a browser: computed values, displayed texts, and accessibility."""

import math

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from zoo.apps.show.feature_figure import cosine_to_patch
from zoo.artifacts.session import load
from zoo.data.digits.data import load_digits
from zoo.images.pixel_values import pixel_values
from zoo.registry.lookup import MODELS
from zoo.tasks.maps import map_to_colours, principal_components

from .conftest import (
    BOXES,
    PICTURES,
    WORDS,
    assert_accessible,
    call_in_page,
    read_canvas,
    read_map,
    read_model_input,
    wait_for_status,
)

pytestmark = pytest.mark.full

ON_PHONE_AND_DESKTOP = pytest.mark.parametrize(
    "visit", [(390, "dark"), (1280, "light")], indirect=True, ids=str
)


def arc(x, y, radius_x, radius_y, start, end, count=10):
    """Return points of an elliptic arc around (x, y) between two angles in degrees."""
    angles = [math.radians(start + (end - start) * step / count) for step in range(count + 1)]
    return [(x + radius_x * math.cos(angle), y + radius_y * math.sin(angle)) for angle in angles]


STROKES_OF_DIGITS = {
    0: [arc(50, 50, 28, 45, -90, 270)],
    1: [[(35, 25), (55, 5), (55, 95)]],
    7: [[(20, 8), (78, 8), (42, 96)], [(35, 52), (70, 52)]],
    3: [arc(45, 27, 25, 22, -150, 90) + arc(45, 71, 28, 23, -90, 150)],
}
"""Strokes of each digit in percent of a square. The last digit has one stroke."""


def draw(page, strokes, left, top, size):
    """Draw strokes in a square of the board. Its position and size are fractions of the board."""
    x, y, width, height = page.locator("#draw").bounding_box().values()
    origin, steps = np.array([x + width * left, y + height * top]), np.array([width, height]) / 100
    for stroke in strokes:
        first, *points = (origin + size * steps * stroke).tolist()
        page.mouse.move(*first)
        page.mouse.down()
        for point in points:
            page.mouse.move(*point)
        page.mouse.up()


@ON_PHONE_AND_DESKTOP
def test_drawn_digits_are_recognised(visit):
    page = visit.open("vit_digits.html")
    board_part = (0.1, 0.1, 0.8) if page.viewport_size["width"] < 600 else (0.55, 0.05, 0.35)
    for digit, strokes in STROKES_OF_DIGITS.items():
        page.get_by_role("button", name="Clear").click()
        wait_for_status(page, "Draw a digit.")
        draw(page, strokes, *board_part)
        wait_for_status(page, f"It says {digit},")
        # The answer is visible without scrolling.
        answer = page.locator("#status").bounding_box()
        assert page.evaluate("scrollY") == 0
        assert answer["y"] + answer["height"] < page.viewport_size["height"]
        assert page.locator("#bars .first .label").inner_text() == str(digit)
        if digit == 3:
            visit.shoot("digit", "section[aria-labelledby=try]")
    page.get_by_role("button", name="Undo").click()
    wait_for_status(page, "Draw a digit.")


def test_a_digit_is_drawn_with_the_keyboard(visit):
    page = visit.open("vit_digits.html")
    page.locator("#draw").focus()
    for key, times in (("ArrowUp", 9), (" ", 1), ("ArrowDown", 18), (" ", 1)):
        for _ in range(times):
            page.keyboard.press(key)
    wait_for_status(page, "It says 1,")


FIRST_SENTENCES = ("a three", "a seven", "an even number")
UNUSUAL_SENTENCES = (
    "This is a photo of a THREE.",
    "",
    "Somebody's picture of a 3, or perhaps of something quite different that goes on and on",
)
"""Sentences in capitals, without words, and with unknown words and more words than fit."""

ANSWERED = """texts => {
    const rows = [...document.querySelectorAll("#bars li")];
    return rows.every((row, index) =>
        row.firstChild.textContent === texts[index] && row.lastChild.title !== "");
}"""


@ON_PHONE_AND_DESKTOP
def test_scores_of_sentences_are_those_of_python(visit, site):
    """The sentences are about a drawn digit and about a photograph."""
    page = visit.open(f"{WORDS}.html")
    model = load(str(site.folder / "models" / WORDS))

    def compare_scores(texts):
        page.wait_for_function(ANSWERED, arg=list(texts), timeout=60_000)
        answers = model.classify(read_canvas(page.locator("#seen")), texts, template="{}")
        expected = {answer.label: answer.score for answer in answers}
        scores = page.locator("#bars .share").evaluate_all("all => all.map(({ title }) => +title)")
        np.testing.assert_allclose(scores, [expected[text] for text in texts], rtol=0, atol=1e-5)
        assert np.std(scores) > 0.01
        return texts[int(np.argmax(scores))]

    draw(page, STROKES_OF_DIGITS[3], 0.1, 0.1, 0.8)
    assert compare_scores(FIRST_SENTENCES) == "a three"
    visit.shoot("sentences", "section[aria-labelledby=try]")
    assert_accessible(page)
    for field, text in zip(page.locator("#sentences input").all(), UNUSUAL_SENTENCES, strict=True):
        field.fill(text)
    compare_scores(UNUSUAL_SENTENCES)
    page.get_by_role("button", name="Clear").click()
    wait_for_status(page, "are fetched with the first picture")
    page.get_by_role("button", name="photograph").click()
    compare_scores(UNUSUAL_SENTENCES)


COLOURS = """(() => {
    const rows = given[0].map((row) => Float64Array.from(row));
    const table = m.scores(rows, m.principal(rows));
    return m.colours(table, table);
})()"""


@pytest.mark.parametrize(("count", "dim"), [(35, 12), (12, 35), (40, 2)])
def test_components_are_those_of_the_command_line(visit, count, dim):
    page = visit.open()
    random = np.random.default_rng(1)
    rows = random.standard_normal((count, dim)) * 0.8 ** np.arange(dim)
    rows = (rows + random.standard_normal(dim)).astype(np.float32)
    expected = principal_components(rows[None, None])[0, 0]
    actual = np.array(call_in_page(page, "features.js", COLOURS, rows.tolist()))
    assert actual.shape == expected.shape and abs(actual - expected).max() <= 1


DROP = """async (address) => {
    const bytes = await (await fetch(address)).blob();
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], "cat.png", { type: "image/png" }));
    const happening = { dataTransfer, bubbles: true, cancelable: true };
    for (const kind of ["dragover", "drop"])
        document.getElementById("drop").dispatchEvent(new DragEvent(kind, happening));
}"""


DISTURBED = "times => import('./assets/pictures.js').then((m) => times.map(m.isDisturbed))"


@pytest.mark.parametrize("visit", [(390, "dark")], indirect=True, ids=str)
def test_features_of_a_dropped_photograph(visit, site):
    page = visit.open(f"{PICTURES}.html")
    page.evaluate(DROP, f"models/{PICTURES}/photograph.png")
    wait_for_status(page, "Done.")
    # ONNX Runtime in Python runs the same file on the same pixels.
    preprocessing = MODELS[PICTURES].preprocessing
    session = onnxruntime.InferenceSession(site.folder / f"models/{PICTURES}/onnx/model.onnx")
    feed = {"pixel_values": read_model_input(page, preprocessing)}
    tokens, logits = session.run(["last_hidden_state", "logits"], feed)
    expected = principal_components(tokens[:, -196:].reshape(1, 14, 14, -1))[0]
    shown = read_map(page, "fp32: principal components").astype(int)
    assert abs(shown - expected).max() <= 1
    best = np.argsort(-logits[0])[:5]
    names = MODELS[PICTURES].class_names
    assert page.locator("#classes .label").all_inner_texts() == [names[index] for index in best]
    # The outputs of int8 are similar and not equal.
    page.locator("#numbers th", has_text="Fastest of 5").wait_for(timeout=60_000)
    times = [[9, 10, 10, 11], [9, 9, 20, 42], [0.1, 0.1, 0.2, 0.4]]
    assert page.evaluate(DISTURBED, times) == [False, True, False]
    row = page.locator("#numbers tbody tr").nth(1).locator("td").all_inner_texts()
    assert 0.999 < float(row[-1]) < 1 and 0 < float(row[-2]) < 1
    # A patch is selected with the mouse in any map, or with the keyboard.
    before = read_map(page, "fp32: likeness to the patch")
    canvas = page.locator("canvas[aria-label='int8: principal components']")
    canvas.scroll_into_view_if_needed()
    side = canvas.bounding_box()["width"] / 14
    canvas.click(position={"x": 0.6 * side, "y": 2.5 * side})
    patch_text = page.locator("#patch")
    assert patch_text.inner_text().startswith("Chosen: row 3, column 1.")
    page.get_by_role("application").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert patch_text.inner_text().startswith("Chosen: row 4, column 3.")
    assert (read_map(page, "fp32: likeness to the patch") != before).any()
    assert_accessible(page)
    visit.shoot("features", "section[aria-labelledby=try]")
    # At 448 pixels there are four times as many patches. Scales show the range of the colours.
    page.get_by_label("Pixels").select_option("1")
    canvas = page.locator("canvas[aria-label='fp32: principal components']")
    canvas.and_(page.locator("[width='28']")).wait_for(timeout=60_000)
    (tokens, _) = session.run(
        ["last_hidden_state", "logits"], {"pixel_values": read_model_input(page, preprocessing)}
    )
    patches = tokens[:, -784:].reshape(1, 28, 28, -1)
    shown = read_map(page, "fp32: principal components").astype(int)
    assert abs(shown - principal_components(patches)[0]).max() <= 1
    likeness = cosine_to_patch(patches, (14, 14))
    scale = page.locator("figure", has_text="fp32: likeness").locator(".scale span")
    scale_ends = [float(text) for text in scale.all_inner_texts()]
    np.testing.assert_allclose(scale_ends, [likeness.min(), likeness.max()], rtol=0.06)


def test_depths_of_a_photograph(visit, site):
    page = visit.open("depth_digits.html")
    page.get_by_role("button", name="take the photograph").click()
    wait_for_status(page, "Done.")
    session = onnxruntime.InferenceSession(site.folder / "models/depth_digits/onnx/model.onnx")
    preprocessing = MODELS["depth_digits"].preprocessing
    (depth,) = session.run(None, {"pixel_values": read_model_input(page, preprocessing)})
    shown = read_map(page, "fp32: depth").astype(int)
    # Python has 256 colours. Half the step between two is more than one level of 8 bits.
    assert depth.max() > 0.1 and abs(shown - map_to_colours(depth[0])).max() <= 2
    assert page.locator("#patch").inner_text().startswith("Chosen: row 3, column 3. Depth there: ")
    assert_accessible(page)


def test_errors_about_pictures_are_shown(visit):
    page = visit.open(f"{PICTURES}.html")
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": b"none"})
    wait_for_status(page, "It does not work: the browser cannot read this file as a picture.")
    for box in page.locator("#chosen input").all():
        box.uncheck()
    page.get_by_role("button", name="take the photograph").click()
    wait_for_status(page, "It does not work: tick at least one file.")


def read_column(page, field):
    """Return the texts of a visible column of the table of models."""
    return page.locator(f"#models tr:visible td[data-field={field}]").all_inner_texts()


def shown_models(page):
    """Return the names of the visible models in order.

    Each name has to be in the first row of the model's files.
    """
    groups = page.locator("#models tbody:visible")
    for group in groups.all():
        rows = group.locator("tr:visible")
        assert rows.first.locator("th").count() == 1
        assert int(group.locator("th").get_attribute("rowspan")) == rows.count()
    return groups.locator("th a").all_inner_texts()


BY_NAME = sorted([PICTURES, WORDS, BOXES, "depth_digits", "vit_digits"])


@ON_PHONE_AND_DESKTOP
def test_the_table_is_sorted_and_filtered(visit):
    """The address holds filters and order. Without results, a button removes the filters."""
    page = visit.open("index.html?family=nobody&length=1&sort=--bytes")
    assert shown_models(page) == BY_NAME and len(read_column(page, "variant")) == 13
    # Models are ordered by their smallest file. WORDS has a tower of 0.1 MB.
    page.get_by_label("Sort by").select_option("bytes")
    by_size = [WORDS, "vit_digits", "depth_digits", BOXES, PICTURES]
    assert shown_models(page) == by_size
    page.get_by_label("Precision").select_option("int8")
    page.get_by_label("Search").fill("digits")
    order = "bytes"
    if page.viewport_size["width"] > 600:
        page.get_by_role("button", name="Size").focus()
        page.keyboard.press("Enter")
        order = "-bytes"
        assert page.locator("th[aria-sort=descending]").inner_text().startswith("Size")
    expected = ["depth_digits", WORDS, "vit_digits"] if order == "-bytes" else by_size[:3]
    for _ in range(2):
        assert shown_models(page) == expected
        assert page.get_by_role("status").inner_text() == "3 of 5 models, 5 of 13 files"
        assert page.url.endswith(f"?text=digits&precision=int8&sort={order}")
        page.reload()
    assert page.get_by_label("Search").input_value() == "digits"
    page.get_by_label("Search").fill("a cat")
    assert page.get_by_text("Asked for: search a cat, precision int8.").is_visible()
    assert not page.locator("#models").is_visible()
    assert_accessible(page)
    visit.shoot("nothing-fits")
    page.get_by_role("button", name="Show all models").click()
    assert shown_models(page) == BY_NAME and "?" not in page.url


@pytest.mark.parametrize(
    "visit", [(390, "light"), (390, "dark"), (1280, "dark"), (1280, "light")], indirect=True
)
def test_pages_are_accessible_and_fit_the_screen(visit):
    """axe-core finds no fault, and no page is wider than the screen."""
    for name in ("index", "vit_digits", PICTURES, "depth_digits", BOXES, WORDS, "search"):
        page = visit.open(f"{name}.html")
        for summary in page.locator("summary").all():
            summary.click()
        radius_x = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(radius_x) == 0
        assert_accessible(page)
        visit.shoot(name)


def read_keys(page):
    """Return the keys of the displayed search results in order."""
    return [text.split(",")[0] for text in page.locator("#found .label").all_inner_texts()]


@ON_PHONE_AND_DESKTOP
def test_a_dataset_is_searched(visit, site, digits):
    """Results for a picture, a row and a text are in the order of cosines computed in Python."""
    page = visit.open("search.html")
    page.locator("#found li").nth(23).wait_for()
    assert read_keys(page) == [f"{row:02}.png" for row in range(24)]
    paths = sorted(digits.iterdir())
    preprocessing, folder = MODELS[WORDS].preprocessing, site.folder / "models" / WORDS
    session = onnxruntime.InferenceSession(folder / "onnx" / "vision_model.onnx")
    inputs = pixel_values(
        [Image.open(path).convert("RGB") for path in paths], preprocessing, preprocessing.size
    )
    (vectors,) = session.run(["pooler_output"], {"pixel_values": inputs})
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    page.get_by_title("More like 07.png").click()
    wait_for_status(page, "Like 07.png: 60 rows.")
    cosines = vectors @ vectors[7]
    assert read_keys(page)[0] == "07.png" and is_sorted_by_cosine(read_keys(page), cosines)
    page.get_by_role("button", name="Show more").click()
    assert page.locator("#found li").count() == 48
    page.set_input_files("#file", paths[33])
    wait_for_status(page, "Like your picture: 60 rows.")
    cosines = vectors @ vectors[33]
    assert read_keys(page)[0] == "33.png" and is_sorted_by_cosine(read_keys(page), cosines)
    shown = page.locator("#found .label").first.inner_text()
    assert shown == "33.png, 1.000"
    page.get_by_label("in words").fill("a photo of the number three")
    page.get_by_role("button", name="Search").click()
    wait_for_status(page, "“a photo of the number three”: 60 rows.")
    (text,) = load(str(folder)).text(["a photo of the number three"])
    cosines = vectors @ text
    assert is_sorted_by_cosine(read_keys(page), cosines)
    threes = {f"{row:02}.png" for row in np.flatnonzero(load_digits().labels[:60] == 3)}
    assert {*read_keys(page)[: len(threes)]} == threes
    page.set_input_files("#file", paths[33])
    page.get_by_label("Only keys with").fill("4.")
    wait_for_status(page, "Like your picture: 6 of 60 rows.")
    assert {key[1] for key in read_keys(page)} == {"4"}
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": b"none"})
    wait_for_status(page, "It does not work: the browser cannot read this file as a picture.")
    page.get_by_label("Only keys with").fill("")
    assert_accessible(page)
    visit.shoot("search")


def is_sorted_by_cosine(keys, cosines):
    """Return whether results are ordered by cosine, and rows without one have smaller cosines.

    The page rounds vectors to float16, so that near cosines may change their order.
    """
    cosines_of_keys = [cosines[int(key[:2])] for key in keys]
    left_out = set(range(len(cosines))) - {int(key[:2]) for key in keys}
    return (
        all(np.diff(cosines_of_keys) < 2e-3)
        and max(cosines[[*left_out]]) < cosines_of_keys[-1] + 2e-3
    )
