"""Loops whose body is a recurrent cell become the operator that is the whole loop.

    scan(cell, states, inputs) = LSTM, GRU or RNN (inputs, weights, states)

A state of the loop is followed to what it becomes (``cells``), a sum of gated parts, whatever the
order in which it is written (``selection``); each gate is an activation of a sum of products with
weights and biases (``terms``), parts of larger ones perhaps (``selection``). What the loop
gives has to be what the operator gives (``results``); then weights are put in ONNX's order, and the
node is written.

ONNX wants the gates of all weights behind each other, as rows: [directions, gates * H, I or H];
biases of inputs and states as [directions, 2 * gates * H]; inputs as [T, B, I].
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from converter.fuse.match import Uses, proved
from converter.fuse.recurrent.cells import RecurrentCell, cell
from converter.fuse.recurrent.lift import Lifter, makers, varying
from converter.fuse.recurrent.loop_results import RemainingLoop, Result, results, write_rest
from converter.fuse.recurrent.selection import INNER, TIME, forwards, goes_back
from converter.fuse.recurrent.terms import Body, GateTerm
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import View
from converter.ir.dims import Dim, Shape
from converter.ir.moves import write
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class Recurrent:
    """A cell, the inputs that it goes through side by side, and what the loop gives."""

    cell: RecurrentCell
    sources: tuple[View, ...]
    results: dict[int, Result]
    others: RemainingLoop | None


def prove_recurrent(node: Node, uses: Uses) -> Recurrent | str | None:
    """Prove a recurrent layer, with each axis of each state as that which the products sum over."""
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
            cell_or_reason = cell(Body(node, state, feature), after)
            if isinstance(cell_or_reason, RecurrentCell):
                return _recurrent_whole(cell_or_reason, uses)
            reason = reason or cell_or_reason
    return reason


def _recurrent_whole(proved_cell: RecurrentCell, uses: Uses) -> Recurrent | str | None:
    terms = [term for gate in proved_cell.gates for term in gate]
    sources = dict.fromkeys(t.source for t in terms if t.kind == "x" and t.source is not None)
    if not sources or not any(t.kind in ("h", "reset") for t in terms):
        return None
    dtypes = {proved_cell.body.state.dtype, *(t.weights.base.dtype for t in terms)}
    dtypes.update(s.base.dtype for s in sources)
    if len(dtypes) != 1 or not uses.takes("LSTM", proved_cell.body.state.dtype):
        return "the runtime's operator does not take its dtypes"
    if len({goes_back(s) for s in sources}) != 1:
        return "it goes through one input forwards and through another backwards"
    widths = [proved_cell.body.state.shape[proved_cell.body.feature], *map(width, sources)]
    if not dims.all_static(widths):
        return "its width is not known"
    results_or_reason = results(proved_cell)
    return (
        results_or_reason
        if isinstance(results_or_reason, str)
        else Recurrent(proved_cell, tuple(sources), *results_or_reason)
    )


# ------------------------------------------------------------------------------------------ writing


def build_recurrent(node: Node, recurrent: Recurrent, editor: Editor) -> list[Value]:
    proved_cell = recurrent.cell
    _take_out(recurrent, editor)
    writer = _Writer(recurrent, editor)
    backwards = goes_back(recurrent.sources[0])
    params = {
        "reverse": node.params["reverse"] != backwards,
        "activations": proved_cell.activations,
    }
    if proved_cell.op is ops.gru:
        params["reset_last"] = proved_cell.reset_last
    inputs = [writer.inputs(), *writer.weights(), *writer.initial()]
    time, batch, hidden = node.params["length"], writer.batch, writer.hidden
    types: list[tuple[Shape, np.dtype]] = [((time, 1, batch, hidden), node.out.dtype)]
    types += [((1, batch, hidden), node.out.dtype) for _ in proved_cell.states]
    all_states, *last_states = editor.add_many(proved_cell.op, inputs, types, params)
    stacked = editor.reshape(all_states, (time, *(writer.sizes[a] for a in writer.axes)))
    if backwards:
        stacked = editor.rev(stacked, (0,))
    ends = [editor.reshape(v, tuple(writer.sizes[a] for a in writer.axes)) for v in last_states]

    def written(result: Result, shape: Shape) -> Value:
        value = stacked if result.stacked else ends[result.index]
        return result.written(editor, value, writer.axes, shape)

    outputs = {i: written(result, node.outputs[i].shape) for i, result in recurrent.results.items()}
    if recurrent.others is not None:
        axes = proved_cell.body.axes
        states = written(Result(0, axes, True), (time, *proved_cell.body.state.shape))
        outputs.update(write_rest(recurrent.others, node, states, editor))
    return [outputs[i] for i in range(len(node.outputs))]


def _take_out(recurrent: Recurrent, editor: Editor) -> None:
    """Move what is the same in each round to before the loop."""
    graph, others = recurrent.cell.body.graph, recurrent.others
    needed = {id(term.weights.base) for gate in recurrent.cell.gates for term in gate}
    if others is not None:
        needed.update(id(v) for node in others.nodes for v in node.operands())
        needed.update(id(graph.outputs[i]) for i in others.outputs)
    own, taken = varying(graph, graph.inputs), []
    for node in makers(graph, [source.base for source in recurrent.sources], own):
        needed.update(id(v) for v in node.operands())
    for node in reversed(graph.nodes):
        if any(id(v) in needed - own for v in node.outputs):
            needed.update(map(id, node.operands()))
            taken.append(node)
    editor.nodes.extend(reversed(taken))


class _Writer:
    """Operands of the node."""

    def __init__(self, recurrent: Recurrent, editor: Editor) -> None:
        self.recurrent, self.cell, self.editor = recurrent, recurrent.cell, editor
        body = self.cell.body
        self.dtype = body.state.dtype
        self.axes = (*(a for a in body.axes if a != body.feature), body.feature)
        self.sizes: dict[int, Dim] = {
            **dict(enumerate(body.state.shape)),
            TIME: body.loop.params["length"],
        }
        self.hidden = self.sizes[body.feature]
        self.batch = dims.size_product([self.sizes[a] for a in self.axes[:-1]])

    def inputs(self) -> Value:
        """[T, B, I]"""
        axes = (TIME, *self.axes[:-1], INNER)
        parts = [
            self._written(forwards(self._outside(s)), axes, width(s))
            for s in self.recurrent.sources
        ]
        joined = parts[0] if len(parts) == 1 else self.editor.concatenate(parts, len(axes) - 1)
        return self.editor.reshape(joined, (joined.shape[0], self.batch, joined.shape[-1]))

    def _outside(self, source: View) -> View:
        """For all rounds, if it is computed from inputs in each."""
        loop, graph = self.cell.body.loop, self.cell.body.graph
        count = loop.params["num_carry"]
        scanned = zip(map(id, graph.inputs[count:]), loop.inputs[count:], strict=True)
        lifter = Lifter(loop.params["length"], self.editor, dict(scanned))
        nodes = makers(graph, [source.base], varying(graph, graph.inputs[count:]))
        if not nodes:
            return source
        (value,) = lifter.run(nodes, [source.base])
        return source.onto(value, range(1, value.rank)).put(TIME, 0)

    def _written(self, view: View, axes: Sequence[int], inner: Dim) -> Value:
        """Along these axes; ``inner`` is the size of the one that products sum over."""
        sizes = {**self.sizes, INNER: inner}
        return write(self.editor, view.take(axes), tuple(sizes[a] for a in axes))

    def weights(self) -> list[Value]:
        """Matrices for inputs and for states, and biases."""
        gates = self.cell.gates
        columns = []
        for source in self.recurrent.sources:
            own = [[t for t in gate if t.source == source and t.kind == "x"] for gate in gates]
            columns.append(self._rows(own, width(source)))
        of_inputs = columns[0] if len(columns) == 1 else self.editor.concatenate(columns, 1)
        carried = [[t for t in gate if t.kind in ("h", "reset")] for gate in gates]
        both = of_inputs, self._rows(carried, self.hidden), self._biases()
        return [self.editor.reshape(v, (1, *v.shape)) for v in both]

    def initial(self) -> list[Value]:
        """The first states, if one of them is not zero: [1, B, H]."""
        graph, loop = self.cell.body.graph, self.cell.body.loop
        values = [loop.inputs[graph.inputs.index(s)] for s in self.cell.states]
        if all(scalar(v) == 0 for v in values):
            return []
        turned = [self.editor.transpose(v, self.axes) for v in values]
        return [self.editor.reshape(v, (1, self.batch, self.hidden)) for v in turned]

    def _rows(self, gates: Sequence[Sequence[GateTerm]], size: Dim) -> Value:
        """[gates * H, size]"""
        axes = (self.cell.body.feature, INNER)
        return self.editor.concatenate([self._sum(terms, axes, size) for terms in gates], 0)

    def _biases(self) -> Value:
        """[2 * gates * H]: the second of two biases is the state's, where that is the same."""
        gates = [[t for t in gate if t.kind == "bias"] for gate in self.cell.gates]
        split = [_shared(terms) for terms in gates]
        both = [pair[side] for side in (0, 1) for pair in split]
        axes = (self.cell.body.feature,)
        return self.editor.concatenate([self._sum(terms, axes, 1) for terms in both], 0)

    def _sum(self, terms: Iterable[GateTerm], axes: Sequence[int], inner: Dim) -> Value:
        values = []
        for term in terms:
            value = self._written(term.weights, axes, inner)
            if term.negative:
                value = self.editor.add(ops.neg, [value], value.shape, value.dtype)
            values.append(value)
        if not values:
            shape = tuple(inner if a == INNER else self.sizes[a] for a in axes)
            return self.editor.broadcast(const(0, self.dtype), shape, ())
        return reduce(partial(self.editor.binary, ops.add), values)


def _shared(terms: Sequence[GateTerm]) -> tuple[Sequence[GateTerm], Sequence[GateTerm]]:
    """The biases of a gate's inputs and of its state: those that a gate multiplies are these."""
    gated = [t for t in terms if t.gate is not None]
    plain = [t for t in terms if t.gate is None]
    return (plain, gated) if gated or len(plain) < 2 else (plain[:1], plain[1:])


def width(source: View) -> Dim:
    """How many inputs it has."""
    return dims.size_product([factor.size for factor in source.groups[INNER]])


RECURRENT = proved("LSTM, GRU or RNN", (ops.scan,), prove_recurrent, build_recurrent)
