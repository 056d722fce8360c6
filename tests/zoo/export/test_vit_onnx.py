"""Every family of vision transformers as ONNX: fused structure, numbers, tables as weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import equinox as eqx
import numpy as np
import pytest

import converter
import zoo
from converter.judge.runtime import run
from tests.seeded import NETWORKS, model_of, nano, native, values_of
from zoo.export.make import convert
from zoo.export.request import Signature
from zoo.models.build import abstract, batched

ATOL = 1e-4

STRAY = ("If", "Loop", "Scan", "Identity", "Dropout", "Constant", "Resize")

# Nodes at opset 18 and 23, and what is fused at 23. The attention with a learned query in the head
# of SigLIP 2 is the thirteenth; ViT-5 norms queries and keys too: 4 a block and the last.
PLAIN = {"Attention": 12, "LayerNormalization": 25, "Gelu": 12}
POOLED = {"Attention": 13, "LayerNormalization": 26, "Gelu": 13}
GIANT = {"Attention": 40, "LayerNormalization": 81}
ROTARY = {**PLAIN, "RotaryEmbedding": 24}
VIT5 = {"Attention": 12, "RotaryEmbedding": 24, "RMSNormalization": 49, "Gelu": 12}
STRUCTURES = {
    "dinov2_vits14": (347, 191, PLAIN),
    "dinov2_vits14_reg": (346, 190, PLAIN),
    "dinov2_vitg14_reg": (1090, 730, GIANT),
    "tips_vits14_hr": (346, 190, PLAIN),
    "eupe_vitt16": (465, 215, ROTARY),
    "siglip2_vitb16_224": (423, 208, POOLED),
    "siglip2_vitb16_224-equimo": (389, 185, PLAIN),
    "vit_tiny_patch16_224": (399, 195, PLAIN),
    "vit_tiny_patch16_224-timm": (349, 193, PLAIN),
    "vit5_small": (1067, 353, VIT5),
    "vit5_small-original": (968, 302, VIT5),
}

forward = eqx.filter_jit(batched)


def exported(config, size, opset, params=None):
    model = abstract(config) if params is None else params
    return converter.to_onnx(
        batched,
        [("batch_size", 3, *size)],
        params=model,
        opset=opset,
        input_names=["pixel_values"],
    )


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", STRUCTURES)
def test_structure(name):
    """At the size of training, from shapes alone."""
    decomposed, fused, counts = STRUCTURES[name]
    config = NETWORKS[name]
    for opset, nodes in ((18, decomposed), (23, fused)):
        report = exported(config, native(config), opset).report
        assert report.nodes <= nodes
        assert report.near_misses == []
        assert not set(STRAY) & set(report.histogram)
    assert {name: count for name, count in report.fused.items() if count} == counts


OTHERS = {
    name: zoo.info(name).config for name in ("vit_digits", "dinov3_vits16", "dinov3_vith16plus")
}
CONVNEXT = zoo.info("dinov3_convnext_tiny").config
SMALL = {name: nano(config) for name, config in {**NETWORKS, **OTHERS}.items()} | {
    "dinov3_convnext_tiny": replace(CONVNEXT, depths=(1, 1, 2, 1), dims=(8, 16, 24, 32))
}
MOVES = {"Concat", "Expand", "Shape", "Reshape", "Transpose"}
"""Tokens of the network's own are as they are, and need not be repeated for each image."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("name", SMALL)
def test_a_fixed_batch_of_one(name, opset):
    """It has the operators of the open file, and moves no more than that does."""
    config, size = SMALL[name], (4 * SMALL[name].stride, 6 * SMALL[name].stride)

    def counts(batch):
        return convert(abstract(config), opset, Signature(size, batch)).report

    fixed, free = counts(1), counts(None)
    assert fixed.fused == free.fused
    for operator in free.histogram.keys() | fixed.histogram:
        one, many = (report.histogram.get(operator, 0) for report in (fixed, free))
        assert one <= many if operator in MOVES else one == many, operator


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("dinov3_vith16plus", 32),
        ("dinov3_vit7b16", 40),
        ("dinov2_vitg14", 40),
        ("tips_vitg14_hr", 40),
        ("tips_vitso400m14_hr", 27),
        ("siglip2_vitso400m14_378", 28),
        ("siglip2_vitgiantopt16_384", 41),
        ("vit_huge_patch14_224", 32),
        ("vit5_xlarge", 28),
    ],
)
def test_the_large_ones_convert_without_weights(name, layers):
    config = zoo.info(name).config
    report = exported(config, native(config), 23).report
    assert report.fused["Attention"] == layers
    assert report.near_misses == []


@pytest.mark.sampled(13)
@pytest.mark.parametrize("opset", [18, 20, 23, 24])
@pytest.mark.parametrize("name", NETWORKS)
def test_small_networks_in_onnx_runtime(name, opset, tmp_path):
    """All switches of a network, at a size that is not square and not that of its positions."""
    config = nano(NETWORKS[name])
    size = (3 * config.patch_size, 5 * config.patch_size)
    model = model_of(config)
    exported(config, size, opset, model).save(tmp_path / "model.onnx")
    pixels = np.random.default_rng(7).standard_normal((2, 3, *size)).astype(np.float32)
    want = forward(model, pixels)._asdict()
    for output, values in run(tmp_path / "model.onnx", [pixels]).items():
        np.testing.assert_allclose(values, want[output], rtol=0, atol=ATOL, err_msg=output)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", NETWORKS)
def test_one_file_for_every_size(name, tmp_path):
    """Of other grids than its positions' and of their own; with hidden states; the same bytes."""
    config = nano(NETWORKS[name])
    model = model_of(config)
    layers = (1,)
    made = convert(abstract(config), 23, Signature(None, None, layers))
    assert not set(STRAY) & set(made.report.histogram)
    for copy in ("one", "two"):
        made.save(tmp_path / copy, values=values_of(config, 1))
        made = convert(abstract(config), 23, Signature(None, None, layers))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    live = converter.session(tmp_path / "one")
    for height, width in ((4, 4), (9, 2)):
        # A rest at the edges is no patch.
        size = (height * config.patch_size + 3, width * config.patch_size + 1)
        pixels = np.random.default_rng(7).standard_normal((2, 3, *size)).astype(np.float32)
        wanted = partial(forward, model, layers=layers)
        for output, error in converter.check(live, wanted, [pixels]).items():
            assert error.max_abs <= ATOL, (output, size, error)


@pytest.mark.full
@pytest.mark.parametrize("name", ["dinov2_vits14", "dinov2_vits14_reg", "vit_tiny_patch16_224"])
def test_positions_for_another_size_are_weights(name):
    """Interpolated once, when the file is written: nothing of it is left in the graph."""
    config = NETWORKS[name]
    patch = config.patch_size
    export = exported(config, (12 * patch, 18 * patch), 23)
    at_home = exported(config, native(config), 23)
    assert export.report.histogram == at_home.report.histogram
    assert export.report.histogram["MatMul"] == 4 * config.depth + bool(config.classes)


def test_a_much_larger_table_stays_two_products():
    """What grows by more than 1 MiB is not stored in place of what it is made from."""
    config = NETWORKS["siglip2_vitb16_224"]
    small, large = (exported(config, (16 * n, 16 * n), 23).report for n in (14, 64))
    assert large.histogram["MatMul"] - small.histogram["MatMul"] in (1, 2)
    assert "Resize" not in large.histogram


def test_interpolated_positions_are_values_of_the_leaf(tmp_path):
    """Saved with other values, the same export has another table."""
    config = replace(nano(NETWORKS["dinov2_vits14"]), depth=1)
    size = (3 * config.patch_size, 5 * config.patch_size)
    export = exported(config, size, 18)
    pixels = np.zeros((1, 3, *size), np.float32)
    for seed in (1, 2):
        export.save(tmp_path / f"{seed}.onnx", values=values_of(config, seed))
        (got, *_) = run(tmp_path / f"{seed}.onnx", [pixels]).values()
        want = forward(model_of(config, seed), pixels).last_hidden_state
        np.testing.assert_allclose(got, want, rtol=0, atol=ATOL)
