"""What a loop computes besides the states of a cell, and from these, is a loop after the cell's.

    scan(x -> (h', f(h', x)))  =  scan(cell), then scan((h', x) -> f(h', x))

So a second cell on top of the first is the next to be recognised. Where nothing is carried, as in
products with the states, the rounds are one more axis, and there is no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from converter.fuse.recurrent.cells import Cell
from converter.fuse.recurrent.terms import varying
from converter.graph import Graph, Node, Value, make_node
from converter.graph.dims import Dim
from converter.graph.operations import ELEMENTWISE, UNARY
from converter.graph.rewrite import Editor


@dataclass(frozen=True)
class Rest:
    """The outputs of the loop that remain, and what computes them in its body.

    ``state`` is the new state of the cell; ``carried`` and ``scanned`` are inputs of the body.
    """

    outputs: tuple[int, ...]
    nodes: tuple[Node, ...]
    state: Value
    carried: tuple[int, ...]
    scanned: tuple[int, ...]


def rest(cell: Cell, missing: Sequence[int]) -> Rest | None:
    """What gives the missing outputs, if the new state is all that it needs of the cell."""
    graph, count = cell.body.graph, cell.body.loop.params["num_carry"]
    state = graph.outputs[graph.inputs.index(cell.body.state)]
    carried = [i for i in missing if i < count]
    while True:
        kept = [*carried, *(i for i in missing if i >= count)]
        nodes = _nodes(graph, [graph.outputs[i] for i in kept], state)
        read = {id(v) for node in nodes for v in node.operands()}
        read.update(id(graph.outputs[i]) for i in kept)
        more = [i for i in range(count) if id(graph.inputs[i]) in read and i not in carried]
        if any(graph.inputs[i] in cell.states for i in more):
            return None
        if not more:
            break
        carried = sorted((*carried, *more))
    scanned = [i for i in range(count, len(graph.inputs)) if id(graph.inputs[i]) in read]
    return Rest(tuple(kept), tuple(nodes), state, tuple(carried), tuple(scanned))


def _nodes(graph: Graph, outputs: Sequence[Value], stop: Value) -> list[Node]:
    """What computes the outputs from ``stop``, inputs and what is the same in each round."""
    needed, own = {id(v) for v in outputs} - {id(stop)}, varying(graph)
    kept = []
    for node in reversed(graph.nodes):
        if any(id(v) in needed & own for v in node.outputs):
            needed.update(id(v) for v in node.operands() if v is not stop)
            kept.append(node)
    return kept[::-1]


def write(found: Rest, loop: Node, states: Value, editor: Editor) -> dict[int, Value]:
    """The loop's missing outputs; ``states`` are the cell's, one for each round."""
    graph = loop.bodies["body"]
    given = [loop.inputs[i] for i in found.scanned]
    inputs = [graph.inputs[i] for i in found.scanned]
    outputs = [graph.outputs[i] for i in found.outputs]
    if not found.carried and all(node.op in LIFTED for node in found.nodes):
        length = loop.params["length"]
        lifter = _Lifter(length, editor, dict(zip(map(id, inputs), given, strict=True)))
        values = lifter.run(found.nodes, {id(found.state): states}, outputs)
        return dict(zip(found.outputs, values, strict=True))
    state = Value(found.state.shape, found.state.dtype, kind="input")
    before = [graph.inputs[i] for i in found.carried]
    body = Graph([*before, *inputs, state], outputs, list(found.nodes))
    body.replace_operands(lambda v: state if v is found.state else v)
    first = [loop.inputs[i] for i in found.carried]
    types = [(loop.outputs[i].shape, loop.outputs[i].dtype) for i in found.outputs]
    params = {**loop.params, "num_carry": len(found.carried)}
    node = make_node("scan", [*first, *given, states], types, params, source=loop.source)
    node.bodies = {"body": body}
    editor.nodes.append(node)
    return dict(zip(found.outputs, node.outputs, strict=True))


# ---------------------------------------------------------------------- rounds as one more axis


class _Lifter:
    """Computes a body for all rounds at once; what varies among them has them as its first axis."""

    def __init__(self, length: Dim, editor: Editor, varying: dict[int, Value]) -> None:
        self.length, self.editor, self.varying = length, editor, varying

    def run(
        self, nodes: Sequence[Node], more: dict[int, Value], outputs: Sequence[Value]
    ) -> list[Value]:
        self.varying.update(more)
        for node in nodes:
            self.varying[id(node.out)] = LIFTED[node.op](node, self)
        return [self.whole(v) for v in outputs]

    def whole(self, value: Value) -> Value:
        """For all rounds, repeated if it is the same in each."""
        if id(value) in self.varying:
            return self.varying[id(value)]
        shape = (self.length, *value.shape)
        return self.editor.broadcast(value, shape, range(1, len(shape)))

    def again(self, node: Node, inputs: Sequence[Value], **changes: object) -> Value:
        return self.editor.like(node, inputs, (self.length, *node.out.shape), **changes)


def _elementwise(node: Node, lifter: _Lifter) -> Value:
    """Operands of fewer axes get ones after the rounds."""
    inputs = []
    for value in node.inputs:
        varies = id(value) in lifter.varying
        ones = (1,) * (node.out.rank - value.rank)
        shape = (lifter.length, *ones, *value.shape)
        inputs.append(lifter.editor.reshape(lifter.whole(value), shape) if varies else value)
    return lifter.again(node, inputs)


def _product(node: Node, lifter: _Lifter) -> Value:
    rounds = 1 + max(*node.params["lhs"], *node.params["rhs"], 0)
    labels = [
        [rounds, *node.params[side]] if id(value) in lifter.varying else node.params[side]
        for side, value in zip(("lhs", "rhs"), node.inputs, strict=True)
    ]
    inputs = [lifter.varying.get(id(v), v) for v in node.inputs]
    out = [rounds, *node.params["out"]]
    return lifter.again(node, inputs, lhs=labels[0], rhs=labels[1], out=out)


def _reshape(node: Node, lifter: _Lifter) -> Value:
    return lifter.editor.reshape(lifter.whole(node.inputs[0]), (lifter.length, *node.out.shape))


def _transpose(node: Node, lifter: _Lifter) -> Value:
    order = [0, *(a + 1 for a in node.params["permutation"])]
    return lifter.editor.transpose(lifter.whole(node.inputs[0]), order)


def _broadcast(node: Node, lifter: _Lifter) -> Value:
    axes = [0, *(a + 1 for a in node.params["broadcast_dimensions"])]
    shape = (lifter.length, *node.out.shape)
    return lifter.editor.broadcast(lifter.whole(node.inputs[0]), shape, axes)


def _slice(node: Node, lifter: _Lifter) -> Value:
    params = node.params
    return lifter.again(
        node,
        [lifter.whole(node.inputs[0])],
        start_indices=(0, *params["start_indices"]),
        limit_indices=(lifter.length, *params["limit_indices"]),
        strides=(1, *params["strides"]) if params["strides"] else None,
    )


def _concatenate(node: Node, lifter: _Lifter) -> Value:
    return lifter.editor.concatenate(
        [lifter.whole(v) for v in node.inputs], node.params["dimension"] + 1
    )


def _along(node: Node, lifter: _Lifter) -> Value:
    axis = node.params["axis"] % node.out.rank
    return lifter.again(node, [lifter.whole(node.inputs[0])], axis=axis + 1)


LIFTED: dict[str, Callable[[Node, _Lifter], Value]] = {
    **dict.fromkeys((*ELEMENTWISE, *UNARY), _elementwise),
    "einsum": _product,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "concatenate": _concatenate,
    **dict.fromkeys(("softmax", "log_softmax"), _along),
}
"""What can be written for all rounds at once."""
