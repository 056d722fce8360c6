"""Which cell the body of a loop is, as equations of its gates.

    LSTM    c' = f * c + i * g,  h' = o * act(c')        [Hochreiter & Schmidhuber, 1997]
    GRU     h' = (1 - z) * n + z * h,  n = act(x W + r * (h R + b)) or act(x W + (r * h) R)
            [Cho et al., arXiv:1406.1078]
    RNN     h' = act(x W + h R + b)

The new state is multiplied out, so that every way to write the equations is the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

from converter.fuse.recurrent.selection import Polynomial, polynomial, selected_operands
from converter.fuse.recurrent.terms import Body, GateTerm, Reader, activation, negated
from converter.ir import Value, dims, ops
from converter.ir.axes import View
from converter.ir.op import Op

SYMMETRIC = ("logistic", "hard_sigmoid")
"""Where 1 - f(x) = f(-x)."""

NOT_ALIKE = "its gates have different activations"
NOT_PRODUCTS = "a gate is more than products of inputs and states with weights, and biases"


class Gates(NamedTuple):
    """The activations of gates, and the terms of which they are."""

    names: list[str]
    terms: tuple[tuple[GateTerm, ...], ...]


@dataclass(frozen=True)
class RecurrentCell:
    """An operator of ONNX: the terms of its gates, in its order, and its activations.

    ``states`` are the inputs of the body that the operator carries, and ``results`` what they
    become, along the axes of the first. ``reset_last`` says that a GRU's reset gate multiplies
    the product with the state, not the state itself.
    """

    body: Body
    op: Op
    gates: tuple[tuple[GateTerm, ...], ...]
    activations: tuple[str, ...]
    states: tuple[Value, ...]
    results: tuple[View, ...]
    reset_last: bool = False


def cell(body: Body, result: Value) -> RecurrentCell | str | None:
    """The cell whose state becomes ``result``, or what is missing to be one."""
    new = body.select(result)
    if new.op() is ops.select_n and any(map(_is_gated, selected_operands(new)[1:])):
        return "a mask leaves its state as it was in some rounds"
    parts = polynomial(new)
    if parts is None or not _is_gated(new):
        return None
    reader = Reader(body)
    return _lstm(reader, new, parts) or _gru(reader, new, parts) or _rnn(reader, new, parts)


def _is_gated(new: View) -> bool:
    factors = {factor for factors in polynomial(new) or {} for factor in factors}
    return any(activation(factor) is not None for factor in factors)


# ------------------------------------------------------------------------------------------- LSTM


def _lstm(reader: Reader, new: View, parts: Polynomial) -> RecurrentCell | str | None:
    """``o * act(c')``, of which ``c'`` is the other state of the loop."""
    body = reader.body
    for factors, number in parts.items():
        for squashed in factors:
            outer, other_factors = activation(squashed), factors - {squashed}
            state = None if outer is None else _becomes(body, outer.of)
            if outer is None or state is None or len(other_factors) != 1:
                continue
            if len(parts) != 1 or number != 1:
                return "its state is more than a gate times an activation of its cell"
            (gate,) = other_factors
            return _with_memory(reader, new, gate, outer.of, outer.name, state)
    return None


def _becomes(body: Body, view: View) -> Value | None:
    """The state of the loop that becomes this, if it is not the one that is known."""
    carried = body.loop.params["num_carry"]
    for before, after in zip(body.graph.inputs[:carried], body.graph.outputs, strict=False):
        alike = before is not body.state and dims.same_shape(before.shape, body.state.shape)
        if alike and body.select(after) == view:
            return before
    return None


def _with_memory(
    reader: Reader, new: View, out: View, memory: View, outer: str, state: Value
) -> RecurrentCell | str | None:
    old = reader.body.select(state)
    parts = polynomial(memory) or {}
    kept = [factors - {old} for factors in parts if old in factors]
    added = [factors for factors in parts if old not in factors]
    plain = all(number == 1 for number in parts.values()) and len(parts) == 2
    if not plain or len(kept) != 1 or len(kept[0]) != 1 or len(added[0]) != 2:
        return "its cell is not a gate times itself plus a gate times something new"
    reason = NOT_PRODUCTS
    (forget,) = kept[0]
    for gate, fresh in permutations(added[0]):
        gates = _gates(reader, (gate, out, forget, fresh))
        if gates is not None and len(set(gates.names[:3])) == 1:
            names, states = (gates.names[0], gates.names[3], outer), (reader.body.state, state)
            return RecurrentCell(reader.body, ops.lstm, gates.terms, names, states, (new, memory))
        reason = NOT_PRODUCTS if gates is None else NOT_ALIKE
    return reason


def _gates(reader: Reader, gates: Iterable[View]) -> Gates | None:
    """Activations and terms of gates; the terms are not multiplied by another."""
    activations = [activation(gate) for gate in gates]
    recognised = [gate for gate in activations if gate is not None]
    terms = [reader.terms(gate.of) for gate in recognised]
    plain = [tuple(t) for t in terms if t is not None and all(term.gate is None for term in t)]
    return (
        Gates([gate.name for gate in recognised], tuple(plain))
        if len(plain) == len(activations)
        else None
    )


# -------------------------------------------------------------------------------------------- GRU


def _gru(reader: Reader, new: View, parts: Polynomial) -> RecurrentCell | str | None:
    old = reader.body.select(reader.body.state)
    for update, fresh, turned in _blends(parts, old):
        update_gates, inner = _gates(reader, (update,)), activation(fresh)
        terms = None if inner is None else reader.terms(inner.of)
        if update_gates is None or terms is None or inner is None:
            return NOT_PRODUCTS
        (name,), (first,) = update_gates.names, update_gates.terms
        if turned and name not in SYMMETRIC:
            return f"one less {name} is none of its negative operand"
        gated = {t.gate for t in terms if t.gate is not None}
        if len(gated) != 1:
            return "not one gate resets its state"
        resets = _gates(reader, gated)
        if resets is None or resets.names != update_gates.names:
            return NOT_PRODUCTS if resets is None else NOT_ALIKE
        last = _resets_last(terms)
        if last is None:
            return "its reset gate is on some of what comes from its state"
        gates = (tuple(negated(first)) if turned else first, *resets.terms, tuple(terms))
        state = reader.body.state
        return RecurrentCell(
            reader.body, ops.gru, gates, (name, inner.name), (state,), (new,), last
        )
    return None


def _blends(parts: Polynomial, old: View) -> Iterator[tuple[View, View, bool]]:
    """``n - z * n + z * h``, or the same with ``1 - z`` for ``z``: (z, n, whether it is)."""
    if len(parts) != 3:
        return
    for factors, number in parts.items():
        if old not in factors or len(factors) != 2:
            continue
        (update,) = factors - {old}
        for other in parts:
            if update in other and len(other) == 2 and old not in other:
                (fresh,) = other - {update}
                lone = old if number == -1 else fresh
                blend = {frozenset({lone}): 1, factors: number, other: -number}
                if blend == parts and abs(number) == 1:
                    yield update, fresh, number == -1


def _resets_last(terms: list[GateTerm]) -> bool | None:
    """Whether all of the state's terms are multiplied by the gate, or the state in all of them."""
    kinds = {(t.kind, t.gate is not None) for t in terms} - {("x", False), ("bias", False)}
    if kinds == {("reset", True)}:
        return False
    return True if ("h", True) in kinds and kinds <= {("h", True), ("bias", True)} else None


# -------------------------------------------------------------------------------------------- RNN


def _rnn(reader: Reader, new: View, parts: Polynomial) -> RecurrentCell | str | None:
    lone = [factors for factors in parts if len(factors) == 1]
    if len(parts) != 1 or len(lone) != 1 or parts[lone[0]] != 1:
        return "its state is no sum of gated parts as an LSTM's or a GRU's"
    gates = _gates(reader, lone[0])
    if gates is None:
        return NOT_PRODUCTS
    return RecurrentCell(
        reader.body, ops.rnn, gates.terms, tuple(gates.names), (reader.body.state,), (new,)
    )
