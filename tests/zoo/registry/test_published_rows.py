"""The recorded statements about every published model, and its networks, have not changed."""

import json

from tests.zoo.registry.published_rows import TABLE, rows


def test_published_models_are_described_as_in_the_table():
    recorded, actual = json.loads(TABLE.read_text()), json.loads(json.dumps(rows()))
    assert [*actual] == [*recorded]
    assert {name for name, row in actual.items() if row != recorded[name]} == set()
