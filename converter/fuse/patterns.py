"""Graphs of functions in the form in which recognisers see users' functions."""

from collections.abc import Callable, Sequence
from typing import Any

from converter.canonicalize import canonicalize
from converter.decompose.expansion import decompose
from converter.frontend.trace import trace
from converter.ir import Graph


def pattern_graph(function: Callable[..., Any], specs: Sequence[Any]) -> Graph:
    """Return the graph of a JAX function after the passes that run before the recognisers.

    The function is traced, decomposed and canonicalized. A user's function that computes the same
    has the same graph after these passes. ``specs`` are the shapes and dtypes of the arguments.
    """
    graph = trace(function, specs)
    decompose(graph)
    canonicalize(graph)
    return graph
