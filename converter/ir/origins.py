"""What a value is made from."""

from collections.abc import Callable, Container, Iterator
from typing import Any

from converter.ir.nodes import Graph, Node, Value
from converter.ir.op import Op


def ancestors(value: Value) -> Iterator[Value]:
    """The value and all that it is computed from, each once, readers before what they read."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        current = stack.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            stack.extend(reversed(current.node.inputs if current.node is not None else ()))


def operands_of_body_inputs(graph: Graph) -> dict[int, Value]:
    """Operands of nodes by the ids of what their bodies call them; bodies inside of others too."""
    return {
        id(inner): value
        for node in graph.walk()
        for body in node.bodies.values()
        for inner, value in zip(body.inputs, node.inputs, strict=False)
    }


def all_ancestors_pass(
    value: Value, leaf: Callable[[Value], bool], inner: Callable[[Node], bool]
) -> bool:
    """True where everything that a value is computed from passes the tests."""
    return all(leaf(v) if v.node is None else inner(v.node) for v in ancestors(value))


def source_behind(value: Value, ops: Container[Op]) -> Value:
    """Value from which one is made by operations such as these, each of its first operand."""
    while value.node is not None and value.node.op in ops:
        value = value.node.inputs[0]
    return value


def sources(value: Value) -> dict[int, Value]:
    """The parameters and constants that a value is made from, by id."""
    return {id(v): v for v in ancestors(value) if v.kind in ("param", "const")}


def nodes_to_compute(value: Value, done: Container[int]) -> Iterator[Node]:
    """The nodes that make ``value``, each after those that it reads.

    What is ``done`` is left out; whoever asks adds a node's outputs to it before the next.
    """
    # Depth first without recursion: programs can be deep.
    stack = [value.node] if value.node is not None else []
    while stack:
        node = stack[-1]
        waiting = [v.node for v in node.inputs if v.node is not None and id(v) not in done]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if id(node.outputs[0]) not in done:
            yield node


def evaluate_value(
    value: Value,
    read: Callable[[Value], Any],
    apply: Callable[[Node, list[Any]], list[Any]],
    memo: dict[int, Any],
) -> Any:
    """The array behind ``value``; ``read`` gives what no node makes, ``apply`` what one does."""
    for node in nodes_to_compute(value, memo):
        args = [memo[id(v)] if v.node is not None else read(v) for v in node.inputs]
        memo.update((id(v), r) for v, r in zip(node.outputs, apply(node, args), strict=True))
    return read(value) if value.node is None else memo[id(value)]
