"""Common subexpressions: equal nodes are merged, and nodes that differ in a parameter are not.

Parameters whose printed forms are equal although their values differ must not be merged.
"""

import copy
import enum
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import Graph, Value, make_node
from converter.ir.equality import merge_common_subexpressions

F32 = np.dtype(np.float32)


class SameRepr:
    """An object that equals only itself, although all its instances have the same repr."""

    def __repr__(self) -> str:
        return "silent"


class Direction(enum.Enum):
    UP, DOWN = 1, 2
    __str__ = SameRepr.__repr__


class Pair(NamedTuple):
    a: Any
    b: Any
    __repr__ = SameRepr.__repr__


class Point(Pair):
    """A pair of another class with the same fields."""


@dataclass(frozen=True, repr=False)
class Record:
    scale: Any
    __repr__ = SameRepr.__repr__


def long_array(middle: float) -> np.ndarray:
    """Return an array whose repr omits its middle, where it has this number."""
    array = np.zeros(5000, np.float32)
    array[2500] = middle
    return array


def jaxpr_with_constant(number: float) -> Any:
    """Return a jaxpr with this number in a constant, which its repr does not show."""
    return jax.make_jaxpr(partial(jnp.add, np.full(3, number, np.float32)))(jnp.zeros(3))


def dims(text: str) -> Any:
    return jax.export.symbolic_shape(text, scope=SCOPE)[0]


SCOPE = jax.export.SymbolicScope()
GATHER = lax.GatherDimensionNumbers((0,), (1,), (1,))
BY_VALUE: tuple[Callable[[], Any], ...] = (
    *(lambda x=x: x for x in (None, True, 1, 0, "1", "None", 1.0, 0.0, -0.0, float("nan"), 1 + 0j)),
    *(lambda k=k, n=n: k(n) for k in (np.float32, np.float16, np.int32, np.int8) for n in (0, 1)),
    *(lambda n=n: long_array(n) for n in (0, 1, 2)),
    *(lambda d=d: copy.deepcopy(np.dtype(d)) for d in ("float32", "int32", "bool", jnp.bfloat16)),
    *(lambda w=w: w for w in (Direction.UP, Direction.DOWN, lax.RoundingMethod.TO_NEAREST_EVEN)),
    *(lambda n=n: Record(n) for n in (2, 3, "2")),
    *(lambda t=t, b=b: t(1, b) for t in (Pair, Point) for b in (2, 3)),
    *(lambda t=t: dims(t) for t in ("n", "m", "2*n", "n + 1")),
    lambda: copy.deepcopy(GATHER),
    lambda: GATHER._replace(offset_dims=(1,)),
    lambda: {"a": 1, "b": [2, long_array(3)]},
    lambda: {"a": 1, "b": [2, long_array(4)]},
    *(lambda z=z: Pair([1, z], 2) for z in (0.0, -0.0)),
    lambda: jax.sharding.AbstractMesh((1,), ("data",)),
    lambda: jax.sharding.AbstractMesh((1,), ("model",)),
)
"""Functions that return a parameter: two results of one are equal, and those of two differ."""

BY_IDENTITY: tuple[Callable[[], Any], ...] = (
    *(
        SameRepr,
        lambda: lambda x: x,
        partial(jaxpr_with_constant, 1),
        partial(jaxpr_with_constant, 1),
    ),
    *(lambda: partial(max, 1), lambda: Record([long_array(1)]), lambda: jnp.ones(2)),
)
"""Functions whose results can be compared by identity alone."""


def is_merged(a: Any, b: Any) -> bool:
    """Return whether two nodes are merged that differ in these parameters alone."""
    x = Value((3,), F32, "input", "x")
    nodes = [make_node("mine", [x], [((3,), F32)], {"p": p}) for p in (a, b)]
    graph = Graph([x], [node.out for node in nodes], nodes)
    assert merge_common_subexpressions(graph) == (len(graph.nodes) == 1)
    return len(graph.nodes) == 1


def test_equal_parameters_are_merged_and_others_not():
    for first, second in itertools.combinations(BY_VALUE, 2):
        assert not is_merged(first(), second()), (first(), second())
    for factory in BY_VALUE:
        assert is_merged(factory(), factory()), factory()


def test_parameters_without_a_value_are_compared_by_identity():
    for factory in BY_IDENTITY:
        first, second = factory(), factory()
        assert is_merged(first, first), first
        assert not is_merged(first, second), first
