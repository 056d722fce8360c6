"""The programs that people run a built folder with give what JAX gives.

Skipped, with the reason, where Node is missing or nothing can be installed.
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
"""Stretched and cropped; with and without a class in transformers; without and with logits."""

NAMES = dict.fromkeys(("fp32", "fused", "fp16", "int8", "q4", "q4f16"), "model")
NAMES["fused"] = "model_fused"
"""Of every variant's file, without the ending that stands for its precision."""

DTYPES = {"fused": "fp32", "int8": "q8"}
"""What transformers.js calls precisions that have another name there."""

FAMILIES = (
    *("dinov3_vits16", "dinov3_convnext_tiny", "dinov2_vits14", "dinov2_vits14_reg"),
    *("siglip2_vitb16_224", "tips_vits14_hr", "eupe_convnext_tiny", "vit_tiny_patch16_224"),
    *("vit5_small", "convnextv2_atto", "clip_vitb32"),
)
"""All kinds of config.json and preprocessor_config.json."""


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """A folder that the workers of this run share."""
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
    return folders.build(root, request.param, "--variant", ",".join(NAMES))


def test_transformers_js(node, folder, tmp_path):
    whole = str(folder.path / "photograph.png")
    fits = folders.fitting(folder.preprocessing, tmp_path / "fits.png")
    variants = {
        variant: {"model_file_name": name, "dtype": DTYPES.get(variant, variant)}
        for variant, name in NAMES.items()
    }
    request = folder.request(pictures=[whole, str(fits)], variants=variants)
    answer = folders.ask(["node", node / "run_transformers_js.mjs"], request)
    for variant, outputs in answer["outputs"].items():
        assert_equals(variant, decode_all(outputs), folder.outputs)
    pixels = decode_all(answer["processed"])
    assert levels(pixels[whole], folder.outputs["pixel_values"], folder.preprocessing) < RESIZED
    with Image.open(fits) as image:
        wanted = pixel_values([image], folder.preprocessing, folder.preprocessing.size)
    np.testing.assert_allclose(pixels[str(fits)], wanted, rtol=0, atol=ROUNDING)
    for name, value in decode_all(answer["features"]).items():
        assert converter.compare(value, folder.outputs[name]).cosine >= FEATURES


def test_onnxruntime_web(node, folder):
    request = folder.request(files=folder.variants)
    answer = folders.ask(["node", node / "run_onnxruntime_web.mjs"], request)
    assert set(answer["outputs"]) == set(NAMES)
    for variant, outputs in answer["outputs"].items():
        assert_equals(variant, decode_all(outputs), folder.outputs)


def in_a_browser(node, folder, options):
    """The files that transformers.js fetched with some options, and what it made of the pixels."""
    request = folder.request(options=options)
    answer = folders.ask_and_stop(["node", node / "run_browser.mjs"], request)
    return {
        name: (set(given["files"]) - {"config.json"}, decode_all(given["outputs"]))
        for name, given in answer.items()
    }


def test_a_browser_needs_no_options(node, folder):
    options = {"int8": {}} | {name: {"dtype": name} for name in ("q4", "q4f16", "fp16")}
    found = in_a_browser(node, folder, options)
    for variant, (files, outputs) in found.items():
        assert files == {folder.variants[variant]}
        assert_equals(variant, outputs, folder.outputs)


def test_a_browser_needs_no_options_where_there_is_no_int8(node, root):
    folder = folders.build(root, "vit_digits", "--variant", "fp32")
    ((files, outputs),) = in_a_browser(node, folder, {"fp32": {}}).values()
    assert files == {"onnx/model.onnx"}
    assert_equals("fp32", outputs, {"pixel_values": 0} | folder.outputs)


def built(checkpoint, folder, variants="fp32,int8"):
    """What `zoo build` makes of a checkpoint of somebody's own."""
    build = [sys.executable, "-m", "zoo", "build", "--weights", checkpoint]
    folders.call([*build, "--variant", variants, "--out", folder], folders.REPOSITORY)
    (path,) = folder.iterdir()
    return path, read_folder_manifest(path).preprocessing.settings


def in_a_pipeline(node, task, path, picture):
    """What transformers.js' pipeline for a task answers, by dtype."""
    request = {"folder": str(path), "picture": str(picture), "dtypes": ["fp32", "q8"]}
    return folders.ask(["node", node / "run_pipeline.mjs"], request | {"task": task})


@pytest.mark.parametrize("kind", ["vit", "convnextv2"])
def test_a_classifier_that_somebody_trained(kind, node, tmp_path):
    """A few steps in transformers, with classes of one's own: transformers.js answers the same."""
    model = trained(kind, tmp_path / "own")
    path, how = built(tmp_path / "own", tmp_path / "built")
    picture = folders.fitting(how, tmp_path / "fits.png")
    with Image.open(picture) as image, torch.no_grad():
        logits = model(torch.from_numpy(pixel_values([image], how, how.size))).logits[0]
    shares = dict(zip(BREEDS, logits.softmax(-1).tolist(), strict=True))
    answers = in_a_pipeline(node, "image-classification", path, picture)
    best = sorted(BREEDS, key=lambda name: -shares[name])[:5]
    assert [answer["label"] for answer in answers["fp32"]] == best
    for dtype, limit in (("fp32", 1e-5), ("q8", 0.05)):
        for answer in answers[dtype]:
            assert abs(answer["score"] - shares[answer["label"]]) <= limit


def test_depths(node, tmp_path):
    """Of a picture that is no square, and needs no resizing."""
    name, who = "depth_anything_v2_vits", "huggingface"
    model = in_transformers(name, small(name).config_for(who), leaves(name, who))
    model.save_pretrained(tmp_path / "own")
    path, how = built(tmp_path / "own", tmp_path / "built")
    picture = tmp_path / "wide.png"
    image = photograph().resize((84, 56))
    image.save(picture)
    with torch.no_grad():
        pixels = pixel_values([image], how, how.input_size_for(image.height, image.width))
        wanted = model(torch.from_numpy(pixels)).predicted_depth[0].numpy()
    answers = in_a_pipeline(node, "depth-estimation", path, picture)
    assert wanted.shape == (56, 84) and wanted.std() > 0.05
    for dtype, limit in (("fp32", 1e-5), ("q8", 0.05)):
        np.testing.assert_allclose(decode(answers[dtype]), wanted, rtol=0, atol=limit)


def test_labels_in_words(node, tmp_path, chromium):
    """Of both towers, whose folder asks transformers.js for no options; and of each alone; in Node,
    and in Chromium as a page has it."""
    model = save_towers(tmp_path / "own")
    path, how = built(tmp_path / "own", tmp_path / "built", "fp32,fp16,int8")
    image = photograph().resize((64, 64))
    image.save(tmp_path / "square.png")
    sentences = [f"This is a photo of {label}." for label in LABELS]
    with torch.no_grad():
        pixels = torch.from_numpy(pixel_values([image], how, how.size))
        ids, alone = (torch.from_numpy(read_tokenizer(path, 64)(x)) for x in (sentences, LABELS))
        shares = model(pixel_values=pixels, input_ids=ids).logits_per_image[0].sigmoid().tolist()
        texts = model.text_model(alone).pooler_output
        vector = model.vision_model(pixels).pooler_output
    request = {"folder": str(path), "picture": str(tmp_path / "square.png"), "labels": LABELS}
    request["dtypes"] = ["fp32", "fp16", "q8"]
    for answers in (
        folders.ask(["node", node / "run_zero_shot.mjs"], request),
        in_chromium(chromium, node, tmp_path, request | {"picture": "/square.png"}),
    ):
        for dtype, limit in (("fp32", 1e-5), ("fp16", 1e-3), ("q8", 0.02)):
            scores = {each["label"]: each["score"] for each in answers[dtype]["answers"]}
            np.testing.assert_allclose([scores[x] for x in LABELS], shares, rtol=0, atol=limit)
            for name, wanted in (("texts", texts), ("image", vector)):
                got = decode(answers[dtype][name])
                assert converter.compare(got, wanted.numpy()).cosine >= 1 - limit


def test_labels_in_words_of_clip(node, tmp_path):
    """By its own classes, which pad texts to the longest of them."""
    config = save_clip(tmp_path / "own")
    path, how = built(tmp_path / "own", tmp_path / "built", "fp32,fp16")
    image = photograph().resize(how.size)
    image.save(tmp_path / "square.png")
    words = read_tokenizer(path, config.words.tokens)
    sentences = [f"This is a photo of {label}." for label in LABELS]
    pixels = torch.from_numpy(pixel_values([image], how, how.size))
    model = clip.both(config, values_of(config))
    with torch.no_grad():
        ids, alone = (torch.from_numpy(words(texts)) for texts in (sentences, LABELS))
        logits = model(pixel_values=pixels, input_ids=ids).logits_per_image
        texts = model.get_text_features(alone).pooler_output
        vector = model.get_image_features(pixels).pooler_output
    request = {"folder": str(path), "picture": str(tmp_path / "square.png"), "labels": LABELS}
    request |= {"dtypes": ["fp32", "fp16"], "clip": True}
    answers = folders.ask(["node", node / "run_zero_shot.mjs"], request)
    for dtype, limit in (("fp32", 1e-5), ("fp16", 1e-3)):
        scores = {each["label"]: each["score"] for each in answers[dtype]["answers"]}
        shares = logits[0].softmax(-1)
        np.testing.assert_allclose([scores[x] for x in LABELS], shares, rtol=0, atol=limit)
        for output, wanted in (("texts", texts), ("image", vector)):
            got = decode(answers[dtype][output])
            assert converter.compare(got, wanted.numpy()).cosine >= 1 - limit


def in_chromium(chromium, node, place, request):
    """What a page with transformers.js answers; files below `place` are served beside it."""
    for name in ("node_modules", "zero_shot.mjs", "zero_shot_page.mjs"):
        (place / name).symlink_to(node / name)
    program = "async (given) => (await import('/zero_shot_page.mjs')).answer(given)"
    folder = "/" + Path(request["folder"]).relative_to(place).as_posix()
    with served(place) as address:
        page = chromium.new_page()
        page.goto(address)
        return page.evaluate(program, request | {"folder": folder})


def test_optimum(folder):
    files = {file.removeprefix("onnx/"): variant for variant, file in folder.variants.items()}
    program = [environments.optimum(), environments.HERE / "run_optimum.py"]
    for file, given in folders.ask(program, folder.request(files=list(files))).items():
        outputs, features = given["ORTModelForCustomTasks"], given["ORTModelForFeatureExtraction"]
        assert_equals(files[file], decode_all(outputs), folder.outputs)
        assert features == {"last_hidden_state": outputs["last_hidden_state"]}


def test_the_card_in_python(folder):
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
    """What a classifier takes a picture for."""
    labels = json.loads((folder.path / "config.json").read_text()).get("id2label", {})
    found = np.argsort(-outputs["logits"][0])[:5] if "logits" in outputs else ()
    return [labels[str(number)] for number in found]


def assert_card_runs(folder, classes):
    """Its classes are those of a picture that was resized otherwise, so that only the order of
    their scores can be told."""
    (folder.path / "card.mjs").write_text(folder.snippet("js"))
    printed = folders.call(["node", "card.mjs"], folder.path).splitlines()
    wanted = {
        name: value.shape
        for name, value in folder.outputs.items()
        if name not in ("image", "pixel_values")
    }
    lines = (line.split(maxsplit=1) for line in printed[: len(wanted)])
    assert wanted == {name: tuple(map(int, re.findall(r"\d+", rest))) for name, rest in lines}
    scores = [float(line.rpartition(" ")[2]) for line in printed[len(wanted) :]]
    assert len(scores) == classes and scores == sorted(scores, reverse=True)


def test_the_card_in_javascript(node, folder):
    assert_card_runs(folder, 5 if "logits" in folder.outputs else 0)


def test_the_cards_of_files_that_take_images(node, root):
    folder = folders.build(root, "vit_digits", "--input", "uint8", "--variant", "fp32")
    assert_card_runs(folder, 0)
    (folder.path / "card.py").write_text(folder.snippet("python"))
    assert "logits (1, 10)" in folders.call([sys.executable, "card.py"], folder.path)


@pytest.fixture(scope="session")
def settings(tmp_path_factory, root):
    """A folder for every family's settings, with a picture that needs no resizing, and pixels."""
    network = folders.build(root, "vit_tiny_patch16_224")
    base = tmp_path_factory.mktemp("settings")
    cases = {}
    for model in FAMILIES:
        how = zoo.info(model).preprocessing
        path = folders.disguise(base, model, network)
        picture = folders.fitting(how, path / "fits.png")
        with Image.open(picture) as image:
            cases[str(path)] = (str(picture), pixel_values([image], how, how.size))
    return cases


def test_transformers_js_knows_all_settings(node, settings):
    request = {"folders": {path: picture for path, (picture, _) in settings.items()}}
    answer = folders.ask(["node", node / "run_settings.mjs"], request)
    network = onnxruntime.InferenceSession(f"{next(iter(settings))}/onnx/model.onnx")
    for path, (_, wanted) in settings.items():
        got = decode_all(answer[path])
        np.testing.assert_allclose(got.pop("pixel_values"), wanted, rtol=0, atol=ROUNDING)
        names = [output.name for output in network.get_outputs()]
        outputs = network.run(None, {"pixel_values": wanted})
        assert_equals("fp32", got, dict(zip(names, outputs, strict=True)))


def test_transformers_knows_all_settings(settings, tmp_path):
    """On pictures that only need a crop, and on the photograph, which has to be resized."""
    photo = tmp_path / "photograph.png"
    photograph().save(photo)
    run = [sys.executable, environments.HERE / "run_processor.py"]
    request = {"folders": {path: [fits, str(photo)] for path, (fits, _) in settings.items()}}
    answer = folders.ask(run, request, PYTHONPATH=str(environments.torchvision()))
    for path, pixels in answer.items():
        how = zoo.info(Path(path).name).preprocessing
        fitting, resized = map(decode, pixels)
        np.testing.assert_allclose(fitting, settings[path][1], rtol=0, atol=ROUNDING)
        # Where 8 bits are resized torchvision may round another way, twice: once for each axis.
        rounded = 0 if how.rescale_first else 2 * how.rescale / min(how.std)
        wanted = pixel_values([photograph()], how, how.size)
        np.testing.assert_allclose(resized, wanted, rtol=0, atol=ROUNDING + rounded)
