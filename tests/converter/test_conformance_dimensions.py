"""Dimension numbers drawn at random: any layout that JAX accepts is converted and right."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax

from tests.conformance import Case, assert_exports

few = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
SIZES = (2, 3, 5, 4)


def check(fn: Any, *shapes: Any) -> None:
    assert_exports(Case("drawn", fn, shapes))


@few
@given(st.data())
def test_dot_general(data):
    counts = [data.draw(st.integers(0, 2), label=label) for label in ("batch", "summed", "l", "r")]
    batch, summed, left, right = counts
    shared = [("b", i) for i in range(batch)] + [("s", i) for i in range(summed)]
    lhs = data.draw(st.permutations([*shared, *(("l", i) for i in range(left))]))
    rhs = data.draw(st.permutations([*shared, *(("r", i) for i in range(right))]))
    size = {label: 2 + (ord(label[0]) + label[1] * 3) % 4 for label in (*lhs, *rhs)}
    pick = [[axes.index(label) for label in shared if label[0] == kind]
            for kind in "sb" for axes in (lhs, rhs)]  # fmt: skip
    numbers = ((pick[0], pick[1]), (pick[2], pick[3]))
    shapes = [tuple(size[label] for label in axes) for axes in (lhs, rhs)]
    check(lambda x, y: lax.dot_general(x, y, numbers), *shapes)


@pytest.mark.full
@few
@given(st.data())
def test_conv(data):
    space = data.draw(st.integers(1, 2))
    specs = [tuple(data.draw(st.permutations(range(space + 2)))) for _ in range(3)]
    groups, batch_groups = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 2)]))
    sizes = [data.draw(st.integers(4, 6)) for _ in range(space)]
    kernel = [data.draw(st.integers(1, 3)) for _ in range(space)]
    draws = {
        "window_strides": st.integers(1, 2),
        "padding": st.tuples(st.integers(-1, 3), st.integers(-1, 3)),
        "lhs_dilation": st.integers(1, 2),
        "rhs_dilation": st.integers(1, 2),
    }
    window = {k: tuple(data.draw(s) for _ in range(space)) for k, s in draws.items()}
    lhs = _laid_out([2 * batch_groups, 2 * groups, *sizes], specs[0])
    rhs = _laid_out([4, 2, *kernel], specs[1])
    numbers = lax.ConvDimensionNumbers(*specs)

    def fn(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            w,
            dimension_numbers=numbers,
            feature_group_count=groups,
            batch_group_count=batch_groups,
            **window,
        )

    check(fn, lhs, rhs)


def _laid_out(shape: list[int], spec: tuple[int, ...]) -> tuple[int, ...]:
    """``shape`` in the order batch, features, space, put where ``spec`` says."""
    placed = dict(zip(spec, shape, strict=True))
    return tuple(placed[i] for i in range(len(shape)))


@few
@given(st.data())
def test_pad(data):
    edges = st.tuples(st.integers(-2, 3), st.integers(-2, 3), st.integers(0, 2))
    config = [data.draw(edges) for _ in range(3)]
    check(lambda x: lax.pad(x, 0.5, config), (5, 4, 6))


SLICES = {
    "shared": lambda size: [1],
    "indexed": lambda size: [1, *range(1, size + 1)],
    "whole": lambda size: [size, size, *range(1, size + 1)],
}
"""How much of an axis is taken, the usual most often."""


@few
@given(st.data())
def test_gather(data):
    """Every axis of the operand is shared, indexed or whole; windows and layouts are drawn."""
    rank = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.sampled_from((size, size, 1))) for size in SIZES[:rank])
    roles = [data.draw(st.sampled_from(["shared", "indexed", "whole"])) for _ in range(rank)]
    shared = [d for d in range(rank) if roles[d] == "shared"]
    indexed = data.draw(st.permutations([d for d in range(rank) if roles[d] == "indexed"]))
    sizes = [data.draw(st.sampled_from(SLICES[roles[d]](shape[d]))) for d in range(rank)]
    collapsed = [
        d
        for d in range(rank)
        if roles[d] != "shared" and sizes[d] == 1 and data.draw(st.booleans())
    ]
    where, places = _index_axes(data, [shape[d] for d in shared])
    kept = rank - len(collapsed) - len(shared)
    positions = sorted(data.draw(st.permutations(range(kept + len(where))))[:kept])
    numbers = lax.GatherDimensionNumbers(
        tuple(positions), tuple(collapsed), tuple(indexed), tuple(shared), tuple(places)
    )
    mode = data.draw(st.sampled_from(["clip", "fill", "promise_in_bounds"]))
    indices = _indices(data, where, [shape[d] for d in indexed])
    last = np.array([shape[d] - sizes[d] for d in indexed], np.int32)

    def fn(x: Any, i: Any) -> Any:
        i = jnp.clip(i, 0, last) if mode == "promise_in_bounds" else i
        return lax.gather(x, i, numbers, tuple(sizes), mode=mode)

    check(fn, shape, indices)


@few
@given(st.data())
def test_scatter(data):
    rank = data.draw(st.integers(1, 4))
    shape = SIZES[:rank]
    roles = [data.draw(st.sampled_from(["shared", "indexed", "whole"])) for _ in range(rank)]
    shared = [d for d in range(rank) if roles[d] == "shared"]
    indexed = data.draw(st.permutations([d for d in range(rank) if roles[d] == "indexed"]))
    inserted = [d for d in indexed if data.draw(st.booleans())]
    window = [
        data.draw(st.integers(1, shape[d])) for d in range(rank) if d not in (*inserted, *shared)
    ]
    where, places = _index_axes(data, [shape[d] for d in shared], own=bool(indexed))
    positions = sorted(data.draw(st.permutations(range(len(window) + len(where))))[: len(window)])
    numbers = lax.ScatterDimensionNumbers(
        tuple(positions),
        tuple(sorted(inserted)),
        tuple(indexed),
        tuple(shared),
        tuple(places),
    )
    sizes = iter(window)
    others = iter(where)
    updates = tuple(
        next(sizes) if i in positions else next(others) for i in range(len(window) + len(where))
    )
    mode = data.draw(st.sampled_from(["clip", "drop"]))
    rule = data.draw(st.sampled_from([lax.scatter_add, lax.scatter_mul, lax.scatter_max]))
    indices = _indices(data, where, [shape[d] for d in indexed])
    check(lambda x, i, u: rule(x, i, u, numbers, mode=mode), shape, indices, updates)


def _index_axes(data: Any, shared: list[int], own: bool = True) -> tuple[list[int], list[int]]:
    """The batch shape of the indices, and where in it the shared axes are.

    XLA keeps only the last of several updates whose index vectors are empty: then no ``own`` ones.
    """
    axes = [*(("shared", i) for i in range(len(shared)))]
    axes += [("own", i) for i in range(data.draw(st.integers(0, 2 * own)))]
    order = data.draw(st.permutations(axes))
    where = [shared[i] if kind == "shared" else 2 + i for kind, i in order]
    return where, [order.index(("shared", i)) for i in range(len(shared))]


def _indices(data: Any, where: list[int], limits: list[int]) -> np.ndarray:
    """Index vectors, some of them out of range."""
    seed = data.draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    columns = [rng.integers(-2, limit + 2, where) for limit in limits]
    empty = np.zeros((*where, 0))
    return (np.stack(columns, -1) if columns else empty).astype(np.int32)
