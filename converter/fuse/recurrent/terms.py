"""The terms of a gate: products of inputs and states with weights, and biases.

    gate = x W + h R + b

The terms may be in any order. Inputs and states may be concatenated for one product, or have
separate products. There may be one product for all gates, or a product for each gate. The products
may be in the loop's body or before the loop.

The gates are often parts of one value. They are next to each other along one axis, or the value has
a separate axis for them. Values are views along the logical axes of the cell. These are the axes of
the cell's state, followed by two additional axes: ``INNER`` and ``TIME``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from converter.fuse.match import operands
from converter.fuse.recurrent.lift import can_vectorize, dependent_ids, find_producers
from converter.ir import Graph, Node, Value, const, dims, ops
from converter.ir.axes import Factor, View, is_forward, view_of
from converter.ir.moves import look_through
from converter.ir.op import Op
from converter.ir.scalars import scalar

TIME, INNER = -1, -2
"""The logical axes of a loop's rounds, and of the elements that a product sums over."""
GATE_ACTIVATIONS = (ops.tanh, ops.logistic, ops.relu, ops.hard_sigmoid)
DEEPEST_GATE = 12
"""Largest depth of sums and products in a gate; a cell has four or five."""


@dataclass(frozen=True)
class Activation:
    """An elementwise activation by its name, and its operand."""

    name: str
    of: View


def match_activation(view: View) -> Activation | None:
    """Return the activation that computes a value, with its operand, or None for another value.

    A maximum with zero is a ReLU.
    """
    if (op := view.op()) in GATE_ACTIVATIONS:
        return Activation(op.name, operands(view, conversions="none", reach="parts")[0])
    if view.op() is ops.max:
        one, other = operands(view, conversions="none", reach="parts")
        for x, zero in ((one, other), (other, one)):
            if scalar(zero.base) == 0:
                return Activation("relu", x)
    return None


@dataclass(frozen=True)
class GateTerm:
    """A term of a gate: the product of ``source`` and ``weights``, or a bias in ``weights``.

    - `kind`: "x" for an input, "h" for the state, "bias", or "reset" for the state times ``gate``.
      The weights multiply that product.
    - `weights`, `source`: the operands of the product. Both have the summed axis along ``INNER``.
    - `gate`: for the kind "reset" the gate of the state, for other kinds a gate that multiplies the
      full term. None without a gate.
    - `negative`: whether the term is subtracted.
    """

    kind: str
    weights: View
    source: View | None = None
    gate: View | None = None
    negative: bool = False


@dataclass(frozen=True)
class Body:
    """The body of a loop, with one of its inputs as the state of a cell.

    ``feature`` is the axis of the state that the products with weights sum over. The axes of the
    state are the logical axes of the cell.
    """

    loop: Node
    state: Value
    feature: int

    @property
    def graph(self) -> Graph:
        """Graph of one round."""
        return self.loop.bodies["body"]

    @property
    def state_axes(self) -> tuple[int, ...]:
        """All axes of the state, from 0 on."""
        return tuple(range(self.state.rank))

    def select(self, value: Value, axes: Sequence[int] | None = None) -> View:
        """Return a value as a view along the logical axes.

        The base of the view is the earliest value with these elements. ``axes`` contains the
        logical axis for each axis of the value; by default they are those of the state. The view
        does not vary along the other logical axes.
        """
        positions: list[int | None] = [None] * (self.state.rank + 2)
        for i, axis in enumerate(self.state_axes if axes is None else axes):
            positions[axis] = i
        return look_through(
            view_of(value).select_axes(positions), conversions="none", reach="parts"
        )

    def scanned(self, value: Value) -> Value | None:
        """Return the operand of the loop whose slices are the scanned input ``value`` of the body.

        Return None for a state and for other values.
        """
        positions = [i for i, v in enumerate(self.graph.inputs) if v is value]
        if not positions or positions[0] < self.loop.params["num_carry"]:
            return None
        return self.loop.inputs[positions[0]]


class Reader:
    """Reader of values as sums of the terms of gates, in the body of a loop and before it.

    ``unknown`` is the operation of the last value that was no term.
    """

    def __init__(self, body: Body) -> None:
        self.body = body
        self.unknown: Op | None = None
        graph, count = body.graph, body.loop.params["num_carry"]
        self._loop_dependent = dependent_ids(graph, graph.inputs)
        self._input_dependent = self._loop_dependent - dependent_ids(graph, graph.inputs[:count])

    def varies(self, view: View) -> bool:
        """Return True if a value differs among the rounds of the loop."""
        return id(view.base) in self._loop_dependent or bool(view.groups[TIME])

    def terms(self, view: View, depth: int = 0) -> list[GateTerm] | None:
        """Return the terms whose sum a value is, or None if it is no such sum.

        A value that does not differ among rounds is one bias. ``depth`` is the number of sums and
        gated products from the gate to the value. From `DEEPEST_GATE` on they are not expanded.
        """
        view = self._before_loop(view)
        op = view.op()
        if not self.varies(view):
            return self._match_bias(view)
        if depth < DEEPEST_GATE and op in (ops.add, ops.sub, ops.neg):
            parts = [
                self.terms(part, depth + 1)
                for part in operands(view, conversions="none", reach="parts")
            ]
            if op is not ops.add and parts[-1] is not None:
                parts[-1] = negated(parts[-1])
            sums = [part for part in parts if part is not None]
            return None if len(sums) < len(parts) else [term for part in sums for term in part]
        if depth < DEEPEST_GATE and op is ops.mul:
            terms = self._match_gated(view, depth)
        else:
            is_product = op is ops.einsum
            terms = self._match_product(view) if is_product else self._match_unweighted(view)
        self.unknown = op if terms is None else self.unknown
        return terms

    def _before_loop(self, view: View) -> View:
        """Return a view of a scanned input as a view of the scanned array, with the rounds along
        ``TIME``.

        Other views are returned unchanged.
        """
        source = self.body.scanned(view.base)
        if source is None:
            return view
        return look_through(
            view.rebase(source, range(1, source.rank)).replace_axis(TIME, 0),
            conversions="none",
            reach="parts",
        )

    def _match_bias(self, view: View) -> list[GateTerm] | None:
        """Return a value that does not differ among rounds as a list of one bias.

        Return None if it varies along another axis than the feature axis.
        """
        return [GateTerm("bias", view)] if view.varies_only_along([self.body.feature]) else None

    def _match_gated(self, view: View, depth: int) -> list[GateTerm] | None:
        """Return the terms of a product of a gate and a sum of terms of the state alone, or None.

        The terms are products of the state with weights, and biases.
        """
        one, other = operands(view, conversions="none", reach="parts")
        for gate, inner in ((one, other), (other, one)):
            if match_activation(gate) is None:
                continue
            terms = self.terms(inner, depth + 1)
            if terms and all(t.kind in ("h", "bias") and t.gate is None for t in terms):
                return [replace(term, gate=gate) for term in terms]
        return None

    def _match_unweighted(self, view: View) -> list[GateTerm] | None:
        """Return an input that is added without weights as a product with weights of ones.

        The weights are the identity matrix, or ones if the input is the same for all features.
        Return None if the value is no input, or if it is a part of one.
        """
        feature = self.body.feature
        size = self.body.state.shape[feature]
        term = self._match_source(exchange_feature_axis(view, feature))
        if term is None or term.kind != "x" or term.source is None or not dims.is_static(size):
            return None
        width = dims.size_product([factor.size for factor in term.source.groups[INNER]])
        if not dims.is_static(width) or width not in (1, size):
            return None
        unit = np.eye(size) if width == size else np.ones((size, 1))
        weights = self.body.select(const(unit, view.base.dtype), (feature, INNER))
        return [replace(term, weights=weights)]

    def _match_product(self, view: View) -> list[GateTerm] | None:
        """Return the terms of a product with weights, or None for other products.

        One factor differs among the rounds of the loop; the weights do not.
        """
        node = view.node()
        factors = _align_einsum_operands(view)
        if factors is None or node.params["dtype"] != node.out.dtype:
            return None
        one, other = factors
        if self.varies(one) == self.varies(other):
            return None
        source, weights = (one, other) if self.varies(one) else (other, one)
        weight_axes = (self.body.feature, self.body.state.rank)
        return (
            self._match_weighted(source, weights)
            if weights.varies_only_along(weight_axes)
            else None
        )

    def _match_weighted(self, source: View, weights: View) -> list[GateTerm] | None:
        """Return the terms of ``source`` times ``weights``, or None if the source is neither input
        nor state.

        A product with concatenated values is the sum of a product with each of them.
        """
        source = look_through(source, conversions="none", reach="parts")
        if (
            source.op() is ops.concatenate
            and source.axes[INNER] == source.node().params["dimension"]
        ):
            return self._match_concatenated(source, weights)
        term = self._match_source(source)
        return (
            None
            if term is None
            else [replace(term, weights=look_through(weights, conversions="none", reach="parts"))]
        )

    def _match_concatenated(self, source: View, weights: View) -> list[GateTerm] | None:
        """Return the terms of the product of a concatenation with weights.

        Return None if a part of the concatenation is no source of a term (`_match_source`).
        """
        terms: list[GateTerm] = []
        offset = 0
        for value in source.node().inputs if source.has_full_axes else ():
            size = value.shape[source.node().params["dimension"]]
            part, rows = (
                source.slice_axis(INNER, offset, size),
                weights.slice_axis(INNER, offset, size),
            )
            part_terms = None if part is None or rows is None else self._match_weighted(part, rows)
            if part_terms is None or not dims.is_static(size):
                return None
            terms += part_terms
            offset += size
        return terms or None

    def _match_source(self, view: View) -> GateTerm | None:
        """Return a term with an input, the state, or the state times a gate as its source.

        Its ``weights`` are a placeholder, which the caller replaces. Return None if the value is
        another one, or a part of the state.
        """
        if view.base is self.body.state:
            return GateTerm("h", view, view) if self._is_state(view) else None
        if view.op() is ops.mul:
            one, other = operands(view, conversions="none", reach="parts")
            for gate, state in ((one, other), (other, one)):
                if (
                    state.base is self.body.state
                    and self._is_state(state)
                    and match_activation(gate)
                ):
                    gate_view = exchange_feature_axis(gate, self.body.feature)
                    return GateTerm("reset", view, state, gate_view)
        view = self._before_loop(view)
        is_in_body = id(view.base) in self._input_dependent
        is_input = (
            can_vectorize(find_producers(self.body.graph, [view.base], self._input_dependent))
            if is_in_body
            else (view.groups[TIME] and id(view.base) not in self._loop_dependent)
        )
        return (
            GateTerm("x", view, view) if is_input and not view.groups[self.body.feature] else None
        )

    def is_product_of_state(self, node: Node) -> bool:
        """Return True if a node is a contraction with the state."""
        return node.op is ops.einsum and any(
            look_through(view_of(value), conversions="none", reach="parts").base is self.body.state
            for value in node.inputs
        )

    def _is_state(self, view: View) -> bool:
        """Return True if a view is the full state, with its features along the axis that products
        sum over."""
        return exchange_feature_axis(view, self.body.feature) == self.body.select(self.body.state)


def _align_einsum_operands(view: View) -> tuple[View, View] | None:
    """Return both operands of an einsum along the logical axes, with the summed axis as ``INNER``.

    Return None if the einsum sums over several axes, or over an axis that only one operand has.
    """
    params, factors = view.node().params, list[View]()
    for value, labels, other_labels in zip(
        view.node().inputs,
        (params["lhs"], params["rhs"]),
        (params["rhs"], params["lhs"]),
        strict=True,
    ):
        pairs = enumerate(zip(labels, value.shape, strict=True))
        summed = [i for i, (a, d) in pairs if a not in params["out"] and not dims.is_same_dim(d, 1)]
        if len(summed) > 1 or any(labels[i] not in other_labels for i in summed):
            # The product sums over several axes, or over an axis that only one operand has.
            return None
        factor = view.rebase(
            value, [labels.index(a) if a in labels else None for a in params["out"]]
        )
        factors.append(factor.replace_axis(INNER, summed[0]) if summed else factor)
    return factors[0], factors[1]


def negated(terms: Sequence[GateTerm]) -> list[GateTerm]:
    """Return the terms with the opposite signs."""
    return [replace(term, negative=not term.negative) for term in terms]


# ---------------------------------------------------------------------------------- logical axes


def exchange_feature_axis(view: View, feature: int) -> View:
    """Return the view with the axis ``feature`` and the axis that products sum over (``INNER``)
    exchanged."""
    axes = list(range(len(view.groups)))
    axes[feature], axes[INNER] = axes[INNER], axes[feature]
    return view.select_axes(axes)


def runs_backwards(view: View) -> bool:
    """Return True if the view runs through the rounds of the loop from the last to the first."""
    return any(not is_forward(f.stride) for f in view.groups[TIME])


def to_forward_order(view: View) -> View:
    """Return a view of the same elements that runs through the rounds of the loop from the first to
    the last. A view that goes back is reversed along ``TIME``; another one is returned unchanged.
    No node is emitted."""
    starts, groups = list(view.starts), list(view.groups)
    for axis, stride, size in groups[TIME] if runs_backwards(view) else ():
        starts[axis or 0] += stride * (size - 1)
        groups[TIME] = (Factor(axis, -stride, size),)
    return View(view.base, tuple(groups), tuple(starts))
