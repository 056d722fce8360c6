"""Each decomposition under every way in which a transformation can hand its primitive over."""

import jax
import pytest

import converter
from converter.decompositions.registered import OWN_EXPANSIONS
from converter.frontend.refused import REFUSED
from tests.converter.test_rules import equations
from tests.converter.transformed import ROWS, WAYS, Row

REFUSED_BY_JAX = (NotImplementedError, TypeError, ValueError, AssertionError, RuntimeError)
"""What its transformations raise: most primitives here have some that nobody has written."""

ALONE = {
    "geqp3": "inside of `qr` with pivots, which has a row",
    "log2": "of jax >= 0.12",
    **dict.fromkeys(("empty2", "stage", "tie", "zeros_like"), "no public function binds it"),
    **dict.fromkeys(("scaled_matmul", "scaled_matmul_wrapper"), "JAX runs it on NVIDIA's only"),
}
"""Decompositions without a row, and why."""


NOT_WRITTEN = {("family: reductions", "jvp")}
"""The derivative of a window's maximum of complex numbers, which is refused."""


def _cases() -> pytest.MarkDecorator:
    rows = [pytest.param(name, way, id=f"{name}-{way}") for name in ROWS for way in WAYS]
    return pytest.mark.parametrize(("name", "way"), rows)


def _primitives(row: Row) -> set[str]:
    """What JAX makes of it; skips what JAX itself has something against."""
    try:
        jaxpr = jax.make_jaxpr(row.fn)(*row.inputs).jaxpr
    except REFUSED_BY_JAX as error:
        pytest.skip(f"JAX itself: {type(error).__name__}: {str(error).splitlines()[0]}")
    return {eqn.primitive.name for eqn in equations(jaxpr)}


@pytest.mark.sampled(41, full=10)
@pytest.mark.filterwarnings("ignore:left out")
@_cases()
def test_every_way(name, way):
    row = WAYS[way](ROWS[name])
    if _primitives(row) & REFUSED.keys() or (name, way) in NOT_WRITTEN:
        with pytest.raises(converter.Unsupported):
            converter.to_onnx(row.fn, row.inputs)
        return
    is_open = way == "open batch"
    specs = [(("B", *x.shape[1:]), x.dtype) if is_open else x for x in row.inputs]
    export = converter.to_onnx(row.fn, specs)
    verdict = converter.check(export, row.fn, row.inputs)
    assert verdict.passed, [str(d) for d in verdict.differences]


def test_halves_of_values_of_other_ranks():
    test_every_way("family: arithmetic", "nested vmap")


def test_no_decomposition_is_left_out():
    """Collectives have a table of their own."""
    devices = {"axes", "axis_name", "axis_index_groups"}
    others = {n for n, found in OWN_EXPANSIONS.items() if found.ignores & devices}
    assert OWN_EXPANSIONS.keys() - others - ROWS.keys() - ALONE.keys() == set()
    assert not ALONE.keys() & ROWS.keys()
    for name in OWN_EXPANSIONS.keys() & ROWS.keys():
        assert name in _primitives(ROWS[name])
