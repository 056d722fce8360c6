"""Photographs to pixel values, in numpy and as a graph, compared with torch and transformers."""

import json
import tracemalloc
from dataclasses import replace
from functools import partial
from itertools import product

import jax
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
from converter.jax_versions import enable_x64
from converter.opsets import is_older
from converter.verify.sessions import run
from tests.seeded import nano, values_of
from tests.tiers import default_rows
from zoo.architectures.builder import abstract
from zoo.checkpoints.settings.processors import transformers_processor
from zoo.common.errors import BadRequest
from zoo.export.make import convert_model
from zoo.export.request import Signature
from zoo.export.verify import make_samples, verify_file
from zoo.images.in_graph import export_preprocessing, preprocess_image
from zoo.images.photograph import photograph
from zoo.images.pixel_values import centre_crop, check_edges, pixel_values, resized_size
from zoo.images.preprocessing import Preprocessing
from zoo.images.resampling import Span, resize_part, resize_part_in_float

PREPROCESSING = {
    name: preprocessing
    for name in package.list_models()
    if not (preprocessing := package.info(name).preprocessing).multiple or not preprocessing.padded
}
"""Preprocessing by model, except that of patches of any aspect ratio: see `test_naflex.py`."""

PREPROCESSING["stretched, then cropped"] = Preprocessing(
    (0.4, 0.5, 0.6), (0.2, 0.3, 0.4), size=(40, 48), resize=(61, 70), resample="bicubic"
)
DISTINCT = {preprocessing: name for name, preprocessing in reversed(PREPROCESSING.items())}.values()
"""One model for every preprocessing of the zoo."""

STEPS = {
    replace(PREPROCESSING[name], size=(1, 1), mean=(0, 0, 0), std=(1, 1, 1)): name
    for name in DISTINCT
}.values()
"""One model for every preprocessing that differs in more than the size and the constants."""

SIZES = ((61, 700), (7, 5), (900, 500), (224, 301))
"""(width, height) of a tall, a tiny and a large picture, and of one with the target's width."""


def noisy(size: tuple[int, int]) -> Image.Image:
    """Return the photograph in another size, with noise of single pixels."""
    image = photograph().resize(size)
    noise = np.random.default_rng(0).integers(-40, 40, (size[1], size[0], 3))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def library_pixels(image: Image.Image, preprocessing: Preprocessing, folder) -> np.ndarray:
    """Return the pixels of transformers' processor.

    For DINOv3 they come from the torch function that the processor calls. For timm's networks they
    come from Pillow and torchvision's rule, as in timm.
    """
    if preprocessing.crop_rounding == "half_even":
        return cropped_by_torchvision(image, preprocessing)
    if not preprocessing.rescale_first:
        text = json.dumps(transformers_processor(preprocessing))
        (folder / "preprocessor_config.json").write_text(text)
        processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
        return processor(image, return_tensors="np")["pixel_values"]
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    resized = torch.nn.functional.interpolate(
        pixels, preprocessing.size, mode="bilinear", antialias=True
    )
    mean, std = (
        torch.tensor(values)[:, None, None] for values in (preprocessing.mean, preprocessing.std)
    )
    return ((resized - mean) / std).numpy()


def cropped_by_torchvision(image: Image.Image, preprocessing: Preprocessing) -> np.ndarray:
    """Return the pixels of timm's `transforms_imagenet_eval`.

    The crop is that of `center_crop` in torchvision 0.27.
    """
    short_edge, (width, height), (crop_height, crop_width) = (
        preprocessing.resize,
        image.size,
        preprocessing.size,
    )
    by_width = (short_edge, int(short_edge * height / width))
    size = by_width if width <= height else (int(short_edge * width / height), short_edge)
    image = image.resize(size, Image.Resampling[preprocessing.resample.upper()])
    top, left = round((size[1] - crop_height) / 2.0), round((size[0] - crop_width) / 2.0)
    pixels = (
        np.asarray(image.crop((left, top, left + crop_width, top + crop_height)), np.float32) / 255
    )
    return ((pixels - preprocessing.mean) / preprocessing.std).transpose(2, 0, 1)[None]


PICTURES = [photograph(), *map(noisy, SIZES)]


@pytest.mark.parametrize("name", default_rows(DISTINCT, *STEPS))
def test_pixels_are_the_image_processors(name, tmp_path):
    """Differences are only rounding, as one level of 8 bits would be 0.0039 at least."""
    sizes = [PREPROCESSING[name].size] + [(96, 480)] * PREPROCESSING[name].rescale_first
    limit = 5e-5 if PREPROCESSING[name].rescale_first else 1e-6
    for preprocessing in map(PREPROCESSING[name].with_size, sizes):
        for image in PICTURES:
            size = preprocessing.input_size_for(image.height, image.width)
            actual, from_library = (
                pixel_values([image], preprocessing, size),
                library_pixels(image, preprocessing, tmp_path),
            )
            assert actual.dtype == np.float32
            np.testing.assert_allclose(
                actual, from_library, rtol=0, atol=limit, err_msg=str(image.size)
            )


@pytest.mark.parametrize("size", [(8, 8), (8, 9)])
@pytest.mark.parametrize("name", ["dinov2_vits14", "vit_tiny_patch16_224"])
def test_a_graph_crops_where_numpy_does(name, size):
    """At a small size, in JAX, margins are 1 to 7 pixels on both edges."""
    for edges in ((9, 13), (15, 9)):
        preprocessing = replace(PREPROCESSING[name], size=size, resize=9)
        image = noisy(edges)
        crop = partial(preprocess_image, preprocessing=preprocessing, size=size)
        with enable_x64(True):
            actual = jax.jit(crop)(np.asarray(image)[None])
        np.testing.assert_allclose(
            actual, pixel_values([image], preprocessing, size), rtol=0, atol=2e-6
        )


# A conversion of preprocessing with a crop takes long, and is in the full tier.
BY_DEFAULT = [("dinov3_vits16", 18), ("siglip2_vitb16_224", 23)]
IN_FILES = [
    name
    for name in DISTINCT
    if not PREPROCESSING[name].padded and PREPROCESSING[name].multiple is None
]
REST = [
    pytest.param(*row, marks=pytest.mark.full)
    for row in product(IN_FILES, (17, 20, 23))
    if row not in BY_DEFAULT
]


@pytest.mark.parametrize(("name", "opset"), BY_DEFAULT + REST)
def test_a_graph_agrees_with_numpy_and_the_library(name, opset, tmp_path):
    preprocessing = PREPROCESSING[name]
    file = export_preprocessing(preprocessing, preprocessing.size, opset)
    onnx.checker.check_model(ir.to_proto(file.model), full_check=True)
    assert not set(file.report.histogram) & {"If", "Loop", "Scan", "Resize"}
    types = {value.dtype for node in file.model.graph for value in node.outputs}
    assert ir.DataType.DOUBLE not in types
    session = converter.session(file)
    rotated = photograph().transpose(Image.Transpose.ROTATE_180)
    for images in ([photograph(), rotated], *([image] for image in PICTURES)):
        actual = run(session, [np.stack([np.asarray(image) for image in images])])["pixel_values"]
        # Pillow before 13 rounds some pixels to the next level of 8 bits.
        level = 0 if not is_older(pillow, "13") else 1 / 255 / min(preprocessing.std)
        from_numpy = pixel_values(images, preprocessing, preprocessing.size)
        np.testing.assert_allclose(actual, from_numpy, rtol=0, atol=2e-6 + level)
        from_library = np.concatenate(
            [library_pixels(image, preprocessing, tmp_path) for image in images]
        )
        limit = (5e-5 if preprocessing.rescale_first else 1e-6) + level
        np.testing.assert_allclose(
            actual, from_library, rtol=0, atol=limit, err_msg=str(images[0].size)
        )


@pytest.mark.full
def test_verification_fails_for_a_wrong_level(tmp_path):
    """The verification fails if pixels differ by one level of 8 bits, even if outputs agree."""
    entry = package.info("dinov2_vits14")
    model, values = abstract(nano(entry.config)), values_of(nano(entry.config))
    signature = Signature((56, 56), None, input="uint8")
    samples = make_samples(entry, model, values, signature)
    assert [sample.images.shape for sample in samples] == [(1, 224, 336, 3), (3, 310, 206, 3)]
    for level, passes in ((0, True), (1, False)):
        mean = tuple(value + level / 255 for value in entry.preprocessing.mean)
        shifted = Preprocessing(mean, entry.preprocessing.std, resize=256, resample="bicubic")
        file = convert_model(model, 23, signature)
        converter.join(export_preprocessing(shifted, (56, 56), 23).model, file.model)
        file.save(tmp_path / "model.onnx", values)
        result = verify_file(tmp_path / "model.onnx", samples)
        assert result.passed == passes
        assert {item.output for item in result.comparisons} >= {"pixel_values", "pooler_output"}


def test_export_with_images_as_input(zoo, tmp_path):
    """The outputs for an image are those of the network for the image processor's pixels."""
    (record,) = zoo.json("export", "vit_digits", "--opset", 18, "--input", "uint8")
    variant, preprocessing = record["variants"]["fp32"], record["preprocessing"]
    shape = ["batch_size", "height", "width", 3]
    assert variant["inputs"] == [{"name": "image", "dtype": "uint8", "shape": shape}]
    assert (record["input"], preprocessing["in_file"], preprocessing["size"]) == (
        "uint8",
        True,
        [8, 8],
    )
    checked_sizes = {
        (item["height"], item["width"]) for item in variant["verification"]["comparisons"]
    }
    assert checked_sizes == {(224, 336), (310, 206)}
    file = zoo.here / "vit_digits-opset18.onnx"
    onnx.checker.check_model(file, full_check=True)
    assert "pixel_values" in zoo("verify", file).out
    image = noisy((224, 336))
    outputs = run(file, [np.asarray(image)[None]])
    network = ir.convenience.extract(ir.load(file).graph, ["pixel_values"], list(outputs))
    pixels = library_pixels(image, PREPROCESSING["vit_digits"], tmp_path)
    for output, expected in run(ir.Model(network, ir_version=8), [pixels]).items():
        np.testing.assert_allclose(outputs[output], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("rounding", ["floor", "half_even"])
def test_half_of_a_margin_is_rounded_as_the_library_rounds_it(rounding):
    """torchvision rounds half of a margin to the nearest even number.

    For margins of 3, 7, 11, ... it therefore crops one pixel further.
    """
    margins = range(64)
    cropped = [centre_crop((margin + 5, 9), (5, 9), rounding)[1] for margin in margins]
    halves = [m // 2 if rounding == "floor" else round(m / 2.0) for m in margins]
    assert cropped == halves
    assert (cropped != [m // 2 for m in margins]) == (rounding == "half_even")


@pytest.mark.parametrize("resample", ["bilinear", "bicubic"])
def test_a_part_is_what_pillow_crops_from_the_full_size(resample):
    """The bits agree, in 8 bits and in floats, also for a part that a JPEG was drafted to."""
    random, method = np.random.default_rng(7), Image.Resampling[resample.upper()]
    for count in range(60):
        height, width, full_height, full_width = map(int, random.integers(1, 240, 4))
        full_height = height if count % 7 == 0 else full_height
        image = Image.fromarray(random.integers(0, 256, (height, width, 3), np.uint8))
        top, left = int(random.integers(full_height)), int(random.integers(full_width))
        bottom, right = (
            int(random.integers(top, full_height)) + 1,
            int(random.integers(left, full_width)) + 1,
        )
        box = (0.0, 0.0, float(width), float(height))
        if count % 3 == 0:
            box = (width / 7, height / 9, width / 1.2, height / 1.1)
        rows = Span(height, box[1], box[3], full_height, top, bottom)
        columns = Span(width, box[0], box[2], full_width, left, right)
        full = np.asarray(image.resize((full_width, full_height), method, box))
        part = resize_part(image, rows, columns, resample)
        np.testing.assert_array_equal(part, full[top:bottom, left:right])
        scale = np.float32(1 / 255)
        red = Image.fromarray(np.asarray(image, np.float32)[..., 0] * scale)
        full = np.asarray(red.resize((full_width, full_height), method, box))
        part = resize_part_in_float(image, rows, columns, resample, scale)
        np.testing.assert_array_equal(part[..., 0], full[top:bottom, left:right])


@pytest.mark.parametrize("size", [(20_000, 1), (1, 20_000), (4000, 3), (5000, 40)])
def test_a_strip_costs_no_more_than_its_crop(size):
    """The full size would be 256 x 5,120,000 pixels, for which machines have too little memory."""
    preprocessing = PREPROCESSING["dinov2_vits14"]
    image = noisy(size)
    tracemalloc.start()
    actual = pixel_values([image], preprocessing, preprocessing.size)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20
    assert actual.shape == (1, 3, 224, 224)
    if size[0] * size[1] > 100_000:  # Pillow's own memory is not counted.
        np.testing.assert_allclose(actual, expected_crop(image, preprocessing), rtol=0, atol=1e-6)


def expected_crop(image: Image.Image, preprocessing: Preprocessing) -> np.ndarray:
    """Resize a picture to the full size with Pillow, and crop it as transformers does."""
    full_height, full_width = resized_size(
        (image.height, image.width), preprocessing, preprocessing.size
    )
    full = image.resize((full_width, full_height), Image.Resampling[preprocessing.resample.upper()])
    top, left = (
        (full_height - preprocessing.size[0]) // 2,
        (full_width - preprocessing.size[1]) // 2,
    )
    cropped = full.crop((left, top, left + preprocessing.size[1], top + preprocessing.size[0]))
    pixels = np.asarray(cropped, np.float32) / 255
    return ((pixels - preprocessing.mean) / preprocessing.std).transpose(2, 0, 1)[None]


@pytest.mark.parametrize(
    "size", [(10**6, 10**6), (0, 5), (-1, 5), (2.5, 3), ("a", "b"), (5,), 7, (1, 10**12)]
)
def test_invalid_and_too_large_sizes_are_refused(size):
    with pytest.raises(BadRequest, match="size"):
        package.preprocess("vit_digits", photograph(), size=size)


def test_a_picture_that_a_file_cannot_resize_is_refused():
    """The arithmetic of a file is exact up to 26,000 pixels along an edge."""
    check_edges((10, 1000), PREPROCESSING["dinov2_vits14"])
    with pytest.raises(BadRequest, match="1 x 20000"):
        check_edges((1, 20_000), PREPROCESSING["dinov2_vits14"])


def test_timms_resize_and_crop():
    """The shorter edge is 224 / 0.9, bicubic. Pillow's functions are called as in timm."""
    image = photograph()  # 336 x 224
    resized = image.resize((372, 248), 3).crop((74, 12, 298, 236))
    from_timm = (np.asarray(resized, np.float32).transpose(2, 0, 1) / 255 - 0.5) / 0.5
    preprocessing = PREPROCESSING["vit_tiny_patch16_224"]
    np.testing.assert_allclose(
        pixel_values([image], preprocessing, preprocessing.size)[0], from_timm, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("size", [(518, 518), (224, 448), (98, 70)])
@pytest.mark.parametrize("image", [(224, 336), (100, 1000), (7, 5)])
def test_a_crop_of_another_size_is_covered(size, image):
    """The crop shows at most the share of an edge that it shows at the model's own size."""
    resized = resized_size(image, PREPROCESSING["dinov2_vits14"], size)
    shares = [part / resized_side for part, resized_side in zip(size, resized, strict=True)]
    assert max(shares) == pytest.approx(224 / 256, abs=0.02)
    stretched = (resized[0] / image[0]) / (resized[1] / image[1])
    assert stretched == pytest.approx(1, abs=0.02)
