"""From configurations to models: initial parameters, structure, properties and names of outputs."""

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
"""Configurations that use every switch at least once."""

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
"""Digests of the parameters that `jax.random.key(0)` draws, recorded in an earlier version.

Training from a seed depends on them, for example that of `vit_digits`.
"""


@cache
def built(name, seed=0):
    return build_model(CONFIGS[name], key=jr.key(seed))


@eqx.filter_jit
def forward(model, layers=()):
    return model(jnp.asarray(make_image(1, 64, 96)), layers)


def abstract_output(model):
    """Return the shapes that `batched` returns for one small image."""
    image = jax.ShapeDtypeStruct((1, 3, model.stride, model.stride), jnp.float32)
    return eqx.filter_eval_shape(batched, model, image)


@pytest.mark.full
@pytest.mark.skipif(
    is_older(jax.__version__, "0.10"), reason="JAX before 0.10 draws numbers with other last digits"
)
@pytest.mark.each()
@pytest.mark.parametrize("name", PARAMETERS)
def test_initial_parameters_are_unchanged(name):
    """The sha256 of the path, shape and bytes of every leaf is the recorded one.

    XLA optimises here, as it does for users. Without that, normal numbers have other last digits.
    """
    command = [sys.executable, "-c", f"from {__name__} import digest; print(digest({name!r}))"]
    environment = os.environ | {"XLA_FLAGS": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == PARAMETERS[name]


def digest(name):
    sha256 = hashlib.sha256()
    for path, value in leaf_values(built(name)).items():
        sha256.update(f"{path} {value.shape}".encode() + np.asarray(value).tobytes())
    return sha256.hexdigest()[:16]


@pytest.mark.each()
@pytest.mark.parametrize("name", CONFIGS)
def test_models_of_one_configuration_have_one_structure(name):
    """Models that are built separately have equal static fields, and properties as configured."""
    first, second, config = built(name), built(name, seed=1), CONFIGS[name]
    assert jax.tree.structure(first) == jax.tree.structure(second)
    assert jax.tree.structure(first) == jax.tree.structure(abstract(config))
    assert leaf_shapes(first) == leaf_shapes(abstract(config))
    for model in (first, abstract(config)):
        for name in ("stride", "prefix_tokens", "num_hidden_states"):
            assert getattr(model, name) == getattr(config, name)


@pytest.mark.parametrize("name", ["dinov3_vits16", "dinov3_convnext_tiny"])
def test_models_have_a_name_and_preprocessing(name):
    entry = zoo.info(name)
    model = zoo.create(entry.aliases[0], abstract=True)
    assert (model.name, model.preprocessing) == (name, entry.preprocessing)
    assert zoo.create(name, abstract=True) is model
    created = zoo.create("vit_digits", key=jr.key(0))
    assert (created.name, created.preprocessing.size) == ("vit_digits", (8, 8))
    by_hand = abstract(entry.config)
    assert (by_hand.name, by_hand.preprocessing) == ("", None)


def test_a_changed_model_describes_itself():
    """Properties follow a replaced head, removed blocks and removed registers."""
    model = built("vit5_small-original")
    assert [*abstract_output(model)] == ["last_hidden_state", "pooler_output", "logits"]
    headless = eqx.tree_at(lambda m: m.head, model, None)
    assert [*abstract_output(headless)] == ["last_hidden_state", "pooler_output"]
    with_new_head = eqx.tree_at(
        lambda m: m.head, headless, eqx.nn.Linear(32, 3, key=jr.key(1)), is_leaf=lambda x: x is None
    )
    assert abstract_output(with_new_head)["logits"].shape == (1, 3)
    shortened = eqx.tree_at(lambda m: (m.blocks, m.reg_tokens), model, (model.blocks[:1], None))
    assert (shortened.num_hidden_states, shortened.prefix_tokens) == (1, 1)
    assert forward(shortened).last_hidden_state.shape == (1 + 4 * 6, 32)


@pytest.mark.parametrize(
    "name",
    ["siglip2_vitb16_224-equimo", "vit5_small", pytest.param("convnext", marks=pytest.mark.full)],
)
def test_names_of_outputs(name):
    """Names are in the order of the leaves. Each layer that is asked for has one."""
    output = forward(built(name), (2, 1))
    values = by_name(output, (2, 1))
    expected = {key: value for key, value in output._asdict().items() if jax.tree.leaves(value)}
    expected |= zip(
        ("hidden_state_2", "hidden_state_1"), expected.pop("hidden_states"), strict=True
    )
    assert list(values) == list(expected)
    assert all(values[key] is expected[key] for key in expected)
    with pytest.raises(ValueError, match="zip"):
        by_name(output, (1,))


@pytest.mark.parametrize(
    "name", ["dinov2_vits14", pytest.param("convnext", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("layers", [(0,), (1, 5), (-1,)])
def test_missing_layers_are_refused(name, layers):
    with pytest.raises(ValueError, match=r"layers are counted from 1 to \d: got"):
        forward(built(name), layers)
