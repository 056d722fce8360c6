"""Every setting of the classes that the zoo reads is followed, without effect, or refused."""

import json

import pytest

from tests.references import timm_settings
from tests.references.areas import AREAS
from tests.references.settings import BASES, CLASSES, Change, apply_change, changes, run_network
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

STORED = json.loads(FILE.read_text())
"""Stored outcomes by class and setting."""

SAMPLE = ("ViTForImageClassification", "SiglipTextModel")
"""Classes whose networks are built fastest."""


@pytest.mark.full
@pytest.mark.parametrize("name", [*CLASSES, *timm_settings.BASES])
def test_every_setting(name):
    actual, messages = outcomes(name)
    assert messages == []
    assert actual == STORED[name]


def sampled() -> list[Change]:
    """Return one value of every eighth setting of the sampled classes."""
    firsts = {change.name: change for name in SAMPLE for change in changes(name)}
    return [*firsts.values()][::8]


@pytest.mark.parametrize("change", sampled(), ids=str)
def test_sampled_settings(change, tmp_path):
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
def test_outcomes_of_settings(kind, setting, value, expected, tmp_path):
    assert outcome(Change(kind, (setting,), value), tmp_path / "own") == expected


ARGUMENTS = {
    ("vit_small_patch14_reg4_dinov2", "pre_norm"): {FOLLOWED},
    ("vit_small_patch16_dinov3", "rope_grid_offset"): {REFUSED},
}
"""Outcomes of arguments of timm that change the output but no tensor of the unchanged network."""


@pytest.mark.parametrize(("architecture", "argument"), ARGUMENTS)
def test_outcomes_of_arguments_of_timm(architecture, argument, tmp_path):
    cases = [
        case
        for case in timm_settings.cases()
        if (case.architecture, case.argument) == (architecture, argument)
    ]
    actual = {outcome_of_timm(case, tmp_path / str(n)) for n, case in enumerate(cases)}
    assert actual - {UNCHANGED, UNREAD} == ARGUMENTS[architecture, argument]


@pytest.mark.parametrize("case", timm_settings.cases()[1:65:21], ids=str)
def test_sampled_arguments_of_timm(case, tmp_path):
    assert outcome_of_timm(case, tmp_path / "own") != UNREAD


def test_image_size_is_that_of_pictures(tmp_path):
    """Without a preprocessor_config.json, `image_size` in config.json is the size of pictures."""
    checkpoint = AREAS["eomt"](tmp_path / "own")
    (checkpoint.path / "preprocessor_config.json").unlink()
    entry, _ = find_entry(None, GivenCheckpoint(checkpoint.path))
    assert entry.preprocessing.size == (64, 64) and entry.preprocessing.padded


DETECTOR = "RfDetrForObjectDetection"


@pytest.mark.parametrize(
    ("indexes", "windowed"),
    [
        ([4, 3, 1, 0, 5], None),
        ([0, 2], (0, 2)),
        pytest.param([0, 1, 3, 4], None, marks=pytest.mark.full),
        pytest.param([], (), marks=pytest.mark.full),
    ],
)
def test_blocks_within_windows(indexes, windowed, tmp_path):
    """Windows of blocks after the last block that is read have no effect."""
    path = ("backbone_config", "window_block_indexes")
    run_network(DETECTOR, apply_change(Change(DETECTOR, path, indexes))).write(tmp_path / "own")
    config = read(tmp_path / "own").config
    assert config.windowed == windowed and config.layers == (2, 5)


def test_a_backbone_alone_is_no_detector(tmp_path):
    """A detector that the zoo does not have is refused, and the message names its option."""
    run_network(DETECTOR, apply_change(Change(DETECTOR, ("attention_bias",), False))).write(
        tmp_path / "own"
    )
    with pytest.raises(Refused, match=r"only for the backbone .* attention_bias = False"):
        read(tmp_path / "own")


def test_all_classes_have_a_small_network():
    assert BASES.keys() == CLASSES.keys()


def test_all_classes_have_outcomes():
    assert STORED.keys() == {*CLASSES, *timm_settings.BASES}
