"""timm's vision transformers, by architecture and by option: equal to timm's outputs, or refused
with the option's name. `tests/golden/make_timm_options.py` wrote them where timm is."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
import pytest
from safetensors.numpy import save_file

import zoo as package
from tests.drawn_state import drawn, picture
from weights.errors import MappingError

FACTS = json.loads((Path(__file__).parents[2] / "golden" / "timm_options.json").read_text())

forward = eqx.filter_jit(lambda model, picture: model(picture))

REFUSED = {
    "global_pool": ("max", "avgmax"),
    "block_fn": ("ParallelThingsBlock", "ResPostBlock", "ParallelScalingBlock"),
}


def called(network: dict[str, Any]) -> str:
    """Return words for a network."""
    options = ", ".join(f"{name}={value}" for name, value in network["options"].items())
    return f"{network['settings']['architecture']}, {network['classes']} classes, {options}"


def saved(network: dict[str, Any], folder: Path) -> Path:
    """Write a network's folder, as timm saves it."""
    save_file(drawn(network["shapes"]), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(network["settings"]))
    return folder


@pytest.mark.parametrize("network", FACTS["networks"], ids=called)
def test_it_computes_the_same(network, tmp_path):
    """Of each option, or the refusal names it."""
    folder = saved(network, tmp_path)
    try:
        model = package.from_pretrained(folder)
    except MappingError as error:
        print(error)
        raise
    output = forward(model, picture((32, 32)))
    got = output.logits if network["classes"] else output.pooler_output
    want = np.array(network["output"])
    assert np.abs(np.asarray(got) - want).max() <= 2e-5 * np.abs(want).max()
