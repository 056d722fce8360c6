"""Files that take images: preprocessing against transformers and torch, and the command."""

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from PIL import Image

import converter
import zoo
from converter.verify.sessions import run
from tests.seeded import nano, values_of
from tests.zoo.export.test_export import EXPORT, ZOO, call
from tests.zoo.export.test_export import no_weights_around as no_weights_around
from zoo.checkpoints.settings.huggingface import transformers_processor
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.export.verify import reference, verify_file
from zoo.images.in_graph import front
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values
from zoo.models.builder import abstract
from zoo.models.config import Preprocessing

DISTINCT = {zoo.info(name).preprocessing: name for name in reversed(zoo.list_models())}
"""Every preprocessing of the zoo, and a model that has it."""

SIZES = {
    "photograph": (336, 224),
    "tall": (61, 700),
    "tiny": (7, 5),
    "large": (1600, 900),
    "same width": (224, 301),
}
"""(width, height)."""


def noisy(size: tuple[int, int]) -> Image.Image:
    """The photograph in another size, with details as fine as they can be."""
    image = photograph().resize(size)
    noise = np.random.default_rng(0).integers(-40, 40, (size[1], size[0], 3))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def expected(image: Image.Image, how: Preprocessing) -> np.ndarray:
    """What transformers' processor gives; for DINOv3 the function of torch that it calls."""
    if not how.rescale_first:
        transformers = pytest.importorskip("transformers")
        settings = transformers_processor(how)
        # The classes of these names want torchvision, whose resize is not Pillow's.
        kind = getattr(transformers, settings.pop("image_processor_type") + "Pil")
        return kind(**settings)(image, return_tensors="np")["pixel_values"]
    torch = pytest.importorskip("torch")
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    resized = torch.nn.functional.interpolate(pixels, how.size, mode="bilinear", antialias=True)
    mean, std = (torch.tensor(values)[:, None, None] for values in (how.mean, how.std))
    return ((resized - mean) / std).numpy()


def named(value: object) -> str | None:
    return DISTINCT[value] if isinstance(value, Preprocessing) else None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", DISTINCT, ids=named)
def test_pixels_are_the_image_processors(how):
    """One level of 8 bits is 0.0039 at least; rounding alone is left."""
    live = converter.session(front(how, how.size, 23))
    for name, size in SIZES.items():
        image = photograph() if name == "photograph" else noisy(size)
        got = run(live, [np.asarray(image)[None]])["pixel_values"]
        limit = 5e-5 if how.rescale_first else 1e-6
        np.testing.assert_allclose(got, expected(image, how), rtol=0, atol=limit, err_msg=name)


@pytest.mark.full
@pytest.mark.parametrize("name", ["dinov2_vits14", "siglip2_vitb16_224"])
def test_pixels_are_pillows(name):
    """Any size to any other, to the bit."""
    how = zoo.info(name).preprocessing
    numbers = np.random.default_rng(1)
    for size in ((98, 112), (224, 224), (336, 224)):
        live = converter.session(front(how, size, 18))
        for width, height in np.exp2(numbers.uniform(2, 9.5, (8, 2))).astype(int):
            # A long strip becomes huge before it is cropped.
            image = noisy((int(width), int(np.clip(height, width // 9 + 1, 9 * width))))
            got = run(live, [np.asarray(image)[None]])["pixel_values"]
            np.testing.assert_array_equal(got, pixel_values([image], how, size), str(image.size))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["dinov3_vits16", "dinov2_vits14"])
@pytest.mark.parametrize("opset", [17, 18, 20, 23])
def test_every_opset(name, opset):
    how = zoo.info(name).preprocessing
    made = front(how, how.size, opset)
    onnx.checker.check_model(ir.to_proto(made.model), full_check=True)
    assert not set(made.report.histogram) & {"If", "Loop", "Scan", "Resize"}
    types = {value.dtype for node in made.model.graph for value in node.outputs}
    assert ir.DataType.DOUBLE not in types
    images = [photograph(), photograph().transpose(Image.Transpose.ROTATE_180)]
    got = run(made, [np.stack([np.asarray(image) for image in images])])["pixel_values"]
    np.testing.assert_allclose(got, pixel_values(images, how, how.size), rtol=0, atol=2e-6)


@pytest.mark.full
def test_a_wrong_level_is_seen(tmp_path):
    """The check fails if pixels are off by one level of 8 bits, whatever the outputs say."""
    entry = zoo.info("dinov2_vits14")
    config = nano(entry.config)
    signature = Signature((56, 56), None, input="uint8")
    samples = reference(entry, abstract(config), values_of(config), signature)
    assert [sample.images.shape for sample in samples] == [(1, 224, 336, 3), (3, 310, 206, 3)]
    for level, passes in ((0, True), (1, False)):
        mean = tuple(value + level / 255 for value in entry.preprocessing.mean)
        how = Preprocessing(mean, entry.preprocessing.std, resize=256, resample="bicubic")
        made = convert_model(abstract(config), 23, signature)
        converter.join(front(how, (56, 56), 23).model, made.model)
        made.save(tmp_path / "model.onnx", values_of(config))
        result = verify_file(tmp_path / "model.onnx", samples)
        assert result.passed == passes
        assert {item.output for item in result.comparisons} >= {"pixel_values", "pooler_output"}


def test_the_command(tmp_path):
    """The file makes of an image what the model in it makes of the image processor's pixels."""
    options = ("eupe_vitt16", "--weights", "random", "--opset", 18, "--json", "--input", "uint8")
    done = call(EXPORT, *options, cwd=tmp_path)
    record = json.loads(done.stdout)[0]
    assert record["input"] == "uint8"
    variant = record["variants"]["fp32"]
    assert variant["inputs"] == [
        {"name": "image", "dtype": "uint8", "shape": ["batch_size", "height", "width", 3]}
    ]
    assert record["preprocessing"]["in_file"]
    assert record["preprocessing"]["size"] == [256, 256]
    tried = {(item["height"], item["width"]) for item in variant["verification"]["comparisons"]}
    assert tried == {(224, 336), (310, 206)}
    file = tmp_path / "eupe_vitt16-opset18.onnx"
    onnx.checker.check_model(file, full_check=True)
    assert "pixel_values" in call(ZOO, "verify", file, cwd=tmp_path).stdout
    image = noisy((224, 336))
    got = run(file, [np.asarray(image)[None]])
    graph = ir.load(file).graph
    rest = ir.convenience.extract(graph, ["pixel_values"], list(got))
    pixels = expected(image, zoo.info("eupe_vitt16").preprocessing)
    want = run(ir.Model(rest, ir_version=8), [pixels])
    for output in want:
        np.testing.assert_allclose(got[output], want[output], rtol=0, atol=1e-5)
