"""Replace values without elements by constants, so that later passes need not consider them."""

import numpy as np

from converter.ir import Graph, Node, Value, const, dims, make_node, ops
from converter.ir.evaluation import run_node, use_precision_of
from converter.ir.rewrite import Editor, Rule


def fill_empty(graph: Graph) -> None:
    """Replace all values that have no elements by constants without elements, in place.

    Parameters and inputs are replaced where they are read. A constant with named sizes is a
    broadcast of a constant whose named sizes are 1.
    """
    table: dict[int, Value] = {}
    _fill(graph, table)
    if table:
        graph.replace_operands(lambda v: table.get(id(v), v))


def _fill(graph: Graph, table: dict[int, Value]) -> None:
    """Add a constant for each value without elements of a graph and its bodies to ``table``.

    The key is the id of the value. The nodes of the constants are added to the graph.
    """
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
    """Return True if an axis of the value has size 0. A named dimension is not 0."""
    return any([dims.is_static(d) and d == 0 for d in value.shape])


def fold_empty_reduction(node: Node, editor: Editor) -> Value | None:
    """Replace a reduction, product or convolution over an empty axis by its neutral element.

    The result of a sum over an empty axis, for example, is a broadcast zero. Return None if no
    operand is empty, or if the result is also empty.
    """
    if is_empty(node.out) or not any(map(is_empty, node.inputs)):
        return None
    with use_precision_of([node]):
        (result,) = run_node(node, [_empty_array(v) for v in node.inputs], {})
    return editor.broadcast(const(np.ravel(result)[0]), node.out.shape, ())


def _empty_array(value: Value) -> np.ndarray:
    """Return an array without elements, in which named sizes are 1."""
    return np.zeros([d if dims.is_static(d) else 1 for d in value.shape], value.dtype)


def _empty_constant(value: Value, nodes: list[Node]) -> Value:
    """Return a constant without elements for ``value``, which is empty. If the shape has named
    sizes, a broadcast of the constant to them is appended to ``nodes``."""
    constant = const(_empty_array(value))
    if dims.all_static(value.shape):
        return constant
    params = {"shape": value.shape, "broadcast_dimensions": tuple(range(value.rank))}
    types = [(value.shape, value.dtype)]
    nodes.append(make_node(ops.broadcast_in_dim, [constant], types, params))
    return nodes[-1].out


def _is_filled(node: Node) -> bool:
    """Return True if a node broadcasts a constant to a shape with named sizes.

    Empty values with named sizes are replaced by such nodes.
    """
    is_broadcast = node.op is ops.broadcast_in_dim and node.inputs[0].kind == "const"
    return is_broadcast and not dims.all_static(node.out.shape)


def skip_empty_update(index: int) -> Rule:
    """Return a rule that replaces an update by the updated array if nothing is written.

    ``index`` is the operand with the elements to write. The rule applies if it has no elements.
    """
    return lambda node, _: node.inputs[0] if is_empty(node.inputs[index]) else None


def fold_empty_scatter(node: Node, editor: Editor) -> Value | None:
    """Replace ``select_and_scatter_add`` by zeros if its first operand has no elements, otherwise
    return None.

    That operand contains the elements to scatter.
    """
    if not is_empty(node.inputs[0]):
        return None
    return editor.broadcast(const(0, node.out.dtype), node.out.shape, ())
