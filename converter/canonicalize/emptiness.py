"""Replace values without elements by constants, so that later passes need not consider them."""

import numpy as np

from converter.ir import Graph, Node, Value, const, dims, make_node, ops
from converter.ir.evaluation import run_node, use_precision_of
from converter.ir.rewrite import Editor, Rule


def fill_empty(graph: Graph) -> None:
    """Replace every value without elements, in place."""
    table: dict[int, Value] = {}
    _fill(graph, table)
    if table:
        graph.replace_operands(lambda v: table.get(id(v), v))


def _fill(graph: Graph, table: dict[int, Value]) -> None:
    nodes: list[Node] = []
    for value in (*graph.params, *graph.inputs):
        if is_empty(value):
            table[id(value)] = _empty_constant(value, nodes)
    for node in graph.nodes:
        nodes.append(node)
        for body in node.bodies.values():
            _fill(body, table)
        for value in node.outputs:
            if is_empty(value) and not _is_filled(node):
                table[id(value)] = _empty_constant(value, nodes)
    graph.nodes = nodes


def is_empty(value: Value) -> bool:
    """Return True if a value has no elements, whatever the named sizes are."""
    return any([dims.is_static(d) and d == 0 for d in value.shape])


def reduce_empty(node: Node, editor: Editor) -> Value | None:
    """Replace a reduction over no elements by a constant."""
    if is_empty(node.out) or not any(map(is_empty, node.inputs)):
        return None
    with use_precision_of([node]):
        (result,) = run_node(node, [_empty_array(v) for v in node.inputs], {})
    return editor.broadcast(const(np.ravel(result)[0]), node.out.shape, ())


def _empty_array(value: Value) -> np.ndarray:
    """Return an array without elements, in which named sizes are 1."""
    return np.zeros([d if dims.is_static(d) else 1 for d in value.shape], value.dtype)


def _empty_constant(value: Value, nodes: list[Node]) -> Value:
    """Return a constant without elements, broadcast to its named sizes."""
    constant = const(_empty_array(value))
    if dims.all_static(value.shape):
        return constant
    params = {"shape": value.shape, "broadcast_dimensions": tuple(range(value.rank))}
    types = [(value.shape, value.dtype)]
    nodes.append(make_node(ops.broadcast_in_dim, [constant], types, params))
    return nodes[-1].out


def _is_filled(node: Node) -> bool:
    spread = node.op is ops.broadcast_in_dim and node.inputs[0].kind == "const"
    return spread and not dims.all_static(node.out.shape)


def skip_empty_update(index: int) -> Rule:
    """Return a rule that replaces an update by its operand if operand ``index``, the update, is
    empty."""
    return lambda node, _: node.inputs[0] if is_empty(node.inputs[index]) else None


def scatter_empty(node: Node, editor: Editor) -> Value | None:
    """Replace a scatter of no windows by zeros."""
    if not is_empty(node.inputs[0]):
        return None
    return editor.broadcast(const(0, node.out.dtype), node.out.shape, ())
