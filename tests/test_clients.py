"""The programs that people run a built folder with give what JAX gives.

Skipped, with the reason, where Node is missing or nothing can be installed.
"""

import os
import re
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import zoo
from tests.clients import environments, folders
from tests.clients.limits import FEATURES, RESIZED, ROUNDING, assert_equals, cosine, levels
from tests.clients.tensors import decode, decode_all
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values

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
    "vit5_small",
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
        assert cosine(value, folder.outputs[name]) >= FEATURES


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
    assert printed.splitlines() == [f"{name} {value.shape}" for name, value in outputs.items()]


def assert_card_runs(folder):
    (folder.path / "card.mjs").write_text(folder.snippet("js"))
    printed = folders.call(["node", "card.mjs"], folder.path)
    lines = (line.split(maxsplit=1) for line in printed.splitlines())
    shapes = {name: tuple(map(int, re.findall(r"\d+", rest))) for name, rest in lines}
    given = ("image", "pixel_values")
    assert shapes == {n: value.shape for n, value in folder.outputs.items() if n not in given}


def test_the_card_in_javascript(node, folder):
    assert_card_runs(folder)


def test_the_cards_of_files_that_take_images(node, root):
    folder = folders.build(root, "vit_digits", "--input", "uint8", "--variant", "fp32")
    assert_card_runs(folder)
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
