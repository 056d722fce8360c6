"""`zoo.load`: models from a folder and from a hub, in a process without JAX.

The networks compute channel means, which are compared with numpy.
"""

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


def channel_means(images, scale=1):
    """Return the means of the normalized channels. The images have the model's size and are not
    resized."""
    pixels = np.stack([np.asarray(image, np.float64) for image in images]) / 255
    return scale * ((pixels - folders.MEAN) / folders.STD).mean((1, 2))


@pytest.fixture
def folder(tmp_path):
    """A published folder."""
    return folders.write(tmp_path / "built", folders.published(FILES))


def test_types_of_pictures(folder):
    model = package.load("dinov3_vits16_pretrain_lvd1689m", folder=folder)
    images = [Image.fromarray(array) for array in NOISE]
    for pictures, count in ((images, 5), (NOISE, 5), (images[0], 1), (NOISE[0], 1)):
        outputs = model(pictures)
        assert list(outputs) == ["pooler_output"]
        # The tolerance is for sums of 1536 float32 values.
        np.testing.assert_allclose(
            outputs["pooler_output"], channel_means(NOISE[:count]), atol=1e-5
        )
    assert model.preprocess(Image.new("L", (90, 70))).shape == (1, 3, *folders.SIZE)
    with pytest.raises(FrozenInstanceError):
        model.path = folder
    # tests/zoo/images has a table of values that are no pictures.
    with pytest.raises(BadRequest, match="uint8"):
        model(NOISE.astype(np.float32))


def test_repr_of_models_and_manifests(folder):
    model = package.load(MODEL, "fused", folder=str(folder))
    np.testing.assert_allclose(model(NOISE)["pooler_output"], channel_means(NOISE, 2), atol=1e-5)
    for text in (repr(model), repr(model.manifest), str(model.manifest)):
        assert MODEL in text and len(text) < 400 and text.count("\n") < 2
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


def test_a_provider_that_does_not_start_is_an_error(folder, monkeypatch):
    """The package contains the provider, but there is no device. The CPU is no replacement."""
    providers_of_package = ["AbsentExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers_of_package)
    message = "does not load with AbsentExecutionProvider"
    with (
        pytest.warns(UserWarning, match=providers_of_package[0]),
        pytest.raises(BadFile, match=message),
    ):
        package.load(MODEL, folder=folder, providers=providers_of_package)


def test_wrong_arguments_and_files_are_refused(folder):
    def assert_refused(error, match, name=MODEL, *variant, place=folder, **options):
        with pytest.raises(error, match=match):
            package.load(name, *variant, folder=place, **options)

    assert_refused(BadRequest, "give one of them", revision="main")
    assert_refused(BadRequest, "has no variant 'all' there: choose among fp32, fused", MODEL, "all")
    assert_refused(BadFile, "holds dinov3_vits16, not dinov3_vitb16", "dinov3_vitb16")
    assert_refused(BadFile, "does not exist", place=folder / "none")
    for providers in (["CUDA"], ["CPUExecutionProvider", "CUDA"]):
        assert_refused(BadRequest, "provider CUDA is not installed", providers=providers)
    (folder / folders.VARIANTS["fp16"][1]).unlink()
    assert_refused(BadFile, r"onnx_data is missing .* `zoo pull dinov3_vits16", MODEL, "fp16")
    # The file has the size in its manifest, but is no model.
    path = folder / folders.VARIANTS["fp32"][0]
    path.write_bytes(bytes(path.stat().st_size))
    assert_refused(BadFile, "does not load with CPUExecutionProvider")


def test_loading_from_a_hub_and_from_the_cache(zoo, at, monkeypatch):
    repository, new_commit = f"somebody/{MODEL}", "e" * 40
    hub = at(serving(hub_of(repository, folders.published(FILES))))
    new_files = folders.published(folders.contents(1)).items()
    hub.files |= {f"{repository}@{new_commit}/{name}": data for name, data in new_files}
    monkeypatch.delenv("ZOO_CACHE_DIR", raising=False)

    def assert_loads(scale, **options):
        model = package.load(MODEL, **options)
        actual, expected = model(BLACK)["pooler_output"], channel_means(BLACK[None], scale)
        np.testing.assert_allclose(actual, expected, atol=1e-5)
        return model.path

    with pytest.raises(BadFile, match="was never loaded into"):
        assert_loads(1, offline=True)
    cache = zoo.home / ".cache" / "jax-onnx-zoo" / "models" / repository.replace("/", "--")
    path = assert_loads(1)
    assert path == cache / COMMIT / "onnx" / "model.onnx"
    count = len(hub.asked)
    assert_loads(1)
    assert len(hub.asked) == count + 1
    assert_loads(1, revision=COMMIT)
    assert_loads(1, offline=True)
    assert len(hub.asked) == count + 1
    with pytest.raises(Unreachable, match="forbids asking"):
        assert_loads(2, variant="fused", offline=True)
    assert_loads(2, variant="fused")
    hub.branches = {f"{repository}@main": [new_commit]}
    assert_loads(2)
    assert_loads(2, offline=True)
    assert_loads(1, revision=COMMIT)
    hub.status = 503
    with pytest.raises(Unreachable, match=r"Or load with offline=True\."):
        assert_loads(2)
    program = WITHOUT_JAX.format(folder=str(path.parents[1]))
    Command(zoo.home)(program=[sys.executable, "-c", program])
