"""Walk from a value to the nodes and values that it is computed from."""

from collections.abc import Callable, Container, Iterator
from typing import Any

from converter.ir.nodes import Graph, Node, Value
from converter.ir.op import Op


def ancestors(value: Value) -> Iterator[Value]:
    """Yield a value and all values that it is computed from, depth first, each once.

    Only the inputs of nodes are followed. Values that bodies capture, values inside bodies and
    weight programs of parameters are not.
    """
    visited: set[int] = set()
    stack = [value]
    while stack:
        current = stack.pop()
        if id(current) not in visited:
            visited.add(id(current))
            yield current
            stack.extend(reversed(current.node.inputs if current.node is not None else ()))


def operands_of_body_inputs(graph: Graph) -> dict[int, Value]:
    """Return the operand that a node passes to each input of its bodies, by the id of the input.

    For the state of a loop it is the initial state. For an entry of a scanned array it is the full
    array. Nested bodies are included.
    """
    return {
        id(inner): value
        for node in graph.walk()
        for body in node.bodies.values()
        for inner, value in zip(body.inputs, node.inputs, strict=False)
    }


def all_ancestors_pass(
    value: Value, leaf: Callable[[Value], bool], inner: Callable[[Node], bool]
) -> bool:
    """Return True if two tests hold for everything that a value is computed from, including itself.

    ``leaf`` is the test of each value without a node, ``inner`` that of each node. The values are
    those of `ancestors`.
    """
    return all(leaf(v) if v.node is None else inner(v.node) for v in ancestors(value))


def source_behind(value: Value, ops: Container[Op]) -> Value:
    """Return the value before a chain of these operations.

    The chain is followed from ``value`` through the first operand of each node. Return ``value``
    itself if none of these operations computes it.
    """
    while value.node is not None and value.node.op in ops:
        value = value.node.inputs[0]
    return value


def sources(value: Value) -> dict[int, Value]:
    """Return the parameters and constants among a value and its `ancestors`, by id."""
    return {id(v): v for v in ancestors(value) if v.kind in ("param", "const")}


def nodes_to_compute(value: Value, computed_ids: Container[int]) -> Iterator[Node]:
    """Yield the nodes that compute a value, each after the nodes that it reads.

    Nodes whose outputs are in ``computed_ids`` are skipped. The caller has to add the outputs of
    each node to it before it requests the next. Values that bodies capture are not followed.
    """
    # This is a depth-first search without recursion, because a graph may be deeper than Python's
    # recursion limit.
    stack = [value.node] if value.node is not None else []
    while stack:
        node = stack[-1]
        pending = [v.node for v in node.inputs if v.node is not None and id(v) not in computed_ids]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        if id(node.outputs[0]) not in computed_ids:
            yield node


def evaluate_value(
    value: Value,
    read: Callable[[Value], Any],
    apply: Callable[[Node, list[Any]], list[Any]],
    memo: dict[int, Any],
) -> Any:
    """Return the array of a value.

    ``read`` returns the array of a value without a node. ``apply`` evaluates a node on the arrays
    of its operands and returns the list of its results. ``memo`` contains the arrays of values that
    are computed already, by id, and gets the new ones.
    """
    for node in nodes_to_compute(value, memo):
        args = [memo[id(v)] if v.node is not None else read(v) for v in node.inputs]
        memo.update((id(v), r) for v, r in zip(node.outputs, apply(node, args), strict=True))
    return read(value) if value.node is None else memo[id(value)]
