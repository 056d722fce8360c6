"""timm's vision transformers, by architecture and by option: equal to timm's outputs, or refused
with the option's name. `tests/golden/make_timm_options.py` wrote them where timm is."""

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


def called(network: dict[str, Any]) -> str:
    """Return words for a network."""
    options = ", ".join(f"{name}={value}" for name, value in network["options"].items())
    return f"{network['settings']['architecture']}, {network['classes']} classes, {options}"


def saved(network: dict[str, Any], folder: Path) -> Path:
    """Write a network's folder, as timm saves it."""
    save_file(drawn(network["shapes"]), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(network["settings"]))
    return folder


def sampled() -> list[Any]:
    """Return all networks, of which every 24th is a default test."""
    return [
        pytest.param(network, marks=() if number % 24 == 4 else pytest.mark.full)
        for number, network in enumerate(FACTS["networks"])
    ]


@pytest.mark.parametrize("network", sampled(), ids=called)
def test_an_option_is_followed_or_named(network, tmp_path):
    """The outputs are timm's, or the refusal names the option."""
    folder = saved(network, tmp_path)
    if option := option_of(network):
        with pytest.raises(MappingError, match=option):
            package.from_pretrained(folder)
        return
    output = forward(package.from_pretrained(folder), picture((32, 32)))
    got = output.logits if network["classes"] else output.pooler_output
    want = np.array(network["output"])
    assert np.abs(np.asarray(got) - want).max() <= 2e-5 * np.abs(want).max()


def test_every_architecture_is_followed_or_refused():
    """By its name, where its tensors do not say what it computes."""
    found = {"GELU": "gelu", None: "gelu"}
    for name, stated in FACTS["architectures"].items():
        others = refusals(name)
        assert find_unsupported_option(name) in (others or [""]), name
        if not others and "mlp_layer" not in stated:
            activation = stated.get("act_layer")
            assert timm_activation(name) == found.get(activation, activation), name
    assert timm_activation("") is None


def test_norms_have_the_epsilon_of_their_architecture():
    """Those with a norm in front of the blocks are read as CLIP's."""
    config = replace(find("clip_vitb32").config, norm_eps=1e-5)
    stated = {name: of for name, of in FACTS["architectures"].items() if of.get("pre_norm")}
    assert len(stated) > 20
    for name, of in stated.items():
        expected = 1e-5 if "1e-05" in of.get("norm_layer", "") else 1e-6
        assert timm_norm_eps(config, name) == expected, name
    assert timm_norm_eps(config, "") == 1e-5
    assert timm_norm_eps(config, "vit_small_patch14_reg4_dinov2") == 1e-6
