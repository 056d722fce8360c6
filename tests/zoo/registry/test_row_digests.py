"""Every published row has the network and the written settings that `row_digests.json` records."""

import json

import pytest

from tests.seeded import REPRESENTATIVES
from tests.zoo.registry.row_digests import FILE, digests, digests_of_settings, key, rows

RECORDED = json.loads(FILE.read_text())

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
def test_a_row_has_the_recorded_digests(row):
    """The default tier has the small rows of each family."""
    assert digests(*ROWS[row]) == RECORDED[row]


def test_settings_of_every_row_have_the_recorded_digests():
    changed = [
        name for name, row in ROWS.items() if not RECORDED[name].endswith(digests_of_settings(*row))
    ]
    assert not changed, f"run `python -m tests.zoo.registry.row_digests` if intended: {changed}"


def test_every_row_has_digests():
    assert RECORDED.keys() == ROWS.keys()
