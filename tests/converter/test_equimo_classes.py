"""Vision transformers of Equimo, unmodified, compared with their outputs in JAX.

Each attention, rotary embedding, norm and GELU is one node of the file.
"""

from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import version
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.verify.sessions import run
from tests.frameworks.rows import draw

NEW = version("equimo") >= "2"
MODELS = "equimo.vision.models" if NEW else "equimo.models"
_build_vit = import_module(f"{MODELS}.vit")._build_vit

# Rounding of float32 through two blocks, for outputs of unit scale. A wrong branch costs at least
# 1e-3.
ATOL = 1e-4
KEY = jax.random.PRNGKey(0)
SMALL: dict[str, Any] = {"dim": 96, "num_heads": [3]}
ROPE = {"Attention": 2, "RotaryEmbedding": 4, "LayerNormalization": 5}
LEARNED = {"Attention": 2, "LayerNormalization": 5}
RMS = {
    "Attention": 2,
    "RMSNormalization": 9,
}  # two in each block, two in each attention, one at the end


@dataclass(frozen=True)
class Variant:
    """A model of Equimo's registry with two blocks, an image size, and the contents of its file.

    ``fused`` are the fused operators and their numbers, ``nodes`` the number of all nodes at opset
    23, and ``overrides`` the settings of the model that differ from the registry's.
    """

    name: str
    image: tuple[int, int]
    fused: dict[str, int]
    nodes: int
    overrides: dict[str, Any] = field(default_factory=dict)
    near_misses: int = 0


GELU = {"Gelu": 2}
DYNAMIC: dict[str, Any] = {"dynamic_img_size": True, "interpolate_antialias": True}
VITS = [
    Variant("vit_small_patch32_224", (224, 224), LEARNED | GELU, 45),
    Variant("dinov2_vits14", (112, 112), LEARNED | GELU, 43, {"img_size": 112}),
    Variant("dinov2_vits14", (70, 112), LEARNED | GELU, 43, DYNAMIC),
    Variant("dinov2_vits14_reg", (70, 112), LEARNED | GELU, 46, DYNAMIC),
    Variant("dinov2_vitg14_reg", (112, 112), LEARNED, 52, SMALL | {"img_size": 112}),
    Variant("dinov3_vits16_pretrain_lvd1689m", (96, 128), ROPE | GELU, 47),
    Variant("dinov3_vits16plus_pretrain_lvd1689m", (96, 128), ROPE, 55),
    Variant("dinov3_vit7b16_pretrain_lvd1689m", (96, 128), ROPE, 55, SMALL | {"num_heads": 3}),
    Variant("siglip2_vitb16_224", (224, 224), LEARNED | GELU, 37, SMALL),
    # Its rotation is half-split, but its tables are interleaved; RotaryEmbedding has no such form.
    Variant("vit5_small", (224, 224), RMS | GELU, 91, near_misses=1),
]
NEWER: dict[str, dict[str, Any]] = {
    "dinov3_vit7b16_pretrain_lvd1689m": {"nodes": 53},
    "vit5_small": {"fused": RMS | GELU | {"RotaryEmbedding": 4}, "nodes": 81, "near_misses": 0},
}
"""Fields that differ for Equimo 2.7.0, where the rotations of ViT-5 are fused."""
VITS = [replace(v, **NEWER.get(v.name, {})) for v in VITS] if NEW else VITS


def outputs(model: Any, images: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the features, and the output of the head, which follows the last norm."""
    options = {"key": KEY, "inference": True}
    return jax.vmap(lambda image: (model.features(image, **options), model(image, **options)))(
        images
    )


USUAL = ("dinov3_vits16_pretrain_lvd1689m", "vit5_small")
ROWS = [pytest.param(v, marks=() if v.name in USUAL else pytest.mark.full) for v in VITS]


@pytest.mark.parametrize("variant", ROWS, ids=lambda v: f"{v.name}-{v.image[0]}x{v.image[1]}")
def test_vision_transformers_are_fused_and_agree_with_jax(variant):
    settings = {"depths": [2], **variant.overrides}
    model = draw(eqx.filter_eval_shape(lambda: _build_vit(variant.name, key=KEY, **settings)))
    export = converter.to_onnx(lambda x: outputs(model, x), [("B", 3, *variant.image)])
    assert export.report.fused == variant.fused, export.report
    assert export.report.nodes == variant.nodes, export.report.histogram
    assert len(export.report.near_misses) == variant.near_misses
    # One Transpose is of the patches. A block whose queries and keys are normed has two more: of
    # queries, keys and values together, and of its result.
    norm_transposes = 2 * 2 if "RMSNormalization" in variant.fused else 0
    assert export.report.histogram["Transpose"] == 1 + norm_transposes
    pixels = np.random.default_rng(1).standard_normal((2, 3, *variant.image)).astype(np.float32)
    expected = eqx.filter_jit(outputs)(model, pixels)
    for actual, reference in zip(run(export, [pixels]).values(), expected, strict=True):
        assert 0.1 < float(jnp.std(reference)) < 10, "the outputs have unit scale"
        np.testing.assert_allclose(actual, reference, rtol=0, atol=ATOL)
