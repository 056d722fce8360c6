"""Named sizes cost few operators, and hide no norm and no window."""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import converter
from converter.verify.sessions import run, session
from tests.converter.dynamic.test_dynamic import PATCHES

PADS = ((1, 2), (0, 1))


@pytest.mark.full
@pytest.mark.parametrize(
    ("norm", "fused"),
    [
        (eqx.nn.GroupNorm(2, 4), {"InstanceNormalization": 1}),
        (lambda x: jax.nn.standardize(x, (1, 2)), {"LayerNormalization": 1}),
    ],
)
def test_norms_over_names_are_norms(norm, fused):
    fn = jax.vmap(norm)
    made = converter.to_onnx(fn, [("B", 4, "h", "4*w")])
    assert made.report.fused == fused
    assert "ReduceSum" not in made.report.histogram
    assert converter.check(made, fn).passed


@pytest.mark.full
def test_each_sample_with_its_own_kernel():
    """What AttNet does: ``vmap`` makes as many groups as there are samples."""
    forms = [
        ((4, 1, 3, 2), {"feature_group_count": 4, "padding": "SAME"}),
        ((6, 2, 3, 2), {"feature_group_count": 2, "padding": PADS, "rhs_dilation": (1, 2)}),
        ((3, 4, 2, 2), {"padding": ((1, 1), (0, 1)), "lhs_dilation": (2, 1)}),
    ]
    for kernel, options in forms:
        fn = jax.vmap(partial(lax.conv_general_dilated, window_strides=(2, 1), **options))
        made = converter.to_onnx(fn, [("B", 1, 4, 6, 7), ("B", *kernel)])
        assert converter.check(made, fn).passed


def test_nothing_spread_apart_is_nothing():
    """An entry less than a named size may be none."""

    def fn(x):
        less = x[1:]
        window = (less, -jnp.inf, lax.max, (1,), (2,), ((0, 1),), (2,))
        return lax.pad(less, 0.0, [(0, 1, 2)]), lax.reduce_window(*window)

    made = converter.to_onnx(fn, [("B",)])
    assert converter.check(made, fn).passed
    assert converter.check(made, fn, [np.ones(1, np.float32)]).passed


@pytest.mark.full
def test_windows_over_whole_axes_are_reductions():
    def pooled(x):
        return lax.reduce_window(x, 0.0, lax.add, (1, *x.shape[1:3], 1), (1, 2, 2, 1), "VALID")

    made = converter.to_onnx(pooled, [("B", "h", "w", 3)])
    assert made.report.histogram["ReduceSum"] == 1
    assert converter.check(made, pooled).passed


@pytest.mark.full
def test_a_network_asks_for_its_sizes_once():
    unet = PATCHES.programs["u-net"]
    made = converter.to_onnx(unet, PATCHES.specs)
    counts = made.report.histogram
    assert counts["Shape"] == 2
    assert sum(counts.get(op, 0) for op in ("Mod", "Neg", "Max", "Min", "Sub")) == 0, counts
    seen = [(n.op_type, *(i.name for i in n.inputs)) for n in made.model.graph if not n.attributes]
    assert len(seen) == len(set(seen)), "nothing is computed twice"


EXPRESSIONS = (
    *("h + 1", "h - 1", "floordiv(h - 1, 2)", "- floordiv(- h, 2) + 1", "floordiv(h - 5, 3) + 9"),
    *("mod(h, 4)", "mod(- h, 4)", "max(h - 3, 0)", "min(h, 4)", "- 2*floordiv(h, -3) + w"),
    *("h*w - 3*h + 30", "floordiv(h*w, 3) - floordiv(w, 2) + 9", "h^2", "- h + 30"),
    *("max(0, - 2*floordiv(- h, 2) - h + 1)", "floordiv(- h - w, 4) + 20", "- h - w + 60"),
    *("floordiv(- 2*h + 40, 3)", "max(w, 1)", "max(3 - h, w - 2)", "min(- h, 2) + 40"),
    *("floordiv(h, w)", "mod(h, w)", "- h*w + 900", "floordiv(h, 3)*floordiv(w, 2) + 1"),
)


@pytest.mark.full
def test_arithmetic_is_pythons():
    def sizes(x):
        dims = export.symbolic_shape(", ".join(EXPRESSIONS), scope=x.shape[0].scope)
        return jnp.stack([jnp.asarray(dim) for dim in dims])

    live = session(converter.to_onnx(sizes, [("h", "w")]))
    functions = {"floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y}
    for h, w in itertools.product((1, 2, 3, 5, 8, 13), (1, 2, 7)):
        (got,) = run(live, [np.zeros((h, w), np.float32)]).values()
        names = {"h": h, "w": w, "max": max, "min": min, **functions}
        wanted = [eval(text.replace("^", "**"), names) for text in EXPRESSIONS]
        np.testing.assert_array_equal(got, wanted)
