"""Bring values between convolutions into channels-first order.

The convolutions and pools of ONNX have operands of layout ``[batch, channels, space…]``. A network
in channels-last order therefore has two transposes around each convolution. The operations between
two convolutions can be computed in any order of axes: norms, activations, residual sums, pads,
concatenations. The values that are connected by such operations are a *region*. All values of a
region can be transposed together without changing a number. A region is transposed if this reduces
the number of transposes at its border:

    saved: transposes of values that enter or leave the region
    paid:  other values that enter or leave it, unless reordering moves only axes of size one

The last axis may have only two or three elements, such as the corners of boxes or the coordinates
of bodies. It is moved to the front if many elements are broadcast or summed along the other axes,
because runtimes are faster at broadcasts and sums if the last axis is long.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, drop_dead, inverse_order, moves_only_ones, sweep
from converter.layout.channel_forms import AFTER_REORDERING, BEFORE_REORDERING
from converter.weight_folding.weight_programs import weight_values

Order = tuple[int, ...]


def reorder_channels(graph: Graph) -> bool:
    """Transpose the values of every region for which this saves transposes or time, in place.

    A region is a set of connected values that can be transposed together; see the top of this
    module. Return True if anything changed.
    """
    if not any(graph.count(op) for op in (ops.conv, ops.conv_transpose, ops.max_pool)):
        return _reorder_regions(graph)
    changed = sweep(graph, BEFORE_REORDERING)
    drop_dead(graph)
    is_reordered = _reorder_regions(graph)
    is_expanded = sweep(graph, AFTER_REORDERING)
    return changed or is_reordered or is_expanded


def _reorder_regions(graph: Graph) -> bool:
    """Transpose the values of every region for which this saves transposes or time, in place.

    Reductions of transposed values are then moved before the transpose, and consecutive transposes
    are merged. Return True if a region was transposed. Return False, and change nothing, if there
    is no such region.
    """
    orders = _region_orders(graph)
    if not orders:
        return False

    def reorder(node: Node, editor: Editor) -> Value | None:
        order = orders.get(id(node.out))
        return None if order is None else _reorder_node(node, order, editor)

    rules: dict[Op, Rule] = {op: _reduce_before_transpose for op in ops.defined_ops() if op.reduces}
    rules |= dict.fromkeys(
        {node.op for node in graph.walk() if _can_be_reordered(node.op)}, reorder
    )
    sweep(graph, {**rules, ops.transpose: _merge_transposes})
    drop_dead(graph)
    return True


def _reorder_node(node: Node, order: Order, editor: Editor) -> Value:
    """Emit a node in the new layout of its region. Return the result, transposed back to the
    graph's layout.

    The operands, and the parameters that refer to axes, are reordered to the new layout.

    Arguments:
        node: the node to replace, in the graph's layout.
        order: the permutation from the new layout to the graph's layout.
        editor: gets the new nodes.
    """
    inverse = inverse_order(order)
    inputs = [_reorder_operand(v, inverse, editor) for v in node.inputs]
    shape = tuple(node.out.shape[i] for i in inverse)
    reorder_param = _reorder_axes if node.op is ops.rev else _reorder_param
    changes = {n: reorder_param(node.params[n], inverse) for n in _PARAMS.get(node.op, ())}
    return editor.transpose(editor.copy_with_operands(node, inputs, shape, **changes), order)


def _reorder_operand(value: Value, inverse: Order, editor: Editor) -> Value:
    """Return an operand in the new layout of a region.

    ``inverse`` is the permutation from the graph's layout to the new one. Scalars are returned
    unchanged. An operand of lower rank first gets leading axes of size one.
    """
    if value.rank == 0:
        return value
    full = editor.reshape(value, (*(1,) * (len(inverse) - value.rank), *value.shape))
    if inverse != _last_axis_first(len(inverse)):
        return editor.transpose(full, inverse)
    # ONNX Runtime's optimizer moves a transpose after a broadcast unless there is a reshape between
    # them.
    long_axes = [axis for axis in inverse if not dims.is_same_dim(full.shape[axis], 1)]
    core = editor.reshape(value, tuple(full.shape[axis] for axis in sorted(long_axes)))
    transposed = editor.transpose(core, [sorted(long_axes).index(axis) for axis in long_axes])
    return editor.reshape(transposed, tuple(full.shape[axis] for axis in inverse))


def _last_axis_first(rank: int) -> Order:
    """Return the permutation that moves the last axis to the front."""
    return (rank - 1, *range(rank - 1))


def _merge_transposes(node: Node, editor: Editor) -> Value | None:
    """Replace a transpose of a transpose by one transpose, or by none if they cancel. Return None
    for other transposes."""
    inner = node.inputs[0].producer_if(ops.transpose)
    return editor.transpose(node.inputs[0], node.params["permutation"]) if inner else None


def _reduce_before_transpose(node: Node, editor: Editor) -> Value | None:
    """Reduce a value before its transpose, and transpose the result.

    ``node`` is the reduction. Return None if its operand is not transposed.
    """
    inner, axes = node.inputs[0].producer_if(ops.transpose), node.params["axes"]
    if inner is None:
        return None
    (source,), order = inner.inputs, inner.params["permutation"]
    kept_axes = [source_axis for axis, source_axis in enumerate(order) if axis not in axes]
    shape = tuple(source.shape[source_axis] for source_axis in sorted(kept_axes))
    out = editor.copy_with_operands(
        node, [source], shape, axes=tuple(sorted(order[a] for a in axes))
    )
    return editor.transpose(
        out, [sorted(kept_axes).index(source_axis) for source_axis in kept_axes]
    )


def _restores_order(order: Sequence[int], axes: Sequence[int]) -> bool:
    """Return True if a reduction of a transposed value leaves the remaining axes in the order that
    they have before the transpose.

    ``order`` is the permutation of the transpose, and ``axes`` are the axes that the reduction
    removes.
    """
    kept_axes = [source_axis for axis, source_axis in enumerate(order) if axis not in axes]
    return kept_axes == sorted(kept_axes)


# ------------------------------------------------------------------------------------- regions


def _region_orders(graph: Graph) -> dict[int, Order]:
    """Return a permutation for each value of the regions that are worth transposing, by the id of
    the value.

    It transposes the value from the new layout of the region to the graph's layout. Nested bodies
    are included.
    """
    weight_ids, orders = weight_values(graph), dict[int, Order]()
    bodies = (body for node in graph.walk() for body in node.bodies.values())
    for part in (graph, *bodies):
        orders |= _region_orders_of_part(part, weight_ids)
    return orders


def _region_orders_of_part(graph: Graph, weight_ids: set[int]) -> dict[int, Order]:
    """Return the permutations of the regions of one graph, without its nested bodies, by value id.

    They lead from the new layout of a region to the graph's layout. ``weight_ids`` are the ids of
    values that depend on parameters alone. Transposes of these values are free.
    """
    parents: dict[int, int] = {}

    def region(value: Value) -> int:
        """Return the id of the value that represents the region of ``value``."""
        member = id(value)
        while (parent := parents.get(member, member)) != member:
            member = parent
        return member

    carriers = [node for node in graph.nodes if _is_carrier(node)]
    for node in carriers:
        for value in _runtime_inputs(node, weight_ids):
            if not node.op.broadcasts or dims.is_same_shape(value.shape, node.out.shape):
                parents[region(value)] = region(node.out)
    members: dict[int, list[Node]] = defaultdict(list)
    for node in carriers:
        members[region(node.out)].append(node)
    readers = graph.uses()
    orders: dict[int, Order] = {}
    for nodes in members.values():
        best = _cheapest_order(nodes, weight_ids, readers) or _small_axis_first_order(
            nodes, weight_ids, readers
        )
        if best is not None:
            orders.update((id(node.out), best) for node in nodes)
    return orders


def _cheapest_order(
    nodes: Sequence[Node], weight_ids: set[int], readers: Mapping[int, Sequence[Node | None]]
) -> Order | None:
    """Return the permutation from the new layout of a region to the graph's layout, or None if no
    layout saves transposes.

    The permutations of transposes at the border of the region are tried, the most frequent one
    first. The first one that removes more transposes than it adds is returned.

    **Arguments**

    - `nodes`: the nodes of the region.
    - `weight_ids`: the ids of values that depend on parameters alone. Transposes of these values
      are free.
    - `readers`: the nodes that read each value, by the id of the value. None is an output of the
      graph.
    """
    region_nodes, region_values = {id(node) for node in nodes}, {id(node.out) for node in nodes}
    entering = {
        id(v): v
        for node in nodes
        for v in _runtime_inputs(node, weight_ids)
        if id(v) not in region_values
    }
    leaving = [(n.out, [r for r in readers[id(n.out)] if id(r) not in region_nodes]) for n in nodes]
    votes: Counter[Order] = Counter()
    for value in entering.values():
        # An operand with fewer axes is broadcast, so the order of its axes does not determine the
        # order of the region.
        if (order := _transpose_permutation(value.node)) is not None and len(order) == nodes[
            0
        ].out.rank:
            other_readers = (r for r in readers[id(value)] if id(r) not in region_nodes)
            # A transpose that other nodes read cannot be removed, unless these nodes are
            # transposes, which are merged with it.
            votes[order] += all(_transpose_permutation(reader) for reader in other_readers)
    for _, outer_readers in leaving:
        reader_orders = {_transpose_permutation(reader) for reader in outer_readers}
        votes.update(inverse_order(order) for order in reader_orders if order is not None)
    for order, saved in votes.most_common():
        if saved > sum(_border_costs(entering.values(), leaving, order)):
            return order
    return None


MAX_SMALL_AXIS, MIN_ELEMENTS = 4, 256
"""Largest size of a last axis that moves to the front, and the number of elements of a value from
which on this is worthwhile."""


def _small_axis_first_order(
    nodes: Sequence[Node], weight_ids: set[int], readers: Mapping[int, Sequence[Node | None]]
) -> Order | None:
    """Return the permutation to the graph's layout from a layout that has the last axis first, or
    None if that layout does not save time.

    It avoids broadcasts and sums in short runs of that axis, and costs transposes at the border of
    the region. Return None also if the last axis has one entry or more than `MAX_SMALL_AXIS`, or if
    a size is named. The arguments have the same meaning as in `_cheapest_order`.
    """
    shapes = [node.out.shape for node in nodes]
    has_small_axis = all(dims.all_static(s) and 1 < s[-1] <= MAX_SMALL_AXIS for s in shapes)
    if not has_small_axis or max(map(prod, shapes)) < MIN_ELEMENTS:
        return None
    rank = nodes[0].out.rank
    order, inverse = (*range(1, rank), 0), _last_axis_first(rank)
    region_nodes, region_values = {id(node) for node in nodes}, {id(node.out) for node in nodes}
    saved = sum(prod(n.out.shape) for n in nodes if _broadcasts_operand(n, weight_ids))
    cost = sum(
        {
            id(v): prod(v.shape)
            for n in nodes
            for v in _reordered_inputs(n, weight_ids, region_values, inverse)
        }.values()
    )
    for node in nodes:
        outer_readers = [r for r in readers[id(node.out)] if id(r) not in region_nodes]
        sums = [r for r in outer_readers if r is not None and r.op.reduces]
        saved += sum(prod(node.out.shape) for _ in sums)
        cost += sum(prod(r.out.shape) for r in sums if not _restores_order(order, r.params["axes"]))
        cost += prod(node.out.shape) if len(sums) < len(outer_readers) else 0
    return order if saved > 2 * cost else None


def _broadcasts_operand(node: Node, weight_ids: set[int]) -> bool:
    """Return True if a node broadcasts an operand that is neither a scalar nor computed from
    weights."""
    return node.op.broadcasts and any(
        v.shape != node.out.shape for v in _runtime_inputs(node, weight_ids)
    )


def _reordered_inputs(
    node: Node, weight_ids: set[int], region_values: set[int], inverse: Order
) -> Iterator[Value]:
    """Yield the operands from outside of the region that have to be transposed for the new layout.

    ``inverse`` is the permutation to the new layout. Operands are omitted if only their axes of
    size one are moved.
    """
    for value in _runtime_inputs(node, weight_ids):
        ones = (*(1,) * (len(inverse) - value.rank), *value.shape)
        if id(value) not in region_values and not moves_only_ones(ones, inverse):
            yield value


def _border_costs(
    entering: Iterable[Value], leaving: Iterable[tuple[Value, Sequence[Node | None]]], order: Order
) -> Iterator[int]:
    """Yield 1 for each value that needs a new transpose at the border of the region, and 0 for
    others.

    **Arguments**

    - `entering`: the values that the region reads from outside.
    - `leaving`: the values of the region, each with its readers outside of the region.
    - `order`: the permutation from the new layout of the region to that of the graph.
    """
    inverse = inverse_order(order)
    for value in entering:
        ones = (*(1,) * (len(order) - value.rank), *value.shape)
        yield _transpose_permutation(value.node) != order and not moves_only_ones(ones, inverse)
    for value, outer_readers in leaving:
        needs_transpose = any(
            not _accepts_order(reader, order, inverse) for reader in outer_readers
        )
        yield needs_transpose and not moves_only_ones(value.shape, inverse)


def _accepts_order(reader: Node | None, order: Order, inverse: Order) -> bool:
    """Return True if a node can read the value in the new layout without a further transpose.

    Such readers are transposes that cancel, and reductions that keep the order of the axes. A graph
    output (None) is no such reader.

    **Arguments**

    - `reader`: the node that reads the value, or None.
    - `order`: the permutation from the new layout to the graph's layout.
    - `inverse`: the inverse of `order`.
    """
    if reader is None:
        return False
    if reader.op.reduces:
        return _restores_order(order, reader.params["axes"])
    return _transpose_permutation(reader) == inverse


def _transpose_permutation(node: Node | None) -> Order | None:
    """Return the permutation of a transpose, or None for other nodes and for None."""
    if node is None or node.op is not ops.transpose:
        return None
    return tuple(node.params["permutation"])


def _runtime_inputs(node: Node, weight_ids: set[int]) -> list[Value]:
    """Return the operands that would be transposed at run time, not when the file is saved.

    Constants, scalars and values with an id in ``weight_ids`` are omitted.
    """
    return [v for v in node.inputs if v.kind != "const" and v.rank and id(v) not in weight_ids]


def _can_be_reordered(op: Op) -> bool:
    """Return True if the operation can be computed in any order of axes. Its parameters may contain
    axis numbers."""
    return op.elementwise or op in _PARAMS


def _is_carrier(node: Node) -> bool:
    """Return True if a node can be part of a region, because it computes the same in any order of
    axes.

    It needs at least three axes and no bodies. Unless it broadcasts, its operands need as many axes
    as its result, apart from constants and scalars.
    """
    if not _can_be_reordered(node.op) or node.out.rank < 3 or node.bodies:
        return False
    return node.op.broadcasts or all(v.rank == node.out.rank for v in _runtime_inputs(node, set()))


# ------------------------------------------------------------------------------------ carriers


_PARAMS: dict[Op, tuple[str, ...]] = {
    ops.pad: ("padding_config",),
    ops.concatenate: ("dimension",),
    ops.softmax: ("axis",),
    ops.log_softmax: ("axis",),
    ops.slice: ("start_indices", "limit_indices", "strides"),
    ops.rev: ("dimensions",),
    ops.repeat: ("times",),
}
"""Parameters with an entry for each axis, or with the number of an axis."""


def _reorder_axes(axes: Sequence[int], inverse: Order) -> Order:
    """Return axis numbers of the graph's layout as axis numbers of the new layout."""
    return tuple(inverse.index(axis) for axis in axes)


def _reorder_param(param: Any, inverse: Order) -> Any:
    """Return a parameter for the new layout.

    A tuple or list has an entry for each axis, which is permuted. A number is the number of an
    axis. None stays None.
    """
    if isinstance(param, (tuple, list)):
        return tuple(param[i] for i in inverse)
    return None if param is None else inverse.index(param)
