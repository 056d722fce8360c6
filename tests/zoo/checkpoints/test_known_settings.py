"""Every setting of transformers' classes that are read: followed, refused, or without effect."""

import ast
import json
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
import torch
import transformers
from transformers import image_utils
from transformers.processing_utils import ImagesKwargs

from tests.conftest import GOLDEN
from tests.references.classifiers import ASKING, OWN
from tests.seeded import NETWORKS
from zoo.architectures.config_settings import TIMM, names_in_settings
from zoo.architectures.kinds import ARCHITECTURES
from zoo.architectures.library_settings import Settings, TimmPreprocessing
from zoo.checkpoints.settings.known_settings import (
    LOADING_SETTINGS,
    SETTINGS_IN_TENSORS,
    TIMM_ALLOWED_VALUES,
    TIMM_FILE_SETTINGS,
    TIMM_IGNORED_SETTINGS,
    TRAINING_SETTINGS,
    find_unknown_settings,
)
from zoo.checkpoints.settings.library_configs import find_transformers_class
from zoo.checkpoints.settings.processors import (
    NO_EFFECT_ON_PIXELS,
    PROCESSOR_KINDS,
    Processor,
    ProcessorKind,
)
from zoo.common.errors import BadRequest
from zoo.registry.lookup import MODELS

CLASSES = {made.name: made for kind in ARCHITECTURES for made in kind.transformers_classes}


@cache
def wanted():
    """A network of each class, and what the zoo asks of its settings, by the class's name."""
    found = {}
    rows = (row for entry in MODELS.values() for row in entry.published)
    for config in {entry.config for entry in MODELS.values()} | {row.config for row in rows}:
        try:
            made = find_transformers_class(config)
        except BadRequest:
            continue
        settings = made.settings(config)
        inner = (name for each in settings.values() if isinstance(each, dict) for name in each)
        found.setdefault(made.model_type, (config, set()))[1].update((*settings, *inner))
    return found


def backbones():
    """The backbone of a class that has one of several kinds, by the class's name."""
    found = {}
    for config in NETWORKS.values():
        with suppress(BadRequest):
            made = find_transformers_class(config)
            if "backbone_config" in (settings := made.settings(config)):
                kind = settings["backbone_config"]["model_type"]
                found[made.name] = {"backbone_config": {"model_type": kind}}
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_no_setting_is_unheard_of(name):
    """A class of a newer transformers may have others: say in `known_settings.py` what they do."""
    settings = getattr(transformers, name).config_class(**backbones().get(name, {})).to_dict()
    read = Settings.model_validate_json(json.dumps(settings, default=str))
    config, asked = wanted()[CLASSES[name].model_type]
    assert find_unknown_settings(read, config, {*asked, *CLASSES[name].unused_settings}) == []


SAVED = [kind for kind in OWN if not any(word in kind for word in ("timm", "meta", "known"))]
"""Of transformers, and small."""

OF_OUTPUTS = {
    *("return_dict", "output_attentions", "output_hidden_states", "torchscript", "is_decoder"),
    *("is_encoder_decoder", "add_cross_attention", "chunk_size_feed_forward"),
}
"""Settings of what a call gives beside the logits, and in which steps it computes them."""


def otherwise(settings: dict) -> dict:
    """Settings with other numbers where those are in the tables of no effect."""
    changed = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            changed[name] = otherwise(value)
        elif name not in {*TRAINING_SETTINGS, *LOADING_SETTINGS} - OF_OUTPUTS:
            changed[name] = value
        elif isinstance(value, bool):
            changed[name] = not value
        elif isinstance(value, int | float):
            changed[name] = value + (1 if isinstance(value, int) else 0.3)
    return changed


@pytest.mark.parametrize("kind", SAVED)
def test_what_is_without_effect_changes_nothing(kind, tmp_path):
    """In transformers' own class, with the same tensors."""
    own = OWN[kind](tmp_path / "own")
    path = own.path / "config.json"
    pictures = torch.randn((1, 3, *own.size), generator=torch.Generator().manual_seed(2))
    settings = json.loads(path.read_text())
    changed = otherwise(settings)
    assert sum(changed.get(name) != value for name, value in settings.items()) > 2
    path.write_text(json.dumps(changed))
    model = getattr(transformers, settings["architectures"][0]).from_pretrained(own.path).eval()
    is_asked = type(model).__name__ in ASKING and settings.get("image_size") != [*own.size]
    asks = {"interpolate_pos_encoding": True} if is_asked else {}
    with torch.no_grad():
        assert torch.equal(model(pictures, **asks).logits, own.logits(pictures))


def test_a_setting_is_in_one_table():
    for tables in (
        (TRAINING_SETTINGS, SETTINGS_IN_TENSORS, LOADING_SETTINGS),
        (TIMM_IGNORED_SETTINGS, TIMM_ALLOWED_VALUES),
        (TIMM_FILE_SETTINGS, TimmPreprocessing.model_fields),
        (NO_EFFECT_ON_PIXELS, Processor.model_fields),
    ):
        names = [name for table in tables for name in table]
        assert len(names) == len({*names})


TIMM_FIELDS = json.loads((GOLDEN / "timm_fields.json").read_text())
"""What timm's own classes have, and the defaults, as `golden/make_timm_fields.py` found them."""


OTHER_NETWORKS = {"rope_temperature"}
"""What the networks of the zoo state otherwise than timm's classes do by themselves."""


def test_no_setting_of_timm_is_unheard_of():
    pictures, *classes = TIMM_FIELDS.values()
    assert {*pictures} == {*TIMM_FILE_SETTINGS, *TimmPreprocessing.model_fields}
    arguments = {name for names in classes for name in names}
    fields = {name for config in NETWORKS.values() for name in names_in_settings(config, TIMM)}
    assert arguments == TIMM_IGNORED_SETTINGS | TIMM_ALLOWED_VALUES.keys() | fields
    others = {
        name
        for defaults in classes
        for name, value in defaults.items()
        if name in TIMM_ALLOWED_VALUES and value not in TIMM_ALLOWED_VALUES[name]
    }
    assert others == OTHER_NETWORKS


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
    theirs = {"default_to_square": True} | stated_by(kind.name, "ImageProcessor")
    theirs.pop("model_input_names", None)  # no setting
    names = {*stated_by(kind.name, "ImageProcessorKwargs"), *ImagesKwargs.__annotations__, *theirs}
    assert names <= {*Processor.model_fields, *NO_EFFECT_ON_PIXELS}
    ours = {**kind.defaults}
    for name in [*theirs.keys() - NO_EFFECT_ON_PIXELS]:
        mine = ours.pop(name, Processor.model_fields[name].default)
        value = tuple(theirs[name]) if isinstance(theirs[name], list) else theirs[name]
        assert mine == value or not (mine or value), name
    assert ours == {}


CONFIG, PROCESSOR = "config.json", "preprocessor_config.json"
VIT_PICTURES = {"image_processor_type": "ViTImageProcessor", "size": {"height": 40, "width": 40}}


@pytest.mark.parametrize(
    ("kind", "file", "changes", "said"),
    [
        ("vit", CONFIG, {"a_note": 1, "another": None}, "2 settings in config.json had no effect"),
        ("swinv2", CONFIG, {"window_size": 4, "mine": {}}, "1 settings in config.json .*: mine"),
        ("timm's dinov2", CONFIG, {"model_args": {"x": 1}}, "config.json .*: model_args.x"),
        (
            "vit",
            PROCESSOR,
            VIT_PICTURES | {"do_blur": True},
            f"1 settings in {PROCESSOR} .*: do_blur",
        ),
        (
            *("vit", "processor_config.json"),
            {"image_processor": VIT_PICTURES | {"x": 1}, "y": 2, "processor_class": "None"},
            r"processor_config.json had no effect: y\b[^$]*processor_config.json .*: x",
        ),
    ],
)
def test_what_is_unheard_of_is_named(kind, file, changes, said, zoo, tmp_path):
    own = OWN[kind](tmp_path / "own")
    change(own.path / file, changes)
    asked = (
        ("convert", own.path, tmp_path / "out") if "a_note" in changes else ("inspect", own.path)
    )
    assert re.search(said, zoo("weights", *asked).err)


def change(path, changes):
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(settings | changes))


def test_pictures_of_which_timm_says_nothing():
    """Defaults of `timm.models.PretrainedCfg` (1.0.31)."""
    told = TimmPreprocessing()
    assert (told.input_size, told.crop_pct, told.crop_mode) == ((3, 224, 224), 0.875, "center")
    assert told.interpolation == "bicubic"
