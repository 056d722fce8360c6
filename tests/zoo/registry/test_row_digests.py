"""Every published row makes the network, and is written, as when `row_digests.json` was made."""

import json

import pytest

from tests.seeded import REPRESENTATIVES
from tests.zoo.registry.row_digests import FILE, digests, key, rows

KEPT = json.loads(FILE.read_text())

ROWS = {key(*row): row for row in rows()}

LARGE = {"dinov3_vit7b16", "dinov2_vitg14_reg", "tips_vitg14_lr"}
"""Networks of many blocks, which take seconds to trace."""


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[pytest.mark.full] * (entry.name not in {*REPRESENTATIVES} - LARGE))
        for row, (entry, _) in ROWS.items()
    ],
)
def test_a_row_is_as_it_was(row):
    """By default the small rows of each family."""
    assert digests(*ROWS[row]) == KEPT[row]


def test_every_row_has_digests():
    assert KEPT.keys() == ROWS.keys()
