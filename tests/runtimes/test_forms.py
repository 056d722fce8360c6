"""What the target says of the forms of operations is what ONNX Runtime does."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import converter
from converter import targets
from converter.ir import ops
from converter.targets import find_target
from converter.targets.target import Form
from tests.runtimes.forms import FORMS

SHARE = 60
"""One in so many forms is tried by default."""


def wrong(cases):
    """Forms of which the target says something else than is seen."""
    target = find_target("onnxruntime")
    for case in cases:
        node, form = case.node(), target.forms.get(case.op)
        said = form.find_misfit(node, case.opset) if form is not None else ""
        seen = case.runs(target)
        if bool(said) != bool(seen):
            yield f"{case}: said {said or 'to run'!r}, seen {seen or 'to run'!r}"


@pytest.mark.parametrize("make", FORMS)
def test_a_sample_of_forms(make):
    assert not [*wrong([*make()][7::SHARE])]


@pytest.mark.full
@pytest.mark.parametrize("make", FORMS)
def test_every_form(make):
    assert not [*wrong(make())]


@pytest.fixture
def running(monkeypatch):
    """Names a target that runs only some forms."""

    def named(forms):
        made = replace(converter.TARGETS["onnxruntime"], name="narrow", forms=forms)
        monkeypatch.setitem(targets.TARGETS, "narrow", made)
        return "narrow"

    yield named
    targets.find_target.cache_clear()


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 1, 1), "VALID")


def test_what_does_not_run_is_refused_with_its_line(running):
    lines = Form(frozenset({"float32"}), range(3, 4))
    target = running({ops.max_pool: lines})
    said = (
        r"narrow does not run 'max_pool' \(float32\[1,3,4,5\]\) at opset 23: no kernel for 4 axes"
    )
    with pytest.raises(converter.UnsupportedError, match=rf"{said} \[.*test_forms.py.*pooled"):
        converter.to_onnx(pooled, [(1, 3, 4, 5)], opset=23, target=target)
    assert converter.to_onnx(lambda x: pooled(x[:, :, None]), [(1, 3, 5)], target="onnxruntime")


def test_what_does_not_run_is_written_otherwise(running):
    """Two axes at once have no kernel in this one."""
    one = Form(
        frozenset({"float32"}), refuses=lambda node, _: "two" * (len(node.params["axes"]) > 1)
    )
    target = running({ops.resize: one})

    def fn(x):
        return jax.image.resize(x, (2, 3, 8, 10), "linear")

    export = converter.to_onnx(fn, [(2, 3, 4, 5)], target=target, verify=True)
    assert export.report.histogram["Resize"] == 2
    assert converter.to_onnx(fn, [(2, 3, 4, 5)]).report.histogram["Resize"] == 1


@pytest.mark.parametrize(
    ("perm", "resizes"),
    [pytest.param((0, 1, 4, 2, 3), 1, marks=pytest.mark.full), ((0, 1, 3, 4, 2), 2)],
)
def test_resizes_behind_a_reshape_that_removes_an_axis(perm, resizes):
    """ONNX Runtime has a kernel for both axes behind the first transposition alone."""

    def fn(x):
        return jax.image.resize(x.transpose(perm)[0], (2, 3, 9, 4), "linear")

    shape = [0] * 5
    for axis, size in zip(perm, (1, 2, 3, 5, 7), strict=True):
        shape[axis] = size
    export = converter.to_onnx(fn, [shape], verify=True)
    assert export.report.histogram["Resize"] == resizes
