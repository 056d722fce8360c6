"""Every family as ONNX: fused structure, numbers, tables as weights."""

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest

import converter
from tests.seeded import NETWORKS, model_of, nano, native, values_of
from zoo import info
from zoo.architectures.builder import abstract, batched
from zoo.architectures.dual.dual_config import TextConfig
from zoo.architectures.vit.vit_config import OnBackbone, ViTConfig
from zoo.checkpoints.load import model_shapes
from zoo.export.make import convert_model
from zoo.export.network_inputs import sample_inputs
from zoo.export.request import Signature

ATOL = 1e-4

STRAY = {"If", "Loop", "Scan", "Identity", "Dropout", "Constant", "Resize"}

PLAIN = {"Attention": 12, "LayerNormalization": 25, "Gelu": 12}
ROTARY = {**PLAIN, "RotaryEmbedding": 24}
VIT5 = {"Attention": 12, "RotaryEmbedding": 24, "RMSNormalization": 49, "Gelu": 12}
TEXT = {"Attention": 24, "LayerNormalization": 49, "Gelu": 24}
BOTH = {"Attention": 50, "RotaryEmbedding": 48, "LayerNormalization": 103, "Gelu": 48}
RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
MEASURED = json.loads((RESULTS / "models.json").read_text())["models"]
STRUCTURES = {
    row["model"]: (row["nodes"]["18"], row["nodes"]["23"], row["fused"]) for row in MEASURED
} | {
    "dinov2_vitg14_reg": (1090, 730, {"Attention": 40, "LayerNormalization": 81}),
    "siglip2_vitb16_224-equimo": (389, 185, PLAIN),
    "vit_tiny_patch16_224-timm": (349, 193, PLAIN),
    "dinov2_vits14_ade20k_ms": (368, 212, {**PLAIN, "LayerNormalization": 28}),
    "vit5_small-original": (968, 302, VIT5),
    "tips_vitb14_hr_text": (320, 202, {"Attention": 12, "LayerNormalization": 25}),
    "dinov3_vitl16_dinotxt_text": (687, 351, TEXT),
    "tips_vitb14_hr_dual": (680, 406, {"Attention": 24, "LayerNormalization": 50, "Gelu": 12}),
    "dinov3_vitl16_dinotxt_dual": (1683, 827, BOTH),
}
"""Nodes at opset 18 and 23, and what is fused at 23: what docs/models.md says, and of networks that
are not there. The attention with a learned query in the head of SigLIP 2 is the thirteenth; ViT-5
norms queries and keys too: 4 a block and the last. torch's own export of transformers' ConvNeXt has
232 nodes."""

SMALL = {name: nano(config) for name, config in NETWORKS.items()}
MOVES = {"Concat", "Expand", "Shape", "Reshape", "Transpose"}
"""Tokens of the network's own are as they are, and need not be repeated for each image."""

BATCHED_WINDOWS = [name for name in SMALL if name.startswith(("swinv2", "rf_detr"))]
"""Windows of several images are one batch, so that another batch takes other indices."""

KINDS = [
    pytest.param(type(config), name, marks=pytest.mark.full if is_slow else ())
    for name, config in SMALL.items()
    for is_slow in [isinstance(config, OnBackbone)]
]
"""Networks by their kind; decoders of depths and areas take half a minute."""

forward = eqx.filter_jit(batched)


def exported(config, size, opset, layout=None):
    """From shapes alone, in a batch that is open."""
    return convert_model(abstract(config), opset, Signature(size, None), layout)


def twice_named(config):
    """What gives a vector a second name: that of an image's tower with a projection has two, as
    in transformers."""
    projects = isinstance(config, ViTConfig) and config.projection is not None
    return {"Identity"} if projects else set()


def fused(report):
    return {operator: count for operator, count in report.fused.items() if count}


SINCE_17 = ("LayerNormalization", "Resize", "GridSample")
"""What is fused below opset 23 as well."""


@pytest.mark.each()
@pytest.mark.parametrize("name", STRUCTURES)
def test_structure(name):
    """At the size of training; texts have none."""
    decomposed, nodes, counts = STRUCTURES[name]
    config = NETWORKS.get(name) or info(name.partition("-")[0]).config
    size = None if isinstance(config, TextConfig) else native(config)
    stray = STRAY - counts.keys() - twice_named(config)
    for opset, count in ((18, decomposed), (23, nodes)):
        report = exported(config, size, opset).report
        assert report.nodes == count
        # Weights of places that are sampled are a softmax without a second product.
        missed = {miss.pattern for miss in report.near_misses}
        assert missed <= ({"Attention"} if "GridSample" in counts else set())
        assert not stray & set(report.histogram)
        kept = {name: counts[name] for name in SINCE_17 if name in counts}
        assert fused(report) == (counts if opset == 23 else kept)
    # Two around each depthwise convolution, one behind or two around the other four.
    assert name != "dinov3_convnext_tiny" or report.histogram["Transpose"] <= 40


def test_what_is_shared_and_named():
    """One table of angles serves all layers, one product has one weight, and they keep names."""
    config = NETWORKS["dinov3_vits16"]
    export = exported(config, (256, 384), 23, "4d")
    assert fused(export.report) == ROTARY and export.report.nodes <= 290
    # One for the prefix tokens, one for the rows of the rotary tables.
    assert export.report.histogram["Expand"] <= 2
    graph = export.model.graph
    rotary = (node for node in graph if node.op_type == "RotaryEmbedding")
    assert len({tuple(value.name for value in node.inputs[1:]) for node in rotary}) == 1
    reads = Counter(node.inputs[1].name for node in graph if node.op_type == "MatMul")
    assert set(reads.values()) == {1}
    unused = {"mask_token", "local_pos_embed.periods", "cls_token", "reg_tokens"}
    assert_names(graph, config, unused)
    config = NETWORKS["dinov3_convnext_tiny"]
    assert_names(exported(config, (224, 224), 23).model.graph, config, set())


def test_sizes_that_are_open():
    """Nothing is computed twice, and all is fused."""
    made = exported(NETWORKS["dinov3_vits16"], None, 23)
    assert fused(made.report) == ROTARY and not STRAY & set(made.report.histogram)
    assert made.report.histogram["Sin"] == made.report.histogram["Cos"] == 1
    assert shapes_of(made) == [["batch_size", "sequence_length", 384], ["batch_size", 384]]
    # Tables for blocks with queries and without.
    made = exported(SMALL["eomt_dinov3_coco_panoptic_small_640"], None, 23)
    classes, areas = shapes_of(made)
    assert made.report.near_misses == [] and made.report.histogram["Sin"] == 2
    assert (classes, areas) == (["batch_size", 9, 8], ["batch_size", 9, "height/4", "width/4"])


def shapes_of(made):
    """Of the outputs."""
    shapes = (value.shape for value in made.model.graph.outputs)
    return [[getattr(dim, "value", dim) for dim in shape] for shape in shapes]


def assert_names(graph, config, unused):
    """Those of the leaves, but the factors of LayerScale, which are in what is before them."""
    names, leaves = set(graph.initializers), set(model_shapes(config))
    folded = {name for name in leaves if name.endswith("gamma")}
    assert folded and not folded & names
    assert leaves - unused - folded <= names


@pytest.mark.each("opset")
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("name", [name for name in SMALL if name not in BATCHED_WINDOWS])
def test_a_fixed_batch_of_one(name, opset):
    """It has the operators of the open file, and moves no more than that does."""
    model, stride = abstract(SMALL[name]), SMALL[name].stride
    signatures = (Signature((4 * stride, 6 * stride), batch) for batch in (1, None))
    fixed, free = (convert_model(model, opset, signature).report for signature in signatures)
    assert fixed.fused == free.fused
    for operator in free.histogram.keys() | fixed.histogram:
        one, many = (report.histogram.get(operator, 0) for report in (fixed, free))
        assert one <= many if operator in MOVES else one == many, operator


@pytest.mark.each("kind", "opset")
@pytest.mark.parametrize("opset", [18, 20, 23, 24])
@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_small_networks_in_onnx_runtime(kind, name, opset, tmp_path):
    """All switches of a network: at a fixed size, and with hidden states at any size.

    Of those one is its positions' grid; a rest at the edges is no patch.
    """
    config = SMALL[name]
    fixed, *others = ((config.stride * h, config.stride * w) for h, w in ((3, 5), (4, 4), (9, 2)))
    more = int(config.crops)
    cropped = [(height + more, width + more) for height, width in others]
    layer = (1,) if config.num_hidden_states else ()
    for size, layers, tried in ((fixed, (), [fixed]), (None, layer, cropped)):
        made = convert_model(abstract(config), opset, Signature(size, None, layers))
        # Maps of a decoder are resized.
        resized = {"Resize"} if isinstance(config, OnBackbone) else set()
        stray = STRAY - resized - twice_named(config)
        assert not stray & set(made.report.histogram)
        made.save(tmp_path / "model.onnx", values_of(config))
        live = converter.session(tmp_path / "model.onnx")
        want = partial(forward, model_of(config), layers=layers)
        for shape in tried:
            images = np.random.default_rng(7).standard_normal((2, 3, *shape), np.float32)
            expected = want(images)
            names = [output.name for output in live.get_outputs()]
            assert expected.keys() == {*names}
            for output, value in zip(names, live.run(None, {"pixel_values": images}), strict=True):
                np.testing.assert_allclose(value, expected[output], rtol=0, atol=ATOL)


def test_positions_for_another_size_are_weights():
    """Interpolated once, when the file is written; what grows by more than 1 MiB is not stored."""
    config = replace(NETWORKS["vit_tiny_patch16_224"], depth=2)
    at_home, another = (exported(config, size, 23) for size in (native(config), (192, 288)))
    assert another.report.histogram == at_home.report.histogram
    assert another.report.histogram["MatMul"] == 4 * config.depth + 1
    config = replace(NETWORKS["siglip2_vitb16_224"], depth=2)
    small, large = (exported(config, size, 23).report for size in ((224, 224), (1024, 1024)))
    assert large.histogram["MatMul"] - small.histogram["MatMul"] in (1, 2)
    assert "Resize" not in large.histogram


@pytest.mark.parametrize(
    ("name", "open_batch", "texts"),
    [
        *(("siglip_digits_text", True, 2), ("siglip_digits_dual", True, 4)),
        *(("siglip_digits_text", False, 2), ("siglip_digits_dual", False, 2)),
    ],
)
def test_samples_have_as_many_texts_as_there_may_be(name, open_batch, texts):
    inputs = sample_inputs(info(name), 2, (16, 32), open_batch)
    shapes = {"pixel_values": (2, 3, 16, 32), "input_ids": (texts, 16)}
    assert {key: value.shape for key, value in inputs.items()} == {
        key: shapes[key] for key in info(name).config.input_names
    }
