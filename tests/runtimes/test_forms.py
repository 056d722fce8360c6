"""The forms of operations that a target lists are those that ONNX Runtime runs."""

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

STRIDE = 60
"""The default tier tests one form in this many."""


def find_wrong_forms(cases):
    """Yield sentences about forms that run although the target excludes them, or the reverse."""
    target = find_target("onnxruntime")
    for case in cases:
        node, form = case.node(), target.forms.get(case.op)
        misfit = form.find_misfit(node, case.opset) if form is not None else ""
        error = case.runs(target)
        if bool(misfit) != bool(error):
            yield f"{case}: expected {misfit or 'to run'!r}, received {error or 'to run'!r}"


@pytest.mark.parametrize("make", FORMS)
def test_sample_of_forms_runs_as_listed(make):
    assert not [*find_wrong_forms([*make()][7::STRIDE])]


@pytest.mark.full
@pytest.mark.parametrize("make", FORMS)
def test_all_forms_run_as_listed(make):
    assert not [*find_wrong_forms(make())]


@pytest.fixture
def target_with_forms(monkeypatch):
    """Function that registers a target with only these forms, and returns its name."""

    def register_target(forms):
        target = replace(converter.TARGETS["onnxruntime"], name="narrow", forms=forms)
        monkeypatch.setitem(targets.TARGETS, "narrow", target)
        return "narrow"

    yield register_target
    targets.find_target.cache_clear()


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 1, 1), "VALID")


def test_form_without_kernel_is_refused_with_its_source_line(target_with_forms):
    lines = Form(frozenset({"float32"}), range(3, 4))
    target = target_with_forms({ops.max_pool: lines})
    message = (
        r"narrow does not run 'max_pool' \(float32\[1,3,4,5\]\) at opset 23: no kernel for 4 axes"
    )
    with pytest.raises(converter.UnsupportedError, match=rf"{message} \[.*test_forms.py.*pooled"):
        converter.to_onnx(pooled, [(1, 3, 4, 5)], opset=23, target=target)
    assert converter.to_onnx(lambda x: pooled(x[:, :, None]), [(1, 3, 5)], target="onnxruntime")


def test_form_without_kernel_is_replaced(target_with_forms):
    """A resize of two axes becomes two resizes if the target has only kernels for one axis."""
    one_axis = Form(
        frozenset({"float32"}), refuses=lambda node, _: "two" * (len(node.params["axes"]) > 1)
    )
    target = target_with_forms({ops.resize: one_axis})

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
    """ONNX Runtime has a kernel for both axes only behind the first of the two transpositions."""

    def fn(x):
        return jax.image.resize(x.transpose(perm)[0], (2, 3, 9, 4), "linear")

    shape = [0] * 5
    for axis, size in zip(perm, (1, 2, 3, 5, 7), strict=True):
        shape[axis] = size
    export = converter.to_onnx(fn, [shape], verify=True)
    assert export.report.histogram["Resize"] == resizes
