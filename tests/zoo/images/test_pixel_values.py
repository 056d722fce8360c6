"""Photographs to pixel values, in numpy and as a graph, beside torch's and transformers' own."""

import json
import tracemalloc
from dataclasses import replace
from itertools import product

import jax.numpy as jnp
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

HOW = {
    name: how
    for name in package.list_models()
    if not (how := package.info(name).preprocessing).multiple or not how.padded
}
"""Without that of patches of any aspect ratio, which `test_naflex.py` compares."""

HOW["stretched, then cropped"] = Preprocessing(
    (0.4, 0.5, 0.6), (0.2, 0.3, 0.4), size=(40, 48), resize=(61, 70), resample="bicubic"
)
DISTINCT = {how: name for name, how in reversed(HOW.items())}.values()
"""A model of every preprocessing of the zoo."""

STEPS = {
    replace(HOW[name], size=(1, 1), mean=(0, 0, 0), std=(1, 1, 1)): name for name in DISTINCT
}.values()
"""A model of every preprocessing that differs in more than the size and the constants."""

SIZES = ((61, 700), (7, 5), (900, 500), (224, 301))
"""(width, height): a tall one, a tiny one, a large one, and one of the width that is made."""


def noisy(size: tuple[int, int]) -> Image.Image:
    """The photograph in another size, with details as fine as they can be."""
    image = photograph().resize(size)
    noise = np.random.default_rng(0).integers(-40, 40, (size[1], size[0], 3))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def expected(image: Image.Image, how: Preprocessing, folder) -> np.ndarray:
    """What transformers' processor gives; for DINOv3 the function of torch that it calls, and for
    timm's networks Pillow's functions and torchvision's rule, as timm calls them."""
    if how.crop_rounding == "half_even":
        return cropped_by_torchvision(image, how)
    if not how.rescale_first:
        text = json.dumps(transformers_processor(how))
        (folder / "preprocessor_config.json").write_text(text)
        processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
        return processor(image, return_tensors="np")["pixel_values"]
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    resized = torch.nn.functional.interpolate(pixels, how.size, mode="bilinear", antialias=True)
    mean, std = (torch.tensor(values)[:, None, None] for values in (how.mean, how.std))
    return ((resized - mean) / std).numpy()


def cropped_by_torchvision(image: Image.Image, how: Preprocessing) -> np.ndarray:
    """timm's `transforms_imagenet_eval`; `center_crop` as torchvision 0.27 has it."""
    short, (width, height), (tall, wide) = how.resize, image.size, how.size
    by_width = (short, int(short * height / width))
    size = by_width if width <= height else (int(short * width / height), short)
    image = image.resize(size, Image.Resampling[how.resample.upper()])
    top, left = round((size[1] - tall) / 2.0), round((size[0] - wide) / 2.0)
    pixels = np.asarray(image.crop((left, top, left + wide, top + tall)), np.float32) / 255
    return ((pixels - how.mean) / how.std).transpose(2, 0, 1)[None]


PICTURES = [photograph(), *map(noisy, SIZES)]


@pytest.mark.parametrize("name", default_rows(DISTINCT, *STEPS))
def test_pixels_are_the_image_processors(name, tmp_path):
    """One level of 8 bits is 0.0039 at least; rounding alone is left."""
    sizes = [HOW[name].size] + [(96, 480)] * HOW[name].rescale_first
    limit = 5e-5 if HOW[name].rescale_first else 1e-6
    for how in map(HOW[name].with_size, sizes):
        for image in PICTURES:
            size = how.input_size_for(image.height, image.width)
            got, want = pixel_values([image], how, size), expected(image, how, tmp_path)
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, want, rtol=0, atol=limit, err_msg=str(image.size))


@pytest.mark.parametrize("size", [(8, 8), (8, 9)])
@pytest.mark.parametrize("name", ["dinov2_vits14", "vit_tiny_patch16_224"])
def test_a_graph_crops_where_numpy_does(name, size):
    """At a small size, in JAX; margins of 1 to 7 pixels on both edges."""
    for edges in ((9, 13), (15, 9)):
        how = replace(HOW[name], size=size, resize=9)
        image = noisy(edges)
        with enable_x64(True):
            got = preprocess_image(jnp.asarray(np.asarray(image)[None]), how, size)
        np.testing.assert_allclose(got, pixel_values([image], how, size), rtol=0, atol=2e-6)


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
    made = export_preprocessing(how, how.size, opset)
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
    samples = make_samples(entry, model, values, signature)
    assert [sample.images.shape for sample in samples] == [(1, 224, 336, 3), (3, 310, 206, 3)]
    for level, passes in ((0, True), (1, False)):
        mean = tuple(value + level / 255 for value in entry.preprocessing.mean)
        how = Preprocessing(mean, entry.preprocessing.std, resize=256, resample="bicubic")
        made = convert_model(model, 23, signature)
        converter.join(export_preprocessing(how, (56, 56), 23).model, made.model)
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


@pytest.mark.parametrize("rounding", ["floor", "half_even"])
def test_half_of_a_margin_is_rounded_as_the_library_rounds_it(rounding):
    """Of four margins torchvision crops one pixel further: 3, 7, 11, ..., whose half is nearer to
    the next even number."""
    margins = range(64)
    cropped = [centre_crop((margin + 5, 9), (5, 9), rounding)[1] for margin in margins]
    wanted = [m // 2 if rounding == "floor" else round(m / 2.0) for m in margins]
    assert cropped == wanted
    assert (cropped != [m // 2 for m in margins]) == (rounding == "half_even")


@pytest.mark.parametrize("resample", ["bilinear", "bicubic"])
def test_a_part_is_what_pillow_crops_from_the_full_size(resample):
    """To the bit, in 8 bits and in floating point, also of a part that a JPEG was drafted to."""
    random, method = np.random.default_rng(7), Image.Resampling[resample.upper()]
    for count in range(60):
        height, width, tall, wide = map(int, random.integers(1, 240, 4))
        tall = height if count % 7 == 0 else tall
        image = Image.fromarray(random.integers(0, 256, (height, width, 3), np.uint8))
        top, left = int(random.integers(tall)), int(random.integers(wide))
        bottom, right = int(random.integers(top, tall)) + 1, int(random.integers(left, wide)) + 1
        box = (0.0, 0.0, float(width), float(height))
        if count % 3 == 0:
            box = (width / 7, height / 9, width / 1.2, height / 1.1)
        rows = Span(height, box[1], box[3], tall, top, bottom)
        columns = Span(width, box[0], box[2], wide, left, right)
        full = np.asarray(image.resize((wide, tall), method, box))
        part = resize_part(image, rows, columns, resample)
        np.testing.assert_array_equal(part, full[top:bottom, left:right])
        scale = np.float32(1 / 255)
        red = Image.fromarray(np.asarray(image, np.float32)[..., 0] * scale)
        full = np.asarray(red.resize((wide, tall), method, box))
        part = resize_part_in_float(image, rows, columns, resample, scale)
        np.testing.assert_array_equal(part[..., 0], full[top:bottom, left:right])


@pytest.mark.parametrize("size", [(20_000, 1), (1, 20_000), (4000, 3), (5000, 40)])
def test_a_strip_costs_no_more_than_its_crop(size):
    """At the full size it would be 256 x 5,120,000 pixels, which no machine should hold."""
    how = HOW["dinov2_vits14"]
    image = noisy(size)
    tracemalloc.start()
    got = pixel_values([image], how, how.size)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 64 << 20
    assert got.shape == (1, 3, 224, 224)
    if size[0] * size[1] > 100_000:  # Pillow itself, which is not counted
        np.testing.assert_allclose(got, expected_crop(image, how), rtol=0, atol=1e-6)


def expected_crop(image: Image.Image, how: Preprocessing) -> np.ndarray:
    """Pillow's full size, and transformers' crop of that."""
    tall, wide = resized_size((image.height, image.width), how, how.size)
    full = image.resize((wide, tall), Image.Resampling[how.resample.upper()])
    top, left = (tall - how.size[0]) // 2, (wide - how.size[1]) // 2
    cut = full.crop((left, top, left + how.size[1], top + how.size[0]))
    pixels = np.asarray(cut, np.float32) / 255
    return ((pixels - how.mean) / how.std).transpose(2, 0, 1)[None]


@pytest.mark.parametrize(
    "size", [(10**6, 10**6), (0, 5), (-1, 5), (2.5, 3), ("a", "b"), (5,), 7, (1, 10**12)]
)
def test_a_size_that_is_none_or_that_no_memory_holds_is_refused(size):
    with pytest.raises(BadRequest, match="size"):
        package.preprocess("vit_digits", photograph(), size=size)


def test_a_picture_that_a_file_cannot_resize_is_refused():
    """A file's own arithmetic is exact up to 26,000 pixels along an edge."""
    check_edges((10, 1000), HOW["dinov2_vits14"])
    with pytest.raises(BadRequest, match="1 x 20000"):
        check_edges((1, 20_000), HOW["dinov2_vits14"])


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
