"""Where a graph has a block: the same nodes on other operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from converter.functions.repeats import kind


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


@dataclass
class _Pairing:
    """Which node and operand of an instance is which of the block."""

    block: Block
    nodes: dict[ir.Node, ir.Node] = field(default_factory=dict)
    operands: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def follow(self, last: ir.Node) -> bool:
        """Go back from the last node; whether all is the same."""
        inside = set(self.block.nodes)
        waiting = [(self.block.last, last)]
        while waiting:
            ours, theirs = waiting.pop()
            if ours in self.nodes:
                if self.nodes[ours] is not theirs:
                    return False
                continue
            if kind(ours) != kind(theirs):
                return False
            self.nodes[ours] = theirs
            for one, other in zip(ours.inputs, theirs.inputs, strict=True):
                if one is None or other is None:
                    continue  # of the same kind: both are
                first, second = one.producer(), other.producer()
                if first is None or first not in inside:
                    if self.operands.setdefault(one, other) is not other:
                        return False
                elif second is None or one.index() != other.index():
                    return False
                else:
                    waiting.append((first, second))
        return len(set(self.nodes.values())) == len(inside)


def instances(of: Block, nodes: Sequence[ir.Node]) -> list[Block]:
    """All that are like the block, in order, none with a node of another."""
    return list(_instances(of, nodes, kind(of.last)))


def _instances(of: Block, nodes: Sequence[ir.Node], last: object) -> Iterator[Block]:
    taken: set[ir.Node] = set()
    for node in nodes:
        pairing = _Pairing(of)
        if kind(node) != last or not pairing.follow(node):
            continue
        found = set(pairing.nodes.values())
        if not (found & taken) and _is_closed(found, node):
            taken |= found
            yield Block(
                tuple(pairing.nodes[n] for n in of.nodes),
                tuple(pairing.operands[v] for v in of.operands),
            )
