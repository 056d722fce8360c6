"""Every published model is described as before, and every naming's network is the same."""

import json

from tests.zoo.registry.published_rows import TABLE, rows


def test_published_models_are_described_as_in_the_table():
    recorded, found = json.loads(TABLE.read_text()), json.loads(json.dumps(rows()))
    assert [*found] == [*recorded]
    assert {name for name, row in found.items() if row != recorded[name]} == set()
