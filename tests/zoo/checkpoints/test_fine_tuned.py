"""Checkpoints of one's own: each network, way of saving and head gives PyTorch's logits, or the
refusal names the tensors that no file would have."""

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
"""Ten times the largest difference of logits between PyTorch and JAX here, of the largest."""

ROUNDED = 1e-2
"""The same where rotary periods were rounded to bfloat16: an angle of up to three radians moves by
less."""


def sampled() -> list[Case]:
    """Return cases that have between them every pair of choices."""
    cases = fine_tuned.cases()
    return [cases[index] for index in covering([vars(case) for case in cases], 2)]


def is_within(case: Case) -> bool:
    """Whether a head has the name of a module of the network: SigLIP's pooling is a `head`, too.

    Nothing tells its tensors from those of the network, so that it cannot be left out.
    """
    return case.family == "SigLIP" and case.name == "head" and "of the network" in case.way


BY_DEFAULT = (
    ("DINOv2", "a norm and a linear layer"),
    ("ViT", "a linear layer on the mean of the patches"),
    ("ConvNeXt", "BatchNorm and a linear layer"),
    ("DINOv3", "a linear layer on the class token"),
)


def is_default(case: Case) -> bool:
    """Whether a case is in the default tier: one of each row."""
    return (case.family, case.head) in BY_DEFAULT and "with the network" in case.way


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if is_default(case) else pytest.mark.full)
        for case in dict.fromkeys((*filter(is_default, fine_tuned.cases()), *sampled()))
    ],
    ids=str,
)
def test_right_or_refused(case, tmp_path):
    """Nothing is left out in silence."""
    path, picture, want = save(case, tmp_path)
    if case.outcome == "asked":
        with pytest.raises(BadRequest, match=f'{case.name}.*"global_pool": '):
            package.from_pretrained(path)
    elif case.outcome == "refused":
        layers = HEADS[case.head](FAMILIES[case.family], case.name)
        parts = (*layers.named_children(), *layers.named_parameters(recurse=False))
        names = "|".join(name for name, _ in parts)
        if is_within(case):
            with pytest.raises(MappingError, match=rf"({names}).*`converter\.to_onnx`"):
                package.from_pretrained(path)
            return
        with pytest.raises(MappingError, match=rf"({names}).*`without_head`.*`converter\.to_onnx`"):
            package.from_pretrained(path)
        assert package.from_pretrained(path, without_head=True).head is None
    else:
        got = np.asarray(forward(package.from_pretrained(path), picture).logits)
        noise = ROUNDED if case.family in WAYS[case.way].rounds else NOISE
        assert np.abs(got - want).max() <= noise * np.abs(want).max()


def test_the_page_says_what_happens():
    """`python -m tests.fine_tuned` writes its tables."""
    assert fine_tuned.PAGE.read_text() == fine_tuned.page()


def test_what_a_head_takes_is_said(zoo, tmp_path):
    """By the command, and in the manifest; what is refused leaves nothing behind, and code 2."""
    told = Case(
        "DINOv2", next(iter(WAYS)), "a linear layer on the mean of the patches", "clf", True
    )
    path, picture, want = save(told, tmp_path)
    said = zoo("export", "--weights", path, "--size", 32, "--out", "w.onnx")
    assert "its head `clf` gives logits from the mean of the patches" in said.err
    manifest = json.loads((zoo.here / "w.manifest.json").read_text())
    assert manifest["classifier_takes"] == "the mean of the patches"
    session = onnxruntime.InferenceSession(zoo.here / "w.onnx")
    (got,) = session.run(["logits"], {"pixel_values": picture[None]})
    assert np.abs(got[0] - want).max() <= NOISE * np.abs(want).max()
    for case in (replace(told, told=False), replace(told, head="two heads")):
        folder = tmp_path / case.outcome
        folder.mkdir()
        path, *_ = save(case, folder)
        said = zoo("export", "--weights", path, "--out", "v.onnx", code=2).error
        assert ("global_pool" if case.outcome == "asked" else "age, gender") in said
    assert not [*zoo.here.glob("v*")]
