"""Names of classes by number: from settings files, or from what training saved in the checkpoint.

The tables have every form in which users write them.
"""

import json
import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import zoo as package
from tests.references import detection
from tests.references.classifiers import OWN
from weights import open_checkpoint
from weights.errors import MappingError
from weights.files import Checkpoint
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.settings.class_names import ClassNames, read_class_names
from zoo.checkpoints.source import GivenCheckpoint

ENTRY = package.info("vit_tiny_patch16_224")


def of_classes(count, content, tables: Mapping[str, object] = {}, head="") -> ClassNames:
    """Return the class names of a classifier with `count` classes.

    `content` is that of its config.json, or None without one. `tables` are values in the
    checkpoint, and `head` is the name of a custom head.
    """
    config = replace(ENTRY.config, classes=count)
    checkpoint = Checkpoint(Path("w"), "safetensors", (), {}, tables=tables, head=head)
    library_settings = (
        None if content is None else Settings.model_validate_json(json.dumps(content))
    )
    return read_class_names(ENTRY, config, library_settings, checkpoint)


THREE = ("ape", "bee", "cow")

NAMED = {
    "by number": ({"id2label": {"0": "ape", "1": "bee", "2": "cow"}}, THREE),
    "in another order": ({"id2label": {"2": "cow", "0": "ape", "1": "bee"}}, THREE),
    "a list": ({"id2label": ["ape", "bee", "cow"]}, THREE),
    "from one": ({"id2label": {"1": "ape", "2": "bee", "3": "cow"}}, ("0", "ape", "bee")),
    "a gap": ({"id2label": {"0": "ape", "2": "bee", "7": "cow"}}, ("ape", "1", "bee")),
    "below nothing": ({"id2label": {"-1": "ape", "0": "bee", "1": "cow"}}, ("bee", "cow", "2")),
    "turned round": ({"id2label": {"ape": 0, "bee": 1, "cow": 2}}, THREE),
    "turned round in texts": ({"id2label": {"ape": "0", "bee": "1", "cow": "2"}}, THREE),
    "digits": ({"id2label": {"0": 0, "1": 1, "2": 2}}, ("0", "1", "2")),
    "digits in another order": ({"id2label": {"0": 2, "1": 0, "2": 1}}, ("2", "0", "1")),
    "written with zeros": ({"id2label": {"00": "ape", "01": "bee", "02": "cow"}}, THREE),
    "without a text": ({"id2label": {"0": "ape", "1": "", "2": "cow"}}, ("ape", "1", "cow")),
    "null": ({"id2label": None}, None),
    "nothing": ({}, None),
    "label2id alone": ({"label2id": {"ape": 0, "bee": 1, "cow": 2}}, THREE),
    "label2id of digits": ({"label2id": {"1": 0, "0": 1, "2": 2}}, ("1", "0", "2")),
    "label2id the wrong way": ({"label2id": {"0": "ape", "1": "bee", "2": "cow"}}, THREE),
    "label2id against id2label": (
        {"id2label": dict(enumerate(THREE)), "label2id": {"LABEL_0": 0, "LABEL_1": 1}},
        THREE,
    ),
    "label2id of another head": ({"label2id": {"ape": 0, "bee": 7}}, None),
    "label2id that is none": ({"label2id": {"ape": "bee"}}, None),
    "timm's": ({"label_names": ["ape", "bee", "cow"]}, THREE),
    "timm's by number": ({"label_names": {"0": "ape", "2": "cow"}}, ("ape", "1", "cow")),
    "timm's in words": (
        {"label_names": list(THREE), "label_descriptions": {"ape": "a large ape"}},
        THREE,
    ),
    "timm's of long ago": ({"architecture": "vit", "labels": list(THREE)}, THREE),
    "timm's in its part": ({"pretrained_cfg": {"label_names": list(THREE)}}, THREE),
    "controls": ({"id2label": ["a\tb", "<b>&", "\u202ecow"]}, (r"a\tb", "<b>&", r"\u202ecow")),
    "two of one name": ({"id2label": ["ape", "ape", "cow"]}, ("ape", "ape", "cow")),
}
"""Contents of config.json, with the names that they give to three classes."""


@pytest.mark.parametrize("case", NAMED)
def test_names_by_number(case):
    content, expected = NAMED[case]
    assert of_classes(3, content).names == expected


REFUSED = {
    "two for one number": (
        {"id2label": {"1": "ape", "01": "bee", "2": "cow"}},
        "two names for class 1",
    ),
    "one number for two": ({"id2label": {"ape": 0, "bee": 0, "cow": 1}}, "two names for class 0"),
    "neither way round": (
        {"id2label": {"ape": "bee", "1": "cow"}},
        "'ape' where the number of a class",
    ),
    "a number with a point": ({"id2label": {"0.0": "ape"}}, "'0.0' where the number"),
    "a yes": ({"id2label": {"0": True}}, "True as the name of class 0"),
    "nothing": ({"id2label": {"0": None}}, "None as the name of class 0"),
    "a table": ({"id2label": {"0": {"name": "ape"}}}, "as the name of class 0"),
    "one text": ({"id2label": "ape"}, "write the name of each class by its number"),
    "a long name": ({"id2label": ["a" * 300]}, "a name of 300 characters for class 0"),
    "timm's, of tables": (
        {"label_names": [["ape"]]},
        "`label_names` has .* as the name of class 0",
    ),
}
"""Contents of config.json that are refused, with a pattern of the error."""


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_names_are_refused(case, zoo, tmp_path):
    """The error names the setting. There is no traceback, and nothing is written."""
    content, message = REFUSED[case]
    checkpoint = OWN["vit"](tmp_path / "own").path
    path = checkpoint / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | content))
    assert re.search(message, zoo("export", "--weights", checkpoint, code=2).error)
    assert list(zoo.here.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (
            {"id2label": {"1": "a", "2": "b", "3": "c"}},
            r"names for 1 of 3 .*\(0\), and names for 3",
        ),
        ({"id2label": dict(enumerate(THREE)), "num_labels": 5}, "num_labels .* is 5, and .* 3"),
        (
            {"label2id": {"ape": 0, "bee": 7}},
            "label2id .* up to number 7, and its classifier has 3",
        ),
    ],
)
def test_names_that_are_left_out_cause_a_warning(content, warning):
    assert any(re.search(warning, text) for text in of_classes(3, content).warnings)


def test_names_of_another_network_are_refused():
    for names in (["ape", "bee"], ["ape", "bee", "cow", "dog"]):
        with pytest.raises(MappingError, match=f"names {len(names)} classes, and .* has 3"):
            of_classes(3, {"id2label": names})
        assert of_classes(3, {"id2label": names}, head="fc").names is None


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.dictionaries(st.integers(0, 6), st.sampled_from(THREE), min_size=1, max_size=5))
def test_names_are_those_of_transformers(labels):
    """transformers' configuration with the same settings has the same names of its classes."""
    config = transformers.ViTConfig(id2label=labels)
    actual = of_classes(config.num_labels, {"id2label": labels}).names
    expected = [config.id2label.get(number, str(number)) for number in range(config.num_labels)]
    assert actual == tuple(expected)


@pytest.mark.parametrize("path", ["args.class_names", "class_names", "hyper_parameters.id2label"])
def test_names_in_what_training_saved(path):
    assert of_classes(4, None, {path: ["ape", "bee"]}).names == ("ape", "bee", "2", "3")
    assert of_classes(4, {"id2label": list("abcd")}, {path: THREE}).names == tuple("abcd")
    class_names = of_classes(2, None, {path: THREE})
    assert class_names.names is None and path in class_names.warnings[0]


RF_DETR = package.info("rf_detr_nano")
COCO = [name for name in RF_DETR.class_names if name != "N/A"]


def test_names_of_a_detector_with_the_usual_number_of_outputs():
    """A head of 91 outputs has COCO's classes only if the checkpoint has no other names."""

    def names_from(names):
        checkpoint = Checkpoint(Path("w.pth"), "", (), {}, tables={"args.class_names": names})
        return read_class_names(RF_DETR, RF_DETR.config, None, checkpoint).names

    assert names_from(["kitten", "dog"])[:3] == ("kitten", "dog", "2")
    assert names_from(COCO) == RF_DETR.class_names


@pytest.mark.parametrize(
    "form", [dict, lambda **values: Namespace(**values)], ids=["dict", "Namespace"]
)
def test_names_in_a_detector_of_the_authors(form, tmp_path):
    """Names are read from the arguments that the authors' program saves."""
    detector = detection.authors_checkpoint(tmp_path)
    saved = torch.load(detector.path, weights_only=False)
    for names, expected in (
        (["kitten", "dog"], ("kitten", "dog", "2")),
        (("a", "b", "c"), ("a", "b", "c")),
        (None, ("0", "1", "2")),
    ):
        saved["args"] = form(resolution=48, num_classes=2, class_names=names)
        path = tmp_path / f"{len(str(names))}.pth"
        torch.save(saved, path)
        # The test reads only the names, because no settings state which layers the network reads.
        actual = of_classes(3, None, open_checkpoint(path).tables).names
        assert (actual or ("0", "1", "2")) == expected


def test_all_outputs_have_the_names(zoo, tmp_path):
    """The names are in `zoo run`, the manifest, converted settings and the network in JAX."""
    checkpoint = OWN["vit"](tmp_path / "own").path
    path = checkpoint / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"id2label": {"1": "b", "2": "<c>", "7": "d"}})
    )
    expected = ["0", "b", "<c>"]
    assert find_entry(None, GivenCheckpoint(checkpoint))[0].class_names == tuple(expected)
    assert [*package.from_pretrained("vit", checkpoint).labels] == expected
    zoo("export", "--weights", checkpoint, "--size", "40x40", "--out", "w.onnx")
    assert json.loads((zoo.here / "w.manifest.json").read_text())["classes"] == expected
    zoo("weights", "convert", checkpoint, "hf")
    names = json.loads((zoo.here / "hf" / "config.json").read_text())["id2label"]
    assert [*names.values()] == expected
    picture = zoo.here / "p.png"
    Image.new("RGB", (40, 40), "red").save(picture)
    (result,) = zoo.json("run", checkpoint, picture, "--out", "o")
    assert {answer["label"] for answer in result["answers"]} <= {*expected}
