"""Loops whose body is a recurrent cell become the operator that is the whole loop.

    scan(cell, states, inputs) = LSTM, GRU or RNN (inputs, weights, states)

A state of the loop is followed to what it becomes (``cells``), a sum of gated parts, whatever the
order in which it is written (``selection``); each gate is an activation of a sum of products with
weights and biases (``terms``), parts of larger ones perhaps (``selection``). What the loop
gives has to be what the operator gives (``results``); then weights are put in ONNX's order, and the
node is written (``build``).
"""

from __future__ import annotations

from converter.fuse.match import Uses, proved
from converter.fuse.recurrent import loop_results, recurrent_build, selection
from converter.fuse.recurrent.cells import Cell, cell
from converter.fuse.recurrent.recurrent_build import Recurrent
from converter.fuse.recurrent.terms import Body
from converter.ir import Node, dims, ops


def prove_recurrent(node: Node, uses: Uses) -> Recurrent | str | None:
    """For each state of the loop, and each of its axes as that which the products sum over."""
    graph, carried = node.bodies["body"], node.params["num_carry"]
    lasts = dims.is_at_least(node.params["length"], 1) and not dims.same(node.params["length"], 1)
    if (
        not lasts
        or carried == len(graph.inputs)
        or not any(n.op is ops.einsum for n in graph.nodes)
    ):
        return None
    reason: str | None = None
    for state, after in zip(graph.inputs[:carried], graph.outputs, strict=False):
        for feature in reversed(range(state.rank)):
            found = cell(Body(node, state, feature), after)
            if isinstance(found, Cell):
                return _recurrent_whole(found, uses)
            reason = reason or found
    return reason


def _recurrent_whole(found: Cell, uses: Uses) -> Recurrent | str | None:
    terms = [term for gate in found.gates for term in gate]
    sources = dict.fromkeys(t.source for t in terms if t.kind == "x" and t.source is not None)
    if not sources or not any(t.kind in ("h", "reset") for t in terms):
        return None
    dtypes = {found.body.state.dtype, *(t.weights.base.dtype for t in terms)}
    dtypes.update(s.base.dtype for s in sources)
    if len(dtypes) != 1 or not uses.takes("LSTM", found.body.state.dtype):
        return "the runtime's operator does not take its dtypes"
    if len({selection.goes_back(s) for s in sources}) != 1:
        return "it goes through one input forwards and through another backwards"
    known = [found.body.state.shape[found.body.feature], *map(recurrent_build.width, sources)]
    if not dims.all_static(known):
        return "its width is not known"
    given = loop_results.results(found)
    return given if isinstance(given, str) else Recurrent(found, tuple(sources), given)


RECURRENT = proved(
    "LSTM, GRU or RNN", (ops.scan,), prove_recurrent, recurrent_build.build_recurrent
)
