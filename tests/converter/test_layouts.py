"""Layout operations in their shortest form: what is cut, reshaped and transposed, and how often."""

import jax.numpy as jnp
import numpy as np
import pytest

import converter

BATCH, ROWS, HEADS, WIDTH = 2, 5, 3, 4


def converted(fn, *shapes):
    """The export, after checking that ONNX Runtime gives JAX's numbers."""
    rng = np.random.default_rng(5)
    sizes = [[BATCH if d == "B" else d for d in shape] for shape in shapes]
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in sizes]
    export = converter.to_onnx(fn, shapes)
    for errors in converter.check(export, fn, inputs).values():
        assert errors.max_rel <= 4e-6, export.graph
    return export


# ------------------------------------------------------------------- parts that are turned alike

ALL = ("B", ROWS, 3 * HEADS * WIDTH)


def heads(x):
    """[batch, rows, heads * width] -> [batch, heads, rows, width]."""
    return x.reshape(x.shape[0], ROWS, HEADS, WIDTH).transpose(0, 2, 1, 3)


def split_first(x):
    return [jnp.sin(heads(part)) for part in jnp.split(x, 3, axis=-1)]


def split_heads(x):
    parts = x.reshape(x.shape[0], ROWS, 3, HEADS, WIDTH).transpose(0, 2, 1, 3, 4)
    return [jnp.sin(parts[:, i].transpose(0, 2, 1, 3)) for i in (2, 0, 1)]


def other_order(x):
    q, k, v = jnp.split(x, 3, axis=-1)
    return jnp.sin(heads(q)), jnp.sin(heads(k).swapaxes(2, 3)), jnp.sin(heads(v))


def read_twice(x):
    q, k, v = jnp.split(x, 3, axis=-1)
    return jnp.sin(heads(q)), jnp.sin(heads(k)), jnp.sin(heads(v)) + v.sum()


def flat_again(x):
    parts = x.reshape(x.shape[0], ROWS, 3, HEADS, WIDTH).transpose(0, 2, 1, 3, 4)
    return [jnp.sin(parts[:, i].reshape(-1, ROWS, HEADS * WIDTH)) for i in range(3)]


@pytest.mark.parametrize(
    ("fn", "layout"),
    [
        (split_first, {"Reshape": 1, "Transpose": 1, "Gather": 3}),
        (split_heads, {"Reshape": 1, "Transpose": 1, "Gather": 3}),
        (other_order, {"Reshape": 1, "Transpose": 2, "Gather": 3}),
        (read_twice, {"Split": 1, "Reshape": 3, "Transpose": 3}),
        (flat_again, {"Split": 1}),
    ],
)
def test_parts_of_one_value(fn, layout):
    counts = converted(fn, ALL).report.histogram
    names = ("Split", "Slice", "Gather", "Reshape", "Transpose")
    assert {op: n for op, n in counts.items() if op in names} == layout


def test_parts_of_parts():
    """Families one inside the other."""

    def fn(x):
        whole = x.reshape(2, 3, 2, 4).transpose(2, 1, 0, 3)
        return [jnp.sin(whole[i, :, j : j + 1].transpose(2, 1, 0)) for i in (0, 1) for j in (0, 1)]

    converted(fn, (2, 24))


# ------------------------------------------------------- indexing by numbers where sizes have names

NAMED = ("B", 6, 8)


@pytest.mark.parametrize(
    ("fn", "ops"),
    [
        (lambda x: x[:, 1:, ::2], {"Slice": 1}),
        (lambda x: x[:, :-1], {"Slice": 1}),
        (lambda x: x[:, -1], {"Gather": 1}),
        (lambda x: x[:, 1, 2], {"Reshape": 1, "Slice": 1}),
        (lambda x: x[:, jnp.array([1, 3, 5])], {"Slice": 1}),
        (lambda x: x[:, jnp.array([1, 1])], {"Gather": 1}),
        (lambda x: x[:, jnp.array([3, 1])], {"Gather": 1}),
        (lambda x: x[:, jnp.array([5, -1])], {"Gather": 1}),
    ],
)
def test_indexing_by_numbers(fn, ops):
    assert converted(fn, NAMED).report.histogram == ops
