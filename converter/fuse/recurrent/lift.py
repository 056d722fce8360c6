"""The rounds of a loop as one more axis, where no round needs what another gave."""

from collections.abc import Callable, Container, Sequence

from converter.ir import Graph, Node, Value, ops
from converter.ir.axes import along
from converter.ir.dims import Dim
from converter.ir.moves import above, write
from converter.ir.op import Op
from converter.ir.rewrite import Editor


def varying(graph: Graph, inputs: Sequence[Value]) -> set[int]:
    """ids of the values of a loop's body that depend on some of its inputs."""
    dependent = {id(v) for v in inputs}
    for node in graph.nodes:
        if any(id(v) in dependent for v in node.operands()):
            dependent.update(id(v) for v in node.outputs)
    return dependent


def makers(graph: Graph, outputs: Sequence[Value], among: Container[int]) -> list[Node]:
    """The nodes that compute the outputs, of those whose results are ``among`` the given ids."""
    needed = {id(v) for v in outputs}
    kept = []
    for node in reversed(graph.nodes):
        if any(id(v) in needed and id(v) in among for v in node.outputs):
            needed.update(id(v) for v in node.operands())
            kept.append(node)
    return kept[::-1]


def can_lift(nodes: Sequence[Node]) -> bool:
    return all(node.op in LIFTED for node in nodes)


class Lifter:
    """Computes nodes for all rounds at once; what varies among them has them as its first axis."""

    def __init__(self, length: Dim, editor: Editor, varying: dict[int, Value]) -> None:
        self.length, self.editor, self.varying = length, editor, varying

    def run(self, nodes: Sequence[Node], outputs: Sequence[Value]) -> list[Value]:
        for node in nodes:
            self.varying[id(node.out)] = LIFTED[node.op](node, self)
        return [self.whole(v) for v in outputs]

    def whole(self, value: Value) -> Value:
        """Value for all rounds, repeated if it is the same in each."""
        if id(value) in self.varying:
            return self.varying[id(value)]
        shape = (self.length, *value.shape)
        return self.editor.broadcast(value, shape, range(1, len(shape)))

    def again(self, node: Node, inputs: Sequence[Value], **changes: object) -> Value:
        return self.editor.like(node, inputs, (self.length, *node.out.shape), **changes)


def _elementwise(node: Node, lifter: Lifter) -> Value:
    """Operands of fewer axes get ones after the rounds."""
    inputs = []
    for value in node.inputs:
        varies = id(value) in lifter.varying
        ones = (1,) * (node.out.rank - value.rank)
        shape = (lifter.length, *ones, *value.shape)
        inputs.append(lifter.editor.reshape(lifter.whole(value), shape) if varies else value)
    return lifter.again(node, inputs)


def _lift_product(node: Node, lifter: Lifter) -> Value:
    rounds = 1 + max(*node.params["lhs"], *node.params["rhs"], 0)
    labels = [
        [rounds, *node.params[side]] if id(value) in lifter.varying else node.params[side]
        for side, value in zip(("lhs", "rhs"), node.inputs, strict=True)
    ]
    inputs = [lifter.varying.get(id(v), v) for v in node.inputs]
    out = [rounds, *node.params["out"]]
    return lifter.again(node, inputs, lhs=labels[0], rhs=labels[1], out=out)


def _lift_reshape(node: Node, lifter: Lifter) -> Value:
    return lifter.editor.reshape(lifter.whole(node.inputs[0]), (lifter.length, *node.out.shape))


def _lift_moved(node: Node, lifter: Lifter) -> Value:
    """What only moves elements of each round."""
    source, view = lifter.whole(node.inputs[0]), above(along(node.out))
    assert view is not None, node
    every = view.take((None, *range(node.out.rank))).onto(source, range(1, source.rank))
    return write(lifter.editor, every.put(0, 0), (lifter.length, *node.out.shape))


def _lift_along(node: Node, lifter: Lifter) -> Value:
    """What names axes of its operands, which are all of its rank or of more."""
    named = {k: v for k, v in node.params.items() if k in ("axis", "axes", "dimension")}
    moved = {k: v + 1 if isinstance(v, int) else tuple(a + 1 for a in v) for k, v in named.items()}
    return lifter.again(node, [lifter.whole(v) for v in node.inputs], **moved)


LIFTED: dict[Op, Callable[[Node, Lifter], Value]] = {
    **dict.fromkeys((op for op in ops.stated() if op.elementwise), _elementwise),
    ops.einsum: _lift_product,
    ops.reshape: _lift_reshape,
    **dict.fromkeys((ops.transpose, ops.broadcast_in_dim, ops.slice), _lift_moved),
    **dict.fromkeys((ops.concatenate, ops.softmax, ops.log_softmax), _lift_along),
    **dict.fromkeys((op for op in ops.stated() if op.reduces), _lift_along),
}
"""What can be written for all rounds at once."""
