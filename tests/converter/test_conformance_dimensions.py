"""Dimension numbers of scatters drawn at random: any that JAX accepts are converted and right."""

from typing import Any

import numpy as np
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
