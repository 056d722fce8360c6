"""Published models state what they stated before: outputs, purpose, answers, inputs and cards."""

import json

from tests.zoo.tasks.statements import DIGESTS, all_states


def test_statements_of_all_models_are_unchanged():
    wanted, found = json.loads(DIGESTS.read_text()), all_states()
    assert found.keys() == wanted.keys()
    changed = {
        name: sorted(each for each in wanted[name] if wanted[name][each] != found[name][each])
        for name in wanted
        if wanted[name] != found[name]
    }
    assert changed == {}, "python -m tests.zoo.tasks.statements writes the digests again"
