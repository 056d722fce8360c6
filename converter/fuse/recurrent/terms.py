"""What goes into a gate: products of inputs and states with weights, and biases.

    gate = x W + h R + b

in any order and packing: one product of inputs and states side by side or one for each, all gates
in one or each on its own, in the loop's body or before the loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from converter.fuse.recurrent.lift import can_lift, makers, varying
from converter.fuse.recurrent.selection import INNER, TIME, selected_operands, turned_selection
from converter.ir import Graph, Node, Value, const, dims, ops
from converter.ir.axes import View, along
from converter.ir.moves import descended
from converter.ir.scalars import scalar

GATE_ACTIVATIONS = (ops.tanh, ops.logistic, ops.relu, ops.hard_sigmoid)
DEEPEST_GATE = 12
"""Sums in sums; a cell has four or five."""


@dataclass(frozen=True)
class Activation:
    """A function of each element, and what it is of."""

    name: str
    of: View


def activation(view: View) -> Activation | None:
    """Activation that a value is, and its operand along the same logical axes."""
    if (op := view.op()) in GATE_ACTIVATIONS:
        return Activation(op.name, selected_operands(view)[0])
    if view.op() is ops.max:
        one, other = selected_operands(view)
        for x, zero in ((one, other), (other, one)):
            if scalar(zero.base) == 0:
                return Activation("relu", x)
    return None


@dataclass(frozen=True)
class GateTerm:
    """``source`` times ``weights``, or ``weights`` alone, a bias.

    Sources have ``INNER`` where weights have it. ``kind`` is "x", "h", "reset" (states times
    ``gate``, then weights) or "bias"; with a ``gate`` and another kind the whole term is times it.
    """

    kind: str
    weights: View
    source: View | None = None
    gate: View | None = None
    negative: bool = False


@dataclass(frozen=True)
class Body:
    """The body of a loop, of which one input is thought to be a cell's state.

    Its axes are the logical ones, of which ``feature`` is summed over.
    """

    loop: Node
    state: Value
    feature: int

    @property
    def graph(self) -> Graph:
        return self.loop.bodies["body"]

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(range(self.state.rank))

    def select(self, value: Value, axes: Sequence[int] | None = None) -> View:
        """All of a value, where it was computed, along the state's axes or those given."""
        places: list[int | None] = [None] * (self.state.rank + 2)
        for i, axis in enumerate(self.axes if axes is None else axes):
            places[axis] = i
        return descended(along(value).take(places))

    def scanned(self, value: Value) -> Value | None:
        """Array that the loop goes through to get a body's input."""
        places = [i for i, v in enumerate(self.graph.inputs) if v is value]
        if not places or places[0] < self.loop.params["num_carry"]:
            return None
        return self.loop.inputs[places[0]]


class Reader:
    """Reads sums of terms, in a body and before its loop."""

    def __init__(self, body: Body) -> None:
        self.body = body
        graph, count = body.graph, body.loop.params["num_carry"]
        self._varying = varying(graph, graph.inputs)
        self._early = self._varying - varying(graph, graph.inputs[:count])

    def varies(self, view: View) -> bool:
        """Whether a value is another in each round."""
        return id(view.base) in self._varying or bool(view.groups[TIME])

    def terms(self, view: View, depth: int = 0) -> list[GateTerm] | None:
        """The terms that a value is the sum of, if it is one."""
        view = self._outside(view)
        op = view.op()
        if not self.varies(view):
            return self._bias(view)
        if depth < DEEPEST_GATE and op in (ops.add, ops.sub, ops.neg):
            parts = [self.terms(part, depth + 1) for part in selected_operands(view)]
            if op is not ops.add and parts[-1] is not None:
                parts[-1] = negated(parts[-1])
            sums = [part for part in parts if part is not None]
            return None if len(sums) < len(parts) else [term for part in sums for term in part]
        if depth < DEEPEST_GATE and op is ops.mul:
            return self._gated(view, depth)
        return self._product(view) if op is ops.einsum else self._as_it_is(view)

    def _outside(self, view: View) -> View:
        """What is scanned, as it is before the loop."""
        source = self.body.scanned(view.base)
        if source is None:
            return view
        return descended(view.onto(source, range(1, source.rank)).put(TIME, 0))

    def _bias(self, view: View) -> list[GateTerm] | None:
        return [GateTerm("bias", view)] if view.covers([self.body.feature]) else None

    def _gated(self, view: View, depth: int) -> list[GateTerm] | None:
        """Terms of the state alone that are multiplied by one gate."""
        one, other = selected_operands(view)
        for gate, inner in ((one, other), (other, one)):
            if activation(gate) is None:
                continue
            terms = self.terms(inner, depth + 1)
            if terms and all(t.kind in ("h", "bias") and t.gate is None for t in terms):
                return [replace(term, gate=gate) for term in terms]
        return None

    def _as_it_is(self, view: View) -> list[GateTerm] | None:
        """An input that is added without weights, if it is as wide as the state."""
        feature = self.body.feature
        size = self.body.state.shape[feature]
        term = self._source(turned_selection(view, feature))
        if term is None or term.kind != "x" or not dims.is_static(size):
            return None
        unit = const(np.eye(size), view.base.dtype)
        return [replace(term, weights=self.body.select(unit, (feature, INNER)))]

    def _product(self, view: View) -> list[GateTerm] | None:
        """What varies, times what does not."""
        node = view.node()
        factors = _factors(view)
        if factors is None or node.params["dtype"] != node.out.dtype:
            return None
        one, other = factors
        if self.varies(one) == self.varies(other):
            return None
        moving, weights = (one, other) if self.varies(one) else (other, one)
        along = (self.body.feature, self.body.state.rank)
        return self._summed(moving, weights) if weights.covers(along) else None

    def _summed(self, moving: View, weights: View) -> list[GateTerm] | None:
        """A product with values side by side is the sum of a product with each."""
        moving = descended(moving)
        if (
            moving.op() is ops.concatenate
            and moving.axes[INNER] == moving.node().params["dimension"]
        ):
            return self._side_by_side(moving, weights)
        term = self._source(moving)
        return None if term is None else [replace(term, weights=descended(weights))]

    def _side_by_side(self, moving: View, weights: View) -> list[GateTerm] | None:
        terms: list[GateTerm] = []
        offset = 0
        for value in moving.node().inputs if moving.is_whole else ():
            size = value.shape[moving.node().params["dimension"]]
            part, rows = moving.cut(INNER, offset, size), weights.cut(INNER, offset, size)
            summed = None if part is None or rows is None else self._summed(part, rows)
            if summed is None or not dims.is_static(size):
                return None
            terms += summed
            offset += size
        return terms or None

    def _source(self, view: View) -> GateTerm | None:
        """An input, the state, or the state times a gate; whole."""
        if view.base is self.body.state:
            return GateTerm("h", view, view) if self._is_state(view) else None
        if view.op() is ops.mul:
            one, other = selected_operands(view)
            for gate, state in ((one, other), (other, one)):
                if state.base is self.body.state and self._is_state(state) and activation(gate):
                    back = turned_selection(gate, self.body.feature)
                    return GateTerm("reset", view, state, back)
        view = self._outside(view)
        inside = id(view.base) in self._early
        before = (
            can_lift(makers(self.body.graph, [view.base], self._early))
            if inside
            else (view.groups[TIME] and id(view.base) not in self._varying)
        )
        return GateTerm("x", view, view) if before and not view.groups[self.body.feature] else None

    def _is_state(self, view: View) -> bool:
        """Whether its axes are the state's own, the last but for the name."""
        return turned_selection(view, self.body.feature) == self.body.select(self.body.state)


def _factors(view: View) -> tuple[View, View] | None:
    """The operands of a product, along the logical axes and, where it sums, ``INNER``."""
    params, factors = view.node().params, list[View]()
    for value, own, others in zip(
        view.node().inputs,
        (params["lhs"], params["rhs"]),
        (params["rhs"], params["lhs"]),
        strict=True,
    ):
        pairs = enumerate(zip(own, value.shape, strict=True))
        summed = [i for i, (a, d) in pairs if a not in params["out"] and not dims.same(d, 1)]
        if len(summed) > 1 or any(own[i] not in others for i in summed):
            return None  # over several axes, or before it is multiplied
        factor = view.onto(value, [own.index(a) if a in own else None for a in params["out"]])
        factors.append(factor.put(INNER, summed[0]) if summed else factor)
    return factors[0], factors[1]


def negated(terms: Sequence[GateTerm]) -> list[GateTerm]:
    return [replace(term, negative=not term.negative) for term in terms]
