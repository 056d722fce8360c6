"""Arithmetic of symbolic sizes, compared with Python's, and inputs smaller than their window."""

import itertools

import jax.numpy as jnp
import numpy as np
from jax import export, lax

import converter
from converter.ir.evaluation import evaluate
from converter.verify.sessions import run, session

EXPRESSIONS = (
    *("h + 1", "h - 1", "floordiv(h - 1, 2)", "- floordiv(- h, 2) + 1", "floordiv(h - 5, 3) + 9"),
    *("mod(h, 4)", "mod(- h, 4)", "max(h - 3, 0)", "min(h, 4)", "- 2*floordiv(h, -3) + w"),
    *("h*w - 3*h + 30", "floordiv(h*w, 3) - floordiv(w, 2) + 9", "h^2", "- h + 30"),
    *("max(0, - 2*floordiv(- h, 2) - h + 1)", "floordiv(- h - w, 4) + 20", "- h - w + 60"),
    *("floordiv(- 2*h + 40, 3)", "max(w, 1)", "max(3 - h, w - 2)", "min(- h, 2) + 40"),
    *("floordiv(h, w)", "mod(h, w)", "- h*w + 900", "floordiv(h, 3)*floordiv(w, 2) + 1"),
)


def test_size_arithmetic_matches_python():
    def sizes(x):
        dims = export.symbolic_shape(", ".join(EXPRESSIONS), scope=x.shape[0].scope)
        return jnp.stack([jnp.asarray(dim) for dim in dims])

    live = session(converter.to_onnx(sizes, [("h", "w")]))
    functions = {"floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y}
    for h, w in itertools.product((1, 2, 3, 5, 8, 13), (1, 2, 7)):
        (actual,) = run(live, [np.zeros((h, w), np.float32)]).values()
        names = {"h": h, "w": w, "max": max, "min": min, **functions}
        expected = [eval(text.replace("^", "**"), names) for text in EXPRESSIONS]
        np.testing.assert_array_equal(actual, expected)


def test_input_smaller_than_its_window_has_no_windows():
    def sums(x):
        return lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "VALID", window_dilation=(2,))

    dilated = converter.to_onnx(sums, [("B",)], strict=True)
    for size in (1, 3, 4, 5, 9):
        x = np.arange(size, dtype=np.float32)
        for actual in (*evaluate(dilated.graph, [x]), *run(dilated, [x]).values()):
            np.testing.assert_array_equal(actual, sums(x))
