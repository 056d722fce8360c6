"""`zoo.load`: from a folder and from a hub, without JAX."""

import sys
from dataclasses import FrozenInstanceError

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import zoo as package
from tests import folders
from tests.command import Command
from tests.hub_server import COMMIT, hub_of, serving
from weights.errors import Unreachable
from zoo.common.errors import BadFile, BadRequest

FILES = folders.contents()
MODEL = folders.MODEL
NOISE = np.random.default_rng(3).integers(0, 256, (5, *folders.SIZE, 3), np.uint8)
BLACK = np.zeros((32, 48, 3), np.uint8)

WITHOUT_JAX = f"""
import sys
import numpy as np
import zoo
zoo.load({MODEL!r}, folder={{folder!r}})(np.zeros((32, 48, 3), np.uint8))
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
    model = package.load("dinov3_vits16_pretrain_lvd1689m", folder=folder)
    images = [Image.fromarray(array) for array in NOISE]
    for given, count in ((images, 5), (NOISE, 5), (images[0], 1), (NOISE[0], 1)):
        outputs = model(given)
        assert list(outputs) == ["pooler_output"]
        # Sums of 1536 float32 values.
        np.testing.assert_allclose(outputs["pooler_output"], expected(NOISE[:count]), atol=1e-5)
    assert model.preprocess(Image.new("L", (90, 70))).shape == (1, 3, *folders.SIZE)
    with pytest.raises(FrozenInstanceError):
        model.path = folder
    # What no picture is has its table in tests/zoo/images.
    with pytest.raises(BadRequest, match="uint8"):
        model(NOISE.astype(np.float32))


def test_it_says_what_it_is_in_a_line_or_two(folder):
    model = package.load(MODEL, "fused", folder=str(folder))
    np.testing.assert_allclose(model(NOISE)["pooler_output"], expected(NOISE, 2), atol=1e-5)
    for shown in (repr(model), repr(model.manifest), str(model.manifest)):
        assert MODEL in shown and len(shown) < 400 and shown.count("\n") < 2
    assert "CPUExecutionProvider" in repr(model) and "pooler_output" in repr(model)
    assert "<td>fused</td>" in model.manifest._repr_html_()
    assert str(model.path) in model._repr_html_()


def test_a_file_that_preprocesses_itself(tmp_path):
    files = FILES | {"onnx/model.onnx": folders.channel_means()}
    folder = folders.write(tmp_path, folders.published(files, input="uint8", size=None))
    model = package.load(MODEL, folder=folder)
    pixels = model.preprocess(list(NOISE))
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, NOISE)
    means = NOISE.astype(np.float64).mean((1, 2))
    np.testing.assert_allclose(model(NOISE)["pooler_output"], means, rtol=1e-5)
    with pytest.raises(BadRequest, match="need the same size"):
        model([NOISE[0], NOISE[0, 1:]])


def test_a_provider_that_does_not_start_is_no_cpu(folder, monkeypatch):
    """It is part of the package, and there is no device."""
    known = ["AbsentExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: known)
    told = "does not load with AbsentExecutionProvider"
    with pytest.warns(UserWarning, match=known[0]), pytest.raises(BadFile, match=told):
        package.load(MODEL, folder=folder, providers=known)


def test_what_is_refused(folder):
    def refused(error, match, name=MODEL, *variant, place=folder, **options):
        with pytest.raises(error, match=match):
            package.load(name, *variant, folder=place, **options)

    refused(BadRequest, "give one of them", revision="main")
    refused(BadRequest, "has no variant 'all' there: choose among fp32, fused", MODEL, "all")
    refused(BadFile, "holds dinov3_vits16, not dinov3_vitb16", "dinov3_vitb16")
    refused(BadFile, "does not exist", place=folder / "none")
    for providers in (["CUDA"], ["CPUExecutionProvider", "CUDA"]):
        refused(BadRequest, "provider CUDA is not installed", providers=providers)
    (folder / folders.VARIANTS["fp16"][1]).unlink()
    refused(BadFile, r"onnx_data is missing .* `zoo pull dinov3_vits16", MODEL, "fp16")
    # A file of the size that its manifest says.
    path = folder / folders.VARIANTS["fp32"][0]
    path.write_bytes(bytes(path.stat().st_size))
    refused(BadFile, "does not load with CPUExecutionProvider")


def test_from_a_hub_then_from_our_cache(zoo, at, monkeypatch):
    repository, other = f"somebody/{MODEL}", "e" * 40
    hub = at(serving(hub_of(repository, folders.published(FILES))))
    held = folders.published(folders.contents(1)).items()
    hub.files |= {f"{repository}@{other}/{name}": data for name, data in held}
    monkeypatch.delenv("ZOO_CACHE_DIR", raising=False)

    def loads(scale, **options):
        model = package.load(MODEL, **options)
        found, wanted = model(BLACK)["pooler_output"], expected(BLACK[None], scale)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        return model.path

    with pytest.raises(BadFile, match="was never loaded into"):
        loads(1, offline=True)
    place = zoo.home / ".cache" / "jax-onnx-zoo" / "models" / repository.replace("/", "--")
    path = loads(1)
    assert path == place / COMMIT / "onnx" / "model.onnx"
    count = len(hub.asked)
    loads(1)
    assert len(hub.asked) == count + 1
    loads(1, revision=COMMIT)
    loads(1, offline=True)
    assert len(hub.asked) == count + 1
    with pytest.raises(Unreachable, match="forbids asking"):
        loads(2, variant="fused", offline=True)
    loads(2, variant="fused")
    hub.branches = {f"{repository}@main": [other]}
    loads(2)
    loads(2, offline=True)
    loads(1, revision=COMMIT)
    hub.status = 503
    with pytest.raises(Unreachable, match=r"Or load with offline=True\."):
        loads(2)
    program = WITHOUT_JAX.format(folder=str(path.parents[1]))
    Command(zoo.home)(program=[sys.executable, "-c", program])
