"""One small network of every family of Equimo 1.1.0 and 2.7.0, unmodified, compared with JAX.

The batch size is open, and the fused operators of each file are counted.
"""

from collections.abc import Callable, Sequence
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
    """How a small network is made and called, and the fused operators of its file.

    They are the same in both versions of Equimo. ``compiled`` is false where the network compiled
    by JAX gives NaN and the network run step by step does not; the file is then compared with the
    latter.
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
           {"LayerNormalization": 21, "InstanceNormalization": 5, "Gelu": 20}),
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
ACTIVATIONS = {op.operator for op in ops.defined_ops() if op.elementwise} - {"Gelu", ""}
"""Operators of single elementwise operations, which are not counted."""

EARLY = {"LayerNormalization", "InstanceNormalization", "Resize"}
"""Fused operators that opset 18 has too."""


@dataclass(frozen=True)
class Newer:
    """A network that only Equimo 2.7.0 has: how it is made and called, and on which inputs.

    ``specs`` are the inputs with their open sizes, ``arrays`` their values, and ``fused`` the fused
    operators of the file at opset 23. A ``concrete`` network cannot be made from shapes alone, so
    ``make`` gives it weights.
    """

    name: str
    make: Callable[[], Any]
    specs: Sequence[Any]
    arrays: Sequence[np.ndarray]
    fused: dict[str, int]
    call: Callable[..., Any] = lambda network, images: jax.vmap(
        lambda image: network(image, key=KEY, inference=True)
    )(images)
    concrete: bool = False


def seeded_network(make: Callable[[], Any]) -> Any:
    """Return the network with seeded weights, of which none is near zero or one."""
    network = draw(eqx.filter_eval_shape(make))
    return network[0] if isinstance(network, tuple) else network


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def lingbot(depth: int = 2) -> Any:
    return models.lingbot_vits16(
        img_size=32, dim=16, patch_size=8, num_heads=2, depths=[depth], key=KEY)  # fmt: skip


def eomt(masked: bool) -> Any:
    return models.EoMT(vit(4, 0), 5, 6, 2, key=KEY, masked_attention=masked)


def pmt(masked: bool) -> Any:
    """Return a PMT with seeded weights.

    It stores a digest of the weights of its backbone, so it cannot be made from shapes.
    """
    config = import_module("equimo.vision.models.pmd").PMTConfig(
        dim=16, num_heads=2, hidden_dim=16, taps=(1, 3), num_queries=6, num_blocks=2,
        masked_attention=masked)  # fmt: skip
    network = models.PMT(seeded_network(lambda: lingbot(4)), 5, key=KEY, config=config)
    return eqx.tree_at(lambda m: m.head, network, seeded_network(lambda: network.head))


def deq() -> Any:
    """Return a DEQ whose tolerance is never reached.

    Its number of steps then does not depend on rounding.
    """
    return models.DEQ(
        3, modules=["convnextblock"] * 3, module_kwargs=[{}] * 3,
        downsamplers=["convnextstem", "convnextdownsampler", "convnextdownsampler"],
        downsampler_kwargs=[{}] * 3, block_types=["normal", "fpi", "normal"], dims=[8, 16, 24],
        depths=[1, 2, 1], num_classes=5, fpi_injector="prenorm_add", fpi_stabilizer="projected",
        fpi_maxsteps=5, fpi_tol=1e-9, key=KEY)  # fmt: skip


def parcae(injection: str) -> Any:
    return models.VisionParcae(
        img_size=32, in_channels=3, dim=16, patch_size=8, num_heads=2, mean_recurrence=3,
        injection_type=injection, state_init="zero", n_layers_in_prelude=1,
        n_layers_in_recurrent_block=1, n_layers_in_coda=1, num_classes=5, key=KEY)  # fmt: skip


def convnext_of_rms_norms() -> Any:
    return models.ConvNeXt(
        3, dims=[8, 16, 24, 32], **STAGES, norm_layer="rmsnorm", block_norm_layer="rmsnorm2d",
        downsampler_norm_layer="rmsnorm2d", stem_kwargs={"norm_layer": "rmsnorm2d"},
        key=KEY)  # fmt: skip


def spectrograms() -> Any:
    model_class = import_module("equimo.audio.models").AudioSpectrogramTransformer
    return model_class(16, 40, 16, 8, 6, 6, 2, [2], num_classes=5, key=KEY)


def tabpfn() -> Any:
    return import_module("equimo.tabular.models").TabPFN(
        num_classes=4, dim=16, depths=(1, 1, 2), num_heads=(2, 2, 2), num_inducing_points=5,
        num_cls_tokens=2, decoder_head_dim=8, decoder_num_heads=2, key=KEY)  # fmt: skip


def t0() -> Any:
    return import_module("equimo.timeseries.models").T0(
        embed_dim=16, num_layers=3, num_heads=2, mlp_hidden_dim=24, patch_size=4, group_every_n=3,
        quantile_levels=(0.1, 0.5, 0.9), key=KEY)  # fmt: skip


def text() -> Any:
    model_class = import_module("equimo.language.models").TextTransformerEncoder
    return model_class(16, 2.0, 3, 2, 30, key=KEY)


def call_network(network: Any, *inputs: Any) -> Any:
    return network(*inputs, key=KEY, inference=True)


TRAINED = 7
"""Number of rows of the table whose labels are known."""

TABLE = np.where(np.arange(66).reshape(11, 6) == 15, np.nan, normal(11, 6)).astype(np.float32)
LABELS = np.array([0, 1, 2, 3, 1, 0, 2, 0, 0, 0, 0], np.int32)
TIMES = (3, 14)
# One series begins late, one misses a value and is known in advance, and one is in another group.
SERIES = [
    normal(*TIMES),
    (np.arange(14) < [[3], [0], [0]]) + 2 * (np.arange(42).reshape(TIMES) == 19),
    np.repeat([[0], [0], [1]], 14, 1),
    np.repeat([[0], [2], [0]], 14, 1),
]
TEXTS = np.random.default_rng(1).integers(0, 30, (3, 9))
PADDING = np.arange(9) >= [[9], [5], [1]]

IMAGES: dict[str, Any] = {"specs": [("B", 3, 32, 48)], "arrays": [normal(3, 3, 32, 48)]}
ROWS: dict[str, Any] = {
    "arrays": [TABLE, LABELS],
    "call": lambda network, *table: call_network(network, *table, TRAINED),
}

NEWER = [
    Newer("AudioSpectrogramTransformer", spectrograms, [("B", 40, 16)], [normal(3, 40, 16)],
          {"Attention": 2, "LayerNormalization": 5, "Gelu": 2}),
    Newer("TabPFN", tabpfn, [(11, 6), ((11,), "int32")], fused={
        "Attention": 8, "RotaryEmbedding": 1, "RMSNormalization": 13, "Gelu": 10}, **ROWS),
    Newer("TabPFN, open rows", tabpfn, [(f"R+{TRAINED}", 6), ((f"R+{TRAINED}",), "int32")],
          fused={"Attention": 8, "RotaryEmbedding": 2, "RMSNormalization": 14, "Gelu": 10},
          **ROWS),
    Newer("T0", t0, [("V", 14), (("V", 14), "int8"), *[(("V", 14), "int32")] * 2],
          [a.astype(d) for a, d in zip(SERIES, ("float32", "int8", "int32", "int32"), strict=True)],
          {"Attention": 3, "RotaryEmbedding": 4, "RMSNormalization": 13}, call_network),
    Newer("TextTransformerEncoder", text, [(("B", 9), "int32"), ("B", 9)],
          [TEXTS.astype(np.int32), PADDING.astype(np.float32)],
          {"Attention": 3, "LayerNormalization": 7, "Gelu": 3},
          lambda network, *inputs: jax.vmap(partial(call_network, network))(*inputs)),
    Newer("EoMT", partial(eomt, True), **IMAGES, fused={
        "Attention": 4, "LayerNormalization": 14, "Gelu": 13, "Resize": 2}),
    Newer("EoMT, mask free", partial(eomt, False), **IMAGES, fused={
        "Attention": 4, "LayerNormalization": 10, "Gelu": 7}),
    Newer("PMT", partial(pmt, True), **IMAGES, concrete=True, fused={
        "Attention": 6, "RotaryEmbedding": 12, "LayerNormalization": 20, "Gelu": 17,
        "InstanceNormalization": 2, "Resize": 2}),
    Newer("PMT, mask free", partial(pmt, False), **IMAGES, concrete=True, fused={
        "Attention": 6, "RotaryEmbedding": 12, "LayerNormalization": 16, "Gelu": 11,
        "InstanceNormalization": 2}),
    Newer("lingbot", lingbot, **IMAGES, fused={
        "Attention": 2, "RotaryEmbedding": 4, "LayerNormalization": 5, "Gelu": 2}),
    Newer("DEQ", deq, **IMAGES, fused={
        "LayerNormalization": 11, "InstanceNormalization": 2, "Gelu": 6}),
    Newer("ConvNeXt of RMS norms", convnext_of_rms_norms, [("B", 3, *WIDE)], [normal(2, 3, *WIDE)],
          {"RMSNormalization": 9, "Gelu": 4}),
    *(Newer(f"VisionParcae, {injection}", partial(parcae, injection),
            [("B", 3, 32, 32), ((), "int32")], [normal(3, 3, 32, 32), np.int32(4)],
            {"Attention": 3, "LayerNormalization": 8, "Gelu": 3},
            lambda network, images, steps: jax.vmap(lambda image: network(
                image, key=KEY, inference=True, num_steps=steps))(images))
      for injection in ("diagonal", "diagonal_exact_zoh", "linear", "add")),
]  # fmt: skip

LEFT = {"FasterViT": "Equimo itself cannot call it: a vmap with four in_axes has two arguments"}
"""Families that are not tested, and the reason."""


def outputs(family: Family, network: Any, images: Any) -> Any:
    """Return the network's outputs for images.

    The call of SHViT applies a norm to a shape that does not fit, so its features are returned.
    """
    call = network.features if family.call == "features" else network
    return jax.vmap(lambda image: call(image, key=KEY, inference=True))(images)


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_families_agree_with_jax(family):
    network = seeded_network(family.make)
    shape = ("B", 3, *family.image)
    export = converter.to_onnx(lambda images: outputs(family, network, images), [shape])
    assert {op: n for op, n in export.report.fused.items() if op not in ACTIVATIONS} == family.fused
    images = np.random.default_rng(1).standard_normal((3, *shape[1:])).astype(np.float32)
    run = partial(outputs, family)
    expected = (eqx.filter_jit(run) if family.compiled else run)(network, images)
    verdict = converter.check(export.model, lambda _: expected, [images])
    if not verdict.passed:
        # An element may be smaller than the rounding of its terms. Only a check of the export,
        # which has the traced graph, measures that.
        verdict = converter.check(export, lambda _: expected, [images])
    assert verdict.passed, verdict.differences[0]


@pytest.mark.full
@pytest.mark.skipif(not NEW, reason="Equimo 1 does not have it")
@pytest.mark.parametrize("newer", NEWER, ids=[newer.name for newer in NEWER])
def test_newer_families_agree_with_jax(newer):
    network = newer.make() if newer.concrete else seeded_network(newer.make)
    expected = eqx.filter_jit(newer.call)(network, *newer.arrays)
    for opset in (18, 23):
        export = converter.to_onnx(partial(newer.call, network), newer.specs, opset=opset)
        fused = {op: n for op, n in newer.fused.items() if opset == 23 or op in EARLY}
        assert {op: n for op, n in export.report.fused.items() if op not in ACTIVATIONS} == fused
        verdict = converter.check(export.model, lambda *_: expected, newer.arrays)
        assert verdict.passed, verdict.differences[0]


@pytest.mark.full
def test_every_family_is_tested():
    """Every public class of Equimo's models with the method ``features`` is in a table here."""
    classes = {n: c for n, c in vars(models).items() if isclass(c) and hasattr(c, "features")}
    public = {name for name, c in classes.items() if c.__module__.startswith(models.__name__)}
    newer = {newer.name.partition(",")[0] for newer in NEWER} if NEW else set()
    assert public - LEFT.keys() - newer == {family.name for family in FAMILIES}
