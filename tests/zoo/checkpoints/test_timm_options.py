"""Options and architectures of timm's vision transformers.

The zoo computes timm's outputs, or refuses the checkpoint and names the option.
`tests/golden/make_timm_options.py` wrote them in an environment with timm.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
import pytest
from safetensors.numpy import save_file

import zoo as package
from tests.drawn_state import drawn, picture
from tests.references.timm_options import FACTS, option_of, refusals
from weights.errors import MappingError
from zoo.architectures.kinds import find_unsupported_option
from zoo.architectures.vit.vit_sizes import timm_activation, timm_norm_eps
from zoo.registry.lookup import info as find

forward = eqx.filter_jit(lambda model, picture: model(picture))


def describe_network(network: dict[str, Any]) -> str:
    """Return a description of a network for the test's id."""
    options = ", ".join(f"{name}={value}" for name, value in network["options"].items())
    return f"{network['settings']['architecture']}, {network['classes']} classes, {options}"


def save_network(network: dict[str, Any], folder: Path) -> Path:
    """Write the folder that timm saves of a network."""
    save_file(drawn(network["shapes"]), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(network["settings"]))
    return folder


def sampled() -> list[Any]:
    """Return all networks as parameters, with every 24th in the default tier."""
    return [
        pytest.param(network, marks=() if number % 24 == 4 else pytest.mark.full)
        for number, network in enumerate(FACTS["networks"])
    ]


@pytest.mark.parametrize("network", sampled(), ids=describe_network)
def test_an_option_is_followed_or_named(network, tmp_path):
    """The outputs are timm's, or the error names the option."""
    folder = save_network(network, tmp_path)
    if option := option_of(network):
        with pytest.raises(MappingError, match=option):
            package.from_pretrained(folder)
        return
    output = forward(package.from_pretrained(folder), picture((32, 32)))
    actual = output.logits if network["classes"] else output.pooler_output
    expected = np.array(network["output"])
    assert np.abs(np.asarray(actual) - expected).max() <= 2e-5 * np.abs(expected).max()


def test_every_architecture_is_followed_or_refused():
    """Settings that tensors do not determine follow from the architecture's name."""
    our_names = {"GELU": "gelu", None: "gelu"}
    for name, settings in FACTS["architectures"].items():
        unsupported = refusals(name)
        assert find_unsupported_option(name) in (unsupported or [""]), name
        if not unsupported and "mlp_layer" not in settings:
            activation = settings.get("act_layer")
            assert timm_activation(name) == our_names.get(activation, activation), name
    assert timm_activation("") is None


def test_norms_have_the_epsilon_of_their_architecture():
    """Networks with a norm before the blocks have the epsilon of timm's architecture.

    They are read as CLIP's network, whose epsilon is 1e-5.
    """
    config = replace(find("clip_vitb32").config, norm_eps=1e-5)
    with_norm = {
        name: settings
        for name, settings in FACTS["architectures"].items()
        if settings.get("pre_norm")
    }
    assert len(with_norm) > 20
    for name, settings in with_norm.items():
        expected = 1e-5 if "1e-05" in settings.get("norm_layer", "") else 1e-6
        assert timm_norm_eps(config, name) == expected, name
    assert timm_norm_eps(config, "") == 1e-5
    assert timm_norm_eps(config, "vit_small_patch14_reg4_dinov2") == 1e-6
