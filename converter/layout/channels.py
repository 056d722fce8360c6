"""Channels-first all the way: one layout for what lies between convolutions.

ONNX convolves and pools ``[batch, channels, space…]``. A network in channels-last has two
transposes around each convolution, and between two convolutions stands only what treats every
element alike: norms, activations, residual sums, pads, concatenations. Values that such operations
connect are a *region*; all of one region can be turned without changing a number. A region is
turned where that saves transposes, counted over its whole border:

    saved: transposes that bring values into the region, or out of it, the one way
    paid:  what else enters or leaves it, unless turning that moves axes of size one only

A last axis of two or three, as of the corners of boxes or the coordinates of bodies, goes to the
front where much is spread along the others: a runtime spreads and sums up in runs of that axis.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, drop_dead, inverse_order, moves_only_ones, sweep
from converter.layout.channel_forms import TURNABLE, TURNED
from converter.weight_folding.weight_programs import weight_values

Order = tuple[int, ...]


def turn_channels(graph: Graph) -> bool:
    """Turn every region where that saves transposes, in place; whether there was any."""
    if not any(graph.count(op) for op in (ops.conv, ops.conv_transpose, ops.max_pool)):
        return _turn_regions(graph)
    changed = sweep(graph, TURNABLE)
    drop_dead(graph)
    turned = _turn_regions(graph)
    spelled_out = sweep(graph, TURNED)
    return changed or turned or spelled_out


def _turn_regions(graph: Graph) -> bool:
    turned = _channels_turned(graph)
    if not turned:
        return False

    def carry(node: Node, editor: Editor) -> Value | None:
        order = turned.get(id(node.out))
        return None if order is None else _carried(node, order, editor)

    rules: dict[Op, Rule] = {op: _channels_reduced for op in ops.stated() if op.reduces}
    rules |= dict.fromkeys({node.op for node in graph.walk() if _carries(node.op)}, carry)
    sweep(graph, {**rules, ops.transpose: _transposed})
    drop_dead(graph)
    return True


def _carried(node: Node, order: Order, editor: Editor) -> Value:
    """The node in the layout of which its result is the transposition by ``order``."""
    back = inverse_order(order)
    inputs = [_operand(v, back, editor) for v in node.inputs]
    shape = tuple(node.out.shape[i] for i in back)
    named = _turned_axes if node.op is ops.rev else _turned_param
    changes = {n: named(node.params[n], back) for n in _PARAMS.get(node.op, ())}
    return editor.transpose(editor.like(node, inputs, shape, **changes), order)


def _operand(value: Value, back: Order, editor: Editor) -> Value:
    """An operand in the new layout; a scalar has none, a smaller one is broadcast."""
    if value.rank == 0:
        return value
    wide = editor.reshape(value, (*(1,) * (len(back) - value.rank), *value.shape))
    if back != _front(len(back)):
        return editor.transpose(wide, back)
    # ONNX Runtime moves a transpose behind what spreads, unless a reshape stands between them.
    long = [place for place in back if not dims.same(wide.shape[place], 1)]
    core = editor.reshape(value, tuple(wide.shape[place] for place in sorted(long)))
    turned = editor.transpose(core, [sorted(long).index(place) for place in long])
    return editor.reshape(turned, tuple(wide.shape[place] for place in back))


def _front(rank: int) -> Order:
    """The last axis before all others."""
    return (rank - 1, *range(rank - 1))


def _transposed(node: Node, editor: Editor) -> Value | None:
    """One transpose of two, or none."""
    inner = node.inputs[0].made_by(ops.transpose)
    return editor.transpose(node.inputs[0], node.params["permutation"]) if inner else None


def _channels_reduced(node: Node, editor: Editor) -> Value | None:
    """A reduction of a transposed value reduces the value, and what is left is transposed."""
    inner, axes = node.inputs[0].made_by(ops.transpose), node.params["axes"]
    if inner is None:
        return None
    (source,), order = inner.inputs, inner.params["permutation"]
    kept = [place for axis, place in enumerate(order) if axis not in axes]
    shape = tuple(source.shape[place] for place in sorted(kept))
    out = editor.like(node, [source], shape, axes=tuple(sorted(order[a] for a in axes)))
    return editor.transpose(out, [sorted(kept).index(place) for place in kept])


def _keeps_order(order: Sequence[int], axes: Sequence[int]) -> bool:
    kept = [place for axis, place in enumerate(order) if axis not in axes]
    return kept == sorted(kept)


# ------------------------------------------------------------------------------------- regions


def _channels_turned(graph: Graph) -> dict[int, Order]:
    """id(value) -> the transposition that it becomes, for each value of a region that is turned."""
    fixed, orders = weight_values(graph), dict[int, Order]()
    bodies = (body for node in graph.walk() for body in node.bodies.values())
    for part in (graph, *bodies):
        orders |= _turned_of_part(part, fixed)
    return orders


def _turned_of_part(graph: Graph, fixed: set[int]) -> dict[int, Order]:
    """The same of a graph without the bodies in it."""
    parents: dict[int, int] = {}

    def region(value: Value) -> int:
        """The id of one of the values that a value is connected with."""
        place = id(value)
        while (parent := parents.get(place, place)) != place:
            place = parent
        return place

    carriers = [node for node in graph.nodes if _is_carrier(node)]
    for node in carriers:
        for value in _varying(node, fixed):
            if not node.op.broadcasts or dims.same_shape(value.shape, node.out.shape):
                parents[region(value)] = region(node.out)
    members: dict[int, list[Node]] = defaultdict(list)
    for node in carriers:
        members[region(node.out)].append(node)
    readers = graph.uses()
    orders: dict[int, Order] = {}
    for nodes in members.values():
        best = _best(nodes, fixed, readers) or _in_front(nodes, fixed, readers)
        if best is not None:
            orders.update((id(node.out), best) for node in nodes)
    return orders


def _best(
    nodes: Sequence[Node], fixed: set[int], readers: Mapping[int, Sequence[Node | None]]
) -> Order | None:
    """The order that saves most transposes around these nodes, if any does."""
    own, made = {id(node) for node in nodes}, {id(node.out) for node in nodes}
    entering = {id(v): v for node in nodes for v in _varying(node, fixed) if id(v) not in made}
    leaving = [(n.out, [r for r in readers[id(n.out)] if id(r) not in own]) for n in nodes]
    votes: Counter[Order] = Counter()
    for value in entering.values():
        # The order of an operand with fewer axes, which is broadcast, says nothing of the region's.
        if (order := _channels_order(value.node)) is not None and len(order) == nodes[0].out.rank:
            others = (r for r in readers[id(value)] if id(r) not in own)
            # A transpose that others read stays, unless they only turn it: two in a row become one.
            votes[order] += all(_channels_order(reader) for reader in others)
    for _, outside in leaving:
        reader_orders = {_channels_order(reader) for reader in outside}
        votes.update(inverse_order(order) for order in reader_orders if order is not None)
    for order, saved in votes.most_common():
        if saved > sum(_costs(entering.values(), leaving, order)):
            return order
    return None


SMALL_AXIS, MANY = 4, 256
"""The size of a last axis that goes to the front, and the elements of a value that make it pay."""


def _in_front(
    nodes: Sequence[Node], fixed: set[int], readers: Mapping[int, Sequence[Node | None]]
) -> Order | None:
    """The order with the last axis in front, where elements that are spread or summed up in runs of
    that axis are more than those that have to be turned at the border.
    """
    shapes = [node.out.shape for node in nodes]
    small = all(dims.all_static(s) and 1 < s[-1] <= SMALL_AXIS for s in shapes)
    if not small or max(map(prod, shapes)) < MANY:
        return None
    rank = nodes[0].out.rank
    order, back = (*range(1, rank), 0), _front(rank)
    own, made = {id(node) for node in nodes}, {id(node.out) for node in nodes}
    saved = sum(prod(n.out.shape) for n in nodes if _spreads(n, fixed))
    cost = sum(
        {id(v): prod(v.shape) for n in nodes for v in _turning(n, fixed, made, back)}.values()
    )
    for node in nodes:
        outside = [r for r in readers[id(node.out)] if id(r) not in own]
        sums = [r for r in outside if r is not None and r.op.reduces]
        saved += sum(prod(node.out.shape) for _ in sums)
        cost += sum(prod(r.out.shape) for r in sums if not _keeps_order(order, r.params["axes"]))
        cost += prod(node.out.shape) if len(sums) < len(outside) else 0
    return order if saved > 2 * cost else None


def _spreads(node: Node, fixed: set[int]) -> bool:
    """Whether an operand with axes is broadcast."""
    return node.op.broadcasts and any(v.shape != node.out.shape for v in _varying(node, fixed))


def _turning(node: Node, fixed: set[int], made: set[int], back: Order) -> Iterator[Value]:
    """Operands from outside of the region in which turning moves elements."""
    for value in _varying(node, fixed):
        ones = (*(1,) * (len(back) - value.rank), *value.shape)
        if id(value) not in made and not moves_only_ones(ones, back):
            yield value


def _costs(
    entering: Iterable[Value], leaving: Iterable[tuple[Value, Sequence[Node | None]]], order: Order
) -> Iterator[int]:
    """One for each value that has to be turned at the border."""
    back = inverse_order(order)
    for value in entering:
        ones = (*(1,) * (len(order) - value.rank), *value.shape)
        yield _channels_order(value.node) != order and not moves_only_ones(ones, back)
    for value, outside in leaving:
        kept = any(not _takes(reader, order, back) for reader in outside)
        yield kept and not moves_only_ones(value.shape, back)


def _takes(reader: Node | None, order: Order, back: Order) -> bool:
    """Whether a reader takes the turned value without a transpose."""
    if reader is None:
        return False
    if reader.op.reduces:
        return _keeps_order(order, reader.params["axes"])
    return _channels_order(reader) == back


def _channels_order(node: Node | None) -> Order | None:
    if node is None or node.op is not ops.transpose:
        return None
    return tuple(node.params["permutation"])


def _varying(node: Node, fixed: set[int]) -> list[Value]:
    """Operands that would have to be turned when the file runs."""
    return [v for v in node.inputs if v.kind != "const" and v.rank and id(v) not in fixed]


def _carries(op: Op) -> bool:
    return op.elementwise or op in _PARAMS


def _is_carrier(node: Node) -> bool:
    if not _carries(node.op) or node.out.rank < 3 or node.bodies:
        return False
    return node.op.broadcasts or all(v.rank == node.out.rank for v in _varying(node, set()))


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
"""What says something of each axis, or of one."""


def _turned_axes(axes: Sequence[int], back: Order) -> Order:
    return tuple(back.index(axis) for axis in axes)


def _turned_param(param: Any, back: Order) -> Any:
    if isinstance(param, (tuple, list)):
        return tuple(param[i] for i in back)
    return None if param is None else back.index(param)
