"""Pages of networks from users' checkpoints: the answers of the browser are those of Python."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from transformers import EomtDinov3ForUniversalSegmentation

from tests.browser import served
from tests.command import call_zoo
from tests.references.areas import AREAS
from tests.references.classifiers import CLASSES
from tests.zoo.texts.test_texts import build_tips
from zoo.apps.site.write import write_site
from zoo.artifacts.read import read_folder_manifest
from zoo.artifacts.session import load
from zoo.common.progress import LogProgress
from zoo.images.photograph import photograph
from zoo.images.pixel_values import fit_size
from zoo.tasks import maps

from .conftest import assert_accessible, read_canvas, read_map, read_model_input, wait_for_status
from .test_browser import ANSWERED

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def built_folders(tmp_path_factory):
    """Folders of `zoo build` by family."""
    out, checkpoints_folder = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("own")
    # The factor makes the network sure of the classes of its queries.
    model = EomtDinov3ForUniversalSegmentation.from_pretrained(
        AREAS["eomt"](checkpoints_folder / "eomt").path
    )
    model.class_predictor.weight.data *= 20
    model.save_pretrained(checkpoints_folder / "eomt")
    patches = AREAS["patches"](checkpoints_folder / "patches").path
    vision_checkpoints = {"eomt": checkpoints_folder / "eomt", "dinov2_segmentation": patches}
    for checkpoint in vision_checkpoints.values():
        command = ["build", "--weights", str(checkpoint), "--variant", "fp32", "--offline"]
        assert call_zoo(*command, "--out", out) == 0
    config = build_tips(checkpoints_folder / "tips")
    command = [
        "build",
        "--weights",
        str(checkpoints_folder / "tips"),
        "--variant",
        "fp32",
        "--offline",
    ]
    side = str(4 * config.stride)
    assert call_zoo(*command, "--size", side, "--out", out) == 0
    checkpoints = vision_checkpoints | {"tipsv2_dual": checkpoints_folder / "tips"}
    return {family: out / Path(path).stem for family, path in checkpoints.items()}


@pytest.fixture(scope="module")
def address(built_folders, runtime, tmp_path_factory):
    """The URL at which a site of the folders is served."""
    root = tmp_path_factory.mktemp("www") / "site"
    site = write_site([*built_folders.values()], root, runtime, False, LogProgress(), runtime)
    with served(site.folder) as url:
        yield url


def open_with_photograph(visit, folder):
    """Open the page of a network and give it the photograph. Return the page."""
    page = visit.open(f"{folder.name}.html")
    page.get_by_role("button", name="take the photograph").click()
    wait_for_status(page, "Done.")
    return page


def run_model(page, folder):
    """Return the outputs of ONNX Runtime for the picture of the page, and the size of the input."""
    manifest = read_folder_manifest(folder)
    preprocessing = manifest.preprocessing.settings
    session = onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")
    feed = {"pixel_values": read_model_input(page, preprocessing)}
    names = [output.name for output in session.get_outputs()]
    outputs = zip(names, session.run(names, feed), strict=True)
    return {name: value[0] for name, value in outputs}, manifest.size or preprocessing.size


def test_sentences_that_exclude_each_other(visit, built_folders):
    """TIPS' text tower also takes a mask. The scores of its sentences sum to 1."""
    page, texts = (
        visit.open(f"{built_folders['tipsv2_dual'].name}.html"),
        ["a cat", "a photo of two dogs", "the sky"],
    )
    for field, text in zip(page.locator("#sentences input").all(), texts, strict=True):
        field.fill(text)
    page.get_by_role("button", name="photograph").click()
    page.wait_for_function(ANSWERED, arg=texts, timeout=60_000)
    picture = read_canvas(page.locator("#seen"))
    answers = load(str(built_folders["tipsv2_dual"])).classify(picture, texts, template="{}")
    expected = {answer.label: answer.score for answer in answers}
    shares = page.locator("#bars .share").evaluate_all("all => all.map(({ title }) => +title)")
    np.testing.assert_allclose(shares, [expected[text] for text in texts], rtol=0, atol=1e-5)
    assert abs(sum(shares) - 1) < 1e-6 and np.std(shares) > 0.01


def read_legend(page):
    """Yield the colour, label and percentage of every segment."""
    rows = "rows => rows.map(row => [row.querySelector('.swatch').style.backgroundColor, "
    rows += "row.querySelector('.label').innerText, parseFloat(row.lastChild.innerText)])"
    for colour, label, share in page.locator("#areas li").evaluate_all(rows):
        yield [int(band) for band in colour[4:-1].split(",")], label, share


def test_areas_of_queries_are_those_of_python(visit, built_folders):
    page = open_with_photograph(visit, built_folders["eomt"])
    outputs, size = run_model(page, built_folders["eomt"])
    picture_size = fit_size((photograph().height, photograph().width), size)
    expected = maps.post_process_panoptic_segmentation(maps.QueryMasks(outputs, picture_size, size))
    assert len(expected.segments_info) >= 2 and picture_size[0] < size[0]
    drawn = read_map(page, "fp32: areas")
    segments = list(read_legend(page))
    assert drawn.shape == (*size, 3) and not drawn[picture_size[0] :].any()
    picture_part = drawn[: picture_size[0]]
    assert (picture_part[expected.segmentation == maps.NO_SEGMENT] == 0).all()
    for segment, (colour, label, score) in zip(expected.segments_info, segments, strict=True):
        assert label == CLASSES[segment.label_id] and abs(score / 100 - segment.score) < 6e-4
        assert ((picture_part == colour).all(-1) == (expected.segmentation == segment.id)).all()
    assert_accessible(page)
    visit.shoot("areas", "section[aria-labelledby=try]")


def test_areas_of_patches_are_those_of_python(visit, built_folders):
    page = open_with_photograph(visit, built_folders["dinov2_segmentation"])
    outputs, size = run_model(page, built_folders["dinov2_segmentation"])
    expected = maps.class_map(outputs["logits"], size)
    drawn, segments = read_map(page, "fp32: areas"), list(read_legend(page))
    assert len(segments) >= 2
    for colour, label, share in segments:
        area = expected == CLASSES.index(label)
        assert ((drawn == colour).all(-1) == area).all() and abs(share / 100 - area.mean()) < 6e-4
    middle = CLASSES[expected[size[0] // 2 + 7, size[1] // 2 + 7]]
    assert page.locator("#patch").inner_text().endswith(f"There: fp32 {middle}.")
