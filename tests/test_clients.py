"""Programs of other people, such as transformers.js and transformers, run built folders and give
what JAX gives.

The tests are skipped with a reason if Node is missing or packages cannot be installed.
"""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image

import converter
import zoo
from tests.browser import served
from tests.clients import environments, folders
from tests.clients.limits import FEATURES, RESIZED, ROUNDING, assert_equals, levels
from tests.clients.tensors import decode, decode_all
from tests.formats import in_transformers, leaves, small
from tests.references import clip
from tests.references.classifiers import BREEDS, trained
from tests.references.towers import LABELS, save_clip, save_towers
from tests.seeded import values_of
from zoo.artifacts.read import read_folder_manifest
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values
from zoo.texts.tokenizer import read_tokenizer

pytestmark = pytest.mark.full

MODELS = ("dinov3_vits16", "vit_tiny_patch16_224")
"""Two models, which differ in resizing (stretched or cropped), in whether transformers has a class
for them, and in whether they have logits."""

NAMES = dict.fromkeys(("fp32", "fused", "fp16", "int8", "q4", "q4f16"), "model")
"""The name of every variant's file, without the suffix of its precision."""
NAMES["fused"] = "model_fused"
"""Of every variant's file, without the ending that stands for its precision."""

DTYPES = {"fused": "fp32", "int8": "q8"}
"""The names of precisions in transformers.js, if they differ from ours."""

FAMILIES = (
    *("dinov3_vits16", "dinov3_convnext_tiny", "dinov2_vits14", "dinov2_vits14_reg"),
    *("siglip2_vitb16_224", "tips_vits14_hr", "eupe_convnext_tiny", "vit_tiny_patch16_224"),
    *("vit5_small", "convnextv2_atto", "clip_vitb32"),
)
"""One model for each form of config.json and preprocessor_config.json."""


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """A folder that the test workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "clients"
    root.mkdir(exist_ok=True)
    return root


@pytest.fixture(scope="session")
def node(root):
    """A folder with the programs in JavaScript and their packages."""
    return folders.node_folder(root, environments.node())


@pytest.fixture(scope="session", params=MODELS)
def folder(request, root):
    """A built folder with all variants of a model."""
    return folders.build(root, request.param, "--variant", ",".join(NAMES))


def test_transformers_js(node, folder, tmp_path):
    photo = str(folder.path / "photograph.png")
    unresized = folders.fitting(folder.preprocessing, tmp_path / "fits.png")
    variants = {
        variant: {"model_file_name": name, "dtype": DTYPES.get(variant, variant)}
        for variant, name in NAMES.items()
    }
    request = folder.request(pictures=[photo, str(unresized)], variants=variants)
    answer = folders.ask(["node", node / "run_transformers_js.mjs"], request)
    for variant, outputs in answer["outputs"].items():
        assert_equals(variant, decode_all(outputs), folder.outputs)
    pixels = decode_all(answer["processed"])
    assert levels(pixels[photo], folder.outputs["pixel_values"], folder.preprocessing) < RESIZED
    with Image.open(unresized) as image:
        expected = pixel_values([image], folder.preprocessing, folder.preprocessing.size)
    np.testing.assert_allclose(pixels[str(unresized)], expected, rtol=0, atol=ROUNDING)
    for name, value in decode_all(answer["features"]).items():
        assert converter.compare(value, folder.outputs[name]).cosine >= FEATURES


def test_onnxruntime_web(node, folder):
    request = folder.request(files=folder.variants)
    answer = folders.ask(["node", node / "run_onnxruntime_web.mjs"], request)
    assert set(answer["outputs"]) == set(NAMES)
    for variant, outputs in answer["outputs"].items():
        assert_equals(variant, decode_all(outputs), folder.outputs)


def in_a_browser(node, folder, options):
    """Return the files that transformers.js downloads with each of these options, and the outputs
    that it computes."""
    request = folder.request(options=options)
    answer = folders.ask_and_stop(["node", node / "run_browser.mjs"], request)
    return {
        name: (
            set(answer_of_options["files"]) - {"config.json"},
            decode_all(answer_of_options["outputs"]),
        )
        for name, answer_of_options in answer.items()
    }


def test_a_browser_needs_no_options(node, folder):
    options = {"int8": {}} | {name: {"dtype": name} for name in ("q4", "q4f16", "fp16")}
    results = in_a_browser(node, folder, options)
    for variant, (files, outputs) in results.items():
        assert files == {folder.variants[variant]}
        assert_equals(variant, outputs, folder.outputs)


def test_a_browser_needs_no_options_where_there_is_no_int8(node, root):
    folder = folders.build(root, "vit_digits", "--variant", "fp32")
    ((files, outputs),) = in_a_browser(node, folder, {"fp32": {}}).values()
    assert files == {"onnx/model.onnx"}
    assert_equals("fp32", outputs, {"pixel_values": 0} | folder.outputs)


def build(checkpoint, folder, variants="fp32,int8"):
    """Build a folder of a custom checkpoint with `zoo build`. Return its path and its
    preprocessing."""
    command = [sys.executable, "-m", "zoo", "build", "--weights", checkpoint]
    folders.call([*command, "--variant", variants, "--out", folder], folders.REPOSITORY)
    (path,) = folder.iterdir()
    return path, read_folder_manifest(path).preprocessing.settings


def run_pipeline(node, task, path, picture):
    """Return the answers of transformers.js' pipeline for a task, by dtype."""
    request = {"folder": str(path), "picture": str(picture), "dtypes": ["fp32", "q8"]}
    return folders.ask(["node", node / "run_pipeline.mjs"], request | {"task": task})


@pytest.mark.parametrize("kind", ["vit", "convnextv2"])
def test_a_fine_tuned_classifier(kind, node, tmp_path):
    """A classifier with custom classes, trained for a few steps in transformers, gets the same
    answers in transformers.js."""
    model = trained(kind, tmp_path / "own")
    path, preprocessing = build(tmp_path / "own", tmp_path / "built")
    picture = folders.fitting(preprocessing, tmp_path / "fits.png")
    with Image.open(picture) as image, torch.no_grad():
        logits = model(
            torch.from_numpy(pixel_values([image], preprocessing, preprocessing.size))
        ).logits[0]
    probabilities = dict(zip(BREEDS, logits.softmax(-1).tolist(), strict=True))
    answers = run_pipeline(node, "image-classification", path, picture)
    best = sorted(BREEDS, key=lambda name: -probabilities[name])[:5]
    assert [answer["label"] for answer in answers["fp32"]] == best
    for dtype, limit in (("fp32", 1e-5), ("q8", 0.05)):
        for answer in answers[dtype]:
            assert abs(answer["score"] - probabilities[answer["label"]]) <= limit


def test_depth_of_a_picture_that_is_not_square(node, tmp_path):
    """The depths equal those of transformers. The picture needs no resizing."""
    name, naming = "depth_anything_v2_vits", "huggingface"
    model = in_transformers(name, small(name).config_for(naming), leaves(name, naming))
    model.save_pretrained(tmp_path / "own")
    path, preprocessing = build(tmp_path / "own", tmp_path / "built")
    picture = tmp_path / "wide.png"
    image = photograph().resize((84, 56))
    image.save(picture)
    with torch.no_grad():
        pixels = pixel_values(
            [image], preprocessing, preprocessing.input_size_for(image.height, image.width)
        )
        expected = model(torch.from_numpy(pixels)).predicted_depth[0].numpy()
    answers = run_pipeline(node, "depth-estimation", path, picture)
    assert expected.shape == (56, 84) and expected.std() > 0.05
    for dtype, limit in (("fp32", 1e-5), ("q8", 0.05)):
        np.testing.assert_allclose(decode(answers[dtype]), expected, rtol=0, atol=limit)


def test_zero_shot_labels_of_siglip(node, tmp_path, chromium):
    """Both towers together give the scores of transformers, without options for transformers.js,
    and each tower gives its vectors. The folder runs in Node and in a page in Chromium."""
    model = save_towers(tmp_path / "own")
    path, preprocessing = build(tmp_path / "own", tmp_path / "built", "fp32,fp16,int8")
    image = photograph().resize((64, 64))
    image.save(tmp_path / "square.png")
    sentences = [f"This is a photo of {label}." for label in LABELS]
    with torch.no_grad():
        pixels = torch.from_numpy(pixel_values([image], preprocessing, preprocessing.size))
        ids, label_ids = (
            torch.from_numpy(read_tokenizer(path, 64)(x)) for x in (sentences, LABELS)
        )
        probabilities = (
            model(pixel_values=pixels, input_ids=ids).logits_per_image[0].sigmoid().tolist()
        )
        texts = model.text_model(label_ids).pooler_output
        vector = model.vision_model(pixels).pooler_output
    request = {"folder": str(path), "picture": str(tmp_path / "square.png"), "labels": LABELS}
    request["dtypes"] = ["fp32", "fp16", "q8"]
    for answers in (
        folders.ask(["node", node / "run_zero_shot.mjs"], request),
        run_in_chromium(chromium, node, tmp_path, request | {"picture": "/square.png"}),
    ):
        for dtype, limit in (("fp32", 1e-5), ("fp16", 1e-3), ("q8", 0.02)):
            scores = {answer["label"]: answer["score"] for answer in answers[dtype]["answers"]}
            np.testing.assert_allclose(
                [scores[x] for x in LABELS], probabilities, rtol=0, atol=limit
            )
            for name, expected in (("texts", texts), ("image", vector)):
                actual = decode(answers[dtype][name])
                assert converter.compare(actual, expected.numpy()).cosine >= 1 - limit


def test_zero_shot_labels_of_clip(node, tmp_path):
    """CLIP's classes in transformers.js give the scores and vectors of transformers. They pad texts
    to the longest text."""
    config = save_clip(tmp_path / "own")
    path, preprocessing = build(tmp_path / "own", tmp_path / "built", "fp32,fp16")
    image = photograph().resize(preprocessing.size)
    image.save(tmp_path / "square.png")
    tokenize = read_tokenizer(path, config.words.tokens)
    sentences = [f"This is a photo of {label}." for label in LABELS]
    pixels = torch.from_numpy(pixel_values([image], preprocessing, preprocessing.size))
    model = clip.both(config, values_of(config))
    with torch.no_grad():
        ids, label_ids = (torch.from_numpy(tokenize(texts)) for texts in (sentences, LABELS))
        logits = model(pixel_values=pixels, input_ids=ids).logits_per_image
        texts = model.get_text_features(label_ids).pooler_output
        vector = model.get_image_features(pixels).pooler_output
    request = {"folder": str(path), "picture": str(tmp_path / "square.png"), "labels": LABELS}
    request |= {"dtypes": ["fp32", "fp16"], "clip": True}
    answers = folders.ask(["node", node / "run_zero_shot.mjs"], request)
    for dtype, limit in (("fp32", 1e-5), ("fp16", 1e-3)):
        scores = {answer["label"]: answer["score"] for answer in answers[dtype]["answers"]}
        probabilities = logits[0].softmax(-1)
        np.testing.assert_allclose([scores[x] for x in LABELS], probabilities, rtol=0, atol=limit)
        for output, expected in (("texts", texts), ("image", vector)):
            actual = decode(answers[dtype][output])
            assert converter.compare(actual, expected.numpy()).cosine >= 1 - limit


def run_in_chromium(chromium, node, root, request):
    """Return the answers of a page with transformers.js. The page is served with the files below
    `root`."""
    for name in ("node_modules", "zero_shot.mjs", "zero_shot_page.mjs"):
        (root / name).symlink_to(node / name)
    program = "async (given) => (await import('/zero_shot_page.mjs')).answer(given)"
    folder = "/" + Path(request["folder"]).relative_to(root).as_posix()
    with served(root) as address:
        page = chromium.new_page()
        page.goto(address)
        return page.evaluate(program, request | {"folder": folder})


def test_optimum(folder):
    files = {file.removeprefix("onnx/"): variant for variant, file in folder.variants.items()}
    program = [environments.optimum(), environments.HERE / "run_optimum.py"]
    for file, outputs_by_class in folders.ask(program, folder.request(files=list(files))).items():
        outputs, features = (
            outputs_by_class["ORTModelForCustomTasks"],
            outputs_by_class["ORTModelForFeatureExtraction"],
        )
        assert_equals(files[file], decode_all(outputs), folder.outputs)
        assert features == {"last_hidden_state": outputs["last_hidden_state"]}


def test_the_python_example_of_a_card(folder):
    program = folder.path / "card.py"
    program.write_text(folder.snippet("python"))
    keep = f"import runpy, numpy; numpy.savez('card.npz', **runpy.run_path('{program}')['outputs'])"
    printed = folders.call([sys.executable, "-c", keep], folder.path)
    outputs = dict(np.load(folder.path / "card.npz"))
    assert_equals("fp32", outputs, folder.outputs)
    lines, best = printed.splitlines(), five_best(outputs, folder)
    assert lines[: len(outputs)] == [f"{name} {value.shape}" for name, value in outputs.items()]
    assert [line.rpartition(" ")[0] for line in lines[len(outputs) :]] == best


def five_best(outputs, folder):
    """Return the labels of the five best classes of a picture; empty if there are no logits."""
    labels = json.loads((folder.path / "config.json").read_text()).get("id2label", {})
    best_classes = np.argsort(-outputs["logits"][0])[:5] if "logits" in outputs else ()
    return [labels[str(number)] for number in best_classes]


def assert_card_runs(folder, classes):
    """Assert that the JavaScript example prints the outputs' shapes and then `classes` scores in
    descending order. It resizes the picture in another way than the reference, so the scores
    themselves are not compared."""
    (folder.path / "card.mjs").write_text(folder.snippet("js"))
    printed = folders.call(["node", "card.mjs"], folder.path).splitlines()
    shapes = {
        name: value.shape
        for name, value in folder.outputs.items()
        if name not in ("image", "pixel_values")
    }
    lines = (line.split(maxsplit=1) for line in printed[: len(shapes)])
    assert shapes == {
        name: tuple(map(int, re.findall(r"\d+", dimensions))) for name, dimensions in lines
    }
    scores = [float(line.rpartition(" ")[2]) for line in printed[len(shapes) :]]
    assert len(scores) == classes and scores == sorted(scores, reverse=True)


def test_the_javascript_example_of_a_card(node, folder):
    assert_card_runs(folder, 5 if "logits" in folder.outputs else 0)


def test_the_examples_of_a_card_whose_file_takes_images(node, root):
    folder = folders.build(root, "vit_digits", "--input", "uint8", "--variant", "fp32")
    assert_card_runs(folder, 0)
    (folder.path / "card.py").write_text(folder.snippet("python"))
    assert "logits (1, 10)" in folders.call([sys.executable, "card.py"], folder.path)


@pytest.fixture(scope="session")
def settings(tmp_path_factory, root):
    """A folder with the settings of every family by path: its picture, which needs no resizing, and
    the picture's expected pixels."""
    network = folders.build(root, "vit_tiny_patch16_224")
    base = tmp_path_factory.mktemp("settings")
    cases = {}
    for model in FAMILIES:
        preprocessing = zoo.info(model).preprocessing
        path = folders.disguise(base, model, network)
        picture = folders.fitting(preprocessing, path / "fits.png")
        with Image.open(picture) as image:
            cases[str(path)] = (
                str(picture),
                pixel_values([image], preprocessing, preprocessing.size),
            )
    return cases


def test_transformers_js_reads_all_settings(node, settings):
    request = {"folders": {path: picture for path, (picture, _) in settings.items()}}
    answer = folders.ask(["node", node / "run_settings.mjs"], request)
    network = onnxruntime.InferenceSession(f"{next(iter(settings))}/onnx/model.onnx")
    for path, (_, expected) in settings.items():
        actual = decode_all(answer[path])
        np.testing.assert_allclose(actual.pop("pixel_values"), expected, rtol=0, atol=ROUNDING)
        names = [output.name for output in network.get_outputs()]
        outputs = network.run(None, {"pixel_values": expected})
        assert_equals("fp32", actual, dict(zip(names, outputs, strict=True)))


def test_transformers_reads_all_settings(settings, tmp_path):
    """transformers makes the expected pixels of pictures that only need a crop, and of the
    photograph, which has to be resized."""
    photo = tmp_path / "photograph.png"
    photograph().save(photo)
    run = [sys.executable, environments.HERE / "run_processor.py"]
    request = {
        "folders": {
            path: [fitting_path, str(photo)] for path, (fitting_path, _) in settings.items()
        }
    }
    answer = folders.ask(run, request, PYTHONPATH=str(environments.torchvision()))
    for path, pixels in answer.items():
        preprocessing = zoo.info(Path(path).name).preprocessing
        actual, resized = map(decode, pixels)
        np.testing.assert_allclose(actual, settings[path][1], rtol=0, atol=ROUNDING)
        # If pictures of 8 bits are resized, torchvision may round differently, once for each axis.
        rounded = (
            0 if preprocessing.rescale_first else 2 * preprocessing.rescale / min(preprocessing.std)
        )
        expected = pixel_values([photograph()], preprocessing, preprocessing.size)
        np.testing.assert_allclose(resized, expected, rtol=0, atol=ROUNDING + rounded)
