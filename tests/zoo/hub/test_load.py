"""`zoo.load`: from a folder and from a hub, without JAX."""

import json
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import zoo
from tests import folders
from tests.command import Command
from tests.hub_server import COMMIT, Hub, serving
from zoo.errors import BadFile, BadRequest

FILES = folders.contents()
NOISE = np.random.default_rng(3).integers(0, 256, (5, *folders.SIZE, 3), np.uint8)

LOAD = """
import json, sys
import numpy as np
import zoo
options = json.loads(sys.argv[1])
try:
    model = zoo.load("dinov3_vits16", **options)
    print(json.dumps(model(np.zeros((32, 48, 3), np.uint8))["pooler_output"].tolist()))
    print(model.path)
except Exception as error:
    print(type(error).__name__, error)
assert "jax" not in sys.modules
"""


def expected(images, scale=1):
    """Means of the normalised channels: images of the model's own size are not resized."""
    pixels = np.stack([np.asarray(image, np.float64) for image in images]) / 255
    return scale * ((pixels - folders.MEAN) / folders.STD).mean((1, 2))


@pytest.fixture
def folder(tmp_path):
    return folders.write(tmp_path / "built", folders.published(FILES))


def test_pictures_of_every_kind(folder):
    model = zoo.load("dinov3_vits16_pretrain_lvd1689m", folder=folder)
    images = [Image.fromarray(array) for array in NOISE]
    for given in (images, tuple(images), NOISE, list(NOISE)):
        outputs = model(given)
        assert list(outputs) == ["pooler_output"]
        # Sums of 1536 float32 values.
        np.testing.assert_allclose(outputs["pooler_output"], expected(NOISE), atol=1e-5)
    for given in (images[0], NOISE[0]):
        np.testing.assert_allclose(model(given)["pooler_output"], expected(NOISE[:1]), atol=1e-5)
    assert model.preprocess(Image.new("L", (90, 70))).shape == (1, 3, *folders.SIZE)
    fused = zoo.load("dinov3_vits16", "fused", folder=str(folder))
    np.testing.assert_allclose(fused(NOISE)["pooler_output"], expected(NOISE, 2), atol=1e-5)
    with pytest.raises(FrozenInstanceError):
        model.path = folder


def test_it_says_what_it_is_in_a_line_or_two(folder):
    model = zoo.load("dinov3_vits16", "fused", folder=folder)
    for shown in (repr(model), repr(model.manifest)):
        assert "dinov3_vits16" in shown and len(shown) < 400 and shown.count("\n") < 2
    assert "CPUExecutionProvider" in repr(model) and "pooler_output" in repr(model)
    assert "<td>fused</td>" in model.manifest._repr_html_()
    assert str(model.path) in model._repr_html_()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no picture"),
        ("image.png", "no picture that can be read"),
        (NOISE.astype(np.float32), "uint8"),
        (NOISE[0, ..., :1], "uint8"),
        (NOISE[0, 0], "uint8"),
        ([np.zeros((0, 4, 3), np.uint8)], "uint8"),
    ],
    ids=range(6),
)
def test_what_is_no_picture(given, message, folder):
    model = zoo.load("dinov3_vits16", folder=folder)
    with pytest.raises(BadRequest, match=message):
        model(given)


def test_a_file_that_preprocesses_itself(tmp_path):
    files = FILES | {"onnx/model.onnx": folders.channel_means()}
    folder = folders.write(tmp_path, folders.published(files, input="uint8", size=None))
    model = zoo.load("dinov3_vits16", folder=folder)
    pixels = model.preprocess(list(NOISE))
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, NOISE)
    means = NOISE.astype(np.float64).mean((1, 2))
    np.testing.assert_allclose(model(NOISE)["pooler_output"], means, rtol=1e-5)
    with pytest.raises(BadRequest, match="equally large"):
        model([NOISE[0], NOISE[0, 1:]])


@pytest.mark.parametrize("providers", [["Nope"], ["CPUExecutionProvider", "CUDA"]])
def test_providers_that_are_not_here_are_refused(providers, folder):
    with pytest.raises(BadRequest, match=f"provider {providers[-1]} is not installed"):
        zoo.load("dinov3_vits16", folder=folder, providers=providers)


def test_a_provider_that_does_not_start_is_no_cpu(folder, monkeypatch):
    """It is part of the package, and there is no device."""
    known = ["AbsentExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: known)
    told = "does not load with AbsentExecutionProvider"
    with pytest.warns(UserWarning, match=known[0]), pytest.raises(BadFile, match=told):
        zoo.load("dinov3_vits16", folder=folder, providers=known)


def test_a_file_that_is_none(folder):
    """Of the size that its manifest says."""
    path = folder / zoo.load("dinov3_vits16", folder=folder).variant.file
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(BadFile, match="does not load with CPUExecutionProvider"):
        zoo.load("dinov3_vits16", folder=folder)


def test_folders_that_are_refused(folder):
    with pytest.raises(BadRequest, match="give one of them"):
        zoo.load("dinov3_vits16", folder=folder, revision="main")
    with pytest.raises(BadRequest, match="has no variant 'all' there: choose among fp32, fused"):
        zoo.load("dinov3_vits16", "all", folder=folder)
    with pytest.raises(BadFile, match="holds dinov3_vits16, not dinov3_vitb16"):
        zoo.load("dinov3_vitb16", folder=folder)
    (folder / folders.VARIANTS["fp16"][1]).unlink()
    with pytest.raises(BadFile, match=r"onnx_data is missing .* `zoo pull dinov3_vits16"):
        zoo.load("dinov3_vits16", "fp16", folder=folder)
    with pytest.raises(BadFile, match="does not exist"):
        zoo.load("dinov3_vits16", folder=folder / "none")


def test_from_a_hub_then_from_our_cache(tmp_path):
    repository, other = "somebody/dinov3_vits16", "e" * 40
    held = {COMMIT: folders.published(FILES), other: folders.published(folders.contents(1))}
    named = {
        f"{repository}@{commit}/{name}": data
        for commit, files in held.items()
        for name, data in files.items()
    }
    branches = {f"{repository}@main": [COMMIT, COMMIT, COMMIT, other]}
    black = expected(np.zeros((1, *folders.SIZE, 3)))

    def load(scale=None, **options) -> str:
        process = Command(tmp_path, hub.url).start(
            json.dumps(options), program=[sys.executable, "-c", LOAD]
        )
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        if scale is None:
            return out
        values, path = out.splitlines()
        np.testing.assert_allclose(json.loads(values), scale * black, atol=1e-5)
        return path

    with serving(Hub(named, branches=branches)) as hub:
        assert "was never loaded into" in load(offline=True)
        place = tmp_path / ".cache" / "jax-onnx-zoo" / "models" / repository.replace("/", "--")
        assert load(1) == str(place / COMMIT / "onnx" / "model.onnx")
        count = len(hub.asked)
        load(1)
        assert len(hub.asked) == count + 1
        load(1, revision=COMMIT)
        load(1, offline=True)
        assert len(hub.asked) == count + 1
        assert "forbids asking" in load(variant="fused", offline=True)
        load(2, variant="fused")
        load(2)  # the branch has moved
        load(2, offline=True)
        load(1, revision=COMMIT)
        hub.status = 503
        assert "Or load with offline=True." in load()
