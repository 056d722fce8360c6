"""What is known while converting is evaluated then."""

from __future__ import annotations

from typing import Any

from converter.ir import Graph, Value, const, ops
from converter.ir.evaluation import CEILING, Bounded, compute, size_in_bytes


def fold_constants(graph: Graph) -> bool:
    """Evaluate nodes that depend on constants alone; only results that something needs, on no way
    that leads through much larger ones."""
    known: set[int] = set()
    needed: dict[int, Value] = {}
    bounded = Bounded()

    def is_known(value: Value) -> bool:
        return value.kind == "const" or id(value) in known

    def need(value: Value) -> None:
        while value.node is not None and value.node.op is ops.broadcast_in_dim:
            value = value.node.inputs[0]  # growing a constant is left to its reader
        if id(value) in known and size_in_bytes(value) <= CEILING:
            needed[id(value)] = value

    def visit(body: Graph) -> None:
        for node in body.nodes:
            for inner in node.bodies.values():
                visit(inner)
            if all(map(is_known, node.inputs)) and bounded.admits(node):
                known.update(id(v) for v in node.outputs)
            else:
                for value in node.inputs:
                    need(value)
        for value in body.outputs:
            need(value)

    visit(graph)
    memo: dict[int, Any] = {}
    table = {key: const(compute(value, _constant, memo)) for key, value in needed.items()}
    graph.replace_operands(lambda v: table.get(id(v), v))
    return bool(table)


def _constant(value: Value) -> Any:
    return value.const
