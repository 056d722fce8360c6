"""Nodes that stand for more than one operation, traced when it is known that they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from converter.graph import Node, Value
from converter.graph.names import Names
from converter.jaxprs.inline import Inliner
from converter.jaxprs.values import Constants


def traced(function: Callable[..., Any], node: Node, nodes: list[Node]) -> Sequence[Value]:
    """Append what a function does to the node's operands to ``nodes``; the function's results."""
    types = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in node.inputs]
    closed = jax.make_jaxpr(function)(*types)
    return Inliner(Constants([], Names()), node.source).inline(closed, node.inputs, nodes)
