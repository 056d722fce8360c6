"""Merge common subexpressions, and compare programs."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from converter.ir import Graph, Node, Value


def merge_common_subexpressions(graph: Graph) -> bool:
    """Merge common subexpressions and equal constants of at most 4096 bytes, in place.

    Nodes with bodies are never merged. Nodes in their bodies are merged, also with earlier nodes of
    the graphs around them. Return True if a node was merged with an equal one. Merged constants do
    not count.
    """
    replacements: dict[int, Value] = {}
    _merge(graph, {}, {}, replacements)
    return bool(replacements)


def _merge(
    graph: Graph,
    nodes_by_key: dict[Any, Node],
    constants: dict[Any, Value],
    replacements: dict[int, Value],
) -> None:
    """Merge equal nodes of a graph and its bodies, in place.

    ``nodes_by_key`` has earlier nodes of this graph and the graphs around it, by operands and
    `node_key`. ``constants`` contains the first constant of each content. ``replacements`` maps the
    id of a replaced value to the value that replaces it. All three get the new entries.
    """

    def resolve(value: Value) -> Value:
        if value.kind != "const":
            return replacements.get(id(value), value)
        if isinstance(value.const, np.ndarray) and value.const.nbytes <= 4096:
            key = (value.dtype, value.shape, value.const.tobytes())
            return constants.setdefault(key, value)
        return value

    nodes: list[Node] = []
    for node in graph.nodes:
        node.inputs = [resolve(v) for v in node.inputs]
        for body in node.bodies.values():
            _merge(body, dict(nodes_by_key), constants, replacements)
        if node.bodies:
            nodes.append(node)
            continue
        key = (tuple(map(id, node.inputs)), node_key(node))
        equal_node = nodes_by_key.setdefault(key, node)
        if equal_node is node:
            nodes.append(node)
        else:
            replacements.update(
                (id(a), b) for a, b in zip(node.outputs, equal_node.outputs, strict=True)
            )
    graph.nodes = nodes
    graph.outputs = [resolve(v) for v in graph.outputs]


def node_key(node: Node) -> tuple[Any, ...]:
    """Return a key of the computation of a node without bodies.

    Two nodes with equal keys compute the same from equal operands. The key has the operation, the
    parameters and the types of the outputs. Operands and bodies are not part of it, so callers have
    to compare these.
    """
    types = [(v.shape, v.dtype) for v in node.outputs]
    params = [(k, _hashable(v)) for k, v in sorted(node.params.items())] if node.params else ()
    return (node.op, *types, *params)


def _hashable(param: Any) -> Any:
    """Return a parameter in a form that can be hashed, as part of a key.

    Numbers and arrays are compared by their bits, containers by content, and other objects by
    value, or by identity if they have no hash. The printed text is not enough: jaxprs may differ in
    their constants, and long arrays in the middle.
    """
    kind = type(param)
    if kind in _HASHABLE_TYPES:
        # This is checked first, because most parameters have one of these types.
        return kind, param
    if isinstance(param, (list, tuple)):
        return kind if kind not in (list, tuple) else None, *map(_hashable, param)
    if isinstance(param, Mapping):
        return kind, frozenset((_hashable(k), _hashable(v)) for k, v in param.items())
    if isinstance(param, (float, complex, np.generic, np.ndarray)):
        array = np.asarray(param)
        return array.dtype, array.shape, array.tobytes()
    # Objects are equal only if they have the same class, so `True` is not equal to `1`.
    return kind, param if _has_hash(param) else id(param)


_HASHABLE_TYPES = frozenset({int, bool, str, type(None)})


def _has_hash(param: Any) -> bool:
    """Return True if a parameter can be hashed."""
    try:
        hash(param)
    except TypeError:
        # A frozen dataclass may have a field that cannot be hashed.
        return False
    return True


def is_same_program(a: Value, b: Value, inputs: Iterable[tuple[Value, Value]] = ()) -> bool:
    """Return True if two values are computed by the same operations from the same constants.

    ``inputs`` are pairs of values that are treated as equal. The result is False if the
    computations read an input or a parameter that is in no pair, even if both read the same one. It
    is also False if a node with bodies is among them.
    """
    equal_pairs = {(id(x), id(y)) for x, y in inputs}
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if (id(x), id(y)) in equal_pairs:
            continue
        equal_pairs.add((id(x), id(y)))
        if x.node is None or y.node is None:
            constants = x.kind == y.kind == "const" and x.dtype == y.dtype
            if not (constants and np.array_equal(x.const, y.const)):
                return False
            continue
        is_same_output = x.index == y.index and len(x.node.inputs) == len(y.node.inputs)
        if not is_same_output or x.node.bodies or node_key(x.node) != node_key(y.node):
            return False
        stack.extend(zip(x.node.inputs, y.node.inputs, strict=True))
    return True
