"""Photographs to pixel values, in numpy and as a graph, beside torch's and transformers' own."""

import json
from itertools import product

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
import transformers
from PIL import Image
from PIL import __version__ as pillow

import converter
import zoo as package
from converter.opsets import is_older
from converter.verify.sessions import run
from tests.seeded import nano, values_of
from zoo.architectures.builder import abstract
from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.checkpoints.settings.picture_settings import transformers_processor
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.export.verify import reference, verify_file
from zoo.images.in_graph import front
from zoo.images.photograph import photograph
from zoo.images.pixel_values import pixel_values, resized_size

HOW = {name: package.info(name).preprocessing for name in package.list_models()}
HOW["stretched, then cropped"] = Preprocessing(
    (0.4, 0.5, 0.6), (0.2, 0.3, 0.4), size=(40, 48), resize=(61, 70), resample="bicubic"
)
DISTINCT = {how: name for name, how in reversed(HOW.items())}.values()
"""A model of every preprocessing of the zoo."""

SIZES = ((61, 700), (7, 5), (900, 500), (224, 301))
"""(width, height): a tall one, a tiny one, a large one, and one of the width that is made."""


def noisy(size: tuple[int, int]) -> Image.Image:
    """The photograph in another size, with details as fine as they can be."""
    image = photograph().resize(size)
    noise = np.random.default_rng(0).integers(-40, 40, (size[1], size[0], 3))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def expected(image: Image.Image, how: Preprocessing, folder) -> np.ndarray:
    """What transformers' processor gives; for DINOv3 the function of torch that it calls."""
    if not how.rescale_first:
        text = json.dumps(transformers_processor(how))
        (folder / "preprocessor_config.json").write_text(text)
        processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
        return processor(image, return_tensors="np")["pixel_values"]
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    resized = torch.nn.functional.interpolate(pixels, how.size, mode="bilinear", antialias=True)
    mean, std = (torch.tensor(values)[:, None, None] for values in (how.mean, how.std))
    return ((resized - mean) / std).numpy()


PICTURES = [photograph(), *map(noisy, SIZES)]


@pytest.mark.parametrize("name", DISTINCT)
def test_pixels_are_the_image_processors(name, tmp_path):
    """One level of 8 bits is 0.0039 at least; rounding alone is left."""
    sizes = [HOW[name].size] + [(96, 480)] * HOW[name].rescale_first
    limit = 5e-5 if HOW[name].rescale_first else 1e-6
    for how in map(HOW[name].at, sizes):
        for image in PICTURES:
            size = how.fitted(image.height, image.width)
            got, want = pixel_values([image], how, size), expected(image, how, tmp_path)
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, want, rtol=0, atol=limit, err_msg=str(image.size))


# To convert one that crops takes long.
BY_DEFAULT = [("dinov3_vits16", 18), ("siglip2_vitb16_224", 23)]
IN_FILES = [name for name in DISTINCT if not HOW[name].padded and HOW[name].multiple is None]
REST = [
    pytest.param(*row, marks=pytest.mark.full)
    for row in product(IN_FILES, (17, 20, 23))
    if row not in BY_DEFAULT
]


@pytest.mark.parametrize(("name", "opset"), BY_DEFAULT + REST)
def test_a_graph_gives_the_same(name, opset, tmp_path):
    how = HOW[name]
    made = front(how, how.size, opset)
    onnx.checker.check_model(ir.to_proto(made.model), full_check=True)
    assert not set(made.report.histogram) & {"If", "Loop", "Scan", "Resize"}
    types = {value.dtype for node in made.model.graph for value in node.outputs}
    assert ir.DataType.DOUBLE not in types
    live = converter.session(made)
    turned = photograph().transpose(Image.Transpose.ROTATE_180)
    for images in ([photograph(), turned], *([image] for image in PICTURES)):
        got = run(live, [np.stack([np.asarray(image) for image in images])])["pixel_values"]
        # Pillow before 13 rounds some to the next level of 8 bits.
        level = 0 if not is_older(pillow, "13") else 1 / 255 / min(how.std)
        wanted = pixel_values(images, how, how.size)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 + level)
        want = np.concatenate([expected(image, how, tmp_path) for image in images])
        limit = (5e-5 if how.rescale_first else 1e-6) + level
        np.testing.assert_allclose(got, want, rtol=0, atol=limit, err_msg=str(images[0].size))


@pytest.mark.full
def test_a_wrong_level_is_seen(tmp_path):
    """The check fails if pixels are off by one level of 8 bits, whatever the outputs say."""
    entry = package.info("dinov2_vits14")
    model, values = abstract(nano(entry.config)), values_of(nano(entry.config))
    signature = Signature((56, 56), None, input="uint8")
    samples = reference(entry, model, values, signature)
    assert [sample.images.shape for sample in samples] == [(1, 224, 336, 3), (3, 310, 206, 3)]
    for level, passes in ((0, True), (1, False)):
        mean = tuple(value + level / 255 for value in entry.preprocessing.mean)
        how = Preprocessing(mean, entry.preprocessing.std, resize=256, resample="bicubic")
        made = convert_model(model, 23, signature)
        converter.join(front(how, (56, 56), 23).model, made.model)
        made.save(tmp_path / "model.onnx", values)
        result = verify_file(tmp_path / "model.onnx", samples)
        assert result.passed == passes
        assert {item.output for item in result.comparisons} >= {"pixel_values", "pooler_output"}


def test_the_command(zoo, tmp_path):
    """The file makes of an image what the model in it makes of the image processor's pixels."""
    (record,) = zoo.json("export", "vit_digits", "--opset", 18, "--input", "uint8")
    variant, how = record["variants"]["fp32"], record["preprocessing"]
    shape = ["batch_size", "height", "width", 3]
    assert variant["inputs"] == [{"name": "image", "dtype": "uint8", "shape": shape}]
    assert (record["input"], how["in_file"], how["size"]) == ("uint8", True, [8, 8])
    tried = {(item["height"], item["width"]) for item in variant["verification"]["comparisons"]}
    assert tried == {(224, 336), (310, 206)}
    file = zoo.here / "vit_digits-opset18.onnx"
    onnx.checker.check_model(file, full_check=True)
    assert "pixel_values" in zoo("verify", file).out
    image = noisy((224, 336))
    got = run(file, [np.asarray(image)[None]])
    rest = ir.convenience.extract(ir.load(file).graph, ["pixel_values"], list(got))
    pixels = expected(image, HOW["vit_digits"], tmp_path)
    for output, want in run(ir.Model(rest, ir_version=8), [pixels]).items():
        np.testing.assert_allclose(got[output], want, rtol=0, atol=1e-5)


def test_timms_resize_and_crop():
    """ViT: 224 / 0.9 for the shorter edge, bicubic; Pillow's own functions as timm calls them."""
    image = photograph()  # 336 x 224
    resized = image.resize((372, 248), 3).crop((74, 12, 298, 236))
    want = (np.asarray(resized, np.float32).transpose(2, 0, 1) / 255 - 0.5) / 0.5
    how = HOW["vit_tiny_patch16_224"]
    np.testing.assert_allclose(pixel_values([image], how, how.size)[0], want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [(518, 518), (224, 448), (98, 70)])
@pytest.mark.parametrize("image", [(224, 336), (100, 1000), (7, 5)])
def test_a_crop_of_another_size_is_covered(size, image):
    """It shows at most the share that it would at the model's own size, along no edge more."""
    resized = resized_size(image, HOW["dinov2_vits14"], size)
    shares = [part / whole for part, whole in zip(size, resized, strict=True)]
    assert max(shares) == pytest.approx(224 / 256, abs=0.02)
    stretched = (resized[0] / image[0]) / (resized[1] / image[1])
    assert stretched == pytest.approx(1, abs=0.02)
