"""A publisher's names that are new in a row: what the row has to say of them, and what follows."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.seeded import state_of
from weights.mapping import Convention, Naming
from weights.namings.meta_names import DINOV3_VIT
from zoo.architectures.entry import PublishedNaming
from zoo.checkpoints.load import open_weights
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import GivenCheckpoint
from zoo.cli.app import app
from zoo.cli.console import run_command
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
"""The network of the trial publisher: DINOv3's with another GELU."""


def test_names_without_a_network_are_refused():
    """Equimo's network is no default: its logits are off by 2.9 where another GELU is meant."""
    with pytest.raises(TypeError, match="config"):
        PublishedNaming(TRIAL)
    with pytest.raises(TypeError, match=r"vit_digits lists .*PublishedNaming\(naming, config\)"):
        replace(ROW, published=(*ROW.published, TRIAL))


def test_names_that_a_row_does_not_list_have_no_network():
    assert [*MODELS] and all(entry.published for entry in MODELS.values())
    for entry in MODELS.values():
        listed = {each.naming.name for each in entry.readable_namings}
        for name in {"meta", "timm", "huggingface", "original", "google", "equimo"} - listed:
            with pytest.raises(KeyError, match=name):
                entry.config_for(name)


@pytest.fixture
def trial(monkeypatch, tmp_path):
    """A seeded checkpoint in new names, which one row lists."""
    row = replace(ROW, published=(*ROW.published, PublishedNaming(TRIAL, OTHER)))
    monkeypatch.setitem(MODELS, row.name, row)
    path = tmp_path / "trial.safetensors"
    state = state_of(OTHER, TRIAL, 1)
    save_file({key: np.asarray(value, np.float32) for key, value in state.items()}, path)
    return path


def test_a_file_in_new_names_is_inspected(trial, capsys):
    assert run_command(app, ["weights", "inspect", str(trial)]) == 0
    told = capsys.readouterr().out
    assert "Trial University" in told and "vit_digits" in told


def test_a_file_in_new_names_is_of_their_network(trial):
    entry, choice = find_entry(None, GivenCheckpoint(trial))
    loaded = open_weights(choice, entry, LogProgress())
    assert loaded.config.activation == "gelu_tanh"
    assert loaded.weights.provenance.kind == "trial"


def test_every_convention_has_a_title():
    namings = {each.naming for entry in MODELS.values() for each in entry.readable_namings}
    conventions = {naming.convention for naming in namings}
    assert len({each.name for each in conventions}) == len(conventions)
    assert all(each.title for each in conventions)
