"""Published models state the same as before: outputs, purpose, answers, inputs and cards."""

import json

import pytest

from tests.seeded import REPRESENTATIVES
from tests.zoo.tasks.statements import DIGESTS, states
from zoo.registry.lookup import MODELS

EXPECTED = json.loads(DIGESTS.read_text())


def test_every_model_has_statements():
    assert MODELS.keys() == EXPECTED.keys()


@pytest.mark.parametrize(
    "names", [REPRESENTATIVES, pytest.param(MODELS, marks=pytest.mark.full)], ids=["some", "all"]
)
def test_statements_of_models_are_unchanged(names):
    """The default tier has one model of each network."""
    expected = {name: EXPECTED[name] for name in names}
    actual = {name: states(MODELS[name]) for name in names}
    changed = {
        name: sorted(key for key in expected[name] if expected[name][key] != actual[name][key])
        for name in expected
        if expected[name] != actual[name]
    }
    assert changed == {}, "python -m tests.zoo.tasks.statements writes the digests again"
