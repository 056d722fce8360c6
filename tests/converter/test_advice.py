"""Error messages for common mistakes of new users: each names the mistake and its correction.

Also the names of outputs in nested results.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.errors import ConverterError
from tests.conformance import drawn

BATCH = [("batch", 3)]
ROWS = ("batch", 3)

WRONG = {
    "a string": (
        lambda x: {"y": x, "name": "cat"},
        BATCH,
        r"returns a str at 'name'.*leave it out",
    ),
    "a set": (lambda x: {1, 2}, BATCH, r"returns a set.*lists and dictionaries"),
    "a number for a shape": (
        lambda x, n: x * n,
        [ROWS, 2],
        r"2 in specs is no shape.*kwargs=\{'n': 2\}",
    ),
    "one input": (lambda x: x, ROWS, r"for one input write \[\('batch', 3\)\]"),
    "a dictionary in a shape": (lambda d: d[0]["a"], [({"a": 3}, 3)], r"has a dict in it.*\{\"x\""),
    "numpy": (lambda x: jnp.asarray(np.sin(x)), BATCH, r"use jax\.numpy in place of numpy"),
    "no batch": (drawn(lambda key: eqx.nn.Linear(3, 4, key=key)), BATCH, r"convert jax\.vmap"),
    "no batch of pictures": (
        drawn(lambda key: eqx.nn.Conv2d(3, 4, 3, key=key)),
        [(2, 3, 8, 8)],
        r"without the first dimension, 2: .* jax\.vmap",
    ),
}
"""By name: a function, its wrong specs or result, and a pattern that the error message matches."""


@pytest.mark.parametrize("name", WRONG)
def test_error_messages_name_the_correction(name):
    function, specs, message = WRONG[name]
    with pytest.raises(ConverterError, match=message):
        converter.to_onnx(function, specs)


def test_errors_of_jax_are_passed_on():
    with pytest.raises(TypeError, match="contracting dimensions"):
        converter.to_onnx(lambda x: x @ jnp.ones((5, 5)), BATCH)


def test_functions_that_depend_on_state_are_rejected():
    calls = []

    def call_count(x):
        calls.append(1)
        return {"same": x, "counted": x + len(calls)}

    export = converter.to_onnx(call_count, BATCH)
    with pytest.raises(
        converter.CheckError, match=r"two calls of the function .* differ in output"
    ):
        converter.check(export, call_count)


@pytest.mark.parametrize(
    ("make_result", "names"),
    [
        (lambda a, b: ({"action": a, "v": (a, b)}, b), ["action", "v.0", "v.1", "output_3"]),
        (lambda a, b: ({"x": a}, {"x": b}), ["output_0.x", "output_1.x"]),
        (lambda a, b: ((a, b), a), ["output_0", "output_1", "output_2"]),
        (lambda a, b: {"x": {"y": a}, "y": b}, ["x.y", "y"]),
    ],
)
def test_outputs_are_named_by_their_path(make_result, names):
    export = converter.to_onnx(lambda a, b: make_result(a + 1, b * 2), [ROWS, ROWS])
    assert [value.name for value in export.model.graph.outputs] == names
