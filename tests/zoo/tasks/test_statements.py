"""Published models state what they stated before: outputs, purpose, answers, inputs and cards."""

import json

import pytest

from tests.seeded import REPRESENTATIVES
from tests.zoo.tasks.statements import DIGESTS, states
from zoo.registry.lookup import MODELS

WANTED = json.loads(DIGESTS.read_text())


def test_every_model_has_statements():
    assert MODELS.keys() == WANTED.keys()


@pytest.mark.parametrize(
    "names", [REPRESENTATIVES, pytest.param(MODELS, marks=pytest.mark.full)], ids=["some", "all"]
)
def test_statements_of_models_are_unchanged(names):
    """By default those of a model of each network."""
    wanted = {name: WANTED[name] for name in names}
    found = {name: states(MODELS[name]) for name in names}
    changed = {
        name: sorted(each for each in wanted[name] if wanted[name][each] != found[name][each])
        for name in wanted
        if wanted[name] != found[name]
    }
    assert changed == {}, "python -m tests.zoo.tasks.statements writes the digests again"
