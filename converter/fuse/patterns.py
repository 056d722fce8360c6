"""Graphs of functions in the form in which recognisers see users' functions."""

from collections.abc import Callable, Sequence
from typing import Any

from converter.canonicalize import canonicalize
from converter.decompose.expansion import decompose
from converter.frontend.trace import trace
from converter.ir import Graph


def pattern_graph(function: Callable[..., Any], specs: Sequence[Any]) -> Graph:
    """Return the graph of a function after the passes that run before the recognisers."""
    graph = trace(function, specs)
    decompose(graph)
    canonicalize(graph)
    return graph
