"""Every setting of the classes that are read: followed, without effect, or refused."""

import json

import pytest

from tests.references import timm_settings
from tests.references.settings import BASES, CLASSES, Change, changes
from tests.zoo.checkpoints.setting_outcomes import (
    FILE,
    PAGE,
    UNREAD,
    outcome,
    outcome_of_timm,
    outcomes,
    table,
)

KEPT = json.loads(FILE.read_text())
"""Outcomes by class and setting, of the classes for which the page has them."""

SAMPLE = ("ViTForImageClassification", "SiglipTextModel")
"""Classes whose networks are built fastest."""


@pytest.mark.full
@pytest.mark.parametrize("name", [*CLASSES, *timm_settings.BASES])
def test_every_setting(name):
    found, wrong = outcomes(name)
    assert wrong == []
    assert found == KEPT.get(name, found)


def sampled() -> list[Change]:
    """One value of every eighth setting of a few classes."""
    firsts = {change.name: change for name in SAMPLE for change in changes(name)}
    return [*firsts.values()][::8]


@pytest.mark.parametrize("change", sampled(), ids=str)
def test_some_settings(change, tmp_path):
    assert outcome(change, tmp_path / "own")


@pytest.mark.parametrize("case", timm_settings.cases()[1:65:10], ids=str)
def test_some_arguments_of_timm(case, tmp_path):
    assert outcome_of_timm(case, tmp_path / "own") != UNREAD


def test_all_classes_have_a_small_network():
    assert BASES.keys() == CLASSES.keys()


def test_the_page_has_the_outcomes():
    assert table(KEPT) in PAGE.read_text()
