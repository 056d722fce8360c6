"""Elementwise operations inside bodies of loops and branches.

`tests/programs/primitives.py` has the other operations in bodies.
"""

import itertools
from functools import partial
from operator import call
from typing import Any

import jax
import numpy as np
import pytest

import converter
from tests.programs.primitives import ALL, BINARY, BODIES, UNARY, matrix, supported_functions

DTYPES = tuple(dtype for dtype in ALL if dtype != "bfloat16")


def parametrize_bodies(*default_rows: tuple[str, str]) -> pytest.MarkDecorator:
    """Return a mark with every dtype in every body; only these rows are in the default tier."""
    rows = []
    for row in itertools.product(DTYPES, BODIES):
        marks = () if row in default_rows else pytest.mark.full
        rows.append(pytest.param(*row, marks=marks, id="-".join(row)))
    return pytest.mark.parametrize(("dtype", "body"), rows)


@parametrize_bodies(("uint16", "cond"))
def test_elementwise_operations_in_bodies_give_the_same_numbers(dtype, body):
    """Elementwise operations give the same numbers in a body as outside of one.

    `tests/programs/primitives.py` compares the latter with JAX.
    """
    with jax.enable_x64(True):
        x = matrix(dtype, small=True)
        y = x[::-1, ::-1].copy()
        unary, binary = (
            supported_functions(UNARY, x),
            supported_functions(BINARY, x, y),
        )

        def fn(x: Any, y: Any) -> list[Any]:
            return [f(x) for f in unary.values()] + [f(x, y) for f in binary.values()]

        exports = [
            converter.to_onnx(partial(wrap_in_body, fn), [x, y])
            for wrap_in_body in (call, BODIES[body])
        ]
    expected, actual_values = (converter.run(export, [x, y]).values() for export in exports)
    for name, a, b in zip((*unary, *binary), actual_values, expected, strict=True):
        np.testing.assert_array_equal(a, b, name)
