"""The tables of known settings cover every setting of transformers' classes that the zoo reads.

Each setting is followed, refused, or without effect.
"""

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

CLASSES = {entry.name: entry for kind in ARCHITECTURES for entry in kind.transformers_classes}


@cache
def written_settings_by_type():
    """Return a configuration and the names of the settings that the zoo writes, by model type."""
    settings_by_type = {}
    rows = (row for entry in MODELS.values() for row in entry.published)
    for config in {entry.config for entry in MODELS.values()} | {row.config for row in rows}:
        try:
            library_class = find_transformers_class(config)
        except BadRequest:
            continue
        settings = library_class.settings(config)
        inner = (name for part in settings.values() if isinstance(part, dict) for name in part)
        settings_by_type.setdefault(library_class.model_type, (config, set()))[1].update(
            (*settings, *inner)
        )
    return settings_by_type


def backbones():
    """Return the settings that state the kind of backbone, for classes that allow several kinds."""
    settings_by_class = {}
    for config in NETWORKS.values():
        with suppress(BadRequest):
            library_class = find_transformers_class(config)
            if "backbone_config" in (settings := library_class.settings(config)):
                kind = settings["backbone_config"]["model_type"]
                settings_by_class[library_class.name] = {"backbone_config": {"model_type": kind}}
    return settings_by_class


@pytest.mark.parametrize("name", CLASSES)
def test_all_settings_are_known(name):
    """Every setting of a class is known.

    A class of a newer transformers may have others. Add them to `known_settings.py`.
    """
    settings = getattr(transformers, name).config_class(**backbones().get(name, {})).to_dict()
    library_settings = Settings.model_validate_json(json.dumps(settings, default=str))
    config, written_settings = written_settings_by_type()[CLASSES[name].model_type]
    assert (
        find_unknown_settings(
            library_settings, config, {*written_settings, *CLASSES[name].unused_settings}
        )
        == []
    )


SAVED = [kind for kind in OWN if not any(word in kind for word in ("timm", "meta", "known"))]
"""Small classifiers that transformers saves."""

OF_OUTPUTS = {
    *("return_dict", "output_attentions", "output_hidden_states", "torchscript", "is_decoder"),
    *("is_encoder_decoder", "add_cross_attention", "chunk_size_feed_forward"),
}
"""Settings that add outputs to the logits, or change the steps in which they are computed."""


def with_other_numbers(settings: dict) -> dict:
    """Return settings with other numbers for those that the tables list as without effect."""
    changed = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            changed[name] = with_other_numbers(value)
        elif name not in {*TRAINING_SETTINGS, *LOADING_SETTINGS} - OF_OUTPUTS:
            changed[name] = value
        elif isinstance(value, bool):
            changed[name] = not value
        elif isinstance(value, int | float):
            changed[name] = value + (1 if isinstance(value, int) else 0.3)
    return changed


@pytest.mark.parametrize("kind", SAVED)
def test_settings_without_effect_change_nothing(kind, tmp_path):
    """Other values of these settings do not change the logits of transformers' own class."""
    checkpoint = OWN[kind](tmp_path / "own")
    path = checkpoint.path / "config.json"
    pictures = torch.randn((1, 3, *checkpoint.size), generator=torch.Generator().manual_seed(2))
    settings = json.loads(path.read_text())
    changed = with_other_numbers(settings)
    assert sum(changed.get(name) != value for name, value in settings.items()) > 2
    path.write_text(json.dumps(changed))
    model = (
        getattr(transformers, settings["architectures"][0]).from_pretrained(checkpoint.path).eval()
    )
    needs_option = type(model).__name__ in ASKING and settings.get("image_size") != [
        *checkpoint.size
    ]
    options = {"interpolate_pos_encoding": True} if needs_option else {}
    with torch.no_grad():
        assert torch.equal(model(pictures, **options).logits, checkpoint.logits(pictures))


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
"""Settings of timm's own classes with their defaults. `golden/make_timm_fields.py` wrote them."""


OTHER_NETWORKS = {"rope_temperature"}
"""Settings whose default in timm's classes is not that of the zoo's networks."""


def test_all_settings_of_timm_are_known():
    pictures, *classes = TIMM_FIELDS.values()
    assert {*pictures} == {*TIMM_FILE_SETTINGS, *TimmPreprocessing.model_fields}
    arguments = {name for names in classes for name in names}
    fields = {name for config in NETWORKS.values() for name in names_in_settings(config, TIMM)}
    assert arguments == TIMM_IGNORED_SETTINGS | TIMM_ALLOWED_VALUES.keys() | fields
    different_defaults = {
        name
        for defaults in classes
        for name, value in defaults.items()
        if name in TIMM_ALLOWED_VALUES and value not in TIMM_ALLOWED_VALUES[name]
    }
    assert different_defaults == OTHER_NETWORKS


CONSTANTS = vars(image_utils) | {"PILImageResampling": image_utils.PILImageResampling}


def stated_by(name: str, ending: str) -> dict:
    """Return what a class in a processor's module sets in its body, by name.

    A class with the ending `ImageProcessor` sets defaults, and one with `Kwargs` declares types.
    The text is parsed because some modules need torchvision to be imported.
    """
    (path,) = (
        path
        for path in Path(image_utils.__file__).parent.glob("models/*/image_processing_*.py")
        if path.stem.removeprefix("image_processing_").replace("_", "") == name.lower()
    )
    values = {}
    for class_node in ast.parse(path.read_text()).body:
        if not isinstance(class_node, ast.ClassDef) or class_node.name != f"{name}{ending}":
            continue
        for statement in class_node.body:
            if isinstance(statement, ast.AnnAssign):
                values[statement.target.id] = None
            elif isinstance(statement, ast.Assign) and statement.targets[0].id != "valid_kwargs":
                value = compile(ast.Expression(statement.value), name, "eval")
                values[statement.targets[0].id] = eval(
                    value, dict(CONSTANTS)
                )  # of transformers' text
    return values


@pytest.mark.parametrize("kind", PROCESSOR_KINDS, ids=lambda kind: kind.name)
def test_all_settings_of_pictures_are_known(kind: ProcessorKind):
    """Every setting of an image processor is known, and the defaults are those of transformers."""
    theirs = {"default_to_square": True} | stated_by(kind.name, "ImageProcessor")
    theirs.pop("model_input_names", None)  # This is an attribute and no setting.
    names = {*stated_by(kind.name, "ImageProcessorKwargs"), *ImagesKwargs.__annotations__, *theirs}
    assert names <= {*Processor.model_fields, *NO_EFFECT_ON_PIXELS}
    ours = {**kind.defaults}
    for name in [*theirs.keys() - NO_EFFECT_ON_PIXELS]:
        our_value = ours.pop(name, Processor.model_fields[name].default)
        their_value = tuple(theirs[name]) if isinstance(theirs[name], list) else theirs[name]
        assert our_value == their_value or not (our_value or their_value), name
    assert ours == {}


CONFIG, PROCESSOR = "config.json", "preprocessor_config.json"
VIT_PICTURES = {"image_processor_type": "ViTImageProcessor", "size": {"height": 40, "width": 40}}


@pytest.mark.parametrize(
    ("kind", "file", "changes", "warning"),
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
def test_unknown_settings_are_named(kind, file, changes, warning, zoo, tmp_path):
    checkpoint = OWN[kind](tmp_path / "own")
    change(checkpoint.path / file, changes)
    arguments = (
        ("convert", checkpoint.path, tmp_path / "out")
        if "a_note" in changes
        else ("inspect", checkpoint.path)
    )
    assert re.search(warning, zoo("weights", *arguments).err)


def change(path, changes):
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(settings | changes))


def test_default_preprocessing_is_timms():
    """The defaults are those of `timm.models.PretrainedCfg` (1.0.31)."""
    preprocessing = TimmPreprocessing()
    assert (preprocessing.input_size, preprocessing.crop_pct, preprocessing.crop_mode) == (
        (3, 224, 224),
        0.875,
        "center",
    )
    assert preprocessing.interpolation == "bicubic"
