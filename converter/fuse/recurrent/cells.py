"""The cell that the body of a loop is, matched by the equations of its gates.

    LSTM    c' = f * c + i * g,  h' = o * act(c')        [Hochreiter & Schmidhuber, 1997]
    GRU     h' = (1 - z) * n + z * h,  n = act(x W + r * (h R + b)) or act(x W + (r * h) R)
            [Cho et al., arXiv:1406.1078]
    RNN     h' = act(x W + h R + b)

The new state is compared in its normal form, so that every way to write the equations is the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple, TypeAlias

from converter.fuse.match import MatchContext, iter_elementwise_ancestors, operands
from converter.fuse.normal_form import NormalForm, normal_form
from converter.fuse.recurrent.terms import (
    GATE_ACTIVATIONS,
    Body,
    GateTerm,
    Reader,
    match_activation,
    negated,
)
from converter.ir import Value, dims, ops
from converter.ir.axes import View
from converter.ir.op import Op, Rounding

SYMMETRIC = ("logistic", "hard_sigmoid")
"""Activations f with ``1 - f(x) = f(-x)``."""

NOT_ALIKE = "its gates have different activations"
NOT_A_CELL = "its state is no sum of gated parts as an LSTM's or a GRU's"
NOT_PRODUCTS = "a gate is more than products of inputs and states with weights, and biases"
NOT_AN_ACTIVATION = "which is no activation of a cell that is known"

FUNCTIONS = (Rounding.FUNCTION, Rounding.INSIDE)
"""Rounding of elementwise operations that are functions, other than arithmetic and selections."""

Products: TypeAlias = dict[frozenset[View], float]
"""A sum of products of different values: the number that multiplies each product."""


class Gates(NamedTuple):
    """The activations of gates by name, and for each gate the terms whose sum the activation
    takes."""

    names: list[str]
    terms: tuple[tuple[GateTerm, ...], ...]


@dataclass(frozen=True)
class RecurrentCell:
    """A recurrent cell in terms of ONNX's operator ``op``.

    - `gates`: the terms of each gate, in the operator's order.
    - `activations`: the names of the activations, in the operator's order.
    - `states`: the inputs of the body that the operator carries.
    - `results`: the new values of these states, as views along the axes of the first state.
    - `reset_last`: whether a GRU's reset gate multiplies the product with the state, not the state.
    """

    body: Body
    op: Op
    gates: tuple[tuple[GateTerm, ...], ...]
    activations: tuple[str, ...]
    states: tuple[Value, ...]
    results: tuple[View, ...]
    reset_last: bool = False


def match_cell(body: Body, result: Value, context: MatchContext) -> RecurrentCell | str | None:
    """Match the cell whose state ``body.state`` gets the new value ``result``.

    Return the cell. Return a text, the reason for a near miss, if the new value has gates but is no
    known cell. Return None if it has no gates and is no function of a product with the state.
    """
    new_state, reader = body.select(result), Reader(body)
    forms = [_expand(view, context) for view in (new_state, *_masked_states(new_state))]
    if any(map(_is_gated, forms[1:])):
        return "a mask leaves its state as it was in some rounds"
    if not _is_gated(forms[0]):
        return _explain_function(reader, result)
    parts = _products(forms[0])
    if parts is None:
        return "its state has powers or quotients of its parts"
    return (
        _match_lstm(reader, new_state, parts, context)
        or _match_gru(reader, new_state, parts)
        or _match_rnn(reader, new_state, parts)
    )


def _masked_states(new_state: View) -> list[View]:
    """Return the values among which a new state is selected by a mask. The list is empty if there
    is no mask."""
    is_masked = new_state.op() is ops.select_n
    return operands(new_state, conversions="none", reach="parts")[1:] if is_masked else []


def _expand(view: View, context: MatchContext) -> NormalForm | None:
    """Return the normal form of a value over the earliest values, which may be parts of others."""
    return normal_form(view, context, conversions="none", reach="parts")


def _is_gated(form: NormalForm | None) -> bool:
    """Return True if an activation is a factor of one of the terms of a normal form."""
    terms = {} if form is None else form.terms
    views = {atom for monomial in terms for atom, _ in monomial if isinstance(atom, View)}
    return any(match_activation(view) is not None for view in views)


def _explain_function(reader: Reader, result: Value) -> str | None:
    """Return the reason why a new state without gates is not that of a known cell.

    It is the reason for a near miss if the state is a sum of products, or elementwise functions of
    a product with the old state. Return None for other values.
    """
    terms = reader.terms(reader.body.select(result)) or ()
    if {"x", "h"} <= {term.kind for term in terms}:
        return "its state has no activation"
    nodes = () if result.node is None else tuple(iter_elementwise_ancestors(result.node))
    operations = [node.op for node in nodes if node.op.elementwise]
    unknown = [op for op in operations if op.rounding in FUNCTIONS and op not in GATE_ACTIVATIONS]
    if not nodes or not nodes[0].op.elementwise or not any(map(reader.is_product_of_state, nodes)):
        return None
    if unknown:
        return f"its state is computed by {unknown[0]}, {NOT_AN_ACTIVATION}"
    return NOT_A_CELL if {*operations} & {*GATE_ACTIVATIONS} else None


def _products(form: NormalForm | None) -> Products | None:
    """Return a normal form as a sum of products of different values.

    Return None without a normal form, or if one of its terms has powers, roots, sums along axes or
    named sizes.
    """
    terms = {} if form is None else form.terms
    products = {
        frozenset(atom for atom, power in monomial if isinstance(atom, View) and power == 1): number
        for monomial, number in terms.items()
    }
    sizes = [len(monomial) for monomial in terms]
    return products if products and [*map(len, products)] == sizes else None


# ------------------------------------------------------------------------------------------- LSTM


class HiddenState(NamedTuple):
    """The new hidden state of an LSTM: ``gate * activation(c')``, with its value."""

    value: View
    gate: View
    activation: str


def _match_lstm(
    reader: Reader, new_state: View, parts: Products, context: MatchContext
) -> RecurrentCell | str | None:
    """Match ``o * act(c')``, where ``c'`` is the new value of another state of the loop.

    ``new_state`` is the new value of the state, and ``parts`` is the same as a sum of products.
    Return the cell, the reason for a near miss as a text, or None if there is no such state.
    """
    body = reader.body
    for factors, number in parts.items():
        for factor in factors:
            outer, other_factors = match_activation(factor), factors - {factor}
            state = None if outer is None else _find_cell_state(body, outer.of)
            if outer is None or state is None or len(other_factors) != 1:
                continue
            if len(parts) != 1 or number != 1:
                return "its state is more than a gate times an activation of its cell"
            (gate,) = other_factors
            products = _products(_expand(outer.of, context)) or {}
            hidden = HiddenState(new_state, gate, outer.name)
            return _match_memory(reader, hidden, outer.of, products, state)
    return None


def _find_cell_state(body: Body, view: View) -> Value | None:
    """Return the other state of the loop whose new value is ``view``, or None.

    The result is the input of the body with the state before the round.
    """
    carried = body.loop.params["num_carry"]
    for old_state, new_state in zip(body.graph.inputs[:carried], body.graph.outputs, strict=False):
        is_candidate = old_state is not body.state and dims.is_same_shape(
            old_state.shape, body.state.shape
        )
        if is_candidate and body.select(new_state) == view:
            return old_state
    return None


def _match_memory(
    reader: Reader, hidden: HiddenState, memory: View, parts: Products, state: Value
) -> RecurrentCell | str | None:
    """Match ``c' = f * c + i * g``, the new cell state of an LSTM.

    Return the cell, or the reason for a near miss as a text.

    **Arguments**

    - `hidden`: the new hidden state, which is computed from the new cell state.
    - `memory`: the new cell state.
    - `parts`: the new cell state as a sum of products.
    - `state`: the input of the body with the cell state.
    """
    old_memory = reader.body.select(state)
    forget_factors = [factors - {old_memory} for factors in parts if old_memory in factors]
    input_factors = [factors for factors in parts if old_memory not in factors]
    is_plain = all(number == 1 for number in parts.values()) and len(parts) == 2
    if (
        not is_plain
        or len(forget_factors) != 1
        or len(forget_factors[0]) != 1
        or len(input_factors[0]) != 2
    ):
        return "its cell is not a gate times itself plus a gate times something new"
    reason = ""
    (forget,) = forget_factors[0]
    for gate, candidate in permutations(input_factors[0]):
        views = gate, hidden.gate, forget, candidate
        gates = _match_gates(reader, views)
        if gates is not None and len(set(gates.names[:3])) == 1:
            names, states = (*gates.names[::3], hidden.activation), (reader.body.state, state)
            return RecurrentCell(
                reader.body, ops.lstm, gates.terms, names, states, (hidden.value, memory)
            )
        reason = _explain_gates(reader, views) if gates is None else NOT_ALIKE
    return reason


def _match_gates(reader: Reader, gates: Iterable[View]) -> Gates | None:
    """Return the activations and terms of gates, in their order.

    Return None if a gate is not an activation of a sum of products and biases, or if one of its
    terms is multiplied by another gate.
    """
    activations = [match_activation(gate) for gate in gates]
    recognised = [gate for gate in activations if gate is not None]
    terms = [reader.terms(gate.of) for gate in recognised]
    plain_terms = [
        tuple(t) for t in terms if t is not None and all(term.gate is None for term in t)
    ]
    return (
        Gates([gate.name for gate in recognised], tuple(plain_terms))
        if len(plain_terms) == len(activations)
        else None
    )


def _explain_gates(reader: Reader, gates: Iterable[View]) -> str:
    """Return the reason why `_match_gates` returns None: the first operation that it does not
    know."""
    for gate in gates:
        activation = match_activation(gate)
        if activation is None:
            return f"a gate is computed by {gate.op() or 'no operation'}, {NOT_AN_ACTIVATION}"
        reader.unknown = None
        if reader.terms(activation.of) is None and reader.unknown is not None:
            return f"{NOT_PRODUCTS}: it has a term of {reader.unknown}"
    return NOT_PRODUCTS


# -------------------------------------------------------------------------------------------- GRU


def _match_gru(reader: Reader, new_state: View, parts: Products) -> RecurrentCell | str | None:
    """Match ``(1 - z) * n + z * h`` with a reset gate within ``n``, or the same with ``1 - z`` for
    ``z``.

    ``new_state`` is the new value of the state, and ``parts`` is the same as a sum of products.
    Return the cell, the reason for a near miss as a text, or None for other products.
    """
    old_state = reader.body.select(reader.body.state)
    for update, candidate, is_complement in _match_blends(parts, old_state):
        update_gates, inner = _match_gates(reader, (update,)), match_activation(candidate)
        terms = None if inner is None else reader.terms(inner.of)
        if update_gates is None or terms is None or inner is None:
            return _explain_gates(reader, (update, candidate))
        (name,), (update_terms,) = update_gates.names, update_gates.terms
        if is_complement and name not in SYMMETRIC:
            return f"one less {name} is none of its negative operand"
        gated = {t.gate for t in terms if t.gate is not None}
        if len(gated) != 1:
            return "not one gate resets its state"
        resets = _match_gates(reader, gated)
        if resets is None or resets.names != update_gates.names:
            return _explain_gates(reader, gated) if resets is None else NOT_ALIKE
        resets_last = _resets_last(terms)
        if resets_last is None:
            return "its reset gate is on some of what comes from its state"
        gates = (
            tuple(negated(update_terms)) if is_complement else update_terms,
            *resets.terms,
            tuple(terms),
        )
        state = reader.body.state
        return RecurrentCell(
            reader.body, ops.gru, gates, (name, inner.name), (state,), (new_state,), resets_last
        )
    return None


def _match_blends(parts: Products, old_state: View) -> Iterator[tuple[View, View, bool]]:
    """Yield each way to see a sum of products as ``n - z * n + z * h``, where h is the state
    ``old_state``.

    The result is (z, n, False). It is (z, n, True) for the same with ``1 - z`` in place of ``z``,
    which is ``h - z * h + z * n``.
    """
    if len(parts) != 3:
        return
    for factors, number in parts.items():
        if old_state not in factors or len(factors) != 2:
            continue
        (update,) = factors - {old_state}
        for other in parts:
            if update in other and len(other) == 2 and old_state not in other:
                (candidate,) = other - {update}
                single_factor = old_state if number == -1 else candidate
                blend = {frozenset({single_factor}): 1, factors: number, other: -number}
                if blend == parts and abs(number) == 1:
                    yield update, candidate, number == -1


def _resets_last(terms: list[GateTerm]) -> bool | None:
    """Return True if the reset gate multiplies all products with the state, False if it multiplies
    the state.

    Return None if it multiplies only some of them. ``terms`` are the terms of a GRU's candidate
    state.
    """
    kinds = {(t.kind, t.gate is not None) for t in terms} - {("x", False), ("bias", False)}
    if kinds == {("reset", True)}:
        return False
    return True if ("h", True) in kinds and kinds <= {("h", True), ("bias", True)} else None


# -------------------------------------------------------------------------------------------- RNN


def _match_rnn(reader: Reader, new_state: View, parts: Products) -> RecurrentCell | str | None:
    """Match ``act(x W + h R + b)``. Return the cell, or the reason for a near miss as a text.

    ``new_state`` is the new value of the state, and ``parts`` is the same as a sum of products.
    """
    single_factors = [factors for factors in parts if len(factors) == 1]
    if len(parts) != 1 or len(single_factors) != 1 or parts[single_factors[0]] != 1:
        return NOT_A_CELL
    gates = _match_gates(reader, single_factors[0])
    if gates is None:
        return _explain_gates(reader, single_factors[0])
    return RecurrentCell(
        reader.body, ops.rnn, gates.terms, tuple(gates.names), (reader.body.state,), (new_state,)
    )
