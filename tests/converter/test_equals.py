"""Equal nodes become one; nodes that differ in a parameter alone stay two, however it prints."""

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
from converter.ir.equality import merge_equals

F32 = np.dtype(np.float32)


class Silent:
    """What prints alike always; equal to itself alone."""

    def __repr__(self) -> str:
        return "silent"


class Way(enum.Enum):
    UP, DOWN = 1, 2
    __str__ = Silent.__repr__


class Pair(NamedTuple):
    a: Any
    b: Any
    __repr__ = Silent.__repr__


class Point(Pair):
    """Of another class, with the same fields."""


@dataclass(frozen=True, repr=False)
class Record:
    scale: Any
    __repr__ = Silent.__repr__


def long(middle: float) -> np.ndarray:
    """An array that prints without its middle."""
    array = np.zeros(5000, np.float32)
    array[2500] = middle
    return array


def added(number: float) -> Any:
    """A jaxpr whose constant is not printed."""
    return jax.make_jaxpr(partial(jnp.add, np.full(3, number, np.float32)))(jnp.zeros(3))


def dims(text: str) -> Any:
    return jax.export.symbolic_shape(text, scope=SCOPE)[0]


SCOPE = jax.export.SymbolicScope()
GATHER = lax.GatherDimensionNumbers((0,), (1,), (1,))
BY_VALUE: tuple[Callable[[], Any], ...] = (
    *(lambda x=x: x for x in (None, True, 1, 0, "1", "None", 1.0, 0.0, -0.0, float("nan"), 1 + 0j)),
    *(lambda k=k, n=n: k(n) for k in (np.float32, np.float16, np.int32, np.int8) for n in (0, 1)),
    *(lambda n=n: long(n) for n in (0, 1, 2)),
    *(lambda d=d: copy.deepcopy(np.dtype(d)) for d in ("float32", "int32", "bool", jnp.bfloat16)),
    *(lambda w=w: w for w in (Way.UP, Way.DOWN, lax.RoundingMethod.TO_NEAREST_EVEN)),
    *(lambda n=n: Record(n) for n in (2, 3, "2")),
    *(lambda t=t, b=b: t(1, b) for t in (Pair, Point) for b in (2, 3)),
    *(lambda t=t: dims(t) for t in ("n", "m", "2*n", "n + 1")),
    lambda: copy.deepcopy(GATHER),
    lambda: GATHER._replace(offset_dims=(1,)),
    lambda: {"a": 1, "b": [2, long(3)]},
    lambda: {"a": 1, "b": [2, long(4)]},
    *(lambda z=z: Pair([1, z], 2) for z in (0.0, -0.0)),
    lambda: jax.sharding.AbstractMesh((1,), ("data",)),
    lambda: jax.sharding.AbstractMesh((1,), ("model",)),
)
"""What makes a parameter: all of these differ, and what one of them makes equals what it made."""

BY_IDENTITY: tuple[Callable[[], Any], ...] = (
    *(Silent, lambda: lambda x: x, partial(added, 1), partial(added, 1)),
    *(lambda: partial(max, 1), lambda: Record([long(1)]), lambda: jnp.ones(2)),
)
"""What has no value of its own."""


def merged(a: Any, b: Any) -> bool:
    """Whether two nodes become one that have these parameters."""
    x = Value((3,), F32, "input", "x")
    nodes = [make_node("mine", [x], [((3,), F32)], {"p": p}) for p in (a, b)]
    graph = Graph([x], [node.out for node in nodes], nodes)
    assert merge_equals(graph) == (len(graph.nodes) == 1)
    return len(graph.nodes) == 1


def test_values():
    for one, other in itertools.combinations(BY_VALUE, 2):
        assert not merged(one(), other()), (one(), other())
    for make in BY_VALUE:
        assert merged(make(), make()), make()


def test_what_has_no_value_is_itself_alone():
    for make in BY_IDENTITY:
        one, other = make(), make()
        assert merged(one, one), one
        assert not merged(one, other), one
