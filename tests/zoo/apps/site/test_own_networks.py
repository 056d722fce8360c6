"""Pages of networks of somebody's own: the browser says what the zoo says."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from transformers import EomtDinov3ForUniversalSegmentation

from tests.browser import served
from tests.references.areas import AREAS
from tests.references.classifiers import CLASSES
from tests.zoo.texts.test_texts import build_tips
from zoo.apps.site.write import write_site
from zoo.artifacts.read import read_folder_manifest
from zoo.artifacts.session import load
from zoo.cli.app import app
from zoo.cli.console import run_command
from zoo.common.progress import LogProgress
from zoo.images.photograph import photograph
from zoo.images.pixel_values import size_inside
from zoo.tasks import maps

from .conftest import canvas_of, nothing_is_in_the_way, pixels, said, seen
from .test_browser import ANSWERED

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folders of `zoo build`, by family."""
    place, own = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("own")
    # A network that is sure of its queries' classes.
    model = EomtDinov3ForUniversalSegmentation.from_pretrained(AREAS["eomt"](own / "eomt").path)
    model.class_predictor.weight.data *= 20
    model.save_pretrained(own / "eomt")
    patches = AREAS["patches"](own / "patches").path
    given = {"eomt": own / "eomt", "dinov2_segmentation": patches}
    for checkpoint in given.values():
        command = ["build", "--weights", str(checkpoint), "--variant", "fp32", "--offline"]
        assert run_command(app, [*command, "--out", str(place)]) == 0
    config = build_tips(own / "tips")
    command = ["build", "--weights", str(own / "tips"), "--variant", "fp32", "--offline"]
    side = str(4 * config.stride)
    assert run_command(app, [*command, "--size", side, "--out", str(place)]) == 0
    checkpoints = given | {"tipsv2_dual": own / "tips"}
    return {family: place / Path(path).stem for family, path in checkpoints.items()}


@pytest.fixture(scope="module")
def address(built, runtime, tmp_path_factory):
    """Where a site of them is served."""
    place = tmp_path_factory.mktemp("www") / "site"
    made = write_site([*built.values()], place, runtime, False, LogProgress(), runtime)
    with served(made.folder) as found:
        yield found


def asked(visit, folder):
    """The page of a network after it was given the photograph."""
    page = visit.open(f"{folder.name}.html")
    page.get_by_role("button", name="take the photograph").click()
    said(page, "Done.")
    return page


def outputs(page, folder):
    """What ONNX Runtime gives for the picture as the page shows it, and the size of the input."""
    manifest = read_folder_manifest(folder)
    how = manifest.preprocessing.settings
    session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")
    feed = {"pixel_values": seen(page, how)}
    names = [output.name for output in session.get_outputs()]
    found = zip(names, session.run(names, feed), strict=True)
    return {name: value[0] for name, value in found}, manifest.size or how.size


def test_sentences_that_exclude_each_other(visit, built):
    """TIPS' tower takes a mask beside the words; together they make 1."""
    page, texts = (
        visit.open(f"{built['tipsv2_dual'].name}.html"),
        ["a cat", "a photo of two dogs", "the sky"],
    )
    for field, text in zip(page.locator("#sentences input").all(), texts, strict=True):
        field.fill(text)
    page.get_by_role("button", name="photograph").click()
    page.wait_for_function(ANSWERED, arg=texts, timeout=60_000)
    picture = canvas_of(page.locator("#seen"))
    found = load(str(built["tipsv2_dual"])).classify(picture, texts, template="{}")
    wanted = {answer.label: answer.score for answer in found}
    shares = page.locator("#bars .share").evaluate_all("all => all.map(({ title }) => +title)")
    np.testing.assert_allclose(shares, [wanted[text] for text in texts], rtol=0, atol=1e-5)
    assert abs(sum(shares) - 1) < 1e-6 and np.std(shares) > 0.01


def legend(page):
    """Colour, label and per cent of every segment."""
    rows = "rows => rows.map(row => [row.querySelector('.swatch').style.backgroundColor, "
    rows += "row.querySelector('.label').innerText, parseFloat(row.lastChild.innerText)])"
    for colour, label, share in page.locator("#areas li").evaluate_all(rows):
        yield [int(band) for band in colour[4:-1].split(",")], label, share


def test_areas_of_queries_are_those_of_python(visit, built):
    page = asked(visit, built["eomt"])
    found, size = outputs(page, built["eomt"])
    shown = size_inside((photograph().height, photograph().width), size)
    want = maps.post_process_panoptic_segmentation(maps.QueryMasks(found, shown, size))
    assert len(want.segments_info) >= 2 and shown[0] < size[0]
    drawn = pixels(page, "fp32: areas")
    told = list(legend(page))
    assert drawn.shape == (*size, 3) and not drawn[shown[0] :].any()
    part = drawn[: shown[0]]
    assert (part[want.segmentation == maps.NO_SEGMENT] == 0).all()
    for segment, (colour, label, score) in zip(want.segments_info, told, strict=True):
        assert label == CLASSES[segment.label_id] and abs(score / 100 - segment.score) < 6e-4
        assert ((part == colour).all(-1) == (want.segmentation == segment.id)).all()
    nothing_is_in_the_way(page)
    visit.shoot("areas", "section[aria-labelledby=try]")


def test_areas_of_patches_are_those_of_python(visit, built):
    page = asked(visit, built["dinov2_segmentation"])
    found, size = outputs(page, built["dinov2_segmentation"])
    want = maps.class_map(found["logits"], size)
    drawn, told = pixels(page, "fp32: areas"), list(legend(page))
    assert len(told) >= 2
    for colour, label, share in told:
        area = want == CLASSES.index(label)
        assert ((drawn == colour).all(-1) == area).all() and abs(share / 100 - area.mean()) < 6e-4
    middle = CLASSES[want[size[0] // 2 + 7, size[1] // 2 + 7]]
    assert page.locator("#patch").inner_text().endswith(f"There: fp32 {middle}.")
