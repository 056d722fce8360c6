"""Equal parts of one value that are each reshaped and transposed alike are transposed as one.

Queries, keys and values are often cut from one product and turned to [batch, heads, positions,
width] one by one: n slices, n reshapes and n transposes say what one reshape, one transpose that
brings the parts to the front, and n selections do. One that is turned another way (keys, for a
matrix product) is transposed once more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from converter.graph import Graph, Node, Value, dims, ops
from converter.graph.dims import Shape
from converter.graph.rewrite import Editor, sweep
from converter.graph.slices import known_cut


@dataclass(frozen=True)
class Part:
    """``transpose(reshape(slice(source)))``; the reshape may be missing."""

    source: Value
    axis: int  # the axis of the source that is cut
    start: int
    size: int
    middle: Shape  # between reshape and transpose
    order: tuple[int, ...]
    out: Value


@dataclass(frozen=True)
class Family:
    """All parts of a value, and the order of axes that most of them have."""

    parts: tuple[Part, ...]
    order: tuple[int, ...]


def share_transposes(graph: Graph) -> bool:
    """Transpose the equal parts of each value as one, in place; whether there were any."""
    families = [f for parts in _families(graph).values() if (f := _alike(parts))]
    members = {id(part.out): (part, family) for family in families for part in family.parts}
    turned: dict[int, Value] = {}

    def select(node: Node, editor: Editor) -> Value | None:
        if id(node.out) not in members:
            return None
        part, family = members[id(node.out)]
        if id(family) not in turned:
            turned[id(family)] = _together(editor, family)
        index = part.start // part.size
        one = editor.slice(turned[id(family)], 0, index, index + 1)
        alone = editor.reshape(one, tuple(part.middle[i] for i in family.order))
        return editor.transpose(alone, [family.order.index(i) for i in part.order])

    return bool(members) and sweep(graph, {ops.transpose: select}).changed


def _families(graph: Graph) -> dict[tuple[int, int], list[Part | None]]:
    """(source, axis) -> all its slices along that axis, ``None`` for one that is used otherwise.

    Only of the main graph: what a body captures from outside may be read there at any time.
    """
    uses = graph.uses()
    table: dict[tuple[int, int], list[Part | None]] = defaultdict(list)
    for node in graph.nodes:
        cut = known_cut(node)
        if cut is not None:
            table[id(node.inputs[0]), cut].append(_part(node, cut, uses))
    return table


def _part(node: Node, axis: int, uses: dict[int, list[Node | None]]) -> Part | None:
    after = _only_use(node, uses)
    middle = node.out.shape
    if after is not None and after.op is ops.reshape:
        middle = after.out.shape
        after = _only_use(after, uses)
    start, size = node.params["start_indices"][axis], node.out.shape[axis]
    if after is None or after.op is not ops.transpose or start % size:
        return None
    return Part(
        node.inputs[0], axis, start, size, middle, tuple(after.params["permutation"]), after.out
    )


def _only_use(node: Node, uses: dict[int, list[Node | None]]) -> Node | None:
    readers = uses.get(id(node.out), [])
    return readers[0] if len(readers) == 1 else None


def _alike(slices: list[Part | None]) -> Family | None:
    """The parts, if all are there and reshaped alike, and two of them transposed alike."""
    parts = tuple(p for p in slices if p is not None)
    if len(parts) < len(slices) or len(parts) < 2:
        return None
    first = parts[0]
    same = all(p.size == first.size for p in parts)
    starts = sorted(p.start for p in parts)
    complete = starts == list(range(0, first.source.shape[first.axis], first.size))
    shapes = all(dims.same_shape(p.middle, first.middle) for p in parts)
    order, times = Counter(p.order for p in parts).most_common(1)[0]
    fits = same and complete and shapes and times > 1 and _place(first) is not None
    return Family(parts, order) if fits else None


def _place(part: Part) -> int | None:
    """Where in ``middle`` the axis that counts the parts has to stand."""
    outer = dims.product(part.source.shape[: part.axis])
    places = range(len(part.middle) + 1)
    return next((i for i in places if dims.same(dims.product(part.middle[:i]), outer)), None)


def _together(editor: Editor, family: Family) -> Value:
    """All parts, transposed, along a new first axis."""
    first, place = family.parts[0], _place(family.parts[0])
    assert place is not None
    shape = (*first.middle[:place], len(family.parts), *first.middle[place:])
    order = [place, *(i + (i >= place) for i in family.order)]
    return editor.transpose(editor.reshape(editor.resolve(first.source), shape), order)
