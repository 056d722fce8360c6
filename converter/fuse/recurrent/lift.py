"""Compute nodes of a loop's body for all rounds at once.

This needs nodes of which no round needs the results of another round. The first axis of the new
values is the axis of rounds.
"""

from collections.abc import Callable, Container, Sequence

from converter.ir import Graph, Node, Value, ops
from converter.ir.axes import view_of
from converter.ir.dims import Dim
from converter.ir.moves import emit_view, view_of_operand
from converter.ir.op import Op
from converter.ir.rewrite import Editor


def dependent_ids(graph: Graph, inputs: Sequence[Value]) -> set[int]:
    """Return the ids of the values in a loop's body that depend on ``inputs``."""
    dependent = {id(v) for v in inputs}
    for node in graph.nodes:
        if any(id(v) in dependent for v in node.operands()):
            dependent.update(id(v) for v in node.outputs)
    return dependent


def find_producers(graph: Graph, outputs: Sequence[Value], among: Container[int]) -> list[Node]:
    """Return the nodes from which ``outputs`` are computed, in the order of the graph.

    Only nodes with a result in ``among``, a set of ids, are returned. The search does not go past
    other nodes.
    """
    needed = {id(v) for v in outputs}
    nodes = []
    for node in reversed(graph.nodes):
        if any(id(v) in needed and id(v) in among for v in node.outputs):
            needed.update(id(v) for v in node.operands())
            nodes.append(node)
    return nodes[::-1]


def can_vectorize(nodes: Sequence[Node]) -> bool:
    """Return True if each node has a rule in `LIFTED`, so that a `Lifter` can compute it for all
    rounds."""
    return all(node.op in LIFTED for node in nodes)


class Lifter:
    """Emitter of the nodes of a loop's body for all rounds at once.

    ``varying`` contains the values that differ among rounds, by the id of the body's value. They
    have the rounds as their first axis. The results of emitted nodes are added to it. ``length`` is
    the number of rounds.
    """

    def __init__(self, length: Dim, editor: Editor, varying: dict[int, Value]) -> None:
        self.length, self.editor, self.varying = length, editor, varying

    def run(self, nodes: Sequence[Node], outputs: Sequence[Value]) -> list[Value]:
        """Emit these nodes for all rounds, and return the values of ``outputs`` for all rounds.

        The nodes must have one output each and be in the order of the graph.
        """
        for node in nodes:
            self.varying[id(node.out)] = LIFTED[node.op](node, self)
        return [self.for_all_rounds(v) for v in outputs]

    def for_all_rounds(self, value: Value) -> Value:
        """Return a value for all rounds. It is repeated if it is the same in each round."""
        if id(value) in self.varying:
            return self.varying[id(value)]
        shape = (self.length, *value.shape)
        return self.editor.broadcast(value, shape, range(1, len(shape)))

    def lift_node(self, node: Node, inputs: Sequence[Value], **changes: object) -> Value:
        """Emit a node for all rounds on these inputs, with some parameters changed."""
        return self.editor.copy_with_operands(
            node, inputs, (self.length, *node.out.shape), **changes
        )


def _elementwise(node: Node, lifter: Lifter) -> Value:
    """Emit an elementwise node for all rounds.

    Operands of lower rank get axes of size one after the axis of rounds.
    """
    inputs = []
    for value in node.inputs:
        varies = id(value) in lifter.varying
        ones = (1,) * (node.out.rank - value.rank)
        shape = (lifter.length, *ones, *value.shape)
        inputs.append(
            lifter.editor.reshape(lifter.for_all_rounds(value), shape) if varies else value
        )
    return lifter.lift_node(node, inputs)


def _lift_product(node: Node, lifter: Lifter) -> Value:
    """Emit an einsum for all rounds, with one more label for the rounds."""
    rounds = 1 + max(*node.params["lhs"], *node.params["rhs"], 0)
    labels = [
        [rounds, *node.params[side]] if id(value) in lifter.varying else node.params[side]
        for side, value in zip(("lhs", "rhs"), node.inputs, strict=True)
    ]
    inputs = [lifter.varying.get(id(v), v) for v in node.inputs]
    out = [rounds, *node.params["out"]]
    return lifter.lift_node(node, inputs, lhs=labels[0], rhs=labels[1], out=out)


def _lift_reshape(node: Node, lifter: Lifter) -> Value:
    """Emit a reshape for all rounds."""
    return lifter.editor.reshape(
        lifter.for_all_rounds(node.inputs[0]), (lifter.length, *node.out.shape)
    )


def _lift_moved(node: Node, lifter: Lifter) -> Value:
    """Emit a transpose, broadcast or slice for all rounds."""
    source, view = lifter.for_all_rounds(node.inputs[0]), view_of_operand(view_of(node.out))
    assert view is not None, node
    rounds_view = view.select_axes((None, *range(node.out.rank))).rebase(
        source, range(1, source.rank)
    )
    return emit_view(
        lifter.editor, rounds_view.replace_axis(0, 0), (lifter.length, *node.out.shape)
    )


def _lift_along(node: Node, lifter: Lifter) -> Value:
    """Emit an operation along axes for all rounds, with the axes in its parameters moved by one."""
    axis_params = {k: v for k, v in node.params.items() if k in ("axis", "axes", "dimension")}
    lifted_params = {
        k: v + 1 if isinstance(v, int) else tuple(a + 1 for a in v) for k, v in axis_params.items()
    }
    return lifter.lift_node(node, [lifter.for_all_rounds(v) for v in node.inputs], **lifted_params)


LIFTED: dict[Op, Callable[[Node, Lifter], Value]] = {
    **dict.fromkeys((op for op in ops.defined_ops() if op.elementwise), _elementwise),
    ops.einsum: _lift_product,
    ops.reshape: _lift_reshape,
    **dict.fromkeys((ops.transpose, ops.broadcast_in_dim, ops.slice), _lift_moved),
    **dict.fromkeys((ops.concatenate, ops.softmax, ops.log_softmax), _lift_along),
    **dict.fromkeys((op for op in ops.defined_ops() if op.reduces), _lift_along),
}
"""Rules that emit a node for all rounds at once, by the operation."""
