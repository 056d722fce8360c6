"""Every family of networks compared with other implementations of it."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
import torch
from transformers import Swinv2Config, Swinv2Model

import zoo
from tests.conftest import GOLDEN
from tests.formats import TRANSFORMERS
from tests.loading import network_in
from tests.measure import REFERENCES
from tests.references import convnext, digits, dinov3, segmenter, tips
from tests.references.running import equimo_abstract
from tests.seeded import NETWORKS, leaves_of, model_of, nano, native, state_of, values_of
from tests.synthetic import digest, make_image, make_state
from weights import bind
from weights.namings import swin_names, timm_names
from zoo.architectures.builder import abstract, batched, count_parameters
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.swin.swin_config import SwinConfig
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.checkpoints.load import model_shapes

RELATIVE = 1e-5
"""Limit of a difference from Equimo and timm, relative to the largest value. Measured: 8e-7."""

ATOL = 3e-5
"""Limit of a difference from transformers, for features up to `LARGEST`. Measured: 6e-6."""

LARGEST = 4.0
"""The largest features for which `ATOL` is meant. Depths in metres reach 54."""

forward = eqx.filter_jit(lambda model, image: model(image))


def count_elements(tree):
    """Return the number of elements in all arrays of a tree."""
    leaves = jax.tree.leaves(tree)
    return sum(leaf.size for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct))


def count_parameters_of_equimo(name):
    """Return the number of parameters in Equimo's network, without its tables of positions.

    Return None if Equimo has no such network.
    """
    from equimo.models import vit
    from equimo.models.convnext import ConvNeXt

    config = zoo.info(name).config
    if isinstance(config, ConvNeXtConfig) and not config.classes:
        sizes = {"depths": list(config.depths), "dims": list(config.dims), "num_classes": 0}
        return count_elements(eqx.filter_eval_shape(ConvNeXt, **sizes, key=jax.random.PRNGKey(0)))
    for known in (name, *zoo.info(name).aliases):
        if known in vit._VIT_REGISTRY:
            model = equimo_abstract(known)
            return count_elements(model) - count_elements(model.local_pos_embed)
    return None


@pytest.mark.each()
@pytest.mark.parametrize("name", zoo.list_models())
def test_parameters_are_those_of_equimos_model(name):
    entry, theirs = zoo.info(name), count_parameters_of_equimo(name)
    # Equimo gives the 7B model biases that the published file does not have.
    if theirs and "7b" not in name:
        assert theirs == count_parameters(abstract(network_in(entry, "equimo")))


def test_parameters_of_other_implementations():
    for name, naming, parameters in (
        # timm's own counts, classifier included
        ("vit_tiny_patch16_224", "timm", 5_717_416),
        ("vit_huge_patch14_224", "timm", 632_045_800),
        ("deit_tiny_distilled_patch16_224", "timm", 5_910_800),
        ("deit_base_distilled_patch16_384", "timm", 87_630_032),
        ("swinv2_base_window12to16_192to256", "timm", 87_918_816),
        ("convnext_large", "timm", 197_767_336),
        ("convnextv2_atto", "timm", 3_708_400),
        ("convnextv2_huge", "timm", 660_289_640),
        # transformers' `SiglipVisionModel`
        ("siglip2_vitb16_224", "huggingface", 92_884_224),
        # the original's: Equimo's without a bias in each of 4 norms a block and in the last
        ("vit5_small", "original", 22_050_280 - 12 * (2 * 384 + 2 * 64) - 384),
        ("vit5_xlarge", "original", 448_574_824 - 28 * (2 * 1152 + 2 * 72) - 1152),
        # the class token's position is in the token itself
        ("dinov2_vits14_reg", "timm", 22_058_112 - 384),
        # the published files'
        ("dinov3_convnext_tiny", "meta", 27_820_128),
    ):
        assert count_parameters(abstract(zoo.info(name).config_for(naming))) == parameters


def assert_near(actual, expected):
    """Compare outputs relative to their largest value."""
    assert "last_hidden_state" in expected or "pooler_output" in expected
    for output, values in expected.items():
        error = np.abs(np.asarray(actual[output]) - values).max() / np.abs(values).max()
        assert error <= RELATIVE, output


EQUIMO = [name for name, rows in REFERENCES.items() if "equimo" in rows and "eupe_conv" not in name]


@pytest.mark.full
@pytest.mark.parametrize("name", EQUIMO)
def test_the_published_network_agrees_with_equimo(name):
    config = zoo.info(name).config
    image = make_image(3, *native(config))
    expected = REFERENCES[name]["equimo"](config, values_of(config), image)
    assert_near(forward(model_of(config), image)._asdict(), expected)


def test_convnext_agrees_with_timm():
    pytest.importorskip("timm", exc_type=ImportError)
    config = nano(zoo.info("dinov3_convnext_tiny").config)
    image, values = make_image(3, 75, 130), values_of(config)
    expected = convnext.run_timm(config, values, image)
    assert_near(forward(model_of(config), image)._asdict(), expected)


@pytest.mark.each("name")
@pytest.mark.parametrize(
    ("name", "factors"),
    [
        # Without factors, the picture has the size of the positions, because the library
        # interpolates positions by another rule than the weights were trained with.
        ("dinov3_vits16", (6, 9)),
        ("dinov3_vith16plus", (3, 5)),
        ("dinov3_vit7b16", (5, 3)),
        ("dinov3_convnext_tiny", (3, 5)),
        ("eupe_vitt16", (5, 7)),
        ("dinov2_vits14", None),
        ("dinov2_vits14_reg", (6, 9)),
        ("dinov2_vitg14_reg", (3, 2)),
        ("tips_vits14_hr", (6, 9)),
        ("siglip2_vitb16_224", (6, 9)),
        ("siglip2_vitb16_224", (24, 16)),
        ("vit_tiny_patch16_224", None),
        ("deit_tiny_distilled_patch16_224", (6, 9)),
        ("swinv2_base_window12to16_192to256", (2, 3)),
        ("swinv2_base_window12to16_192to256", (1.4, 0.7)),
        ("vit_digits", (4, 3)),
        ("depth_anything_v2_vits", (6, 9)),
        ("depth_anything_v2_vits", (3, 2)),
        ("depth_anything_v2_outdoor_vits", (5, 7)),
        ("eomt_dinov3_coco_panoptic_small_640", (6, 9)),
        ("eomt_dinov3_coco_panoptic_small_640", (5, 3)),
    ],
)
def test_agrees_with_transformers(name, factors):
    other_references = {"eupe": dinov3, "tips": tips, "digits": digits}
    entry = zoo.info(name)
    in_transformers = (r.config for r in entry.published if r.naming.name == "huggingface")
    config = nano(next(in_transformers, entry.config))
    family = (
        convnext if "convnext" in name else (TRANSFORMERS | other_references)[zoo.info(name).family]
    )
    size = [int(config.stride * n) for n in factors] if factors else native(config)
    image = make_image(3, *size)
    expected = family.by_transformers(config, values_of(config), image)
    actual = forward(model_of(config), image)._asdict()
    for output, values in expected.items():
        size = max(1.0, float(np.abs(values).max()) / LARGEST)
        np.testing.assert_allclose(actual[output], values, rtol=0, atol=ATOL * size, err_msg=output)


@pytest.mark.parametrize("name", segmenter.REFERENCES)
def test_agrees_with_a_head_in_pytorch(name):
    """The networks agree without the offset of the authors' positions.

    transformers' backbone does not have that offset.
    """
    config = nano(zoo.info(name).config)
    positions = replace(config.backbone.positions, offset=0.0)
    config = replace(config, backbone=replace(config.backbone, positions=positions))
    image = make_image(3, 6 * config.stride, 9 * config.stride)
    expected = segmenter.by_pytorch(config, values_of(config), image)["logits"]
    actual = forward(model_of(config), image).logits
    assert actual.shape == expected.shape == (7, 6, 9)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=ATOL)


@pytest.mark.each()
@pytest.mark.parametrize("size", ["64x64", "48x80"])
@pytest.mark.parametrize("naming", ["equimo", "original"])
def test_vit5_agrees_with_equimo_2(naming, size):
    """Equimo 2.7.0 needs another Python. `golden/make_vit5_nano.py` wrote its outputs."""
    expected = np.load(GOLDEN / "vit5_nano.npz")
    positions = LearnedPositions(grid=4, cls_token=False, antialias=True)
    sizes = {"dim": 96, "depth": 2, "heads": 2, "hidden": 384, "classes": 7}
    config = replace(zoo.info("vit5_small").config_for(naming), **sizes, positions=positions)
    state = make_state(model_shapes(config), int(expected["seed"]))
    assert digest(state) == str(expected[f"{naming}/state_sha256"])
    image = make_image(int(expected["seed"]), *map(int, size.split("x")))
    actual = forward(bind(abstract(config), state), image)
    for output in ("last_hidden_state", "logits"):
        output_value = expected[f"{naming}/{size}/{output}"]
        np.testing.assert_allclose(getattr(actual, output), output_value, rtol=0, atol=ATOL)


def test_windows_are_those_of_transformers():
    """Windows agree for maps that are not square, and for maps that are smaller than a window."""
    for grid in ((40, 24), (24, 40), (8, 64)):
        settings = {
            "image_size": [4 * side for side in grid],
            "window_size": 6,
            "depths": [2, 2, 2],
        }
        with torch.device("meta"):
            theirs = Swinv2Model(Swinv2Config(**settings, embed_dim=12, num_heads=[2, 2, 2]))
        config = SwinConfig(12, (2, 2, 2), (2, 2, 2), 6, grid, library="transformers")
        for stage, windows in zip(theirs.encoder.layers, config.windows, strict=True):
            sides = {block.window_size for block in stage.blocks}
            shifts = [block.shift_size for block in stage.blocks]
            assert [*sides, shifts] == [windows.size[0], [0, windows.shift[0]]]
            assert windows.size[0] == windows.size[1] and windows.shift[0] == windows.shift[1]


TIMM_ATOL = 1.5e-4
"""Limit of a difference from timm, where scales of cosines are 100.

It is four times timm's difference between float32 and float64.
"""

NANO_BY_TIMM = {
    "swinv2_tiny_window8_256": (
        swin_names.TIMM,
        SwinConfig(12, (2, 2, 2), (2, 3, 4), 4, (10, 13), (3, 0, 2), ratio=3.0, classes=7),
    ),
    "deit_tiny_distilled_patch16_224": (
        timm_names.DISTILLED_VIT,
        replace(
            zoo.info("deit_tiny_distilled_patch16_224").config,
            **{"dim": 48, "depth": 2, "hidden": 192, "classes": 7},
            positions=LearnedPositions(grid=4, antialias=True, registers=1),
        ),
    ),
}
"""The naming and the configuration of small networks that timm ran."""


@pytest.mark.each("name")
@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(
            pytest.param("swinv2_tiny_window8_256", size, marks=pytest.mark.full)
            for size in ("40x52", "64x64", "36x92")
        ),
        *(("deit_tiny_distilled_patch16_224", size) for size in ("64x64", "48x80")),
    ],
)
def test_agrees_with_timm(name, size):
    """timm is not installed here. `golden/make_timm_nano.py` wrote its outputs."""
    expected, (naming, config) = np.load(GOLDEN / "timm_nano.npz"), NANO_BY_TIMM[name]
    state = state_of(config, naming, int(expected["seed"]))
    assert digest(state) == str(expected[f"{name}/state_sha256"])
    image = make_image(int(expected["seed"]), *map(int, size.split("x")))
    actual = forward(bind(abstract(config), leaves_of(config, naming, state)), image)
    for output in ("last_hidden_state", "logits"):
        output_value = expected[f"{name}/{size}/{output}"]
        np.testing.assert_allclose(getattr(actual, output), output_value, rtol=0, atol=TIMM_ATOL)


@pytest.mark.each()
@pytest.mark.parametrize("name", NETWORKS)
def test_every_switch_works_in_half_precision_and_by_vmap(name):
    config = nano(NETWORKS[name])
    arrays, other_leaves = eqx.partition(model_of(config), eqx.is_array)  # Equinox's pool has -inf
    model = eqx.combine(jax.tree.map(lambda leaf: leaf.astype("bfloat16"), arrays), other_leaves)
    images = np.stack([make_image(s, 3 * config.stride, 5 * config.stride) for s in (1, 2)])
    with jax.numpy_dtype_promotion("strict"):
        outputs = eqx.filter_jit(batched)(model, images.astype("bfloat16"))
    # Coordinates in half precision would be wrong by a pixel.
    boxes = outputs.pop("pred_boxes", None)
    assert boxes is None or boxes.dtype == np.float32
    assert {leaf.dtype for leaf in jax.tree.leaves(outputs)} == {np.dtype("bfloat16")}
    if boxes is not None:
        assert boxes.shape == (2, config.queries, 4) and np.isfinite(boxes).all()
        return
    if isinstance(config, OnBackbone):
        scale = {DepthConfig: config.stride, MaskConfig: 4, SegmenterConfig: 1}[type(config)]
        assert [*outputs.values()][-1].shape[-2:] == (3 * scale, 5 * scale)
        return
    assert outputs["last_hidden_state"].shape == (2, config.prefix_tokens + 15, config.dim)
    assert ("pooler_output" in outputs) == (config.pool is not None)
    assert ("logits" in outputs) == (config.classes != 0)
