"""A new naming of a publisher in a row: what the row must state, and what the commands then do."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.command import call_zoo
from tests.seeded import state_of
from weights.mapping import Convention, Naming
from weights.namings.meta_names import DINOV3_VIT
from zoo.architectures.entry import PublishedNaming
from zoo.checkpoints.load import open_weights
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common.progress import LogProgress
from zoo.registry.lookup import MODELS, info

ROW = info("vit_digits")

TRIAL = Naming(
    Convention("trial", "Trial University"),
    tuple(
        replace(rule, sources=tuple(f"trial_{source}" for source in rule.sources))
        for rule in DINOV3_VIT.rules
    ),
)

OTHER = replace(ROW.config, activation="gelu_tanh")
"""The network of the trial publisher, which has another GELU than the row's."""


def test_names_without_a_network_are_refused():
    """A naming needs a configuration, because the row's may be wrong for it.

    With the wrong GELU, logits differ by 2.9.
    """
    with pytest.raises(TypeError, match="config"):
        PublishedNaming(TRIAL)
    with pytest.raises(TypeError, match=r"vit_digits lists .*PublishedNaming\(naming, config\)"):
        replace(ROW, published=(*ROW.published, TRIAL))


def test_names_that_a_row_does_not_list_have_no_network():
    assert [*MODELS] and all(entry.published for entry in MODELS.values())
    for entry in MODELS.values():
        listed = {row.naming.name for row in entry.readable_namings}
        for name in {"meta", "timm", "huggingface", "original", "google", "equimo"} - listed:
            with pytest.raises(KeyError, match=name):
                entry.config_for(name)


@pytest.fixture
def trial(monkeypatch, tmp_path):
    """A seeded checkpoint in a new naming, which one row lists."""
    row = replace(ROW, published=(*ROW.published, PublishedNaming(TRIAL, OTHER)))
    monkeypatch.setitem(MODELS, row.name, row)
    path = tmp_path / "trial.safetensors"
    state = state_of(OTHER, TRIAL, 1)
    save_file({key: np.asarray(value, np.float32) for key, value in state.items()}, path)
    return path


def test_a_file_in_new_names_is_inspected(trial, capsys):
    assert call_zoo("weights", "inspect", trial) == 0
    printed = capsys.readouterr().out
    assert "Trial University" in printed and "vit_digits" in printed


def test_a_file_in_new_names_is_of_their_network(trial):
    entry, choice = find_entry(None, GivenCheckpoint(trial))
    loaded = open_weights(choice, entry, LogProgress())
    assert loaded.config.activation == "gelu_tanh"
    assert loaded.weights.provenance.kind == "trial"


def test_every_convention_has_a_title():
    namings = {row.naming for entry in MODELS.values() for row in entry.readable_namings}
    conventions = {naming.convention for naming in namings}
    assert len({convention.name for convention in conventions}) == len(conventions)
    assert all(convention.title for convention in conventions)
