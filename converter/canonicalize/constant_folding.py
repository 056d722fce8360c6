"""What is known while converting is evaluated then."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from converter.ir import Graph, Value, const, ops
from converter.ir.evaluation import CEILING, compute, is_computable, size_in_bytes
from converter.ir.origins import source_behind

# So much larger than all that it comes from may a step on the way be: a mask of 1 MiB is made of
# numbers that take more.
SPARE = 16 * CEILING


def fold_constants(graph: Graph) -> bool:
    """Evaluate nodes that depend on constants alone; only results that something needs."""
    known = computable(graph, ("const",))
    needed: dict[int, Value] = {}
    for value in boundary(graph, known):
        source = source_behind(value, (ops.broadcast_in_dim,))  # growing one is left to its reader
        if id(source) in known and size_in_bytes(source) <= CEILING:
            needed[id(source)] = source
    memo: dict[int, Any] = {}
    table = {i: const(compute(value, lambda v: v.const, memo)) for i, value in needed.items()}
    graph.replace_operands(lambda v: table.get(id(v), v))
    return bool(table)


def computable(graph: Graph, kinds: Container[str]) -> set[int]:
    """ids of what depends on values of these kinds alone, on no way through much larger ones."""
    found: set[int] = set()
    leaves: dict[int, dict[int, float]] = {}  # id(value) -> the sizes of what it is made from
    for node in graph.walk():
        if not all(v.kind in kinds or id(v) in found for v in node.inputs):
            continue
        own: dict[int, float] = {}
        for value in node.inputs:
            own |= leaves.get(id(value)) or {id(value): size_in_bytes(value)}
        leaves.update((id(value), own) for value in node.outputs)
        room = sum(own.values()) + SPARE
        if is_computable(node) and all(size_in_bytes(v) <= room for v in node.outputs):
            found.update(map(id, node.outputs))
    return found


def boundary(graph: Graph, found: Container[int]) -> list[Value]:
    """Values that something reads which is not one of these itself."""
    read = all_outputs(graph)
    for node in graph.walk():
        if not any(id(v) in found for v in node.outputs):
            read.extend(node.inputs)
    return read


def all_outputs(graph: Graph) -> list[Value]:
    """The outputs of a graph and of the bodies in it."""
    bodies = [b for n in graph.walk() for b in n.bodies.values()]
    return [v for g in (graph, *bodies) for v in g.outputs]
