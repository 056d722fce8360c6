"""A function as recognisers see it: what they compare a graph with."""

from collections.abc import Callable, Sequence
from typing import Any

from converter.canonicalize import canonicalize
from converter.decompose.expansion import decompose
from converter.frontend.trace import trace
from converter.ir import Graph


def pattern_graph(function: Callable[..., Any], specs: Sequence[Any]) -> Graph:
    """Graph of a function after the passes that run before any recogniser."""
    graph = trace(function, specs)
    decompose(graph)
    canonicalize(graph)
    return graph
