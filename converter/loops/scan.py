"""A scan split into its parts, which rules change before it is emitted again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from converter.ir import Graph, Node, Value, dims, make_node, ops
from converter.ir.rewrite import Editor

MAX_BATCH_BYTES = 16 << 20
"""Largest size in bytes of a batched value; larger ones are computed step by step."""


@dataclass(eq=False)
class Carry:
    """A loop state.

    **Arguments**

    - `start`: its first value.
    - `inner`: its value inside of a step.
    - `after`: its value after a step.
    - `final`: the result of the loop.
    """

    start: Value
    inner: Value
    after: Value
    final: Value


@dataclass(eq=False)
class StackedResult:
    """A result of the loop that stacks a value of all steps.

    ``inner`` is the value inside of a step, ``full`` the result with the values of all steps.
    """

    inner: Value
    full: Value


@dataclass(eq=False)
class DeferredNodes:
    """Nodes of a step that are batched after the loop, with the results that they compute.

    ``full`` contains the arrays of all steps, by the id of the value that a node reads.
    """

    nodes: list[Node]
    full: dict[int, Value]
    results: list[StackedResult]


@dataclass(eq=False)
class Scan:
    """The parts of a scan.

    **Arguments**

    - `length`: the number of steps.
    - `reverse`: whether the steps run from the last entry of the scanned arrays to the first.
    - `carries`: the states.
    - `scanned`: pairs of an array with an entry for each step, and the entry inside of a step.
    - `stacked`: values that each step returns.
    - `nodes`: the nodes of a step.
    - `results`: values that replace results of the scan's node, by the id of the result.
    - `deferred`: nodes to batch after the loop.
    """

    length: int
    reverse: bool
    carries: list[Carry]
    scanned: list[tuple[Value, Value]]
    stacked: list[StackedResult]
    nodes: list[Node]
    results: dict[int, Value] = field(default_factory=dict)
    deferred: list[DeferredNodes] = field(default_factory=list)

    @classmethod
    def from_node(cls, node: Node, editor: Editor) -> Scan | None:
        """Return the parts of a scan node, without stacked results that nothing reads.

        Return None if the number of steps is symbolic or zero.
        """
        length, body = node.params["length"], node.bodies["body"]
        if not dims.is_static(length) or int(length) < 1:
            return None
        count = node.params["num_carry"]
        carry_parts = zip(node.inputs, body.inputs, body.outputs, node.outputs, strict=False)
        stacked_pairs = zip(body.outputs[count:], node.outputs[count:], strict=True)
        return cls(
            int(length),
            node.params["reverse"],
            [Carry(*parts) for parts, _ in zip(carry_parts, range(count), strict=False)],
            list(zip(node.inputs[count:], body.inputs[count:], strict=True)),
            [StackedResult(*pair) for pair in stacked_pairs if editor.uses[id(pair[1])]],
            list(body.nodes),
        )

    def replace(self, original: Value, new: Value) -> None:
        """Replace a value by another where a step reads it.

        Readers are the nodes, the next states and the stacked values.
        """

        def resolve(value: Value) -> Value:
            return new if value is original else value

        for node in self.nodes:
            node.replace_operands(resolve)
        for carry in self.carries:
            carry.after = resolve(carry.after)
        for stacked in self.stacked:
            stacked.inner = resolve(stacked.inner)

    def dependent_ids(self, values: Iterable[Value]) -> set[int]:
        """Return the ids of these values and of all values that a step computes from them."""
        dependent = set(map(id, values))
        for node in self.nodes:
            if any(id(v) in dependent for v in node.operands()):
                dependent.update(map(id, node.outputs))
        return dependent

    def source_ids(self, values: Iterable[Value]) -> set[int]:
        """Return the ids of these values and of all values from which a step computes them."""
        return computed_from(self.nodes, values)

    def inner_ids(self) -> set[int]:
        """Return the ids of all values that belong to a step: states, scanned entries and results
        of its nodes."""
        inputs = [c.inner for c in self.carries] + [x for _, x in self.scanned]
        return {id(v) for v in (*inputs, *(v for n in self.nodes for v in n.outputs))}

    def read_ids(self) -> set[int]:
        """Return the ids of all values that a step's nodes read, that become states, or that a step
        returns."""
        body_outputs = [c.after for c in self.carries] + [s.inner for s in self.stacked]
        return {id(v) for v in (*body_outputs, *(v for n in self.nodes for v in n.operands()))}

    def drop_dead(self) -> None:
        """Remove nodes without readers, and scanned arrays whose entry is not read.

        States and stacked results stay.
        """
        live = self.source_ids([*(c.after for c in self.carries), *(s.inner for s in self.stacked)])
        self.nodes = [n for n in self.nodes if any(id(v) in live for v in n.outputs)]
        read = self.read_ids()
        self.scanned = [pair for pair in self.scanned if id(pair[1]) in read]

    def emit(self, node: Node, editor: Editor) -> None:
        """Append the loop that remains, as a new scan with the parameters and the source of
        ``node``.

        Its results are recorded in ``results``, by the ids of the results of ``node``. No loop is
        appended if no state and no stacked result remains. Deferred nodes are not emitted.
        """
        self.drop_dead()
        self._extract_loop_results(editor)
        if self.carries or self.stacked:
            outputs = self._emit_scan(node, editor)
            old_outputs = [*(c.final for c in self.carries), *(s.full for s in self.stacked)]
            self.results.update(zip(map(id, old_outputs), outputs, strict=True))

    def resolve(self, value: Value) -> Value:
        """Return the value that replaces a result of the scan's node, or the result itself if none
        does."""
        while (successor := self.results.get(id(value))) is not None and successor is not value:
            value = successor
        return value

    def _extract_loop_results(self, editor: Editor) -> None:
        """Remove stacked results that need no loop, and record their values in ``results``.

        Such a result is a scanned array itself, or a broadcast of a value that is the same in all
        steps.
        """
        inner, full_arrays = self.inner_ids(), {id(part): array for array, part in self.scanned}
        for stacked in self.stacked:
            value = stacked.inner
            if id(value) in full_arrays:
                self.results[id(stacked.full)] = full_arrays[id(value)]
            elif id(value) not in inner:
                shape = (self.length, *value.shape)
                broadcast = editor.broadcast(value, shape, range(1, len(shape)))
                self.results[id(stacked.full)] = broadcast
        self.stacked = [s for s in self.stacked if id(s.full) not in self.results]
        self.drop_dead()

    def _emit_scan(self, node: Node, editor: Editor) -> list[Value]:
        """Append a scan of these parts and return its outputs: the states, then the stacked
        results."""
        starts, arrays = [c.start for c in self.carries], [array for array, _ in self.scanned]
        body_inputs = [c.inner for c in self.carries] + [part for _, part in self.scanned]
        body_outputs = [c.after for c in self.carries] + [s.inner for s in self.stacked]
        types = [(v.shape, v.dtype) for v in starts]
        types += [((self.length, *s.inner.shape), s.inner.dtype) for s in self.stacked]
        params = {**node.params, "num_carry": len(self.carries)}
        scan = make_node(ops.scan, [*starts, *arrays], types, params, source=node.source)
        scan.bodies = {"body": Graph(body_inputs, body_outputs, self.nodes)}
        editor.nodes.append(scan)
        return scan.outputs


def computed_from(nodes: Sequence[Node], values: Iterable[Value]) -> set[int]:
    """Return the ids of these values and of all values from which these nodes compute them."""
    needed = set(map(id, values))
    for node in reversed(nodes):
        if any(id(v) in needed for v in node.outputs):
            needed.update(map(id, node.operands()))
    return needed


def is_small_batch(value: Value, length: int) -> bool:
    """Return True if the values of all steps together have a static size of at most
    `MAX_BATCH_BYTES`.

    ``length`` is the number of steps.
    """
    if not dims.all_static(value.shape):
        return False
    return (
        length * int(np.prod(value.shape, dtype=np.int64)) * value.dtype.itemsize <= MAX_BATCH_BYTES
    )
