"""Custom checkpoints of every network, way of saving and head, compared with PyTorch's logits.

Alternatively, the checkpoint is refused, and the error names the tensors that would be left out.
"""

import json
from dataclasses import replace

import equinox as eqx
import numpy as np
import onnxruntime
import pytest

import zoo as package
from tests import fine_tuned
from tests.fine_tuned import WAYS, Case, save
from tests.references.fine_tuned import FAMILIES, HEADS
from tests.tiers import covering
from weights.errors import MappingError
from zoo.common.errors import BadRequest

forward = eqx.filter_jit(lambda model, picture: model(picture))

NOISE = 2e-5
"""Limit of a difference of logits, relative to the largest: ten times the largest measured one."""

ROUNDED = 1e-2
"""The limit where rotary periods were rounded to bfloat16.

An angle of up to three radians moves by less.
"""


def sampled() -> list[Case]:
    """Return cases that contain every pair of choices."""
    cases = fine_tuned.cases()
    return [cases[index] for index in covering([vars(case) for case in cases], 2)]


def is_within(case: Case) -> bool:
    """Return whether a head has the name of a module of the network. SigLIP's pooling is a `head`.

    The names do not distinguish its tensors from those of the network, so it cannot be left out.
    """
    return case.family == "SigLIP" and case.name == "head" and "of the network" in case.way


BY_DEFAULT = (
    ("DINOv2", "a norm and a linear layer"),
    ("ViT", "a linear layer on the mean of the patches"),
    ("ConvNeXt", "BatchNorm and a linear layer"),
    ("DINOv3", "a linear layer on the class token"),
)
"""Families and heads of the default tier."""


def is_default(case: Case) -> bool:
    """Return whether a case is in the default tier."""
    return (case.family, case.head) in BY_DEFAULT and "with the network" in case.way


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if is_default(case) else pytest.mark.full)
        for case in dict.fromkeys((*filter(is_default, fine_tuned.cases()), *sampled()))
    ],
    ids=str,
)
def test_logits_are_right_or_the_checkpoint_is_refused(case, tmp_path):
    """No trained tensor is left out without a message."""
    path, picture, expected = save(case, tmp_path)
    if case.outcome == "asked":
        with pytest.raises(BadRequest, match=f'{case.name}.*"global_pool": '):
            package.from_pretrained(path)
    elif case.outcome == "refused":
        layers = HEADS[case.head](FAMILIES[case.family], case.name)
        named_parts = (*layers.named_children(), *layers.named_parameters(recurse=False))
        names = "|".join(name for name, _ in named_parts)
        if is_within(case):
            with pytest.raises(MappingError, match=rf"({names}).*`converter\.to_onnx`"):
                package.from_pretrained(path)
            return
        with pytest.raises(MappingError, match=rf"({names}).*`without_head`.*`converter\.to_onnx`"):
            package.from_pretrained(path)
        assert package.from_pretrained(path, without_head=True).head is None
    else:
        actual = np.asarray(forward(package.from_pretrained(path), picture).logits)
        noise = ROUNDED if case.family in WAYS[case.way].rounds else NOISE
        assert np.abs(actual - expected).max() <= noise * np.abs(expected).max()


def test_the_page_states_the_outcomes():
    """`python -m tests.fine_tuned` writes the tables of the page."""
    assert fine_tuned.PAGE.read_text() == fine_tuned.page()


def test_the_input_of_a_head_is_stated(zoo, tmp_path):
    """The command and the manifest state the input of the head.

    A refused checkpoint leaves no file, and the exit code is 2.
    """
    case_with_pooling = Case(
        "DINOv2", next(iter(WAYS)), "a linear layer on the mean of the patches", "clf", True
    )
    path, picture, expected = save(case_with_pooling, tmp_path)
    result = zoo("export", "--weights", path, "--size", 32, "--out", "w.onnx")
    assert "its head `clf` gives logits from the mean of the patches" in result.err
    manifest = json.loads((zoo.here / "w.manifest.json").read_text())
    assert manifest["classifier_takes"] == "the mean of the patches"
    session = onnxruntime.InferenceSession(zoo.here / "w.onnx")
    (actual,) = session.run(["logits"], {"pixel_values": picture[None]})
    assert np.abs(actual[0] - expected).max() <= NOISE * np.abs(expected).max()
    for case in (
        replace(case_with_pooling, told=False),
        replace(case_with_pooling, head="two heads"),
    ):
        folder = tmp_path / case.outcome
        folder.mkdir()
        path, *_ = save(case, folder)
        error = zoo("export", "--weights", path, "--out", "v.onnx", code=2).error
        assert ("global_pool" if case.outcome == "asked" else "age, gender") in error
    assert not [*zoo.here.glob("v*")]
