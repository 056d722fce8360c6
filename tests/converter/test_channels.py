"""Layouts of values with many elements and a small last axis, such as pairs of boxes.

The small axis becomes the first one. `tests/programs/channels.py` has the programs on images.
"""

import jax.numpy as jnp
import pytest

import converter
from converter.ir import ops
from tests.programs.channels import drawn


def overlaps(a, b):
    low, high = jnp.maximum(a[:, None, :2], b[:, :2]), jnp.minimum(a[:, None, 2:], b[:, 2:])
    return jnp.prod(jnp.clip(high - low, 0), -1)


def pulls(x, y):
    differences = x[None] - y[:, None]
    return (differences / ((differences**2).sum(-1) + 0.1)[..., None] ** 1.5).sum(1)


@pytest.mark.parametrize(("fn", "width", "first"), [(overlaps, 4, (2, 5)), (pulls, 3, (3, 4))])
def test_a_small_last_axis_becomes_the_first_of_many_elements(fn, width, first):
    for sizes, expected in zip(((30, 20), (5, 4)), first, strict=True):
        arrays = [drawn(size, width) for size in sizes]
        export = converter.to_onnx(fn, [a.shape for a in arrays])
        assert converter.check(export.model, fn, arrays).passed
        shapes = [n.out.shape for n in export.graph.nodes if n.op in (ops.sub, ops.max, ops.min)]
        assert {shape[0] for shape in shapes if len(shape) == 3} == {expected}
