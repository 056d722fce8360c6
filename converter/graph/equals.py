"""Common subexpressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.graph import Graph, Node, Value
from converter.graph.constants import is_plain


def merge_equals(graph: Graph) -> None:
    """Common subexpressions become one, in place; equal small constants too."""
    constants: dict[Any, Value] = {}
    table: dict[int, Value] = {}
    _merge(graph, {}, constants, table)


def _merge(
    graph: Graph, seen: dict[Any, Node], constants: dict[Any, Value], table: dict[int, Value]
) -> None:
    def resolve(value: Value) -> Value:
        value = table.get(id(value), value)
        if (
            value.kind == "const"
            and isinstance(value.const, np.ndarray)
            and value.const.nbytes <= 4096
        ):
            key = (value.dtype, value.shape, value.const.tobytes())
            return constants.setdefault(key, value)
        return value

    kept: list[Node] = []
    for node in graph.nodes:
        node.inputs = [resolve(v) for v in node.inputs]
        for body in node.bodies.values():
            _merge(body, dict(seen), constants, table)
        if node.bodies:
            kept.append(node)
            continue
        key = (node.op, tuple(id(v) for v in node.inputs), _frozen(node))
        twin = seen.setdefault(key, node)
        if twin is node:
            kept.append(node)
        else:
            table.update((id(a), b) for a, b in zip(node.outputs, twin.outputs, strict=True))
    graph.nodes = kept
    graph.outputs = [resolve(v) for v in graph.outputs]


def _frozen(node: Node) -> str:
    types = " ".join(v.type_text() if is_plain(v) else str(v.dtype) for v in node.outputs)
    return f"{sorted(node.params.items(), key=lambda kv: kv[0])} {types}" if node.params else types


def same_program(a: Value, b: Value) -> bool:
    """The same operations on the same constants, step by step; neither reads anything else."""
    pairs: set[tuple[int, int]] = set()
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if (id(x), id(y)) in pairs:
            continue
        pairs.add((id(x), id(y)))
        if x.node is None or y.node is None:
            if not _same_constant(x, y):
                return False
            continue
        alike = x.index == y.index and x.node.op == y.node.op
        if not alike or x.node.bodies or _frozen(x.node) != _frozen(y.node):
            return False
        if len(x.node.inputs) != len(y.node.inputs):
            return False
        stack.extend(zip(x.node.inputs, y.node.inputs, strict=True))
    return True


def _same_constant(x: Value, y: Value) -> bool:
    known = x.kind == y.kind == "const" and is_plain(x) and x.dtype == y.dtype
    return known and np.array_equal(x.const, y.const)
