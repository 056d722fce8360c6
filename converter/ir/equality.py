"""Common subexpressions."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from converter.ir import Graph, Node, Value


def merge_equals(graph: Graph) -> bool:
    """Merge common subexpressions and equal small constants, in place; whether there were any."""
    table: dict[int, Value] = {}
    _merge(graph, {}, {}, table)
    return bool(table)


def _merge(
    graph: Graph, seen: dict[Any, Node], constants: dict[Any, Value], table: dict[int, Value]
) -> None:
    def resolve(value: Value) -> Value:
        if value.kind != "const":
            return table.get(id(value), value)
        if isinstance(value.const, np.ndarray) and value.const.nbytes <= 4096:
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
        key = (tuple(map(id, node.inputs)), node_key(node))
        twin = seen.setdefault(key, node)
        if twin is node:
            kept.append(node)
        else:
            table.update((id(a), b) for a, b in zip(node.outputs, twin.outputs, strict=True))
    graph.nodes = kept
    graph.outputs = [resolve(v) for v in graph.outputs]


def node_key(node: Node) -> tuple[Any, ...]:
    """Key of what a node does to its operands."""
    types = [(v.shape, v.dtype) for v in node.outputs]
    params = [(k, _hashable(v)) for k, v in sorted(node.params.items())] if node.params else ()
    return (node.op, *types, *params)


def _hashable(param: Any) -> Any:
    """A parameter as part of a key: by value, numbers to the bit, or else the object itself.

    Two that print alike may differ: jaxprs in their constants, long arrays in the middle.
    """
    kind = type(param)
    if kind in _PLAIN:  # what most parameters are
        return kind, param
    if isinstance(param, (list, tuple)):
        return kind if kind not in (list, tuple) else None, *map(_hashable, param)
    if isinstance(param, Mapping):
        return kind, frozenset((_hashable(k), _hashable(v)) for k, v in param.items())
    if isinstance(param, (float, complex, np.generic, np.ndarray)):
        array = np.asarray(param)
        return array.dtype, array.shape, array.tobytes()
    # `True` is not `1`: an object is equal to others of its class alone.
    return kind, param if _has_hash(param) else id(param)


_PLAIN = frozenset({int, bool, str, type(None)})


def _has_hash(param: Any) -> bool:
    try:
        hash(param)
    except TypeError:  # a frozen record of what cannot be hashed
        return False
    return True


def is_same_program(a: Value, b: Value, inputs: Iterable[tuple[Value, Value]] = ()) -> bool:
    """The same operations on the same constants, step by step; neither reads anything else but the
    ``inputs``, which are pairs of equal values."""
    pairs = {(id(x), id(y)) for x, y in inputs}
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if (id(x), id(y)) in pairs:
            continue
        pairs.add((id(x), id(y)))
        if x.node is None or y.node is None:
            constants = x.kind == y.kind == "const" and x.dtype == y.dtype
            if not (constants and np.array_equal(x.const, y.const)):
                return False
            continue
        alike = x.index == y.index and len(x.node.inputs) == len(y.node.inputs)
        if not alike or x.node.bodies or node_key(x.node) != node_key(y.node):
            return False
        stack.extend(zip(x.node.inputs, y.node.inputs, strict=True))
    return True
