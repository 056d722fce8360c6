"""Record which branches, loop iterations and index bounds of a program a set of inputs reaches.

If a file is wrong in one branch, it still agrees with JAX on all inputs that take other branches.
The probe therefore evaluates the traced graph and records which *sides* of each node were taken. A
side is one of the ways that control flow or an index can go at a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from converter.frontend.trace import source_line
from converter.ir import Graph, Node, named_sizes, ops
from converter.ir.evaluation import (
    Bodies,
    Control,
    Counted,
    EvaluationRules,
    evaluate_bounded,
    run_eagerly,
)
from converter.loops.rules import bound_states
from converter.verify.sides import SIDE_KINDS, Flow, SideKind, is_within_bounds, promises_in_bounds
from converter.verify.step_by_step import CONTROL, run_cond

MAX_ITERATIONS, MAX_STEPS = 100, 4_000
"""Limits of one evaluation. Inputs that need more loop iterations or more nodes are not used."""

COMPARISONS = (ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge)
"""Operations whose results are observed: a new result shows that inputs come closer to a side."""


@dataclass(frozen=True)
class Side:
    """One way that a node can go, such as a branch of a conditional.

    Arguments:
        node: the node.
        untaken: the sentence that reports the side as not taken, with ``{line}`` for the source
            line.
    """

    node: Node
    untaken: str

    def describe_untaken(self, samples: int, line: Callable[[Node], str] = source_line) -> str:
        """Return the sentence that no sample took this side.

        Arguments:
            samples: number of samples.
            line: returns the text for the source line of a node.
        """
        return f"{self.untaken.format(line=line(self.node))} in {samples} samples"


@dataclass(frozen=True)
class Observation:
    """Sides that a program takes for one set of inputs.

    Arguments:
        sides: one Boolean for each element of ``Probe.sides``, true if the program took that side.
        comparisons: two consecutive Booleans for each comparison node: whether it was true for some
            element, and whether it was false for some element.
        is_valid: False if the evaluation or one of its loops was stopped before its end, or if an
            index is outside of the bounds that the program promises.
        steps: number of evaluated nodes, without those that have bodies.
    """

    sides: np.ndarray
    comparisons: np.ndarray
    is_valid: bool
    steps: int


class Probe:
    """Evaluator that observes which sides of a traced graph a set of inputs takes.

    A side is one of the ways that control flow or an index can take at a node. Only the part of the
    graph that decides about sides is evaluated.

    Arguments:
        graph: the graph as it was traced. The ranges of loop states are written into it.
        params: arrays by parameter name, for parameters that have no values yet. Parameters that do
            not affect any side are not read.

    ``sides`` contains the possible sides of all observed nodes.
    """

    def __init__(self, graph: Graph, params: Mapping[str, Any] | None = None) -> None:
        bound_states(graph)
        flow = Flow(graph)
        self._params = params or {}
        self.sides: list[Side] = []
        self.observed_nodes: dict[int, tuple[SideKind, list[int | None]]] = {}
        self.promising_nodes: set[int] = set()
        for node in graph.walk():
            self._add_sides(node, flow)
        self.unread_nodes = set[int]()
        needed = set[int]()
        self.graph = self._reduce_graph(graph, needed)
        self.graph.params = [v for v in graph.params if id(v) in needed]
        compared = [node for node in self.graph.walk() if node.op in COMPARISONS]
        self.comparisons = {id(node): i for i, node in enumerate(compared)}

    def _add_sides(self, node: Node, flow: Flow) -> None:
        """Record the possible sides of a node, and whether it has the mode ``promise_in_bounds``.

        No sides are recorded if the operation has none, if they do not depend on an input, or if
        fewer than ``SideKind.min_sides`` of them are possible.
        """
        if promises_in_bounds(node):
            self.promising_nodes.add(id(node))
        kind = SIDE_KINDS.get(node.op)
        if kind is None or not kind.applies(node, flow):
            return
        texts, possible = kind.texts(node), kind.possible(node)
        if sum(possible) < kind.min_sides:
            return
        slots = list[int | None]()
        for text, is_possible in zip(texts, possible, strict=True):
            slots.append(len(self.sides) if is_possible else None)
            self.sides += [Side(node, text)] if is_possible else []
        self.observed_nodes[id(node)] = kind, slots

    def _reduce_graph(self, graph: Graph, needed: set[int]) -> Graph:
        """Return the part of a graph that is needed to observe sides and promised bounds.

        The id of a node that is kept although nothing reads its results is added to
        ``self.unread_nodes``. The graph itself is not changed.

        Arguments:
            graph: the traced graph or a body in it.
            needed: ids of the values that are read outside of the graph. The ids of all values that
                the part reads are added.
        """
        part_nodes = list[Node]()
        for node in reversed(graph.nodes):
            is_read = any(id(v) in needed for v in node.outputs)
            if not (is_read or self._has_observed_nodes(node)):
                continue
            needed |= {id(v) for v in node.inputs}
            part_node = node
            if node.bodies:
                has_read_outputs = node.op is not ops.cond or is_read
                part_node = replace(
                    node, bodies=self._reduce_bodies(node.bodies, has_read_outputs, needed)
                )
                if id(node) in self.observed_nodes:
                    self.observed_nodes[id(part_node)] = self.observed_nodes[id(node)]
            part_nodes.append(part_node)
            if not is_read:
                self.unread_nodes.add(id(part_node))
        outputs = [v for v in graph.outputs if id(v) in needed]
        return Graph(graph.inputs, outputs, part_nodes[::-1], graph.params)

    def _reduce_bodies(
        self, bodies: Mapping[str, Graph], has_read_outputs: bool, needed: set[int]
    ) -> dict[str, Graph]:
        """Return the needed parts of the bodies of a node, by name.

        If ``has_read_outputs`` is true, the outputs of all bodies are treated as needed. The ids of
        all values that the parts read are added to ``needed``.
        """
        parts = {}
        for name, body in bodies.items():
            needed |= {id(v) for v in body.outputs} if has_read_outputs else set()
            parts[name] = self._reduce_graph(body, needed)
        return parts

    def _has_observed_nodes(self, node: Node) -> bool:
        """Return True if a node, or a node in its bodies, has observed sides or promises bounds."""
        inner = (n for body in node.bodies.values() for n in body.walk())
        return any(
            id(n) in self.observed_nodes or id(n) in self.promising_nodes for n in (node, *inner)
        )

    def __call__(self, inputs: Sequence[Any]) -> Observation:
        """Return the sides that the program takes for one set of inputs.

        A loop is stopped after ``MAX_ITERATIONS`` iterations, and the evaluation continues after
        it. The evaluation is stopped after ``MAX_STEPS`` nodes. In both cases the result is not
        valid, but contains the sides that were taken.
        """
        shapes = [v.shape for v in self.graph.inputs]
        sizes = named_sizes.read_sizes(shapes, [np.shape(x) for x in inputs])
        evaluation = _Evaluation(self, sizes)
        with np.errstate(all="ignore"), suppress(_StepLimitExceeded):
            evaluate_bounded(
                self.graph,
                inputs,
                self._params,
                evaluation.apply,
                MAX_ITERATIONS,
                evaluation.control(),
            )
        return Observation(
            evaluation.sides, evaluation.comparisons, evaluation.is_valid, evaluation.steps
        )


class _StepLimitExceeded(Exception):
    """Signal to stop an evaluation that takes more than ``MAX_STEPS`` steps."""


class _Evaluation:
    """One evaluation of the graph of a probe, with the sides that were taken so far.

    Arguments:
        probe: the probe.
        sizes: sizes of the named dimensions.
    """

    def __init__(self, probe: Probe, sizes: named_sizes.Sizes) -> None:
        self.sides = np.zeros(len(probe.sides), bool)
        self.comparisons = np.zeros(2 * len(probe.comparisons), bool)
        self.is_valid = True
        self.steps = 0
        self._probe = probe
        self._sizes = sizes

    def apply(self, node: Node, args: Sequence[Any], sizes: named_sizes.Sizes) -> list[Any]:
        """Evaluate a node without bodies on the arrays ``args``, and record the sides that it
        takes.

        Return the list of its results. A node without readers is not evaluated, and each of its
        results is None.

        Raises:
            _StepLimitExceeded: more than ``MAX_STEPS`` nodes were evaluated.
        """
        is_read = id(node) not in self._probe.unread_nodes
        if id(node) in self._probe.observed_nodes or id(node) in self._probe.promising_nodes:
            self._record_sides(node, args)
        if not is_read:
            return [None] * len(node.outputs)
        self.steps += 1
        if self.steps > MAX_STEPS:
            self.is_valid = False
            raise _StepLimitExceeded
        results = run_eagerly(node, args, sizes)
        if id(node) in self._probe.comparisons:
            start, truth = 2 * self._probe.comparisons[id(node)], np.asarray(results[0])
            self.comparisons[start : start + 2] |= truth.any(), (~truth).any()
        return results

    def control(self) -> Control:
        """Return for each operation with bodies the function that evaluates its nodes.

        They run as Python loops and conditions, so that every node inside is observed.
        """
        return {**CONTROL, ops.while_: self._while, ops.cond: self._cond}

    def _record_sides(self, node: Node, inputs: Sequence[Any], iterations: int = 0) -> None:
        """Record the sides that a node takes for the arrays of its operands.

        The observation becomes invalid if the node promises that its indices are within bounds and
        they are not. ``iterations`` is the number of iterations of a loop node.
        """
        kind, slots = self._probe.observed_nodes.get(id(node), (None, ()))
        arrays = [np.asarray(x) for x in inputs]
        if id(node) in self._probe.promising_nodes and not is_within_bounds(
            node, arrays, self._sizes
        ):
            self.is_valid = False
        if kind is not None:
            for slot, flag in zip(
                slots, kind.taken(node, arrays, iterations, self._sizes), strict=True
            ):
                if slot is not None:
                    self.sides[slot] |= bool(flag)

    def _cond(self, node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
        """Evaluate one branch of a conditional and record it.

        Arguments:
            node: the node.
            inputs: the arrays of its operands, the first of which is the index of the branch.
            run: evaluates a body on its inputs.
            rules: settings of the evaluation.

        Returns:
            The results, and the largest number of iterations of any loop in the branch. Each result
            is None if nothing reads the results.
        """
        self._record_sides(node, inputs)
        results, iterations = run_cond(node, inputs, run, rules)
        unread = id(node) in self._probe.unread_nodes
        return [None] * len(node.outputs) if unread else results, iterations

    def _while(self, node: Node, inputs: list[Any], run: Bodies, rules: EvaluationRules) -> Counted:
        """Evaluate a while loop and record its number of iterations.

        If the loop does not end within ``rules.max_iterations`` iterations, it is stopped and the
        observation becomes invalid.

        Arguments:
            node: the node.
            inputs: the arrays of the initial loop state.
            run: evaluates a body on its inputs.
            rules: settings of the evaluation.

        Returns:
            The final loop state, and the number of iterations.
        """
        iterations, state = 0, inputs
        while bool(run(node.bodies["cond"], state)[0][0]):
            if iterations == rules.max_iterations:
                self.is_valid = False
                break
            state, iterations = run(node.bodies["body"], state)[0], iterations + 1
        self._record_sides(node, inputs, iterations)
        return state, iterations
