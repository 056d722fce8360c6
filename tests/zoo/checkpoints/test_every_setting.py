"""Every setting of the classes that are read: followed, without effect, or refused."""

import json

import pytest

from tests.references import timm_settings
from tests.references.areas import AREAS
from tests.references.settings import BASES, CLASSES, Change, changed, changes, made
from tests.zoo.checkpoints.setting_outcomes import (
    FILE,
    FOLLOWED,
    REFUSED,
    UNCHANGED,
    UNREAD,
    Refused,
    outcome,
    outcome_of_timm,
    outcomes,
    read,
)
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import GivenCheckpoint

KEPT = json.loads(FILE.read_text())
"""Outcomes by class and setting."""

SAMPLE = ("ViTForImageClassification", "SiglipTextModel")
"""Classes whose networks are built fastest."""


@pytest.mark.full
@pytest.mark.parametrize("name", [*CLASSES, *timm_settings.BASES])
def test_every_setting(name):
    found, wrong = outcomes(name)
    assert wrong == []
    assert found == KEPT[name]


def sampled() -> list[Change]:
    """One value of every eighth setting of a few classes."""
    firsts = {change.name: change for name in SAMPLE for change in changes(name)}
    return [*firsts.values()][::8]


@pytest.mark.parametrize("change", sampled(), ids=str)
def test_some_settings(change, tmp_path):
    assert outcome(change, tmp_path / "own")


@pytest.mark.parametrize(
    ("kind", "setting", "value", "expected"),
    [
        ("ConvNextModel", "layer_norm_eps", 0.1, FOLLOWED),
        pytest.param(
            "DINOv3ConvNextModel", "layer_norm_eps", 0.1, FOLLOWED, marks=pytest.mark.full
        ),
        pytest.param(
            *("Tipsv2Model", "temperature_init_value", 0.02, UNCHANGED), marks=pytest.mark.full
        ),
    ],
)
def test_a_setting(kind, setting, value, expected, tmp_path):
    assert outcome(Change(kind, (setting,), value), tmp_path / "own") == expected


ARGUMENTS = {
    ("vit_small_patch14_reg4_dinov2", "pre_norm"): {FOLLOWED},
    ("vit_small_patch16_dinov3", "rope_grid_offset"): {REFUSED},
}
"""Outcomes of arguments of timm that change the answer and no tensor that was there before."""


@pytest.mark.parametrize(("architecture", "argument"), ARGUMENTS)
def test_an_argument_of_timm(architecture, argument, tmp_path):
    cases = [
        case
        for case in timm_settings.cases()
        if (case.architecture, case.argument) == (architecture, argument)
    ]
    found = {outcome_of_timm(case, tmp_path / str(n)) for n, case in enumerate(cases)}
    assert found - {UNCHANGED, UNREAD} == ARGUMENTS[architecture, argument]


@pytest.mark.parametrize("case", timm_settings.cases()[1:65:21], ids=str)
def test_some_arguments_of_timm(case, tmp_path):
    assert outcome_of_timm(case, tmp_path / "own") != UNREAD


def test_image_size_is_that_of_pictures(tmp_path):
    """Where no preprocessor_config.json stands beside config.json."""
    own = AREAS["eomt"](tmp_path / "own")
    (own.path / "preprocessor_config.json").unlink()
    entry, _ = find_entry(None, GivenCheckpoint(own.path))
    assert entry.preprocessing.size == (64, 64) and entry.preprocessing.padded


DETECTOR = "RfDetrForObjectDetection"


@pytest.mark.parametrize(
    ("stated", "windowed"),
    [
        ([4, 3, 1, 0, 5], None),
        ([0, 2], (0, 2)),
        pytest.param([0, 1, 3, 4], None, marks=pytest.mark.full),
        pytest.param([], (), marks=pytest.mark.full),
    ],
)
def test_blocks_within_windows(stated, windowed, tmp_path):
    """Those behind the last block that is read change nothing."""
    path = ("backbone_config", "window_block_indexes")
    made(DETECTOR, changed(Change(DETECTOR, path, stated))).write(tmp_path / "own")
    config = read(tmp_path / "own").config
    assert config.windowed == windowed and config.layers == (2, 5)


def test_a_backbone_alone_is_no_detector(tmp_path):
    """A detector that is not read is refused by the option that makes it another network."""
    made(DETECTOR, changed(Change(DETECTOR, ("attention_bias",), False))).write(tmp_path / "own")
    with pytest.raises(Refused, match=r"only for the backbone .* attention_bias = False"):
        read(tmp_path / "own")


def test_all_classes_have_a_small_network():
    assert BASES.keys() == CLASSES.keys()


def test_all_classes_have_outcomes():
    assert KEPT.keys() == {*CLASSES, *timm_settings.BASES}
