"""Each file is right at every size of its named dimensions, with and without ORT's optimiser."""

from typing import Any

import jax
import numpy as np
import pytest

import converter
from converter.ir import Value, dims, named_sizes
from converter.verify.sessions import run, session
from tests.conformance import assert_close
from tests.converter.dynamic.table import TABLE, Group, Sizes

TOLERANCE = 4
"""Sums of up to 81 numbers, decompositions among them, in units of the suite's own tolerance."""

ROWS = [
    pytest.param(group, opset, id=f"{name}-{opset}", marks=tier)
    for name, group in TABLE.items()
    for opset, tier in ((18, pytest.mark.hunt), (23, pytest.mark.full))
]
"""A group is one file: most of the time goes into sessions and compilations."""


def joined(group: Group) -> Any:
    """All programs of a group as one function."""
    return lambda *xs: {name: fn(*xs) for name, fn in group.programs.items()}


def drawn(value: Value, named: Sizes, rng: np.random.Generator) -> np.ndarray:
    shape = dims.concrete(value.shape, named)
    if value.dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    return np.asarray(rng.standard_normal(shape) * 1.5).astype(value.dtype)


@pytest.mark.parametrize(("group", "opset"), ROWS)
def test_programs(group, opset):
    fn = joined(group)
    export = converter.to_onnx(fn, group.specs, opset=opset, constraints=group.constraints)
    live = [session(export, optimise=optimise) for optimise in (False, True)]
    for wanted in group.sizes:
        named = named_sizes.nearest_size(wanted, export.graph.constraints)
        assert named is not None
        assert wanted.items() <= named.items(), "the sizes of the table obey its constraints"
        rng = np.random.default_rng(3)
        arrays = [drawn(value, named, rng) for value in export.graph.inputs]
        results = jax.tree_util.tree_flatten_with_path(jax.jit(fn)(*arrays))[0]
        for each in live:
            for got, (path, right) in zip(run(each, arrays).values(), results, strict=True):
                what = f"{jax.tree_util.keystr(path)} at {wanted}"
                assert_close(got, right, TOLERANCE, what)
