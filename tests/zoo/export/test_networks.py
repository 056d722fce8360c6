"""Networks of every family as ONNX: node counts, fused operators, names, and outputs as in JAX."""

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

UNWANTED = {"If", "Loop", "Scan", "Identity", "Dropout", "Constant", "Resize"}

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
"""Nodes at opset 18 and 23, and fused operators at 23: the rows of docs/models.md, and further
networks. The thirteenth attention of SigLIP 2 has the learned query of its head. ViT-5 also
normalizes queries and keys: 4 norms a block, and the last. torch's export of transformers' ConvNeXt
has 232 nodes."""

SMALL = {name: nano(config) for name, config in NETWORKS.items()}
MOVES = {"Concat", "Expand", "Shape", "Reshape", "Transpose"}
"""Operators of which a file for one image may have fewer: it need not repeat learned tokens."""

BATCHED_WINDOWS = [name for name in SMALL if name.startswith(("swinv2", "rf_detr"))]
"""Networks with windows: those of all images are one batch, so that indices depend on its size."""

KINDS = [
    pytest.param(type(config), name, marks=pytest.mark.full if is_slow else ())
    for name, config in SMALL.items()
    for is_slow in [isinstance(config, OnBackbone)]
]
"""Each small network with the class of its configuration. Decoders on a backbone take half a minute
and run in the full tier."""

forward = eqx.filter_jit(batched)


def convert(config, size, opset, layout=None):
    """Convert a network from the shapes of its weights, with an open batch."""
    return convert_model(abstract(config), opset, Signature(size, None), layout)


def identity_operators(config):
    """Return the operators that only give a value a second name.

    The pooled vector of an image tower with a projection has two names, as in transformers.
    """
    projects = isinstance(config, ViTConfig) and config.projection is not None
    return {"Identity"} if projects else set()


def nonzero_fused(report):
    """Return the counts of fused operators that are not zero."""
    return {operator: count for operator, count in report.fused.items() if count}


SINCE_17 = ("LayerNormalization", "Resize", "GridSample")
"""Operators that are fused below opset 23 as well."""


@pytest.mark.each()
@pytest.mark.parametrize("name", STRUCTURES)
def test_structure(name):
    """Node counts at the size of training are those of the table. Text networks have no size."""
    decomposed, nodes, counts = STRUCTURES[name]
    config = NETWORKS.get(name) or info(name.partition("-")[0]).config
    size = None if isinstance(config, TextConfig) else native(config)
    unwanted = UNWANTED - counts.keys() - identity_operators(config)
    for opset, count in ((18, decomposed), (23, nodes)):
        report = convert(config, size, opset).report
        assert report.nodes == count
        # Deformable attention has a softmax of weights, but no second product.
        near_misses = {miss.pattern for miss in report.near_misses}
        assert near_misses <= ({"Attention"} if "GridSample" in counts else set())
        assert not unwanted & set(report.histogram)
        fused_at_18 = {name: counts[name] for name in SINCE_17 if name in counts}
        assert nonzero_fused(report) == (counts if opset == 23 else fused_at_18)
    # ConvNeXt has two around each depthwise convolution, and one or two at the other four.
    assert name != "dinov3_convnext_tiny" or report.histogram["Transpose"] <= 40


def test_shared_tables_and_names_of_weights():
    """All layers read one table of angles, each weight is multiplied once, and weights are named
    after their leaves."""
    config = NETWORKS["dinov3_vits16"]
    export = convert(config, (256, 384), 23, "4d")
    assert nonzero_fused(export.report) == ROTARY and export.report.nodes <= 290
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
    assert_names(convert(config, (224, 224), 23).model.graph, config, set())


def test_open_sizes():
    """With open sizes, rotary tables are computed once and all operators are fused."""
    export = convert(NETWORKS["dinov3_vits16"], None, 23)
    assert nonzero_fused(export.report) == ROTARY and not UNWANTED & set(export.report.histogram)
    assert export.report.histogram["Sin"] == export.report.histogram["Cos"] == 1
    assert output_shapes(export) == [["batch_size", "sequence_length", 384], ["batch_size", 384]]
    # Tables for blocks with queries and without.
    export = convert(SMALL["eomt_dinov3_coco_panoptic_small_640"], None, 23)
    classes, areas = output_shapes(export)
    assert export.report.near_misses == [] and export.report.histogram["Sin"] == 2
    assert (classes, areas) == (["batch_size", 9, 8], ["batch_size", 9, "height/4", "width/4"])


def output_shapes(export):
    """Return the shapes of the outputs, with the names of open dimensions."""
    shapes = (value.shape for value in export.model.graph.outputs)
    return [[getattr(dim, "value", dim) for dim in shape] for shape in shapes]


def assert_names(graph, config, unused):
    """Assert that weights have the names of their leaves.

    The factors of LayerScale are absent: they are folded into the matrix before them.
    """
    names, leaves = set(graph.initializers), set(model_shapes(config))
    folded = {name for name in leaves if name.endswith("gamma")}
    assert folded and not folded & names
    assert leaves - unused - folded <= names


@pytest.mark.each("opset")
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("name", [name for name in SMALL if name not in BATCHED_WINDOWS])
def test_a_fixed_batch_of_one(name, opset):
    """It has the operators of the file with an open batch, and no more that only move values."""
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
    """Files agree with JAX at a fixed size, and at open sizes with hidden states.

    One size is that of the position table. Sizes have a remainder that is no whole patch if the
    network crops it.
    """
    config = SMALL[name]
    fixed, *other_sizes = (
        (config.stride * h, config.stride * w) for h, w in ((3, 5), (4, 4), (9, 2))
    )
    border = int(config.crops)
    cropped = [(height + border, width + border) for height, width in other_sizes]
    layer = (1,) if config.num_hidden_states else ()
    for size, layers, tested_sizes in ((fixed, (), [fixed]), (None, layer, cropped)):
        export = convert_model(abstract(config), opset, Signature(size, None, layers))
        # Decoders resize their maps.
        resized = {"Resize"} if isinstance(config, OnBackbone) else set()
        unwanted = UNWANTED - resized - identity_operators(config)
        assert not unwanted & set(export.report.histogram)
        export.save(tmp_path / "model.onnx", values_of(config))
        session = converter.session(tmp_path / "model.onnx")
        run_jax = partial(forward, model_of(config), layers=layers)
        for shape in tested_sizes:
            images = np.random.default_rng(7).standard_normal((2, 3, *shape), np.float32)
            expected = run_jax(images)
            names = [output.name for output in session.get_outputs()]
            assert expected.keys() == {*names}
            for output, value in zip(
                names, session.run(None, {"pixel_values": images}), strict=True
            ):
                np.testing.assert_allclose(value, expected[output], rtol=0, atol=ATOL)


def test_positions_for_another_size_are_weights():
    """Positions are interpolated when the file is written, unless that adds more than 1 MiB."""
    config = replace(NETWORKS["vit_tiny_patch16_224"], depth=2)
    native_export, export = (convert(config, size, 23) for size in (native(config), (192, 288)))
    assert export.report.histogram == native_export.report.histogram
    assert export.report.histogram["MatMul"] == 4 * config.depth + 1
    config = replace(NETWORKS["siglip2_vitb16_224"], depth=2)
    small, large = (convert(config, size, 23).report for size in ((224, 224), (1024, 1024)))
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
