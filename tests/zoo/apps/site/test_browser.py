"""The site in a real browser: what it computes, what it shows, and for whom."""

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
    canvas_of,
    in_page,
    nothing_is_in_the_way,
    pixels,
    said,
    seen,
)

pytestmark = pytest.mark.full

BOTH = pytest.mark.parametrize("visit", [(390, "dark"), (1280, "light")], indirect=True, ids=str)


def arc(x, y, wide, tall, begin, end, count=10):
    turns = [math.radians(begin + (end - begin) * step / count) for step in range(count + 1)]
    return [(x + wide * math.cos(turn), y + tall * math.sin(turn)) for turn in turns]


DIGITS = {
    0: [arc(50, 50, 28, 45, -90, 270)],
    1: [[(35, 25), (55, 5), (55, 95)]],
    7: [[(20, 8), (78, 8), (42, 96)], [(35, 52), (70, 52)]],
    3: [arc(45, 27, 25, 22, -150, 90) + arc(45, 71, 28, 23, -90, 150)],
}
"""Strokes in percent of a square, as a hand draws them; the last digit has one alone."""


def draw(page, strokes, left, top, size):
    """Draw in a part of the board, whose place and size are shares of it."""
    x, y, width, height = page.locator("#draw").bounding_box().values()
    begin, steps = np.array([x + width * left, y + height * top]), np.array([width, height]) / 100
    for stroke in strokes:
        first, *places = (begin + size * steps * stroke).tolist()
        page.mouse.move(*first)
        page.mouse.down()
        for place in places:
            page.mouse.move(*place)
        page.mouse.up()


@BOTH
def test_digits_are_recognised_wherever_they_are_drawn(visit):
    page = visit.open("vit_digits.html")
    place = (0.1, 0.1, 0.8) if page.viewport_size["width"] < 600 else (0.55, 0.05, 0.35)
    for digit, strokes in DIGITS.items():
        page.get_by_role("button", name="Clear").click()
        said(page, "Draw a digit.")
        draw(page, strokes, *place)
        said(page, f"It says {digit},")
        # Nobody has to scroll for the answer.
        answer = page.locator("#status").bounding_box()
        assert page.evaluate("scrollY") == 0
        assert answer["y"] + answer["height"] < page.viewport_size["height"]
        assert page.locator("#bars .first .label").inner_text() == str(digit)
        if digit == 3:
            visit.shoot("digit", "section[aria-labelledby=try]")
    page.get_by_role("button", name="Undo").click()
    said(page, "Draw a digit.")


def test_a_digit_is_drawn_with_the_keyboard(visit):
    page = visit.open("vit_digits.html")
    page.locator("#draw").focus()
    for key, times in (("ArrowUp", 9), (" ", 1), ("ArrowDown", 18), (" ", 1)):
        for _ in range(times):
            page.keyboard.press(key)
    said(page, "It says 1,")


FIRST = ("a three", "a seven", "an even number")
OTHERS = (
    "This is a photo of a THREE.",
    "",
    "Somebody's picture of a 3, or perhaps of something quite different that goes on and on",
)
"""In capitals, empty, and with words that are unknown and more than fit."""

ANSWERED = """texts => {
    const rows = [...document.querySelectorAll("#bars li")];
    return rows.every((row, index) =>
        row.firstChild.textContent === texts[index] && row.lastChild.title !== "");
}"""


@BOTH
def test_sentences_are_as_likely_as_in_python(visit, made):
    """About a digit that is drawn, and about a photograph."""
    page = visit.open(f"{WORDS}.html")
    built = load(str(made.folder / "models" / WORDS))

    def compare(texts):
        page.wait_for_function(ANSWERED, arg=list(texts), timeout=60_000)
        answers = built.classify(canvas_of(page.locator("#seen")), texts, template="{}")
        wanted = {answer.label: answer.score for answer in answers}
        shares = page.locator("#bars .share").evaluate_all("all => all.map(({ title }) => +title)")
        np.testing.assert_allclose(shares, [wanted[text] for text in texts], rtol=0, atol=1e-5)
        assert np.std(shares) > 0.01
        return texts[int(np.argmax(shares))]

    draw(page, DIGITS[3], 0.1, 0.1, 0.8)
    assert compare(FIRST) == "a three"
    visit.shoot("sentences", "section[aria-labelledby=try]")
    nothing_is_in_the_way(page)
    for field, text in zip(page.locator("#sentences input").all(), OTHERS, strict=True):
        field.fill(text)
    compare(OTHERS)
    page.get_by_role("button", name="Clear").click()
    said(page, "are fetched with the first picture")
    page.get_by_role("button", name="photograph").click()
    compare(OTHERS)


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
    wanted = principal_components(rows[None, None])[0, 0]
    found = np.array(in_page(page, "features.js", COLOURS, rows.tolist()))
    assert found.shape == wanted.shape and abs(found - wanted).max() <= 1


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
def test_a_photograph_is_dropped(visit, made):
    page = visit.open(f"{PICTURES}.html")
    page.evaluate(DROP, f"models/{PICTURES}/photograph.png")
    said(page, "Done.")
    # The same file elsewhere, on the same pixels.
    how = MODELS[PICTURES].preprocessing
    session = onnxruntime.InferenceSession(made.folder / f"models/{PICTURES}/onnx/model.onnx")
    feed = {"pixel_values": seen(page, how)}
    tokens, logits = session.run(["last_hidden_state", "logits"], feed)
    wanted = principal_components(tokens[:, -196:].reshape(1, 14, 14, -1))[0]
    shown = pixels(page, "fp32: principal components").astype(int)
    assert abs(shown - wanted).max() <= 1
    best = np.argsort(-logits[0])[:5]
    names = MODELS[PICTURES].class_names
    assert page.locator("#classes .label").all_inner_texts() == [names[each] for each in best]
    # int8 beside it: near, and not the same.
    page.locator("#numbers th", has_text="Fastest of 5").wait_for(timeout=60_000)
    times = [[9, 10, 10, 11], [9, 9, 20, 42], [0.1, 0.1, 0.2, 0.4]]
    assert page.evaluate(DISTURBED, times) == [False, True, False]
    row = page.locator("#numbers tbody tr").nth(1).locator("td").all_inner_texts()
    assert 0.999 < float(row[-1]) < 1 and 0 < float(row[-2]) < 1
    # A patch is chosen with the mouse in any of the maps, and with the keyboard.
    before = pixels(page, "fp32: likeness to the patch")
    canvas = page.locator("canvas[aria-label='int8: principal components']")
    canvas.scroll_into_view_if_needed()
    side = canvas.bounding_box()["width"] / 14
    canvas.click(position={"x": 0.6 * side, "y": 2.5 * side})
    chosen = page.locator("#patch")
    assert chosen.inner_text().startswith("Chosen: row 3, column 1.")
    page.get_by_role("application").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert chosen.inner_text().startswith("Chosen: row 4, column 3.")
    assert (pixels(page, "fp32: likeness to the patch") != before).any()
    nothing_is_in_the_way(page)
    visit.shoot("features", "section[aria-labelledby=try]")
    # At 448 pixels there are four times the patches; scales say what the colours stand for.
    page.get_by_label("Pixels").select_option("1")
    canvas = page.locator("canvas[aria-label='fp32: principal components']")
    canvas.and_(page.locator("[width='28']")).wait_for(timeout=60_000)
    (tokens, _) = session.run(["last_hidden_state", "logits"], {"pixel_values": seen(page, how)})
    patches = tokens[:, -784:].reshape(1, 28, 28, -1)
    shown = pixels(page, "fp32: principal components").astype(int)
    assert abs(shown - principal_components(patches)[0]).max() <= 1
    near = cosine_to_patch(patches, (14, 14))
    scale = page.locator("figure", has_text="fp32: likeness").locator(".scale span")
    told = [float(text) for text in scale.all_inner_texts()]
    np.testing.assert_allclose(told, [near.min(), near.max()], rtol=0.06)


def test_depths_of_a_photograph(visit, made):
    page = visit.open("depth_digits.html")
    page.get_by_role("button", name="take the photograph").click()
    said(page, "Done.")
    session = onnxruntime.InferenceSession(made.folder / "models/depth_digits/onnx/model.onnx")
    how = MODELS["depth_digits"].preprocessing
    (depth,) = session.run(None, {"pixel_values": seen(page, how)})
    shown = pixels(page, "fp32: depth").astype(int)
    # Python has 256 shades, half of one of which is more than a step of a band.
    assert depth.max() > 0.1 and abs(shown - map_to_colours(depth[0])).max() <= 2
    assert page.locator("#patch").inner_text().startswith("Chosen: row 3, column 3. Depth there: ")
    nothing_is_in_the_way(page)


def test_what_is_no_picture_is_said(visit):
    page = visit.open(f"{PICTURES}.html")
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": b"none"})
    said(page, "It does not work: the browser cannot read this file as a picture.")
    for box in page.locator("#chosen input").all():
        box.uncheck()
    page.get_by_role("button", name="take the photograph").click()
    said(page, "It does not work: tick at least one file.")


def column(page, field):
    return page.locator(f"#models tr:visible td[data-field={field}]").all_inner_texts()


def shown_models(page):
    """Their names in the order in which they stand, each at the top of its files."""
    groups = page.locator("#models tbody:visible")
    for group in groups.all():
        rows = group.locator("tr:visible")
        assert rows.first.locator("th").count() == 1
        assert int(group.locator("th").get_attribute("rowspan")) == rows.count()
    return groups.locator("th a").all_inner_texts()


BY_NAME = sorted([PICTURES, WORDS, BOXES, "depth_digits", "vit_digits"])


@BOTH
def test_the_table_is_sorted_and_filtered(visit):
    """What was chosen is in the address, and where nothing fits there is a way out."""
    page = visit.open("index.html?family=nobody&length=1&sort=--bytes")
    assert shown_models(page) == BY_NAME and len(column(page, "variant")) == 13
    # By the smallest file of each; WORDS has a tower of 0.1 MB.
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
    wanted = ["depth_digits", WORDS, "vit_digits"] if order == "-bytes" else by_size[:3]
    for _ in range(2):
        assert shown_models(page) == wanted
        assert page.get_by_role("status").inner_text() == "3 of 5 models, 5 of 13 files"
        assert page.url.endswith(f"?text=digits&precision=int8&sort={order}")
        page.reload()
    assert page.get_by_label("Search").input_value() == "digits"
    page.get_by_label("Search").fill("a cat")
    assert page.get_by_text("Asked for: search a cat, precision int8.").is_visible()
    assert not page.locator("#models").is_visible()
    nothing_is_in_the_way(page)
    visit.shoot("nothing-fits")
    page.get_by_role("button", name="Show all models").click()
    assert shown_models(page) == BY_NAME and "?" not in page.url


@pytest.mark.parametrize(
    "visit", [(390, "light"), (390, "dark"), (1280, "dark"), (1280, "light")], indirect=True
)
def test_pages_are_for_everybody(visit):
    """axe-core finds nothing, and no page is wider than the screen."""
    for name in ("index", "vit_digits", PICTURES, "depth_digits", BOXES, WORDS, "search"):
        page = visit.open(f"{name}.html")
        for summary in page.locator("summary").all():
            summary.click()
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) == 0
        nothing_is_in_the_way(page)
        visit.shoot(name)


def found_keys(page):
    return [text.split(",")[0] for text in page.locator("#found .label").all_inner_texts()]


@BOTH
def test_a_dataset_is_searched(visit, made, digits):
    """By a picture and by one of its own, in the order of the file that is run elsewhere."""
    page = visit.open("search.html")
    page.locator("#found li").nth(23).wait_for()
    assert found_keys(page) == [f"{row:02}.png" for row in range(24)]
    paths = sorted(digits.iterdir())
    how, place = MODELS[WORDS].preprocessing, made.folder / "models" / WORDS
    session = onnxruntime.InferenceSession(place / "onnx" / "vision_model.onnx")
    pixels = pixel_values([Image.open(path).convert("RGB") for path in paths], how, how.size)
    (vectors,) = session.run(["pooler_output"], {"pixel_values": pixels})
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    page.get_by_title("More like 07.png").click()
    said(page, "Like 07.png: 60 rows.")
    near = vectors @ vectors[7]
    assert found_keys(page)[0] == "07.png" and near_order(found_keys(page), near)
    page.get_by_role("button", name="Show more").click()
    assert page.locator("#found li").count() == 48
    page.set_input_files("#file", paths[33])
    said(page, "Like your picture: 60 rows.")
    near = vectors @ vectors[33]
    assert found_keys(page)[0] == "33.png" and near_order(found_keys(page), near)
    shown = page.locator("#found .label").first.inner_text()
    assert shown == "33.png, 1.000"
    page.get_by_label("in words").fill("a photo of the number three")
    page.get_by_role("button", name="Search").click()
    said(page, "“a photo of the number three”: 60 rows.")
    (text,) = load(str(place)).text(["a photo of the number three"])
    near = vectors @ text
    assert near_order(found_keys(page), near)
    threes = {f"{row:02}.png" for row in np.flatnonzero(load_digits().labels[:60] == 3)}
    assert {*found_keys(page)[: len(threes)]} == threes
    page.set_input_files("#file", paths[33])
    page.get_by_label("Only keys with").fill("4.")
    said(page, "Like your picture: 6 of 60 rows.")
    assert {key[1] for key in found_keys(page)} == {"4"}
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": b"none"})
    said(page, "It does not work: the browser cannot read this file as a picture.")
    page.get_by_label("Only keys with").fill("")
    nothing_is_in_the_way(page)
    visit.shoot("search")


def near_order(keys, near):
    """Whether rows are in the order of their cosines, which are rounded to float16."""
    cosines = [near[int(key[:2])] for key in keys]
    left_out = set(range(len(near))) - {int(key[:2]) for key in keys}
    return all(np.diff(cosines) < 2e-3) and max(near[[*left_out]]) < cosines[-1] + 2e-3
