"""Transpose equal parts of a value together if each is reshaped and transposed in the same way.

Queries, keys and values are often sliced from one product and transposed to [batch, heads,
positions, width] separately. The n slices, n reshapes and n transposes are replaced by one reshape,
one transpose that moves the axis of the parts to the front, and n selections. If the permutation of
a part is different (for example, keys in a matrix product), this part is transposed once more.
"""

from collections import Counter
from typing import NamedTuple

from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.axes import Factor, Group, View, view_of
from converter.ir.dims import Shape
from converter.ir.moves import emit_view, slices_by_source, view_of_operand
from converter.ir.rewrite import Editor, sweep


class SiblingPart(NamedTuple):
    """A slice of an array along one axis that is then only reshaped and transposed.

    It has ``size`` entries from ``start`` on. ``out`` is the transposed result. ``view`` expresses
    ``out``, without its axes of size one, as a view of the array.
    """

    out: Value
    view: View
    start: int
    size: int

    @property
    def shape(self) -> Shape:
        """Sizes of the axes of the view, in their order."""
        return tuple(dims.size_product([f.size for f in group]) for group in self.view.groups)


class SiblingFamily(NamedTuple):
    """All parts (`SiblingPart`) of a value along ``axis``. ``common`` is a part that has the most
    common permutation."""

    parts: list[SiblingPart]
    common: SiblingPart
    axis: int


def share_transposes(graph: Graph) -> bool:
    """Transpose the equal parts of each value together, in place.

    A part is a slice, for example the queries in a product of queries, keys and values. Return True
    if the graph changed. Only the main graph is searched, not its bodies.
    """
    uses = graph.uses()
    # This is done only in the main graph, because the nodes of a body may also read values from
    # outside of the body.
    similar_slices = (
        _match_family([_match_sibling(node, axis, uses) for node in slices], axis)
        for (_, axis), slices in slices_by_source(graph).items()
    )
    families = [family for family in similar_slices if family is not None]
    members = {id(part.out): (part, family) for family in families for part in family.parts}
    transposed: dict[int, Value] = {}

    def select(node: Node, editor: Editor) -> Value | None:
        if id(node.out) not in members:
            return None
        part, family = members[id(node.out)]
        if id(family) not in transposed:
            transposed[id(family)] = _transpose_family(editor, family)
        index = part.start // part.size
        selected = editor.slice(transposed[id(family)], 0, index, index + 1)
        common_form = editor.reshape(selected, family.common.shape)
        order = _permutation_between(family.common.view.groups, part.view.groups)
        return editor.reshape(editor.transpose(common_form, order), part.out.shape)

    return bool(members) and sweep(graph, {ops.transpose: select})


def _match_sibling(node: Node, axis: int, uses: dict[int, list[Node | None]]) -> SiblingPart | None:
    """Match a slice that is reshaped at most once and then transposed, and return it as a part.

    Return None if the slice or its reshape is read by several nodes or by one of another operation,
    if the start of the slice is no multiple of its size, or if the result is no view of the sliced
    value.

    Arguments:
        node: the slice.
        axis: the axis along which it cuts.
        uses: the nodes that read each value, by its id; None stands for an output of the graph.
    """
    reader = _only_use(node, uses)
    if reader is not None and reader.op is ops.reshape:
        reader = _only_use(reader, uses)
    start, size = node.params["start_indices"][axis], node.out.shape[axis]
    if reader is None or reader.op is not ops.transpose or start % size:
        return None
    view: View | None = view_of(reader.out)
    while view is not None and view.base is not node.inputs[0]:
        view = view_of_operand(view)
    if view is None:
        return None
    groups = tuple(group for group in view.groups if group)
    return SiblingPart(reader.out, view._replace(groups=groups), start, size)


def _only_use(node: Node, uses: dict[int, list[Node | None]]) -> Node | None:
    """Return the only reader of the node's output. Return None if there are several or none, or if
    it is an output of the graph.

    ``uses`` contains the nodes that read each value, by its id; None stands for an output of the
    graph.
    """
    readers = uses.get(id(node.out), [])
    return readers[0] if len(readers) == 1 else None


def _match_family(slices: list[SiblingPart | None], axis: int) -> SiblingFamily | None:
    """Return the parts of a value along an axis as a family.

    Return None if a slice was not matched (None), if the parts do not cover the axis or are
    reshaped differently, or if no two have the same permutation.

    Arguments:
        slices: all slices of the value along the axis, as parts.
        axis: the axis.
    """
    parts = [p for p in slices if p is not None]
    if len(parts) < len(slices) or len(parts) < 2:
        return None
    axis_size, size = parts[0].view.base.shape[axis], parts[0].size
    is_complete = sorted(p.start for p in parts) == list(range(0, axis_size, size))
    have_same_form = len({(p.size, frozenset(Counter(p.view.groups).items())) for p in parts}) == 1
    groups, times = Counter(p.view.groups for p in parts).most_common(1)[0]
    common = next(p for p in parts if p.view.groups == groups)
    return (
        SiblingFamily(parts, common, axis) if is_complete and have_same_form and times > 1 else None
    )


def _permutation_between(groups: tuple[Group, ...], target_groups: tuple[Group, ...]) -> list[int]:
    """Return the permutation from the axes ``groups`` to the axes ``target_groups``.

    Each axis is given by the factors that a view has along it. Both arguments have the same axes in
    another order.
    """
    remaining = list(enumerate(groups))
    return [
        remaining.pop([group for _, group in remaining].index(target))[0]
        for target in target_groups
    ]


def _transpose_family(editor: Editor, family: SiblingFamily) -> Value:
    """Emit and return one value that has all parts of a family, transposed, along a new first axis.

    The parts have the order of their starts, and the permutation of ``family.common``.
    """
    common, count = family.common, len(family.parts)
    parts_axis = (Factor(family.axis, common.size, count),)
    source = editor.resolve(common.view.base)
    view = View(source, (parts_axis, *common.view.groups), (0,) * source.rank)
    return emit_view(editor, view, (count, *common.shape))
