"""A scan in its parts, which the rules change, and from which a scan is written again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from converter.ir import Graph, Node, Value, dims, make_node, ops
from converter.ir.rewrite import Editor

LARGEST_BATCH = 16 << 20
"""Bytes of a value of all steps: what would take more is left to its step."""


@dataclass(eq=False)
class Carry:
    """A state: what it begins with, is inside of a step, and becomes; and its last result."""

    start: Value
    inside: Value
    after: Value
    final: Value


@dataclass(eq=False)
class StackedResult:
    """Value that a step gives, and the result that has it of all steps."""

    inside: Value
    whole: Value


@dataclass(eq=False)
class DeferredNodes:
    """Nodes of a step that are computed for all steps after the loop, and what they give.

    ``whole`` has the arrays of all steps, by the id of what a step has of them.
    """

    nodes: list[Node]
    whole: dict[int, Value]
    results: list[StackedResult]


@dataclass(eq=False)
class Scan:
    """``taken`` are pairs of an array of all steps and what a step has of it.

    ``results`` has what takes the place of a result of the node, by its id.
    """

    length: int
    reverse: bool
    carries: list[Carry]
    taken: list[tuple[Value, Value]]
    stacked: list[StackedResult]
    nodes: list[Node]
    results: dict[int, Value] = field(default_factory=dict)
    later: list[DeferredNodes] = field(default_factory=list)

    @classmethod
    def of(cls, node: Node, editor: Editor) -> Scan | None:
        """The parts of a node, without results that nobody reads; ``None`` of an open length."""
        length, body = node.params["length"], node.bodies["body"]
        if not dims.is_static(length) or int(length) < 1:
            return None
        count = node.params["num_carry"]
        ends = zip(node.inputs, body.inputs, body.outputs, node.outputs, strict=False)
        stacked_pairs = zip(body.outputs[count:], node.outputs[count:], strict=True)
        return cls(
            int(length),
            node.params["reverse"],
            [Carry(*parts) for parts, _ in zip(ends, range(count), strict=False)],
            list(zip(node.inputs[count:], body.inputs[count:], strict=True)),
            [StackedResult(*pair) for pair in stacked_pairs if editor.uses[id(pair[1])]],
            list(body.nodes),
        )

    def replace(self, old: Value, new: Value) -> None:
        """Read another value inside of the steps."""

        def resolve(value: Value) -> Value:
            return new if value is old else value

        for node in self.nodes:
            node.replace_operands(resolve)
        for carry in self.carries:
            carry.after = resolve(carry.after)
        for stacked in self.stacked:
            stacked.inside = resolve(stacked.inside)

    def depending(self, values: Iterable[Value]) -> set[int]:
        """ids of what the steps compute from these values, them included."""
        dependent = set(map(id, values))
        for node in self.nodes:
            if any(id(v) in dependent for v in node.operands()):
                dependent.update(map(id, node.outputs))
        return dependent

    def behind(self, values: Iterable[Value]) -> set[int]:
        """ids of what these values are computed from inside of a step, them included."""
        return computed_from(self.nodes, values)

    def inner(self) -> set[int]:
        """ids of everything that belongs to a step."""
        own = [c.inside for c in self.carries] + [x for _, x in self.taken]
        return {id(v) for v in (*own, *(v for n in self.nodes for v in n.outputs))}

    def read(self) -> set[int]:
        """ids of what nodes read, states become, or a step gives."""
        ends = [c.after for c in self.carries] + [s.inside for s in self.stacked]
        return {id(v) for v in (*ends, *(v for n in self.nodes for v in n.operands()))}

    def drop_dead(self) -> None:
        """Remove nodes that nothing reads, and arrays of which no step reads its part."""
        live = self.behind([*(c.after for c in self.carries), *(s.inside for s in self.stacked)])
        self.nodes = [n for n in self.nodes if any(id(v) in live for v in n.outputs)]
        read = self.read()
        self.taken = [pair for pair in self.taken if id(pair[1]) in read]

    def write(self, node: Node, editor: Editor) -> None:
        """Append what is left of the loop."""
        self.drop_dead()
        self._give_what_is_there(editor)
        if self.carries or self.stacked:
            outputs = self._written(node, editor)
            olds = [*(c.final for c in self.carries), *(s.whole for s in self.stacked)]
            self.results.update(zip(map(id, olds), outputs, strict=True))

    def resolved(self, value: Value) -> Value:
        """Value that takes the place of a result."""
        while (successor := self.results.get(id(value))) is not None and successor is not value:
            value = successor
        return value

    def _give_what_is_there(self, editor: Editor) -> None:
        """What a step gives that is part of an array, or the same in all steps, needs no loop."""
        inner, whole = self.inner(), {id(part): array for array, part in self.taken}
        for stacked in self.stacked:
            value = stacked.inside
            if id(value) in whole:
                self.results[id(stacked.whole)] = whole[id(value)]
            elif id(value) not in inner:
                shape = (self.length, *value.shape)
                spread = editor.broadcast(value, shape, range(1, len(shape)))
                self.results[id(stacked.whole)] = spread
        self.stacked = [s for s in self.stacked if id(s.whole) not in self.results]
        self.drop_dead()

    def _written(self, node: Node, editor: Editor) -> list[Value]:
        starts, arrays = [c.start for c in self.carries], [array for array, _ in self.taken]
        insides = [c.inside for c in self.carries] + [part for _, part in self.taken]
        ends = [c.after for c in self.carries] + [s.inside for s in self.stacked]
        types = [(v.shape, v.dtype) for v in starts]
        types += [((self.length, *s.inside.shape), s.inside.dtype) for s in self.stacked]
        params = {**node.params, "num_carry": len(self.carries)}
        made = make_node(ops.scan, [*starts, *arrays], types, params, source=node.source)
        made.bodies = {"body": Graph(insides, ends, self.nodes)}
        editor.nodes.append(made)
        return made.outputs


def computed_from(nodes: Sequence[Node], values: Iterable[Value]) -> set[int]:
    """ids of what values are computed from by these nodes, them included."""
    needed = set(map(id, values))
    for node in reversed(nodes):
        if any(id(v) in needed for v in node.outputs):
            needed.update(map(id, node.operands()))
    return needed


def takes_little(value: Value, length: int) -> bool:
    """Whether a value of all steps is of a known size that is not too large."""
    if not dims.all_static(value.shape):
        return False
    return (
        length * int(np.prod(value.shape, dtype=np.int64)) * value.dtype.itemsize <= LARGEST_BATCH
    )
