"""Where a graph has a block: the same nodes on other operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from converter.model.functions.repeats import node_kind


@dataclass(frozen=True)
class Block:
    """Nodes of which only the last's first output is read elsewhere, and what they read."""

    nodes: tuple[ir.Node, ...]
    operands: tuple[ir.Value, ...]

    @property
    def last(self) -> ir.Node:
        return self.nodes[-1]


def block(nodes: Sequence[ir.Node]) -> Block | None:
    """A block of these nodes, if nothing but the last's result leaves them."""
    inside = set(nodes)
    if not _is_closed(inside, nodes[-1]):
        return None
    read = (value for node in nodes for value in node.inputs if value is not None)
    operands = dict.fromkeys(v for v in read if v.producer() not in inside)
    return Block(tuple(nodes), tuple(operands))


def _is_closed(inside: set[ir.Node], last: ir.Node) -> bool:
    """Whether nothing is read outside but the first output of the last node."""
    inner = (value for node in inside for value in node.outputs if value is not last.outputs[0])
    return not any(
        value.is_graph_output() or any(user not in inside for user, _ in value.uses())
        for value in inner
    )


def instances(of: Block, nodes: Sequence[ir.Node]) -> Iterator[Block]:
    """All that are like the block, in order, none with a node of another."""
    taken, last = set[ir.Node](), node_kind(of.last)
    for node in nodes:
        if node_kind(node) == last and (found := _instances_alike(of, node)) is not None:
            inside = set(found.nodes)
            if not (inside & taken) and _is_closed(inside, node):
                taken |= inside
                yield found


def _instances_alike(block: Block, last: ir.Node) -> Block | None:
    """The block that ends in a node, if going back from there finds the same."""
    inside = set(block.nodes)
    nodes: dict[ir.Node, ir.Node] = {}
    operands: dict[ir.Value, ir.Value] = {}
    waiting = [(block.last, last)]
    while waiting:
        ours, theirs = waiting.pop()
        if ours in nodes:
            if nodes[ours] is not theirs:
                return None
            continue
        if node_kind(ours) != node_kind(theirs):
            return None
        nodes[ours] = theirs
        for one, other in zip(ours.inputs, theirs.inputs, strict=True):
            if one is None or other is None:
                continue  # of the same kind: both are
            first, second = one.producer(), other.producer()
            if first is None or first not in inside:
                if operands.setdefault(one, other) is not other:
                    return None
            elif second is None or one.index() != other.index():
                return None
            else:
                waiting.append((first, second))
    if len(set(nodes.values())) < len(inside):
        return None
    return Block(
        tuple(nodes[node] for node in block.nodes), tuple(operands[v] for v in block.operands)
    )
