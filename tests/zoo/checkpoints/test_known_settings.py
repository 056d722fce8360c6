"""Every setting of transformers' classes that are read: followed, refused, or without effect."""

import json

import pytest
import transformers

from tests.references.classifiers import OWN
from tests.seeded import NETWORKS
from zoo.architectures.kinds import ARCHITECTURES
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.settings.huggingface import transformers_kind
from zoo.checkpoints.settings.known_settings import (
    OF_CALLS,
    OF_TENSORS,
    OF_TRAINING,
    strange_settings,
)
from zoo.errors import BadRequest

CLASSES = {made.name: made for kind in ARCHITECTURES for made in kind.classes}


def wanted():
    """What the zoo asks of each class's settings, by its name."""
    found = {}
    for config in NETWORKS.values():
        try:
            made = transformers_kind(config)
        except BadRequest:
            continue
        settings = made.settings(config)
        inner = (name for each in settings.values() if isinstance(each, dict) for name in each)
        found.setdefault(made.model_type, set()).update((*settings, *inner))
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_no_setting_is_unheard_of(name):
    """A class of a newer transformers may have others: say in `known_settings.py` what they do."""
    settings = getattr(transformers, name).config_class().to_dict()
    read = Settings.model_validate_json(json.dumps(settings, default=str))
    asked = wanted().get(CLASSES[name].model_type, set())
    assert strange_settings(read, asked) == []


def test_a_setting_is_in_one_table():
    names = [*OF_TRAINING, *OF_TENSORS, *OF_CALLS]
    assert len(names) == len({*names})


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("vit", {"a_note": 1, "another": None}, "2 settings in config.json had no effect: a_note"),
        ("swinv2", {"window_size": 4, "mine": {}}, "1 settings in config.json had no effect: mine"),
    ],
)
def test_what_is_unheard_of_is_named(kind, changes, said, zoo, tmp_path):
    own = OWN[kind](tmp_path / "own")
    path = own.path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert said in zoo("weights", "convert", own.path, tmp_path / "out").err


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("timm's dinov2", {"global_pool": "catavgmax"}, "global_pool is 'catavgmax'"),
        ("swinv2", {"use_absolute_embeddings": True}, "use_absolute_embeddings is True"),
        ("vit", {"hidden_act": "silu"}, "hidden_act is 'silu'"),
    ],
)
def test_another_network_is_refused(kind, changes, said, zoo, tmp_path):
    own = OWN[kind](tmp_path / "own")
    path = own.path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert said in zoo("export", "--weights", own.path, code=2).error
