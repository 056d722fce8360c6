"""The outputs of a loop, as outputs of a recurrent operator or as values computed from these.

The operator has the last value of each state, and the values of the first state in all rounds.
Outputs that are computed from the latter need a loop after the cell:

    scan(x -> (h', f(h', x)))  =  scan(cell), then scan((h', x) -> f(h', x))

In this way, a second cell on top of the first one is recognised next. If the second loop carries no
values, as for products with the states, its rounds are computed as an additional axis instead of a
loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from converter.fuse.recurrent.cells import RecurrentCell
from converter.fuse.recurrent.lift import Lifter, can_vectorize, dependent_ids, find_producers
from converter.fuse.recurrent.terms import TIME
from converter.ir import Graph, Node, Value, make_node, ops
from converter.ir.axes import view_of
from converter.ir.dims import Shape
from converter.ir.moves import emit_view, look_through
from converter.ir.rewrite import Editor


@dataclass(frozen=True)
class Result:
    """An output of a loop that is state ``index`` of a cell. The state may be transposed.

    Axis i of the output is axis ``axes[i]`` of the state, or None for an axis of size one.
    ``stacked`` is True for the states after each round, and False for the state after the last
    round.
    """

    index: int
    axes: tuple[int | None, ...]
    stacked: bool

    def emit(self, editor: Editor, value: Value, axes: Sequence[int], shape: Shape) -> Value:
        """Emit the output of the loop with this shape, from an output of the operator.

        ``value`` has the ``axes`` of the state. If the result is stacked, it has the axis of rounds
        before them.
        """
        axis_names = (TIME, *axes) if self.stacked else tuple(axes)
        result_axes = (TIME, *self.axes) if self.stacked else self.axes
        view = view_of(value, [None if a is None else axis_names.index(a) for a in result_axes])
        return emit_view(editor, view, shape)


@dataclass(frozen=True)
class RemainingLoop:
    """The outputs of a loop that the operator does not compute, and the nodes that compute them.

    - `outputs`: the indices of these outputs.
    - `nodes`: the nodes of the loop's body from which they are computed.
    - `state`: the new state of the cell in the body, which these nodes may read.
    - `carried`, `scanned`: the indices of the body's inputs that these nodes read.
    """

    outputs: tuple[int, ...]
    nodes: tuple[Node, ...]
    state: Value
    carried: tuple[int, ...]
    scanned: tuple[int, ...]


def match_results(cell: RecurrentCell) -> tuple[dict[int, Result], RemainingLoop | None] | str:
    """Return the outputs of a loop that the operator computes, and the loop for the other outputs.

    The outputs of the operator are by their index in the loop's outputs. The second result is None
    if there are no other outputs. Return a text, the reason for a near miss, if an output needs
    more of the cell than the values of its first state after each round and the last values of its
    states.
    """
    graph, carried = cell.body.graph, cell.body.loop.params["num_carry"]
    results_by_index: dict[int, Result] = {}
    for i, value in enumerate(graph.outputs):
        candidates = [_result(cell, n, value, i >= carried) for n in range(len(cell.results))]
        matches = [result for result in candidates if result is not None]
        if matches and i >= carried and matches[0].index != 0:
            return "its cell is wanted after each round"
        old_state = graph.inputs[i] if i < carried else None
        if old_state in cell.states and not matches:
            return "its loop carries something else in the place of a state"
        if matches:
            results_by_index[i] = matches[0]
    missing = [i for i in range(len(graph.outputs)) if i not in results_by_index]
    remaining_loop = find_remaining_loop(cell, missing)
    if remaining_loop is None:
        return "its loop gives more than what the new states of the cell say"
    direct_results = {
        i: result for i, result in results_by_index.items() if i not in remaining_loop.outputs
    }
    return direct_results, remaining_loop if missing else None


def _result(cell: RecurrentCell, index: int, value: Value, stacked: bool) -> Result | None:
    """Return an output of a loop's body as a `Result` if it is the new value of state ``index``.

    The state may be transposed. Return None for another value.

    Arguments:
        cell: the matched cell.
        index: the index of the state.
        value: the output of the body.
        stacked: True if the loop returns the output of each round, False if it carries it.
    """
    state, value_view = (
        cell.results[index],
        look_through(view_of(value), conversions="none", reach="parts"),
    )
    value_groups, state_groups = (
        [group for group in view.groups if group] for view in (value_view, state)
    )
    is_same = len(value_groups) == len(state_groups) and set(value_groups) == set(state_groups)
    if value_view.base is not state.base or value_view.starts != state.starts or not is_same:
        return None
    axes = (state.groups.index(group) if group else None for group in value_view.groups)
    return Result(index, tuple(axes), stacked)


# -------------------------------------------------------------------------- the remaining outputs


def find_remaining_loop(cell: RecurrentCell, missing: Sequence[int]) -> RemainingLoop | None:
    """Return the nodes of the missing outputs, if the new state is all that they need of the cell.

    ``missing`` are the indices of outputs of the loop. Carried values that the nodes read are added
    to these outputs. Return None if the nodes need a state of the cell from before the round.
    """
    graph, count = cell.body.graph, cell.body.loop.params["num_carry"]
    state = graph.outputs[graph.inputs.index(cell.body.state)]
    carried = [i for i in missing if i < count]
    loop_dependent = dependent_ids(graph, graph.inputs) - {id(state)}
    while True:
        remaining = [*carried, *(i for i in missing if i >= count)]
        nodes = find_producers(graph, [graph.outputs[i] for i in remaining], loop_dependent)
        read_ids = {id(v) for node in nodes for v in node.operands()}
        read_ids.update(id(graph.outputs[i]) for i in remaining)
        added_states = [
            i for i in range(count) if id(graph.inputs[i]) in read_ids and i not in carried
        ]
        if any(graph.inputs[i] in cell.states for i in added_states):
            return None
        if not added_states:
            break
        carried = sorted((*carried, *added_states))
    scanned = [i for i in range(count, len(graph.inputs)) if id(graph.inputs[i]) in read_ids]
    return RemainingLoop(tuple(remaining), tuple(nodes), state, tuple(carried), tuple(scanned))


def emit_remaining_loop(
    remaining_loop: RemainingLoop, loop: Node, states: Value, editor: Editor
) -> dict[int, Value]:
    """Emit the remaining outputs of a loop and return them by their index in the loop's outputs.

    ``states`` has the first state of the cell after each round, with the rounds as its first axis.
    The nodes are emitted for all rounds at once if they carry nothing and each has a rule for that,
    otherwise as a loop.
    """
    graph = loop.bodies["body"]
    arrays = [loop.inputs[i] for i in remaining_loop.scanned]
    inputs = [graph.inputs[i] for i in remaining_loop.scanned]
    outputs = [graph.outputs[i] for i in remaining_loop.outputs]
    if not remaining_loop.carried and can_vectorize(remaining_loop.nodes):
        varying_values = dict(
            zip(map(id, (*inputs, remaining_loop.state)), (*arrays, states), strict=True)
        )
        values = Lifter(loop.params["length"], editor, varying_values).run(
            remaining_loop.nodes, outputs
        )
        return dict(zip(remaining_loop.outputs, values, strict=True))
    state = Value(remaining_loop.state.shape, remaining_loop.state.dtype, kind="input")
    carried_inputs = [graph.inputs[i] for i in remaining_loop.carried]
    body = Graph([*carried_inputs, *inputs, state], outputs, list(remaining_loop.nodes))
    body.replace_operands(lambda v: state if v is remaining_loop.state else v)
    initial_values = [loop.inputs[i] for i in remaining_loop.carried]
    types = [(loop.outputs[i].shape, loop.outputs[i].dtype) for i in remaining_loop.outputs]
    params = {**loop.params, "num_carry": len(remaining_loop.carried)}
    node = make_node(
        ops.scan, [*initial_values, *arrays, states], types, params, source=loop.source
    )
    node.bodies = {"body": body}
    editor.nodes.append(node)
    return dict(zip(remaining_loop.outputs, node.outputs, strict=True))
