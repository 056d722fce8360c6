"""One small network of every family of Equimo, unmodified, at any batch: 1.1.0 and 2.7.0."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from inspect import isclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import converter
from converter.ir import ops
from tests.frameworks.rows import draw

NEW = version("equimo") >= "2"
models = import_module("equimo.vision.models" if NEW else "equimo.models")
KEY = jax.random.PRNGKey(0)
STAGES: dict[str, Any] = {"depths": [1] * 4, "num_classes": 5}
HEADS: dict[str, Any] = {"dim": 16, "num_heads": [1, 2, 2, 4], "in_channels": 3, **STAGES}
WIDE, SQUARE = (64, 96), (64, 64)


@dataclass(frozen=True)
class Family:
    """How a small one is made and called, and what its file holds, the same in both versions.

    ``compiled`` is false where JAX's compiled network gives NaN and the one that is run step by
    step does not: then that one is what the file is compared with.
    """

    name: str
    make: Callable[[], Any]
    image: tuple[int, int]
    fused: dict[str, int]
    call: str = "__call__"
    compiled: bool = True


def vit(depth: int = 2, num_classes: int = 5) -> Any:
    return models.VisionTransformer(
        img_size=32, in_channels=3, dim=16, patch_size=8, num_heads=[2], depths=[depth],
        num_classes=num_classes, dynamic_img_size=True, key=KEY)  # fmt: skip


FAMILIES = [
    Family("AttNet", lambda: models.attnet_xxs(num_classes=5, key=KEY), (96, 96),
           {"LayerNormalization": 21, "InstanceNormalization": 5, "Gelu": 12}),
    Family("ConvNeXt", lambda: models.ConvNeXt(3, dims=[8, 16, 24, 32], **STAGES, key=KEY), WIDE,
           {"LayerNormalization": 9, "Gelu": 4}),
    Family("IFormer", lambda: models.iformer_t(num_classes=5, key=KEY), WIDE,
           {"Attention": 5, "LayerNormalization": 1, "InstanceNormalization": 69, "Gelu": 21}),
    Family("LowFormer", lambda: models.lowformer_backbone_b0(
        num_classes=5, attention_type="softmax", key=KEY), SQUARE,
        {"Attention": 3, "LayerNormalization": 4, "InstanceNormalization": 45}),
    Family("Mlla", lambda: models.Mlla(img_size=64, **HEADS, key=KEY), SQUARE,
           {"LayerNormalization": 9, "InstanceNormalization": 5}),
    Family("MobileNetv3", lambda: models.mobilenetv3_small(num_classes=5, key=KEY), WIDE,
           {"InstanceNormalization": 34}),
    Family("PartialFormer", lambda: models.PartialFormer(
        img_size=224, foreground_ratios=(0.2, 0.6), **HEADS, key=KEY), (224, 224),
        {"Attention": 4, "LayerNormalization": 12, "InstanceNormalization": 5, "Gelu": 4},
        compiled=False),
    Family("ReduceFormer", lambda: models.reduceformer_backbone_b1(num_classes=5, key=KEY), WIDE,
           {"InstanceNormalization": 34}),
    Family("SHViT", lambda: models.SHViT(
        3, [16, 24, 32], [8] * 3, [4] * 3, [1] * 3, num_classes=5, key=KEY), WIDE,
        {"Attention": 3, "LayerNormalization": 6, "InstanceNormalization": 31}, call="features"),
    Family("VisionTransformer", vit, (32, 48),
           {"Attention": 2, "LayerNormalization": 5, "Gelu": 2}),
    Family("Vssd", lambda: models.Vssd(img_size=64, **HEADS, key=KEY), SQUARE,
           {"Attention": 1, "LayerNormalization": 12, "InstanceNormalization": 5, "Gelu": 4}),
]  # fmt: skip
ACTIVATIONS = {op.operator for op in ops.stated() if op.elementwise} - {"Gelu", ""}
"""What is one operator wherever it stands."""

NEWER = [
    Family("DEQ", lambda: models.deq_convnext_t(num_classes=5, key=KEY), WIDE,
           {"LayerNormalization": 33, "InstanceNormalization": 2, "Gelu": 27}),
    Family("EoMT", lambda: models.EoMT(vit(4, 0), 5, 6, 2, key=KEY), (32, 32),
           {"Attention": 2, "LayerNormalization": 14, "Gelu": 13, "Resize": 2}),
    Family("VisionParcae", lambda: models.VisionParcae(
        img_size=32, in_channels=3, dim=16, patch_size=8, num_heads=2, mean_recurrence=3,
        num_classes=5, key=KEY), (32, 32), {"Attention": 6, "LayerNormalization": 14, "Gelu": 6}),
]  # fmt: skip
"""What 2.7.0 has besides."""

LEFT = {"FasterViT": "Equimo itself cannot call it: a vmap with four in_axes has two arguments"}
if NEW:
    LEFT["PMT"] = "it wants the features of a whole DINOv3, which test_equimo_classes.py has"
EVERY = [*FAMILIES, *(NEWER if NEW else ())]
SLOW = {"DEQ"}
"""Minutes: it looks for fixed points, in loops of loops."""


def outputs(family: Family, network: Any, images: Any) -> Any:
    """SHViT's own call puts a norm where its shapes do not fit; its features come before that."""
    call = network.features if family.call == "features" else network
    return jax.vmap(lambda image: call(image, key=KEY, inference=True))(images)


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(f, id=f.name, marks=pytest.mark.hunt if f.name in SLOW else pytest.mark.full)
        for f in EVERY
    ],
)
def test_families(family):
    made = draw(eqx.filter_eval_shape(family.make))
    network = made[0] if isinstance(made, tuple) else made
    shape = ("B", 3, *family.image)
    export = converter.to_onnx(lambda images: outputs(family, network, images), [shape])
    assert {op: n for op, n in export.report.fused.items() if op not in ACTIVATIONS} == family.fused
    images = np.random.default_rng(1).standard_normal((3, *shape[1:])).astype(np.float32)
    run = partial(outputs, family)
    wanted = (eqx.filter_jit(run) if family.compiled else run)(network, images)
    verdict = converter.check(export.model, lambda _: wanted, [images])
    if not verdict.passed:  # an element may be smaller than the rounding of what it is made of
        verdict = converter.check(export, lambda _: wanted, [images])
    assert verdict.passed, verdict.differences[0]


@pytest.mark.full
def test_every_family_is_here():
    """What is exported there that is called with an image."""
    own = {n: c for n, c in vars(models).items() if isclass(c) and hasattr(c, "features")}
    public = {name for name, c in own.items() if c.__module__.startswith(models.__name__)}
    assert public == {family.name for family in EVERY} | LEFT.keys()
