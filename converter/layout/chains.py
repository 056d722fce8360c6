"""Shorten chains of reshapes, transposes and slices, and rewrite slices as other operators.

A view shows how the elements of one value are arranged in another one. A chain of such operations
is represented by a view of the value before the chain. A view can be emitted as a slice, a reshape,
a transpose and a second reshape. Each of these nodes is omitted if it changes nothing.
"""

import numpy as np

from converter.ir import Graph, Node, Value, const, dims, ops
from converter.ir.axes import View, view_of
from converter.ir.evaluation import size_in_bytes
from converter.ir.moves import (
    emit_view,
    plan_steps,
    shortened_axes,
    slices_by_source,
    view_of_operand,
)
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule

_VIEW_OPS = (ops.reshape, ops.transpose, ops.slice)


def _shorten_chain(node: Node, editor: Editor) -> Value | None:
    """Replace a chain of reshapes, transposes and slices that ends in ``node`` by fewer operations.

    The chain starts at the first value from which this saves operations. Operations with other
    readers are kept, so they are not counted as saved. Return None if nothing is saved, or if a
    slice with a stride would be needed.
    """
    view: View | None = view_of(node.out)
    views: list[tuple[View, int]] = []
    removed, is_single_use = 0, True
    while view is not None and view.op() in _VIEW_OPS:
        is_single_use = is_single_use and (view.base is node.out or editor.single_use(view.base))
        removed += is_single_use
        view = view_of_operand(view)
        views += [] if view is None else [(view, removed)]
    for view, saved in reversed(views[1:]):
        steps = plan_steps(view, node.out.shape)
        # Slices with a stride larger than one are slow.
        has_stride = any(op is ops.slice and params[3] != 1 for op, params in steps or ())
        if steps is not None and len(steps) < saved and not has_stride:
            return emit_view(editor, view, node.out.shape)
    return None


RULES: dict[Op, Rule] = dict.fromkeys(_VIEW_OPS, _shorten_chain)

# -------------------------------------------------------------------------------- slices and splits


def _select_index(node: Node, editor: Editor) -> Value | None:
    """Replace a slice of one entry and a reshape that drops its axis with a gather of that entry.

    ``node`` is the reshape. Return None if it is another one, or if the slice has other readers.
    """
    inner = node.inputs[0].producer_if(ops.slice)
    if (
        inner is None
        or not editor.single_use(inner.out)
        or len(sliced_axes := shortened_axes(inner)) != 1
    ):
        return None
    (axis,), (source,), shape = sliced_axes, inner.inputs, inner.out.shape
    dropped = (*shape[:axis], *shape[axis + 1 :])
    if not (dims.is_same_dim(shape[axis], 1) and dims.is_same_shape(dropped, node.out.shape)):
        return None
    params = {"axis": axis, "index": inner.params["start_indices"][axis]}
    return editor.add(ops.select_index, [source], node.out.shape, source.dtype, params)


MAX_ROWS, MAX_SHORT_ROWS, MIN_WIDE_BYTES = 1024, 64, 128
"""Number of rows up to which a gather is faster than a concatenation of slices: ``MAX_ROWS`` for
rows of at least ``MIN_WIDE_BYTES`` bytes, else ``MAX_SHORT_ROWS``. The row numbers are constants in
the file."""


def _gather_rows(node: Node, editor: Editor) -> Value | None:
    """Replace a concatenation of slices of one array along axis 0 with one gather of rows.

    Return None if an operand is no such slice or has other readers, or if there are too many rows
    for a gather to be faster.
    """
    pieces = [v.producer_if(ops.slice) for v in node.inputs]
    source = None if pieces[0] is None else pieces[0].inputs[0]
    if source is None or node.params["dimension"] != 0 or not dims.all_static(source.shape):
        return None
    rows = list[int]()
    for piece in pieces:
        if piece is None or piece.inputs[0] is not source or shortened_axes(piece) != [0]:
            return None
        rows += range(source.shape[0])[_first_axis_slice(piece)]
    is_wide = size_in_bytes(source) >= MIN_WIDE_BYTES * source.shape[0]
    is_short = len(rows) <= (MAX_ROWS if is_wide else MAX_SHORT_ROWS)
    if not is_short or not all(editor.single_use(v) for v in node.inputs):
        return None
    indices = const(np.asarray(rows, np.int64))
    return editor.add(ops.take, [source, indices], node.out.shape, source.dtype, {"axis": 0})


def _first_axis_slice(piece: Node) -> slice:
    """Return the Python slice that a slice node takes along axis 0."""
    return slice(*(piece.params[name][0] for name in ("start_indices", "limit_indices", "strides")))


SELECT: dict[Op, Rule] = {ops.reshape: _select_index, ops.concatenate: _gather_rows}


def merge_splits(graph: Graph) -> None:
    """Replace the slices of a value that cover one of its axes without overlap by one split, in
    place.

    Nested bodies are included.
    """
    for node in graph.nodes:
        for body in node.bodies.values():
            merge_splits(body)
    for (_, axis), slices in slices_by_source(graph).items():
        _merge_split(graph, slices, axis)


def _merge_split(graph: Graph, slices: list[Node], axis: int) -> None:
    """Replace these slices of one value along ``axis`` with one split, in place.

    Nothing is done if they are fewer than two, overlap, or leave gaps.
    """
    source = slices[0].inputs[0]
    ordered = sorted(slices, key=lambda n: n.params["start_indices"][axis])
    ends = [0, *(n.params["limit_indices"][axis] for n in ordered)]
    starts = [n.params["start_indices"][axis] for n in ordered]
    if len(slices) < 2 or starts != ends[:-1] or ends[-1] != source.shape[axis]:
        return
    first = next(n for n in graph.nodes if n in slices)
    sizes = tuple(n.out.shape[axis] for n in ordered)
    split = Node(ops.split, [source], {"axis": axis, "sizes": sizes}, source=first.source)
    for i, node in enumerate(ordered):
        out = node.out
        out.node, out.index = split, i
        split.outputs.append(out)
    graph.nodes[graph.nodes.index(first)] = split
    graph.nodes = [n for n in graph.nodes if n not in slices]
