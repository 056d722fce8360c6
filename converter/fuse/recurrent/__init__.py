"""Replace loops over a recurrent cell by the ONNX operator that computes the whole loop.

    scan(cell, states, inputs) = LSTM, GRU or RNN (inputs, weights, states)

The new value of a state is compared in its normal form as a sum of products of gates, so that the
order of operations in the program does not matter (``cells``). Each gate is an activation function,
applied to a sum of biases and of products of weights with inputs and states (``terms``). A gate may
be a slice of a larger product. The outputs of the loop have to be outputs of the operator, or have
to be computed from them (``loop_results``). If the loop matches, the weights are arranged in ONNX's
order and the node is emitted.

In ONNX the weights of all gates are consecutive rows of one array: [directions, gates * H, I or H].
The shape of the biases of inputs and states is [directions, 2 * gates * H], and the shape of the
inputs is [T, B, I].
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from converter.fuse.match import MatchContext, recogniser_from
from converter.fuse.recurrent.cells import RecurrentCell, match_cell
from converter.fuse.recurrent.lift import Lifter, dependent_ids, find_producers
from converter.fuse.recurrent.loop_results import (
    RemainingLoop,
    Result,
    emit_remaining_loop,
    match_results,
)
from converter.fuse.recurrent.terms import (
    INNER,
    TIME,
    Body,
    GateTerm,
    runs_backwards,
    to_forward_order,
)
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import View
from converter.ir.dims import Dim, Shape
from converter.ir.moves import emit_view
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class RecurrentLayer:
    """A matched recurrent layer: its cell, its inputs, and the outputs of the loop.

    - `sources`: the inputs, which are concatenated along their width.
    - `results`: the outputs of the loop that the operator computes, by their index.
    - `remaining_loop`: the loop that computes the other outputs, or None if there are none.
    """

    cell: RecurrentCell
    sources: tuple[View, ...]
    results: dict[int, Result]
    remaining_loop: RemainingLoop | None


def match_recurrent(node: Node, context: MatchContext) -> RecurrentLayer | str | None:
    """Match a ``scan`` whose body is an LSTM, GRU or RNN cell.

    Each axis of each state is tried as the axis that the products with weights sum over. Return the
    layer, a text with the reason for a near miss, or None. None is also returned for a loop that
    may have no round and for a loop of one round.
    """
    graph, carried = node.bodies["body"], node.params["num_carry"]
    has_several_rounds = dims.is_at_least(node.params["length"], 1) and not dims.is_same_dim(
        node.params["length"], 1
    )
    if not has_several_rounds or not any(n.op is ops.einsum for n in graph.nodes):
        return None
    reason: str | None = None
    for state, new_state in zip(graph.inputs[:carried], graph.outputs, strict=False):
        for feature in reversed(range(state.rank)):
            cell_or_reason = match_cell(Body(node, state, feature), new_state, context)
            if cell_or_reason is not None and carried == len(graph.inputs):
                return "its loop scans no inputs"
            if isinstance(cell_or_reason, RecurrentCell):
                return _check_layer(cell_or_reason, context)
            reason = reason or cell_or_reason
    return reason


def _check_layer(matched_cell: RecurrentCell, context: MatchContext) -> RecurrentLayer | str | None:
    """Return the layer of a matched cell, or the reason why the operator cannot compute it.

    All values must have one dtype that the runtime's LSTM supports. All inputs must be read in the
    same direction and have a static width. Return None if the cell reads no inputs or does not read
    its state.
    """
    terms = [term for gate in matched_cell.gates for term in gate]
    sources = dict.fromkeys(t.source for t in terms if t.kind == "x" and t.source is not None)
    if not sources or not any(t.kind in ("h", "reset") for t in terms):
        return None
    dtypes = {matched_cell.body.state.dtype, *(t.weights.base.dtype for t in terms)}
    dtypes.update(s.base.dtype for s in sources)
    if len(dtypes) != 1 or not context.has_operator("LSTM", matched_cell.body.state.dtype):
        return "the runtime's operator does not take its dtypes"
    if len({runs_backwards(s) for s in sources}) != 1:
        return "it goes through one input forwards and through another backwards"
    widths = [
        matched_cell.body.state.shape[matched_cell.body.feature],
        *map(feature_count, sources),
    ]
    if not dims.all_static(widths):
        return "its width is not known"
    results_or_reason = match_results(matched_cell)
    return (
        results_or_reason
        if isinstance(results_or_reason, str)
        else RecurrentLayer(matched_cell, tuple(sources), *results_or_reason)
    )


# ------------------------------------------------------------------------------------------ writing


def emit_recurrent(node: Node, recurrent: RecurrentLayer, editor: Editor) -> list[Value]:
    """Emit the recurrent operator, and return all outputs of the loop ``node``.

    Outputs that the operator does not compute are computed after it (`emit_remaining_loop`).
    """
    matched_cell = recurrent.cell
    _move_invariant_nodes(recurrent, editor)
    writer = _OperandEmitter(recurrent, editor)
    backwards = runs_backwards(recurrent.sources[0])
    params = {
        "reverse": node.params["reverse"] != backwards,
        "activations": matched_cell.activations,
    }
    if matched_cell.op is ops.gru:
        params["reset_last"] = matched_cell.reset_last
    inputs = [writer.inputs(), *writer.weights(), *writer.initial()]
    time, batch, hidden = node.params["length"], writer.batch, writer.hidden
    types: list[tuple[Shape, np.dtype]] = [((time, 1, batch, hidden), node.out.dtype)]
    types += [((1, batch, hidden), node.out.dtype) for _ in matched_cell.states]
    all_states, *last_states = editor.add_many(matched_cell.op, inputs, types, params)
    stacked = editor.reshape(all_states, (time, *(writer.sizes[a] for a in writer.axes)))
    if backwards:
        stacked = editor.rev(stacked, (0,))
    ends = [editor.reshape(v, tuple(writer.sizes[a] for a in writer.axes)) for v in last_states]

    def written(result: Result, shape: Shape) -> Value:
        value = stacked if result.stacked else ends[result.index]
        return result.emit(editor, value, writer.axes, shape)

    outputs = {i: written(result, node.outputs[i].shape) for i, result in recurrent.results.items()}
    if recurrent.remaining_loop is not None:
        axes = matched_cell.body.state_axes
        states = written(Result(0, axes, True), (time, *matched_cell.body.state.shape))
        outputs.update(emit_remaining_loop(recurrent.remaining_loop, node, states, editor))
    return [outputs[i] for i in range(len(node.outputs))]


def _move_invariant_nodes(recurrent: RecurrentLayer, editor: Editor) -> None:
    """Add the nodes of the loop's body that compute the same in each round to the graph.

    Nodes are added only if the weights, the inputs of the cell or the remaining loop depend on
    them.
    """
    graph, remaining_loop = recurrent.cell.body.graph, recurrent.remaining_loop
    needed = {id(term.weights.base) for gate in recurrent.cell.gates for term in gate}
    if remaining_loop is not None:
        needed.update(id(v) for node in remaining_loop.nodes for v in node.operands())
        needed.update(id(graph.outputs[i]) for i in remaining_loop.outputs)
    varying_ids, moved_nodes = dependent_ids(graph, graph.inputs), []
    for node in find_producers(graph, [source.base for source in recurrent.sources], varying_ids):
        needed.update(id(v) for v in node.operands())
    for node in reversed(graph.nodes):
        if any(id(v) in needed - varying_ids for v in node.outputs):
            needed.update(map(id, node.operands()))
            moved_nodes.append(node)
    editor.nodes.extend(reversed(moved_nodes))


class _OperandEmitter:
    """Emitter of the operands of the recurrent operator.

    ``axes`` are the axes of the state, with the axis of features last. ``sizes`` contains their
    sizes and the number of rounds.
    """

    def __init__(self, recurrent: RecurrentLayer, editor: Editor) -> None:
        self.recurrent, self.cell, self.editor = recurrent, recurrent.cell, editor
        body = self.cell.body
        self.dtype = body.state.dtype
        self.axes = (*(a for a in body.state_axes if a != body.feature), body.feature)
        self.sizes: dict[int, Dim] = {
            **dict(enumerate(body.state.shape)),
            TIME: body.loop.params["length"],
        }
        self.hidden = self.sizes[body.feature]
        self.batch = dims.size_product([self.sizes[a] for a in self.axes[:-1]])

    def inputs(self) -> Value:
        """Return the inputs of all rounds, concatenated along their width: [T, B, I]."""
        axes = (TIME, *self.axes[:-1], INNER)
        parts = [
            self._emit_view(to_forward_order(self._before_loop(s)), axes, feature_count(s))
            for s in self.recurrent.sources
        ]
        joined = parts[0] if len(parts) == 1 else self.editor.concatenate(parts, len(axes) - 1)
        return self.editor.reshape(joined, (joined.shape[0], self.batch, joined.shape[-1]))

    def _before_loop(self, source: View) -> View:
        """Return an input of the cell for all rounds, as a view along the axes of the state and the
        rounds.

        If the body computes it from inputs of the loop, the operations are emitted for all rounds
        at once.
        """
        loop, graph = self.cell.body.loop, self.cell.body.graph
        count = loop.params["num_carry"]
        scanned = zip(map(id, graph.inputs[count:]), loop.inputs[count:], strict=True)
        lifter = Lifter(loop.params["length"], self.editor, dict(scanned))
        nodes = find_producers(graph, [source.base], dependent_ids(graph, graph.inputs[count:]))
        if not nodes:
            return source
        (value,) = lifter.run(nodes, [source.base])
        return source.rebase(value, range(1, value.rank)).replace_axis(TIME, 0)

    def _emit_view(self, view: View, axes: Sequence[int], inner: Dim) -> Value:
        """Emit a view with these axes only. ``inner`` is the size of the axis that products sum
        over."""
        sizes = {**self.sizes, INNER: inner}
        return emit_view(self.editor, view.select_axes(axes), tuple(sizes[a] for a in axes))

    def weights(self) -> list[Value]:
        """Return the matrix for the inputs, the matrix for the states, and the biases.

        Their shapes are [1, gates * H, I], [1, gates * H, H] and [1, 2 * gates * H].
        """
        gates = self.cell.gates
        columns = []
        for source in self.recurrent.sources:
            source_terms = [
                [t for t in gate if t.source == source and t.kind == "x"] for gate in gates
            ]
            columns.append(self._emit_rows(source_terms, feature_count(source)))
        of_inputs = columns[0] if len(columns) == 1 else self.editor.concatenate(columns, 1)
        carried = [[t for t in gate if t.kind in ("h", "reset")] for gate in gates]
        operands = of_inputs, self._emit_rows(carried, self.hidden), self._emit_biases()
        return [self.editor.reshape(v, (1, *v.shape)) for v in operands]

    def initial(self) -> list[Value]:
        """Return each state before the loop as [1, B, H], or an empty list if all are zero."""
        graph, loop = self.cell.body.graph, self.cell.body.loop
        values = [loop.inputs[graph.inputs.index(s)] for s in self.cell.states]
        if all(scalar(v) == 0 for v in values):
            return []
        transposed = [self.editor.transpose(v, self.axes) for v in values]
        return [self.editor.reshape(v, (1, self.batch, self.hidden)) for v in transposed]

    def _emit_rows(self, gates: Sequence[Sequence[GateTerm]], size: Dim) -> Value:
        """Return the matrices of all gates as consecutive rows: [gates * H, size].

        ``gates`` contains the terms of each gate. The weights of the terms of one gate are added.
        """
        axes = (self.cell.body.feature, INNER)
        return self.editor.concatenate([self._emit_sum(terms, axes, size) for terms in gates], 0)

    def _emit_biases(self) -> Value:
        """Return the biases of all gates as [2 * gates * H]: first the biases of the inputs, then
        the biases of the states.

        ONNX adds both. If a gate has two biases that no reset gate multiplies, the second is used
        for the states, which makes no difference.
        """
        gates = [[t for t in gate if t.kind == "bias"] for gate in self.cell.gates]
        split = [_split_biases(terms) for terms in gates]
        sides = [pair[side] for side in (0, 1) for pair in split]
        axes = (self.cell.body.feature,)
        return self.editor.concatenate([self._emit_sum(terms, axes, 1) for terms in sides], 0)

    def _emit_sum(self, terms: Iterable[GateTerm], axes: Sequence[int], inner: Dim) -> Value:
        """Return the sum of the weights of some terms, along these axes; zeros if there are no
        terms.

        ``inner`` is the size of the axis that products sum over.
        """
        values = []
        for term in terms:
            value = self._emit_view(term.weights, axes, inner)
            if term.negative:
                value = self.editor.add(ops.neg, [value], value.shape, value.dtype)
            values.append(value)
        if not values:
            shape = tuple(inner if a == INNER else self.sizes[a] for a in axes)
            return self.editor.broadcast(const(0, self.dtype), shape, ())
        return reduce(partial(self.editor.binary, ops.add), values)


def _split_biases(terms: Sequence[GateTerm]) -> tuple[Sequence[GateTerm], Sequence[GateTerm]]:
    """Return the biases of a gate for its inputs and for its states.

    The biases that the reset gate of a GRU multiplies are the biases of the states. If there are
    none, the first bias is for the inputs and all others are for the states.
    """
    gated = [t for t in terms if t.gate is not None]
    ungated = [t for t in terms if t.gate is None]
    return (ungated, gated) if gated or len(ungated) < 2 else (ungated[:1], ungated[1:])


def feature_count(source: View) -> Dim:
    """Return the number of features of an input."""
    return dims.size_product([factor.size for factor in source.groups[INNER]])


RECURRENT = recogniser_from("LSTM, GRU or RNN", (ops.scan,), match_recurrent, emit_recurrent)
