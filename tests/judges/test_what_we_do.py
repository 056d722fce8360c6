"""What a runtime gets wrong, a converted function gets right: on the very inputs of the page."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from tests.judges.habits import TABLES

PLACES = np.array([1, 1])


def pool(x, size, stride, padding):
    window = (1, 1, size), (1, 1, stride), ((0, 0), (0, 0), padding)
    return lax.reduce_window(x, -jnp.inf, lax.max, *window)


def attention(q, k, v, mask):
    """As `jax.nn.dot_product_attention` has it, in ONNX's order of axes."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1], dtype=np.float32)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores + mask), v)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "A transposed matrix times a vector": lambda a, v: a.T @ v,
    "A padding in front of a pool of maxima": lambda x: pool(
        jnp.pad(x, ((0, 0), (0, 0), (1, 0))), 2, 2, (0, 0)
    ),
    "A window that is longer than its axis": lambda x: (
        lax.reduce_window(x, 0.0, lax.add, (1, 1, 3), (1, 1, 2), "VALID") / 3
    ),
    "A float64 product that is scaled": lambda a, b: a @ b * 0.1,
    "Largest of many 64-bit integers": jnp.max,
    "Attention of a row that a finite mask hides": attention,
    "GELU of a single number, spelled out": lambda x: -jax.nn.gelu(x),
    "NaN in a LogSoftmax of float64": jax.nn.log_softmax,
    "Sigmoid of negative numbers": jax.nn.sigmoid,
    "Sign of 64-bit integers": jnp.sign,
    "Sum of integers beyond their range": lambda x: jnp.sum(x, dtype=x.dtype),
    "Product of integers beyond their range": lambda x: jnp.prod(x, dtype=x.dtype),
    "Remainder of 64-bit integers": lax.rem,
    "Power of integers": lambda x, p: lax.integer_pow(x, 21),
    "Pool of maxima of the lowest number": lambda x: pool(x, 2, 1, (0, 0)),
    "NaN in a maximum": jnp.max,
    "NaN in a pool of maxima": lambda x: pool(x, 2, 1, (0, 0)),
    "NaN among the largest": lambda x: lax.top_k(x, 2),
    "Floats that are rounded to infinity in eight bits": lambda x: x.astype(jnp.float8_e5m2).astype(
        np.float32
    ),
    "Floats beyond the range of integers": lambda x: x.astype(np.uint8),
    "The lowest integer divided by -1": lax.div,
    "The remainder of the lowest integer by -1": lax.rem,
    "A product of a matrix that is turned and converted": lambda x, w: (
        jnp.transpose(x, (1, 0, 2)).astype(np.float32) @ w
    ),
    "A product of two turned matrices, one of them an output": lambda x, w, b: (x.T, x.T @ w.T + b),
    "Integers divided by zero": lax.div,
    "A pool padded by as much as its window": lambda x: pool(x, 1, 1, (1, 1)),
    "Newer files": jnp.negative,
    "Newer operators": jnp.negative,
    "Max and Min of 16-bit integers": lambda x: jnp.maximum(x, -x),
    "Where of 16-bit integers": lambda c, x: jnp.where(c, x, x),
    "CumSum of unsigned integers": lambda x: jnp.cumsum(x, dtype=x.dtype),
    "ReduceSum of unsigned integers": jnp.sum,
    "TopK of unsigned integers": lambda x: lax.top_k(x, 1),
    "Pow by 8-bit integers": lambda x, p: x**p,
    "Scatter that adds float16": lambda x, u: x.at[PLACES].add(u),
    "Scatter of the largest boolean": lambda x, u: x.at[PLACES].max(u),
    "Nearly everything of bfloat16": lambda x: (-x.astype(jnp.bfloat16)).astype(x.dtype),
}
"""What comes to the operator of the page's file, if nothing is done about it."""

LEFT = {"A chosen zero with its sign bit set", "A resizing between transpositions"}
"""What is left as it is."""

HABITS = {habit.name: habit for habits in TABLES["onnxruntime"].values() for habit in habits}


def test_every_habit_has_a_function():
    assert HABITS.keys() == FUNCTIONS.keys() | LEFT


@pytest.mark.full
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_the_converter_does(name):
    """Strict: what differs by default has its page too."""
    habit, fn = HABITS[name], FUNCTIONS[name]
    inputs = list(habit.inputs)
    with jax.enable_x64(True):
        export = converter.to_onnx(fn, inputs, strict=True)
        for optimise in (True, False):
            session = converter.session(export, optimise=optimise)
            got = converter.run(session, inputs).values()
            for actual, wanted in zip(got, habit.right, strict=True):
                assert actual.shape == wanted.shape
                rounding = 1e-14 if wanted.dtype == np.float64 else 2e-6
                np.testing.assert_allclose(actual, wanted, rtol=rounding, atol=0)
