"""Every setting of transformers' classes that are read: followed, refused, or without effect."""

import ast
import json
from pathlib import Path

import pytest
import transformers
from transformers import image_utils
from transformers.processing_utils import ImagesKwargs

from tests.conftest import GOLDEN
from tests.references.classifiers import OWN
from tests.seeded import NETWORKS
from zoo.architectures.kinds import ARCHITECTURES
from zoo.architectures.library_settings import Settings, TimmPictures
from zoo.checkpoints.settings.huggingface import transformers_kind
from zoo.checkpoints.settings.known_settings import (
    OF_CALLS,
    OF_TENSORS,
    OF_TIMMS_FILES,
    OF_TRAINING,
    TIMM_REFUSED_UNLESS,
    TIMM_WITHOUT_EFFECT,
    strange_settings,
)
from zoo.checkpoints.settings.processors import (
    NO_EFFECT_ON_PIXELS,
    PROCESSOR_KINDS,
    Processor,
    ProcessorKind,
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
    for tables in (
        (OF_TRAINING, OF_TENSORS, OF_CALLS),
        (TIMM_WITHOUT_EFFECT, TIMM_REFUSED_UNLESS),
        (OF_TIMMS_FILES, TimmPictures.model_fields),
        (NO_EFFECT_ON_PIXELS, Processor.model_fields),
    ):
        names = [name for table in tables for name in table]
        assert len(names) == len({*names})


TIMM = {
    kind: names.split()
    for kind, names in json.loads((GOLDEN / "timm_fields.json").read_text()).items()
}
"""What timm's own classes have, as `golden/make_timm_fields.py` found it."""


def test_no_setting_of_timm_is_unheard_of():
    pictures, *classes = TIMM.values()
    assert {*pictures} == {*OF_TIMMS_FILES, *TimmPictures.model_fields}
    arguments = {name for names in classes for name in names}
    assert arguments == TIMM_WITHOUT_EFFECT | TIMM_REFUSED_UNLESS.keys()


CONSTANTS = vars(image_utils) | {"PILImageResampling": image_utils.PILImageResampling}


def stated_by(name: str, ending: str) -> dict:
    """What the classes of a processor's own module set in their bodies, by names: defaults of one
    with `ImageProcessor` at its end, types of one with `Kwargs`. Some need torchvision to run."""
    (path,) = (
        path
        for path in Path(image_utils.__file__).parent.glob("models/*/image_processing_*.py")
        if path.stem.removeprefix("image_processing_").replace("_", "") == name.lower()
    )
    made = {}
    for part in ast.parse(path.read_text()).body:
        if not isinstance(part, ast.ClassDef) or part.name != f"{name}{ending}":
            continue
        for line in part.body:
            if isinstance(line, ast.AnnAssign):
                made[line.target.id] = None
            elif isinstance(line, ast.Assign) and line.targets[0].id != "valid_kwargs":
                value = compile(ast.Expression(line.value), name, "eval")
                made[line.targets[0].id] = eval(value, dict(CONSTANTS))  # of transformers' text
    return made


@pytest.mark.parametrize("kind", PROCESSOR_KINDS, ids=lambda kind: kind.name)
def test_no_setting_of_pictures_is_unheard_of(kind: ProcessorKind):
    """And the defaults are those of transformers."""
    theirs = stated_by(kind.name, "ImageProcessor")
    names = {*stated_by(kind.name, "ImageProcessorKwargs"), *ImagesKwargs.__annotations__, *theirs}
    names -= {"model_input_names"}  # no setting
    assert names <= {*Processor.model_fields, *NO_EFFECT_ON_PIXELS}
    assert theirs.pop("default_to_square", True) == kind.square
    ours = {**kind.defaults}
    for name, value in theirs.items():
        if name in NO_EFFECT_ON_PIXELS or name == "model_input_names":
            continue
        mine = ours.pop(name, Processor.model_fields[name].default)
        if isinstance(value, dict) and isinstance(mine, int):
            mine = dict.fromkeys(value, mine)
        assert mine == (tuple(value) if isinstance(value, list) else value or mine), name
    assert ours == {}


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
