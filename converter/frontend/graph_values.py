"""Values for what a jaxpr reads: inputs, parameters under their names, captured arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from converter.frontend.array_forms import graph_numbers, graph_type
from converter.ir import Graph, Node, Value, const
from converter.ir.names import Names
from converter.ir.rewrite import Editor


def value_of(aval: Any, kind: Any) -> Value:
    return Value(*graph_type(aval), kind=kind)


def literal(atom: Any) -> Value:
    """A number that is written in a jaxpr."""
    return const(graph_numbers(np.asarray(atom.val, atom.aval.dtype)))


def appending(nodes: list[Node]) -> Editor:
    """What makes nodes at the end of a list."""
    editor = Editor(Graph([], [], []))
    editor.nodes = nodes
    return editor


def parameter(name: str, leaf: Any) -> Value:
    bound = None if isinstance(leaf, jax.ShapeDtypeStruct) else graph_numbers(leaf)
    return Value(*graph_type(leaf), "param", name, bound=bound)


class Constants:
    """Captured arrays: parameters under the names they are found by, else constants.

    Only floats are parameters; captured masks and index tables are known while converting.
    """

    def __init__(self, named: Sequence[tuple[str, Any]], names: Names) -> None:
        self._names = names
        self._by_id = {id(leaf): name for name, leaf in named}
        self._spare = [(name, leaf) for name, leaf in named if isinstance(leaf, np.ndarray)]
        self._values: dict[int, tuple[Value, Any]] = {}  # the array is held, so its id stays its

    def value(self, array: Any) -> Value:
        if id(array) not in self._values:
            floats = jax.numpy.issubdtype(array.dtype, jax.numpy.inexact)
            name = floats and (self._by_id.get(id(array)) or self._name_by_content(array))
            value = (
                parameter(self._names.take(name), array) if name else const(graph_numbers(array))
            )
            self._values[id(array)] = value, array
        return self._values[id(array)][0]

    def params(self) -> list[Value]:
        return [value for value, _ in self._values.values() if value.kind == "param"]

    def _name_by_content(self, array: Any) -> str:
        """JAX copies numpy arrays that it captures, so those are found by what they hold."""
        for i, (name, leaf) in enumerate(self._spare):
            alike = leaf.shape == array.shape and leaf.dtype == array.dtype
            if alike and np.array_equal(leaf, np.asarray(array)):
                del self._spare[i]
                return name
        return ""
