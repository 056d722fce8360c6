"""From configurations to models: parameters, what a model knows of itself, names of outputs."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import zoo
from converter.opsets import is_older
from tests.seeded import NETWORKS, nano
from tests.synthetic import make_image
from weights import leaf_shapes, leaf_values
from zoo.architectures.builder import abstract, batched, build_model
from zoo.architectures.parts.output import by_name

CONVNEXT = {"activation": "gelu_tanh", "layer_scale": 0.5}
CONFIGS = {
    **{name: nano(config) for name, config in NETWORKS.items() if "convnext" not in name},
    "vit_digits": NETWORKS["vit_digits"],
    "convnext": replace(nano(NETWORKS["dinov3_convnext_tiny"]), **CONVNEXT),
}
"""Every switch of the configurations at least once."""

PARAMETERS = {
    "vit_digits": "d7c87997c6d51fdd",
    "dinov3_vits16": "74dd013c8eb74125",
    "dinov3_vit7b16": "cf2d45d708825108",
    "dinov2_vits14_reg": "187d55a40d26aa3b",
    "siglip2_vitb16_224": "5cd3cdf6cc5d5aed",
    "vit_tiny_patch16_224": "5405bdee18b7c15d",
    "vit5_small-original": "7d9e5bbe6be99157",
    "convnext": "8044b183f6a4a638",
}
"""Digests of what `jax.random.key(0)` draws, recorded when each layer still read a configuration.
Training from a seed, that of `vit_digits` for one, depends on them."""


@cache
def built(name, seed=0):
    return build_model(CONFIGS[name], key=jr.key(seed))


@eqx.filter_jit
def forward(model, layers=()):
    return model(jnp.asarray(make_image(1, 64, 96)), layers)


def abstract_output(model):
    """What `batched` gives for one small image, its leaves `jax.ShapeDtypeStruct`s."""
    image = jax.ShapeDtypeStruct((1, 3, model.stride, model.stride), jnp.float32)
    return eqx.filter_eval_shape(batched, model, image)


@pytest.mark.full
@pytest.mark.skipif(
    is_older(jax.__version__, "0.10"), reason="JAX before 0.10 draws other last digits"
)
@pytest.mark.each()
@pytest.mark.parametrize("name", PARAMETERS)
def test_initial_parameters_are_those_of_ever(name):
    """By the sha256 of the path, the shape and the bytes of every leaf.

    XLA is to optimise, as it does for users: without that a normal number has other last digits.
    """
    command = [sys.executable, "-c", f"from {__name__} import digest; print(digest({name!r}))"]
    environment = os.environ | {"XLA_FLAGS": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == PARAMETERS[name]


def digest(name):
    seen = hashlib.sha256()
    for path, value in leaf_values(built(name)).items():
        seen.update(f"{path} {value.shape}".encode() + np.asarray(value).tobytes())
    return seen.hexdigest()[:16]


@pytest.mark.each()
@pytest.mark.parametrize("name", CONFIGS)
def test_models_of_one_configuration_have_one_structure(name):
    """Though they are built separately: what is static in them is equal, and as configured."""
    one, two, config = built(name), built(name, seed=1), CONFIGS[name]
    assert jax.tree.structure(one) == jax.tree.structure(two)
    assert jax.tree.structure(one) == jax.tree.structure(abstract(config))
    assert leaf_shapes(one) == leaf_shapes(abstract(config))
    for model in (one, abstract(config)):
        for fact in ("stride", "prefix_tokens", "num_hidden_states"):
            assert getattr(model, fact) == getattr(config, fact)


@pytest.mark.parametrize("name", ["dinov3_vits16", "dinov3_convnext_tiny"])
def test_models_know_who_they_are(name):
    entry = zoo.info(name)
    model = zoo.create(entry.aliases[0], abstract=True)
    assert (model.name, model.preprocessing) == (name, entry.preprocessing)
    assert zoo.create(name, abstract=True) is model
    created = zoo.create("vit_digits", key=jr.key(0))
    assert (created.name, created.preprocessing.size) == ("vit_digits", (8, 8))
    by_hand = abstract(entry.config)
    assert (by_hand.name, by_hand.preprocessing) == ("", None)


def test_a_changed_model_describes_itself():
    """Another head, fewer blocks, no registers: nothing that it says is out of date."""
    model = built("vit5_small-original")
    assert [*abstract_output(model)] == ["last_hidden_state", "pooler_output", "logits"]
    headless = eqx.tree_at(lambda m: m.head, model, None)
    assert [*abstract_output(headless)] == ["last_hidden_state", "pooler_output"]
    another = eqx.tree_at(
        lambda m: m.head, headless, eqx.nn.Linear(32, 3, key=jr.key(1)), is_leaf=lambda x: x is None
    )
    assert abstract_output(another)["logits"].shape == (1, 3)
    cut = eqx.tree_at(lambda m: (m.blocks, m.reg_tokens), model, (model.blocks[:1], None))
    assert (cut.num_hidden_states, cut.prefix_tokens) == (1, 1)
    assert forward(cut).last_hidden_state.shape == (1 + 4 * 6, 32)


@pytest.mark.parametrize(
    "name",
    ["siglip2_vitb16_224-equimo", "vit5_small", pytest.param("convnext", marks=pytest.mark.full)],
)
def test_names_of_outputs(name):
    """In the order of the leaves; as many as layers."""
    output = forward(built(name), (2, 1))
    values = by_name(output, (2, 1))
    named = {key: value for key, value in output._asdict().items() if jax.tree.leaves(value)}
    named |= zip(("hidden_state_2", "hidden_state_1"), named.pop("hidden_states"), strict=True)
    assert list(values) == list(named)
    assert all(values[key] is named[key] for key in named)
    with pytest.raises(ValueError, match="zip"):
        by_name(output, (1,))


@pytest.mark.parametrize(
    "name", ["dinov2_vits14", pytest.param("convnext", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("layers", [(0,), (1, 5), (-1,)])
def test_layers_that_there_are_not(name, layers):
    with pytest.raises(ValueError, match=r"layers are counted from 1 to \d: got"):
        forward(built(name), layers)
