"""What a loop gives, as what an operator gives: the last states, and the first of them in turn.

What else it computes, from these, is a loop after the cell's.

    scan(x -> (h', f(h', x)))  =  scan(cell), then scan((h', x) -> f(h', x))

So a second cell on top of the first is the next to be recognised. Where nothing is carried, as in
products with the states, the rounds are one more axis, and there is no loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from converter.fuse.recurrent.cells import RecurrentCell
from converter.fuse.recurrent.lift import Lifter, can_lift, makers, varying
from converter.fuse.recurrent.selection import TIME
from converter.ir import Graph, Node, Value, make_node, ops
from converter.ir.axes import along
from converter.ir.dims import Shape
from converter.ir.moves import descended, write
from converter.ir.rewrite import Editor


@dataclass(frozen=True)
class Result:
    """State ``index`` of a cell, of which axis i is axis ``axes[i]``: after all rounds, or each."""

    index: int
    axes: tuple[int | None, ...]
    stacked: bool

    def written(self, editor: Editor, value: Value, axes: Sequence[int], shape: Shape) -> Value:
        """``value`` has the ``axes`` of the state, and what is stacked those of time first."""
        names = (TIME, *axes) if self.stacked else tuple(axes)
        result_axes = (TIME, *self.axes) if self.stacked else self.axes
        view = along(value, [None if a is None else names.index(a) for a in result_axes])
        return write(editor, view, shape)


@dataclass(frozen=True)
class RemainingLoop:
    """The outputs of the loop that remain, and what computes them in its body.

    ``state`` is the new state of the cell; ``carried`` and ``scanned`` are inputs of the body.
    """

    outputs: tuple[int, ...]
    nodes: tuple[Node, ...]
    state: Value
    carried: tuple[int, ...]
    scanned: tuple[int, ...]


def results(cell: RecurrentCell) -> tuple[dict[int, Result], RemainingLoop | None] | str:
    """Outputs of the loop by their places, and what gives the others, if there are any."""
    graph, carried = cell.body.graph, cell.body.loop.params["num_carry"]
    results_by_place: dict[int, Result] = {}
    for i, value in enumerate(graph.outputs):
        alike = [_result(cell, n, value, i >= carried) for n in range(len(cell.results))]
        matches = [result for result in alike if result is not None]
        if matches and i >= carried and matches[0].index != 0:
            return "its cell is wanted after each round"
        before = graph.inputs[i] if i < carried else None
        if before in cell.states and not matches:
            return "its loop carries something else in the place of a state"
        if matches:
            results_by_place[i] = matches[0]
    missing = [i for i in range(len(graph.outputs)) if i not in results_by_place]
    others = rest(cell, missing)
    if others is None:
        return "its loop gives more than what the new states of the cell say"
    kept = {i: result for i, result in results_by_place.items() if i not in others.outputs}
    return kept, others if missing else None


def _result(cell: RecurrentCell, index: int, value: Value, stacked: bool) -> Result | None:
    """A value as the state of this index, its axes in another order perhaps."""
    state, own = cell.results[index], descended(along(value))
    mine, its = ([group for group in view.groups if group] for view in (own, state))
    same = len(mine) == len(its) and set(mine) == set(its)
    if own.base is not state.base or own.starts != state.starts or not same:
        return None
    axes = (state.groups.index(group) if group else None for group in own.groups)
    return Result(index, tuple(axes), stacked)


# ----------------------------------------------------------------------------------------- the rest


def rest(cell: RecurrentCell, missing: Sequence[int]) -> RemainingLoop | None:
    """Nodes of the missing outputs, if the new state is all that they need of the cell."""
    graph, count = cell.body.graph, cell.body.loop.params["num_carry"]
    state = graph.outputs[graph.inputs.index(cell.body.state)]
    carried = [i for i in missing if i < count]
    after = varying(graph, graph.inputs) - {id(state)}
    while True:
        kept = [*carried, *(i for i in missing if i >= count)]
        nodes = makers(graph, [graph.outputs[i] for i in kept], after)
        read = {id(v) for node in nodes for v in node.operands()}
        read.update(id(graph.outputs[i]) for i in kept)
        more = [i for i in range(count) if id(graph.inputs[i]) in read and i not in carried]
        if any(graph.inputs[i] in cell.states for i in more):
            return None
        if not more:
            break
        carried = sorted((*carried, *more))
    scanned = [i for i in range(count, len(graph.inputs)) if id(graph.inputs[i]) in read]
    return RemainingLoop(tuple(kept), tuple(nodes), state, tuple(carried), tuple(scanned))


def write_rest(
    others: RemainingLoop, loop: Node, states: Value, editor: Editor
) -> dict[int, Value]:
    """The loop's missing outputs; ``states`` are the cell's, one for each round."""
    graph = loop.bodies["body"]
    arrays = [loop.inputs[i] for i in others.scanned]
    inputs = [graph.inputs[i] for i in others.scanned]
    outputs = [graph.outputs[i] for i in others.outputs]
    if not others.carried and can_lift(others.nodes):
        varies = dict(zip(map(id, (*inputs, others.state)), (*arrays, states), strict=True))
        values = Lifter(loop.params["length"], editor, varies).run(others.nodes, outputs)
        return dict(zip(others.outputs, values, strict=True))
    state = Value(others.state.shape, others.state.dtype, kind="input")
    before = [graph.inputs[i] for i in others.carried]
    body = Graph([*before, *inputs, state], outputs, list(others.nodes))
    body.replace_operands(lambda v: state if v is others.state else v)
    first = [loop.inputs[i] for i in others.carried]
    types = [(loop.outputs[i].shape, loop.outputs[i].dtype) for i in others.outputs]
    params = {**loop.params, "num_carry": len(others.carried)}
    node = make_node(ops.scan, [*first, *arrays, states], types, params, source=loop.source)
    node.bodies = {"body": body}
    editor.nodes.append(node)
    return dict(zip(others.outputs, node.outputs, strict=True))
