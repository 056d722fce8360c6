"""DINOv3 as ONNX: golden outputs at every opset, the structure of the graph, unmodified Equimo."""

from __future__ import annotations

from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.verify.sessions import run
from tests.synthetic import make_image
from zoo.models.build import batched

# The smallest mistake that matters (LayerNorm's epsilon apart) moves outputs by 1e-3; float32
# rounding, ONNX Runtime's other order of sums included, by 1e-5.
ATOL = 1e-4
EVERY_OPSET = [17, 18, 20, 21, 23, 24, 26]
NO_PLACE_FOR = ("If", "Loop", "Scan", "Identity", "Dropout", "Constant")


def exported(golden, size, opset, layout="4d"):
    """The export of a golden checkpoint, its weights bound."""
    return converter.to_onnx(
        batched,
        [("batch_size", 3, *size)],
        params=golden.model,
        opset=opset,
        attention_layout=layout,
        input_names=["pixel_values"],
        output_names=["last_hidden_state", "pooler_output"],
    )


def assert_golden(file, expected, size, registers=4):
    name = "x".join(map(str, size))
    case = {k.removeprefix(f"{name}/"): v for k, v in expected.items() if k.startswith(f"{name}/")}
    image = make_image(int(case["image_seed"]), *size)[None]
    outputs = run(file, [image])
    hidden, pooled = outputs["last_hidden_state"], outputs["pooler_output"]
    patches = hidden[:, 1 + registers :]
    pairs = {
        "pooler": (pooled, case["x_norm_clstoken"]),
        "class": (hidden[:, 0], case["x_norm_clstoken"]),
        "registers": (hidden[:, 1 : 1 + registers], case["x_storage_tokens"]),
        "patches": (patches[:, case["patch_indices"]], case["x_norm_patchtokens_16"]),
        "mean": (patches.mean(1), case["patch_mean"]),
    }
    for what, (got, want) in pairs.items():
        np.testing.assert_allclose(got, want, rtol=0, atol=ATOL, err_msg=what)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", ["4d", "3d"])
@pytest.mark.parametrize("opset", EVERY_OPSET)
def test_small_model_at_every_opset(opset, layout, tiny7b, tmp_path):
    size = (256, 384)
    exported(tiny7b, size, opset, layout).save(tmp_path / "model.onnx")
    assert_golden(tmp_path / "model.onnx", tiny7b.expected, size)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("opset", "layout", "size"),
    [
        *((opset, "4d", (224, 224)) for opset in EVERY_OPSET),
        (23, "3d", (224, 224)),
        (18, "4d", (256, 384)),
        (23, "4d", (256, 384)),
        (23, "3d", (230, 250)),
        (23, "4d", (512, 512)),
    ],
)
def test_golden_outputs(opset, layout, size, vits16, tmp_path):
    exported(vits16, size, opset, layout).save(tmp_path / "model.onnx")
    assert_golden(tmp_path / "model.onnx", vits16.expected, size)


@pytest.mark.parametrize(("layout", "most"), [("4d", 290), ("3d", 215)])
@pytest.mark.parametrize("size", [(224, 224), (256, 384)])
def test_fused_structure(layout, most, size, vits16):
    export = exported(vits16, size, 23, layout)
    assert export.report.fused == {
        "Attention": 12,
        "RotaryEmbedding": 24,
        "LayerNormalization": 25,
        "Gelu": 12,
    }
    assert export.report.nodes <= most
    assert export.report.near_misses == []
    assert not set(NO_PLACE_FOR) & set(export.report.histogram)
    # one for the prefix tokens, one for the rows of the rotary tables
    assert export.report.histogram["Expand"] <= 2
    caches = {
        tuple(v.name for v in node.inputs[1:])
        for node in export.model.graph
        if node.op_type == "RotaryEmbedding"
    }
    assert len(caches) == 1, "the tables are shared by all layers"


def test_decomposed_structure(vits16):
    export = exported(vits16, (224, 224), 18)
    assert export.report.fused["LayerNormalization"] == 25
    assert export.report.nodes <= 560
    assert not set(NO_PLACE_FOR) & set(export.report.histogram)


def test_initializers_have_the_names_of_the_leaves(vits16):
    export = exported(vits16, (224, 224), 23)
    names = set(export.model.graph.initializers)
    unused = {"mask_token", "local_pos_embed.periods", "cls_token", "reg_tokens"}
    folded = {name for name in vits16.shapes if name.endswith("gamma")}
    assert set(vits16.shapes) - unused - folded <= names
    assert not folded & names


def test_one_matrix_product_reads_one_initializer_once(vits16):
    export = exported(vits16, (224, 224), 23)
    reads = Counter(node.inputs[1].name for node in export.model.graph if node.op_type == "MatMul")
    assert set(reads.values()) == {1}


@pytest.mark.full
def test_unmodified_equimo():
    from equimo.models.vit import dinov3_vits16_pretrain_lvd1689m

    key = jax.random.PRNGKey(0)
    shapes = eqx.filter_eval_shape(lambda k: dinov3_vits16_pretrain_lvd1689m(key=k), key)
    rng = np.random.default_rng(1)

    def draw(leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        fan_in = leaf.shape[-1] if len(leaf.shape) > 1 else 25
        return jnp.asarray(rng.standard_normal(leaf.shape) / fan_in**0.5, leaf.dtype)

    model = jax.tree.map(draw, shapes)
    fn = jax.vmap(lambda x: model.features(x, key=key, inference=True))
    pixels = rng.standard_normal((2, 3, 64, 96)).astype(np.float32)
    for layout in ("4d", "3d"):
        export = converter.to_onnx(fn, [("B", 3, 64, 96)], opset=23, attention_layout=layout)
        assert export.report.fused == {
            "Attention": 12,
            "RotaryEmbedding": 24,
            "LayerNormalization": 24,
            "Gelu": 12,
        }
        assert "blocks.0.blocks.3.attn.qkv.weight" in export.model.graph.initializers
        (errors,) = converter.check(export, fn, [pixels]).values()
        assert errors.max_rel <= 1e-5
