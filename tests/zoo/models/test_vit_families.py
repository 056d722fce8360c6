"""Every family of vision transformers against other people's implementations of it."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

import zoo
from tests.conftest import GOLDEN
from tests.references import dinov2, eupe, siglip2, tips, vit
from tests.references.running import equimo_abstract
from tests.seeded import NETWORKS, model_of, nano, native, values_of
from tests.synthetic import digest, make_image, make_state
from weights import bind
from zoo.checkpoints.load import shapes
from zoo.models.build import abstract, count_parameters
from zoo.models.config import LearnedPositions, ViTConfig

FAMILIES = ("dinov2", "tips", "siglip2", "eupe", "vit", "vit5")
MODELS = [
    name
    for name in zoo.list_models()
    if zoo.info(name).family in FAMILIES and isinstance(zoo.info(name).config, ViTConfig)
]

REFERENCES = {
    name: implementations
    for module in (dinov2, eupe, siglip2, tips, vit)
    for name, implementations in module.REFERENCES.items()
}

RELATIVE = 1e-5
"""Of Equimo, in the largest value. Measured: 8e-7."""

ATOL = 3e-5
"""Of transformers. Measured: 6e-6."""

forward = eqx.filter_jit(lambda model, image: model(image))
batched_forward = eqx.filter_jit(lambda model, images: jax.vmap(model)(images))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_of_equimos_model(name):
    entry = zoo.info(name)
    ours = count_parameters(abstract(entry.config))
    assert ours == entry.parameters
    theirs = count_parameters(abstract(entry.config_for("equimo")))
    model = equimo_abstract(name)
    assert theirs == numbers(model) - numbers(model.local_pos_embed)


def numbers(tree):
    """How many numbers all arrays of a tree have."""
    leaves = jax.tree.leaves(tree)
    return sum(leaf.size for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct))


@pytest.mark.parametrize(
    ("name", "naming", "parameters"),
    [
        # timm's own counts, classifier included
        ("vit_tiny_patch16_224", "timm", 5_717_416),
        ("vit_base_patch16_224", "timm", 86_567_656),
        ("vit_large_patch16_224", "timm", 304_326_632),
        ("vit_huge_patch14_224", "timm", 632_045_800),
        # transformers' `SiglipVisionModel`
        ("siglip2_vitb16_224", "huggingface", 92_884_224),
        # the original's: Equimo's without a bias in each of 4 norms a block and in the last
        ("vit5_small", "original", 22_050_280 - 12 * (2 * 384 + 2 * 64) - 384),
        ("vit5_xlarge", "original", 448_574_824 - 28 * (2 * 1152 + 2 * 72) - 1152),
        # the class token's position is in the token itself
        ("dinov2_vits14_reg", "timm", 22_058_112 - 384),
    ],
)
def test_parameters_of_other_peoples_models(name, naming, parameters):
    assert count_parameters(abstract(zoo.info(name).config_for(naming))) == parameters


def case(name, who, size=None):
    """Whose network, the reference's outputs and ours."""
    config = zoo.info(name).config_for("huggingface" if who == "transformers" else "")
    image = make_image(3, *(size or native(config)))
    want = REFERENCES[name][who](config, values_of(config), image)
    return want, forward(model_of(config), image)._asdict()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", REFERENCES)
def test_agrees_with_equimo(name):
    want, got = case(name, "equimo")
    assert "last_hidden_state" in want
    for output, values in want.items():
        error = np.abs(np.asarray(got[output]) - values).max() / np.abs(values).max()
        assert error <= RELATIVE, output


@pytest.mark.full
@pytest.mark.parametrize("name", ["eupe_vitt16", "vit_tiny_patch16_224"])
def test_agrees_with_equimo_at_another_size(name):
    want, got = case(name, "equimo", (96, 144))
    for output, values in want.items():
        error = np.abs(np.asarray(got[output]) - values).max() / np.abs(values).max()
        assert error <= RELATIVE, output


WITH_TRANSFORMERS = [name for name, found in REFERENCES.items() if "transformers" in found]
# The others interpolate positions by another rule than the weights were trained with.
SAME_POSITIONS = ["dinov2_vits14_reg", "tips_vits14_hr", "siglip2_vitb16_224"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "factors"),
    [
        *((name, None) for name in WITH_TRANSFORMERS),
        *((name, (6, 9)) for name in SAME_POSITIONS),
        ("siglip2_vitb16_224", (24, 16)),
    ],
)
def test_agrees_with_transformers(name, factors):
    patch = zoo.info(name).config.patch_size
    want, got = case(name, "transformers", factors and tuple(patch * n for n in factors))
    for output, values in want.items():
        np.testing.assert_allclose(got[output], values, rtol=0, atol=ATOL, err_msg=output)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", ["64x64", "48x80"])
@pytest.mark.parametrize("who", ["equimo", "original"])
def test_vit5_agrees_with_equimo_2(who, size):
    """Written by Equimo 2.7.0, which needs another Python: `golden/make_vit5_nano.py`."""
    expected = np.load(GOLDEN / "vit5_nano.npz")
    positions = LearnedPositions(grid=4, cls_token=False, antialias=True)
    config = replace(
        zoo.info("vit5_small").config_for(who),
        **{"dim": 96, "depth": 2, "heads": 2, "hidden": 384, "classes": 7},
        positions=positions,
    )
    state = make_state(shapes(config), int(expected["seed"]))
    assert digest(state) == str(expected[f"{who}/state_sha256"])
    image = make_image(int(expected["seed"]), *map(int, size.split("x")))
    got = forward(bind(abstract(config), state), image)
    for output in ("last_hidden_state", "logits"):
        want = expected[f"{who}/{size}/{output}"]
        np.testing.assert_allclose(getattr(got, output), want, rtol=0, atol=ATOL)


def test_what_needs_a_class_token_is_refused_without_one():
    config = ViTConfig(dim=32, depth=1, heads=2, hidden=64, cls_token=False)
    with pytest.raises(ValueError, match="pool is class_token, and there is none"):
        model_of(config)
    image = jax.numpy.asarray(make_image(1, 32, 48))
    with pytest.raises(ValueError, match="class_attention is that of a class token"):
        model_of(replace(config, pool="mean")).class_attention(image)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_switch_works_in_half_precision_and_by_vmap(name):
    config = nano(NETWORKS[name])
    model = jax.tree.map(lambda leaf: leaf.astype("bfloat16"), model_of(config))
    images = np.stack(
        [make_image(seed, 3 * config.patch_size, 5 * config.patch_size) for seed in (1, 2)]
    )
    with jax.numpy_dtype_promotion("strict"):
        out = batched_forward(model, images.astype("bfloat16"))
    assert {leaf.dtype for leaf in jax.tree.leaves(out)} == {np.dtype("bfloat16")}
    assert out.last_hidden_state.shape == (2, config.prefix_tokens + 15, config.dim)
    assert (out.pooler_output is None) == (config.pool is None)
    assert (out.logits is None) == (config.classes == 0)
