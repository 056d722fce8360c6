"""Every setting of the classes that are read: followed, without effect in its library, or refused."""

import json

import pytest

from tests.references import timm_settings
from tests.references.settings import CLASSES, Change, changes
from tests.zoo.checkpoints.setting_outcomes import (
    FILE,
    UNREAD,
    outcome,
    outcome_of_timm,
    outcomes,
)

KEPT = json.loads(FILE.read_text())

SAMPLE = ("ViTForImageClassification", "SiglipTextModel")
"""Classes whose networks are built fastest."""


@pytest.mark.full
@pytest.mark.parametrize("name", [*CLASSES, *timm_settings.BASES])
def test_every_setting(name):
    found, wrong = outcomes(name)
    assert wrong == []
    assert found == KEPT[name]


def sampled() -> list[Change]:
    """One value of every fourth setting of a few classes."""
    firsts = {change.name: change for name in SAMPLE for change in changes(name)}
    return [*firsts.values()][::4]


@pytest.mark.parametrize("change", sampled(), ids=str)
def test_some_settings(change, tmp_path):
    found = outcome(change, tmp_path / "own")
    assert found == UNREAD or found in KEPT[change.kind][change.name]


@pytest.mark.parametrize("case", timm_settings.cases()[1:65:6], ids=str)
def test_some_arguments_of_timm(case, tmp_path):
    assert outcome_of_timm(case, tmp_path / "own") in KEPT[case.architecture][case.argument]


def test_all_classes_are_tried():
    """With every setting that they have: at least one value of most is something to its library."""
    assert KEPT.keys() == {*CLASSES, *timm_settings.BASES}
    for name in CLASSES:
        names = {change.name for change in changes(name)}
        assert KEPT[name].keys() <= names and len(KEPT[name]) > 0.6 * len(names)
