"""What goes into a gate: products of inputs and states with weights, and biases.

    gate = x W + h R + b

in any order and packing: one product of inputs and states side by side or one for each, all gates
in one or each on its own, in the loop's body or before the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from converter.fuse.recurrent.lift import can_lift, makers, varying
from converter.fuse.recurrent.selection import (
    FIRST,
    INNER,
    TIME,
    Selection,
    place,
    select,
)
from converter.graph import Graph, Node, Value, const, dims, ops
from converter.graph.constants import scalar

ACTIVATIONS = (ops.tanh, ops.logistic, ops.relu, ops.hard_sigmoid)
DEEPEST = 12
"""Sums in sums; a cell has four or five."""


@dataclass(frozen=True)
class Activation:
    """A function of each element, and what it is of."""

    name: str
    of: Selection


def activation(found: Selection) -> Activation | None:
    """What a value is an activation of; the operand is along the same logical axes."""
    if (op := found.op()) in ACTIVATIONS:
        return Activation(op.name, found.operands()[0])
    if found.op() is ops.max:
        one, other = found.operands()
        for x, zero in ((one, other), (other, one)):
            if scalar(zero.base) == 0:
                return Activation("relu", x)
    return None


@dataclass(frozen=True)
class Term:
    """``source`` times ``weights``, or ``weights`` alone, a bias.

    Sources have ``INNER`` where weights have it. ``kind`` is "x", "h", "reset" (states times
    ``gate``, then weights) or "bias"; with a ``gate`` and another kind the whole term is times it.
    """

    kind: str
    weights: Selection
    source: Selection | None = None
    gate: Selection | None = None
    negative: bool = False


@dataclass(frozen=True)
class Body:
    """The body of a loop, of which one input is thought to be a cell's state.

    ``batch`` and ``feature`` are the logical axes: those of the state.
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

    def scanned(self, value: Value) -> Value | None:
        """What the loop goes through to get a body's input."""
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

    def varies(self, found: Selection) -> bool:
        """Whether a value is another in each round."""
        return id(found.base) in self._varying or found.has(TIME)

    def terms(self, found: Selection, depth: int = 0) -> list[Term] | None:
        """The terms that a value is the sum of, if it is one."""
        found = self._outside(found)
        op = found.op()
        if not self.varies(found):
            return self._bias(found)
        if depth < DEEPEST and op in (ops.add, ops.sub, ops.neg):
            parts = [self.terms(part, depth + 1) for part in found.operands()]
            if op is not ops.add and parts[-1] is not None:
                parts[-1] = negated(parts[-1])
            known = [part for part in parts if part is not None]
            return None if len(known) < len(parts) else [term for part in known for term in part]
        if depth < DEEPEST and op is ops.mul:
            return self._gated(found, depth)
        return self._product(found) if op is ops.einsum else self._as_it_is(found)

    def _outside(self, found: Selection) -> Selection:
        """What is scanned, as it is before the loop."""
        source = self.body.scanned(found.base)
        if source is None:
            return found
        places = (place(TIME, 0, source.shape[0]), *found.places)
        return replace(found, base=source, places=places).descended()

    def _bias(self, found: Selection) -> list[Term] | None:
        along = {p.logical for p in found.places} <= {None, self.body.feature}
        return [Term("bias", found)] if along else None

    def _gated(self, found: Selection, depth: int) -> list[Term] | None:
        """Terms of the state alone that are multiplied by one gate."""
        one, other = found.operands()
        for gate, inner in ((one, other), (other, one)):
            if activation(gate) is None:
                continue
            terms = self.terms(inner, depth + 1)
            if terms and all(t.kind in ("h", "bias") and t.gate is None for t in terms):
                return [replace(term, gate=gate) for term in terms]
        return None

    def _as_it_is(self, found: Selection) -> list[Term] | None:
        """An input that is added without weights, if it is as wide as the state."""
        feature = self.body.feature
        size = self.body.state.shape[feature]
        term = self._source(found.renamed({feature: INNER}))
        if term is None or term.kind != "x" or not dims.is_static(size):
            return None
        unit = const(np.eye(size), found.base.dtype)
        return [replace(term, weights=select(unit, (feature, INNER)))]

    def _product(self, found: Selection) -> list[Term] | None:
        """What varies, times what does not."""
        node = found.node()
        factors = _factors(found)
        if factors is None or node.params["dtype"] != node.out.dtype:
            return None
        one, other = factors
        if self.varies(one) == self.varies(other):
            return None
        moving, weights = (one, other) if self.varies(one) else (other, one)
        along = {p.logical for p in weights.places} <= {None, self.body.feature, INNER}
        return self._summed(moving, weights) if along else None

    def _summed(self, moving: Selection, weights: Selection) -> list[Term] | None:
        """A product with values side by side is the sum of a product with each."""
        moving = moving.descended()
        axis = next((i for i, p in enumerate(moving.places) if p.logical == INNER), -1)
        if moving.op() is ops.concatenate and axis == moving.node().params["dimension"]:
            return self._side_by_side(moving, weights, axis)
        term = self._source(moving)
        return None if term is None else [replace(term, weights=weights.descended())]

    def _side_by_side(self, moving: Selection, weights: Selection, axis: int) -> list[Term] | None:
        if not moving.is_whole():
            return None
        terms: list[Term] = []
        offset = 0
        for value in moving.node().inputs:
            size = value.shape[axis]
            places = list(moving.places)
            places[axis] = place(INNER, 0, size)
            rows = tuple(
                place(INNER, p.start + offset, size) if p.logical == INNER else p
                for p in weights.places
            )
            part = replace(moving, base=value, places=tuple(places))
            found = self._summed(part, replace(weights, places=rows))
            if found is None or not dims.is_static(size):
                return None
            terms += found
            offset += size
        return terms

    def _source(self, found: Selection) -> Term | None:
        """An input, the state, or the state times a gate; whole."""
        if found.base is self.body.state:
            return Term("h", found, found) if self._is_state(found) else None
        if found.op() is ops.mul:
            one, other = found.operands()
            for gate, state in ((one, other), (other, one)):
                if state.base is self.body.state and self._is_state(state) and activation(gate):
                    back = gate.renamed({INNER: self.body.feature})
                    return Term("reset", found, state, back)
        found = self._outside(found)
        inside = id(found.base) in self._early
        before = (
            can_lift(makers(self.body.graph, [found.base], self._early))
            if inside
            else (found.has(TIME) and id(found.base) not in self._varying)
        )
        return Term("x", found, found) if before and not found.has(self.body.feature) else None

    def _is_state(self, found: Selection) -> bool:
        """Whether its axes are the state's own, the last but for the name."""
        wanted = select(self.body.state, self.body.axes)
        return found.renamed({INNER: self.body.feature}) == wanted


def _factors(found: Selection) -> tuple[Selection, Selection] | None:
    """The operands of a product, along the logical axes and, where it sums, ``INNER``."""
    params, inputs = found.node().params, found.node().inputs
    kept = dict(zip(params["out"], found.places, strict=True))
    factors = []
    for value, own, others in zip(
        inputs, (params["lhs"], params["rhs"]), (params["rhs"], params["lhs"]), strict=True
    ):
        places = []
        for label, size in zip(own, value.shape, strict=True):
            if label in kept:
                places.append(FIRST if dims.same(size, 1) else kept[label])
            elif label in others or dims.same(size, 1):
                places.append(place(INNER, 0, size))
            else:
                return None  # summed before it is multiplied
        if sum(p.logical == INNER for p in places) > 1:
            return None
        factors.append(replace(found, base=value, places=tuple(places)))
    return factors[0], factors[1]


def negated(terms: list[Term]) -> list[Term]:
    return [replace(term, negative=not term.negative) for term in terms]
