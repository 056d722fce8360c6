"""Draws of one kind that do not wait for each other are one draw from a row of keys.

A hash is a hundred nodes, which take as long for a number as for a thousand. The keys that
``jax.random.split`` gives are hashed together, and so are the gamma distributions of which a beta
distribution is made.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from converter.decompose.expansion import Decomposer, expansion_traced, on_numbers
from converter.frontend.array_forms import DRAWS, WRITTEN, Constants, OfHeld
from converter.ir import Graph, Node, Value, dims
from converter.ir.names import Names

FEW = 1 << 14
"""So many numbers may a draw have that is joined: more of them take their time, and memory."""


def join_draws(graph: Graph) -> bool:
    """Join what can be, in place, in bodies too; whether anything could."""
    bodies = [body for node in graph.walk() for body in node.bodies.values()]
    return any([_join(each) for each in (graph, *bodies)])


def _join(graph: Graph) -> bool:
    """Draws of one level are independent: it counts the draws that each comes from in a row."""
    levels, order = dict[int, int](), list[tuple[int, bool, Node]]()
    groups = dict[Any, list[Node]]()
    for node in graph.nodes:
        level = max((levels.get(id(v), 0) for v in node.operands()), default=0)
        if draws := _is_draw(node):
            level += 1
            types = tuple(v.shape for v in node.inputs)
            kind = (level, node.op, types, tuple(sorted(node.params.items())))
            groups.setdefault(kind, []).append(node)
        levels.update((id(v), level) for v in node.outputs)
        order.append((level, not draws, node))
    members = {id(n): group for group in groups.values() if len(group) > 1 for n in group}
    if not members:
        return False
    found: dict[int, Value] = {}
    graph.nodes = []
    for *_, node in sorted(order, key=lambda each: each[:2]):
        node.replace_operands(lambda v: found.get(id(v), v))
        group = members.get(id(node), [])
        if group and group[-1] is node:
            results = _written(group, graph.nodes)
            found.update((id(n.out), v) for n, v in zip(group, results, strict=True))
        elif not group:
            graph.nodes.append(node)
    graph.outputs = [found.get(id(v), v) for v in graph.outputs]
    return True


def _is_draw(node: Node) -> bool:
    meaning = node.meaning
    if not isinstance(meaning, OfHeld) or meaning.kind != WRITTEN:
        return False
    shape = node.out.shape
    few = dims.all_static(shape) and int(dims.size_product(shape)) <= FEW
    return meaning.primitive.name in DRAWS and node.inputs[0].rank > 0 and few


def _written(group: Sequence[Node], nodes: list[Node]) -> list[Value]:
    """Append what draws for all of a group; what each of them has drawn."""
    first, count = group[0], len(group[0].inputs)
    inputs = [v for node in group for v in node.inputs]
    closed = expansion_traced(partial(_drawn, on_numbers(first), count), inputs)
    return Decomposer(Constants([], Names()), first.source).inline(closed, inputs, nodes)


def _drawn(draw: Callable[..., jax.Array], count: int, *xs: jax.Array) -> list[jax.Array]:
    """``draw`` of operands that are stacked, apart again."""
    drawn = draw(*(jnp.stack(xs[i::count]) for i in range(count)))
    return [drawn[i] for i in range(len(xs) // count)]
