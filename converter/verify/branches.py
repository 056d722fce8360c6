"""Record which branches, loop iterations and index bounds of a program a set of inputs reaches.

A file that is wrong in one branch agrees with JAX on every input that takes another branch. The
probe therefore evaluates the traced graph and records which *sides* of each node were taken. A side
is one of the ways that control flow or an index can go at a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from converter.frontend.trace import source_line
from converter.ir import Graph, Node, dims, named_sizes, ops
from converter.ir.evaluation import (
    Bodies,
    Control,
    Counted,
    EvaluationRules,
    evaluate_bounded,
    run_uncompiled,
)
from converter.loops.intervals import bound_states
from converter.verify.sides import KINDS, Flow, SideKind, is_within_bounds, promises_in_bounds

MAX_ITERATIONS, MAX_STEPS = 100, 4_000
"""Limits of one evaluation. Inputs that need more loop iterations or more nodes are not used."""

COMPARISONS = (ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge)


@dataclass(frozen=True)
class Side:
    """One way that a node can go, with the sentence to print if no input took it."""

    node: Node
    untaken: str

    def describe_untaken(self, samples: int, line: Callable[[Node], str] = source_line) -> str:
        """Return the sentence that no sample took this side, with the number of samples and the
        source line."""
        return f"{self.untaken.format(line=line(self.node))} in {samples} samples"


@dataclass(frozen=True)
class Observation:
    """Sides that one set of inputs takes.

    Arguments:
        sides: one Boolean for each side of the probe.
        comparisons: two Booleans for each comparison node: whether it was true, and whether it was
            false, for some element.
        is_valid: false if the evaluation stopped before a loop ended, or if an index is outside the
            bounds that the program promises.
        steps: number of evaluated nodes.
    """

    sides: np.ndarray
    comparisons: np.ndarray
    is_valid: bool
    steps: int


class Probe:
    """Evaluator for the part of a traced graph that decides which sides are taken.

    Arguments:
        graph: the graph as it was traced. The ranges of loop states are written into it.
        params: arrays by parameter name, for parameters that have no values yet. Parameters that do
            not affect any side are not read.
    """

    def __init__(self, graph: Graph, params: Mapping[str, Any] | None = None) -> None:
        bound_states(graph)
        flow = Flow(graph)
        self._params = params or {}
        self.sides: list[Side] = []
        self.sites: dict[int, tuple[SideKind, list[int | None]]] = {}
        self.promises: set[int] = set()
        for node in graph.walk():
            self._add_sites(node, flow)
        self.unread = set[int]()
        needed = set[int]()
        self.graph = self._reduce_graph(graph, needed)
        self.graph.params = [v for v in graph.params if id(v) in needed]
        compared = [node for node in self.graph.walk() if node.op in COMPARISONS]
        self.comparisons = {id(node): i for i, node in enumerate(compared)}

    def _add_sites(self, node: Node, flow: Flow) -> None:
        if promises_in_bounds(node):
            self.promises.add(id(node))
        kind = KINDS.get(node.op)
        if kind is None or not kind.applies(node, flow):
            return
        texts, possible = kind.sides(node), kind.possible(node)
        if sum(possible) < kind.min_sides:
            return
        slots = list[int | None]()
        for text, is_possible in zip(texts, possible, strict=True):
            slots.append(len(self.sides) if is_possible else None)
            self.sides += [Side(node, text)] if is_possible else []
        self.sites[id(node)] = kind, slots

    def _reduce_graph(self, graph: Graph, needed: set[int]) -> Graph:
        """Return the part of a graph that the sites and the promised bounds depend on.

        ``needed`` holds the ids of values that are read outside of the graph. The ids of all values
        that the part reads are added to it. A node that is kept only because it is a site is added
        to ``unread``.
        """
        part_nodes = list[Node]()
        for node in reversed(graph.nodes):
            is_read = any(id(v) in needed for v in node.outputs)
            if not (is_read or self._holds_site(node)):
                continue
            needed |= {id(v) for v in node.inputs}
            part_node = node
            if node.bodies:
                is_open = node.op is not ops.cond or is_read
                part_node = replace(node, bodies=self._reduce_bodies(node.bodies, is_open, needed))
                if id(node) in self.sites:
                    self.sites[id(part_node)] = self.sites[id(node)]
            part_nodes.append(part_node)
            if not is_read:
                self.unread.add(id(part_node))
        outputs = [v for v in graph.outputs if id(v) in needed]
        return Graph(graph.inputs, outputs, part_nodes[::-1], graph.params)

    def _reduce_bodies(
        self, bodies: Mapping[str, Graph], has_read_outputs: bool, needed: set[int]
    ) -> dict[str, Graph]:
        parts = {}
        for name, body in bodies.items():
            needed |= {id(v) for v in body.outputs} if has_read_outputs else set()
            parts[name] = self._reduce_graph(body, needed)
        return parts

    def _holds_site(self, node: Node) -> bool:
        inner = (n for body in node.bodies.values() for n in body.walk())
        return any(id(n) in self.sites or id(n) in self.promises for n in (node, *inner))

    def __call__(self, inputs: Sequence[Any]) -> Observation:
        """Evaluate the program on one set of inputs and return the sides that it takes."""
        shapes = [v.shape for v in self.graph.inputs]
        sizes = named_sizes.read_sizes(shapes, [np.shape(x) for x in inputs])
        run = _Run(self, sizes)
        with np.errstate(all="ignore"), suppress(_StepLimitExceeded):
            evaluate_bounded(
                self.graph, inputs, self._params, run.apply, MAX_ITERATIONS, run.control()
            )
        return Observation(run.sides, run.comparisons, run.is_valid, run.steps)


class _StepLimitExceeded(Exception):
    """Signal to stop an evaluation that takes more than ``MAX_STEPS`` steps."""


class _Run:
    """One evaluation of a probe's graph, with the sides that were taken so far."""

    def __init__(self, probe: Probe, sizes: named_sizes.Sizes) -> None:
        self.sides = np.zeros(len(probe.sides), bool)
        self.comparisons = np.zeros(2 * len(probe.comparisons), bool)
        self.is_valid = True
        self.steps = 0
        self._probe = probe
        self._sizes = sizes

    def apply(self, node: Node, args: Sequence[Any], sizes: named_sizes.Sizes) -> list[Any]:
        """Evaluate a node without bodies (``converter.ir.evaluation.Apply``)."""
        is_read = id(node) not in self._probe.unread
        if id(node) in self._probe.sites or id(node) in self._probe.promises:
            self._record_sides(node, args)
        if not is_read:
            return [None] * len(node.outputs)
        self.steps += 1
        if self.steps > MAX_STEPS:
            self.is_valid = False
            raise _StepLimitExceeded
        results = run_uncompiled(node, args, sizes)
        if id(node) in self._probe.comparisons:
            start, truth = 2 * self._probe.comparisons[id(node)], np.asarray(results[0])
            self.comparisons[start : start + 2] |= truth.any(), (~truth).any()
        return results

    def control(self) -> Control:
        """Return the evaluators of the operations that have bodies; they run in Python."""
        return {ops.scan: self._scan, ops.while_: self._while, ops.cond: self._cond}

    def _record_sides(self, node: Node, inputs: Sequence[Any], iterations: int = 0) -> None:
        kind, slots = self._probe.sites.get(id(node), (None, ()))
        arrays = [np.asarray(x) for x in inputs]
        if id(node) in self._probe.promises and not is_within_bounds(node, arrays, self._sizes):
            self.is_valid = False
        if kind is not None:
            for slot, flag in zip(
                slots, kind.taken(node, arrays, iterations, self._sizes), strict=True
            ):
                if slot is not None:
                    self.sides[slot] |= bool(flag)

    def _cond(self, node: Node, inputs: list[Any], run: Bodies, _: EvaluationRules) -> Counted:
        self._record_sides(node, inputs)
        bodies = list(node.bodies.values())
        results, iterations = run(bodies[int(np.clip(inputs[0], 0, len(bodies) - 1))], [])
        unread = id(node) in self._probe.unread
        return [None] * len(node.outputs) if unread else results, iterations

    def _while(self, node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
        iterations, state = 0, inputs
        while bool(run(node.bodies["cond"], state)[0][0]):
            if iterations == rules.max_turns:
                self.is_valid = False
                break
            state, iterations = run(node.bodies["body"], state)[0], iterations + 1
        self._record_sides(node, inputs, iterations)
        return state, iterations

    def _scan(self, node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
        count, body = node.params["num_carry"], node.bodies["body"]
        length = dims.evaluate_dim(node.params["length"], rules.sizes)
        state, rows = inputs[:count], list[list[Any]]()
        for iteration in range(length)[:: -1 if node.params["reverse"] else 1]:
            results, _ = run(body, [*state, *(np.asarray(x)[iteration] for x in inputs[count:])])
            state = results[:count]
            rows.append(results[count:])
        rows = rows[::-1] if node.params["reverse"] else rows
        shapes = [
            (dims.substitute_sizes(v.shape, rules.sizes), v.dtype) for v in node.outputs[count:]
        ]
        empty = [np.zeros(shape, dtype) for shape, dtype in shapes]
        stacked = [np.stack([np.asarray(x) for x in column]) for column in zip(*rows, strict=True)]
        return [*state, *(stacked if rows else empty)], 0
