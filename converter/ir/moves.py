"""Views of operations that only move elements, and operations that compute a view."""

from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from converter.ir import dims, ops
from converter.ir.axes import Factor, Group, View, as_group, is_forward, view_of
from converter.ir.dims import Dim, Shape
from converter.ir.dtypes import is_float
from converter.ir.nodes import Graph, Node, Value
from converter.ir.op import Op
from converter.ir.rewrite import Editor


def view_of_operand(view: View) -> View | None:
    """Return the same elements as a view of the first operand of the base's node.

    Return None if no node computes the base, if the node does more than move elements, or if the
    elements are not regular steps along axes of the operand.
    """
    node = view.base.node
    if node is None or node.op not in _OPERAND_VIEWS:
        return None
    inner = _OPERAND_VIEWS[node.op](node)
    return None if inner is None else view.compose(inner)


Conversions: TypeAlias = Literal["none", "wider", "rounding"]
Reach: TypeAlias = Literal["axes", "factors", "parts", "elements"]


def look_through(
    view: View,
    *,
    conversions: Conversions = "wider",
    reach: Reach = "axes",
    leaves: Container[int] = (),
) -> View:
    """Return the same elements as a view of an earlier value, as far back as possible.

    Return ``view`` itself if there is nothing to remove.

    **Arguments**

    - `conversions`: the conversions that are removed. "none": none. "wider": conversions from a
      float to a wider float. "rounding": also those to a narrower float of at least 16 bits. This
      is used for intermediate results, because their precision is determined by the fused operator.
    - `reach`: the moves that are removed, and the views at which the search ends.
      "axes": transposes, broadcasts and reshapes; each axis of the result is a full axis of its
      base (`View.has_full_axes`). "factors": the same moves; reshapes may split and merge axes.
      "parts": all moves, and concatenations of which one operand has all elements; the result may
      be a part of its base, and `emit_view` can compute it (`View.has_nested_factors`).
      "elements": all moves, and any view.
    - `leaves`: ids of values at which the search ends.
    """
    # Most values are no results of moves, so that this is checked first.
    while (node := view.base.node) is not None and node.op in _REMOVABLE:
        if id(view.base) in leaves:
            break
        inner = look_through_one(view, conversions=conversions, reach=reach)
        if inner is None:
            break
        view = inner
    return view


def look_through_one(
    view: View, *, conversions: Conversions = "wider", reach: Reach = "axes"
) -> View | None:
    """Return the same elements as a view of the operand of one move or conversion.

    The options are those of `look_through`. Return None if it would not remove the operation that
    computes the base of ``view``.
    """
    node = view.base.node
    if node is None:
        return None
    inner: View | None
    if node.op is ops.convert_element_type:
        is_removed = conversions != "none" and has_ignorable_rounding(node)
        is_removed = is_removed and (conversions == "rounding" or _widens(node))
        inner = view._replace(base=node.inputs[0]) if is_removed else None
    elif reach in ("axes", "factors") and node.op not in UNCUT_MOVES:
        inner = None
    else:
        inner = view_of_concatenated_operand(view) if reach == "parts" else None
        inner = inner or view_of_operand(view)
    return inner if inner is not None and _IS_REACHED[reach](inner) else None


UNCUT_MOVES = frozenset(
    {ops.convert_element_type, ops.transpose, ops.broadcast_in_dim, ops.reshape}
)
"""Operations that have all elements of their operand, which `look_through` removes."""

_IS_REACHED: dict[Reach, Callable[[View], bool]] = {
    "axes": lambda view: view.has_full_axes,
    "factors": lambda view: True,
    "parts": View.has_nested_factors,
    "elements": lambda view: True,
}


def has_ignorable_rounding(node: Node) -> bool:
    """Return True if a conversion is from a float to a float and its rounding may be ignored.

    ``node`` is the conversion. Return False if one of the dtypes is no float. Return False also for
    a float of 8 bits that is not wider than the operand's dtype. That is a quantisation, whose
    rounding is intended.
    """
    source, target = node.inputs[0].dtype, node.out.dtype
    return is_float(source) and is_float(target) and (target.itemsize > 1 or _widens(node))


def _widens(node: Node) -> bool:
    """Return True if the output of a node has more bytes per element than its first input."""
    return node.inputs[0].dtype.itemsize < node.out.dtype.itemsize


def view_of_concatenated_operand(view: View) -> View | None:
    """Return the same elements as a view of one operand of a concatenation.

    Return None if the base is not the result of a concatenation, or if it is not proved that one
    operand has all the elements.
    """
    if view.op() is not ops.concatenate:
        return None
    axis, offset = view.node().params["dimension"], 0
    low, high = view.bounds_along(axis)
    for value in view.node().inputs:
        size = value.shape[axis]
        if dims.is_at_least(low - offset, 0) and dims.is_at_least(offset + size - high, 1):
            starts = (*view.starts[:axis], view.starts[axis] - offset, *view.starts[axis + 1 :])
            return View(value, view.groups, starts)
        offset += size
    return None


# ---------------------------------------------------------------------------- operations that move


def _view_broadcast(node: Node) -> View:
    """Return the result of a ``broadcast_in_dim`` as a view of its operand."""
    source, axes = node.inputs[0], node.params["broadcast_dimensions"]
    table = {
        a: i for i, a in enumerate(axes) if dims.is_same_dim(source.shape[i], node.out.shape[a])
    }
    return view_of(source, [table.get(a) for a in range(node.out.rank)])


def _view_tile(node: Node) -> View:
    """Return the result of a ``tile`` as a view of its operand."""
    view, reps = view_of(node.inputs[0]), node.params["reps"]
    pairs = zip(reps, view.base.shape, strict=True)
    groups = (as_group([Factor(None, 0, r), Factor(i, 1, d)]) for i, (r, d) in enumerate(pairs))
    return view._replace(groups=tuple(groups))


def _view_slice(node: Node) -> View:
    """Return the result of a ``slice`` as a view of its operand."""
    view, params = view_of(node.inputs[0]), node.params
    strides = params["strides"] or (1,) * node.out.rank
    parts = enumerate(zip(strides, node.out.shape, strict=True))
    groups = tuple(as_group([Factor(i, stride, size)]) for i, (stride, size) in parts)
    return View(view.base, groups, tuple(params["start_indices"]))


def _view_rev(node: Node) -> View:
    """Return the result of a ``rev`` as a view of its operand."""
    source, reversed_axes = node.inputs[0], node.params["dimensions"]
    signs = [-1 if i in reversed_axes else 1 for i in range(source.rank)]
    groups = (as_group([Factor(i, signs[i], d)]) for i, d in enumerate(source.shape))
    starts = (dims.as_dim(d - 1) if i in reversed_axes else 0 for i, d in enumerate(source.shape))
    return View(source, tuple(groups), tuple(starts))


def _view_reshape(node: Node) -> View | None:
    """Return the result of a reshape as a view of its operand.

    Return None if sizes do not divide each other where an axis has to be split, as from (4, 6) to
    (6, 4).
    """
    source, target = node.inputs[0], node.out.shape
    pairs = enumerate(zip(source.shape, target, strict=False))
    first = next(
        (i for i, pair in pairs if not dims.is_same_dim(*pair)), min(source.rank, len(target))
    )
    source_sizes, target_sizes = source.shape[first:], target[first:]
    split_shapes = (
        _split_static_reshape if dims.all_static((*source_sizes, *target_sizes)) else _split_reshape
    )
    groups = split_shapes(source_sizes, target_sizes, first)
    if groups is None:
        return None
    return View(source, (*view_of(source, range(first)).groups, *groups), (0,) * source.rank)


def _split_reshape(source: Shape, target: Shape, first: int) -> tuple[Group, ...] | None:
    """Return the factors of the operand's axes for each axis of a reshape's result.

    ``source`` and ``target`` are the shapes before and after, without equal leading axes. ``first``
    is the number of leading axes that were left out. Return None if sizes do not divide each other
    where an axis has to be split, as from (4, 6) to (6, 4). Example: (6, 4) to (2, 12). The first
    axis has 2 entries with stride 3 along axis 0 of the operand. The second axis has 3 entries with
    stride 1 along axis 0, and 4 along axis 1.
    """
    groups: list[Group] = []
    queue = [Factor(i, 1, d) for i, d in enumerate(source, first) if not dims.is_same_dim(d, 1)]
    for unsplit in target:
        factors: list[Factor] = []
        while not dims.is_same_dim(unsplit, 1):
            if not queue:
                return None
            axis, _, size = queue.pop(0)
            remaining = 1 if dims.is_same_dim(size, unsplit) else dims.divide_exactly(unsplit, size)
            if remaining is None:
                remaining, inner = 1, dims.divide_exactly(size, unsplit)
                if inner is None:
                    return None
                queue.insert(0, Factor(axis, 1, inner))
                factors.append(Factor(axis, inner, unsplit))
            else:
                factors.append(Factor(axis, 1, size))
            unsplit = remaining
        groups.append(as_group(factors))
    return None if queue else tuple(groups)


_split_static_reshape = lru_cache(4096)(_split_reshape)
"""Cached, because recognisers ask for the same few shapes; named sizes have no hash across
scopes."""


_OPERAND_VIEWS: dict[Op, Callable[[Node], View | None]] = {
    ops.transpose: lambda node: view_of(node.inputs[0], node.params["permutation"]),
    ops.broadcast_in_dim: _view_broadcast,
    ops.tile: _view_tile,
    ops.slice: _view_slice,
    ops.rev: _view_rev,
    ops.reshape: _view_reshape,
}


_REMOVABLE = frozenset({*_OPERAND_VIEWS, ops.convert_element_type, ops.concatenate})
"""Operations that `look_through` may remove."""


# ----------------------------------------------------------------------------------------- slices


def shortened_axes(node: Node) -> list[int]:
    """Return the axes along which a slice is shorter than its operand."""
    pairs = enumerate(zip(node.inputs[0].shape, node.out.shape, strict=True))
    return [i for i, (size, shortened_size) in pairs if not dims.is_same_dim(size, shortened_size)]


def has_strides(node: Node) -> bool:
    """Return True if a slice has a stride other than 1."""
    strides = node.params["strides"]
    return strides is not None and any(s != 1 for s in strides)


def shortened_axis(node: Node) -> int | None:
    """Return the only axis that a slice without strides shortens.

    Return None for another operation, a slice with strides, a slice that shortens no axis or
    several, or an axis whose size before or after the slice is symbolic.
    """
    if node.op is not ops.slice or has_strides(node):
        return None
    axes = shortened_axes(node)
    is_known = len(axes) == 1 and dims.all_static(
        (node.inputs[0].shape[axes[0]], node.out.shape[axes[0]])
    )
    return axes[0] if is_known else None


def slices_by_source(graph: Graph) -> dict[tuple[int, int], list[Node]]:
    """Return the slices that shorten one axis, by the id of the sliced value and the axis.

    `shortened_axis` defines these slices. Slices in bodies are omitted.
    """
    table: dict[tuple[int, int], list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if (axis := shortened_axis(node)) is not None:
            table[id(node.inputs[0]), axis].append(node)
    return table


# ---------------------------------------------------------------------------------------- writing

Step = tuple[Op, Any]
"""An operation and its arguments besides the operand."""


def emit_view(editor: Editor, view: View, shape: Shape, dtype: Any = None) -> Value:
    """Emit the operations that compute a view as a value of this shape and dtype.

    ``shape`` is the shape of the view. It may have size 1 along an axis on which elements are
    repeated. The default dtype is that of the base. The view must be one for which `plan_steps`
    finds operations.
    """
    steps = plan_steps(view, shape)
    assert steps is not None, view
    value, dtype = view.base, dtype or view.base.dtype
    for op, argument in steps:
        value = editor.convert(value, dtype) if op is ops.broadcast_in_dim else value
        value = _EMITTERS[op](editor, value, argument)
    return editor.convert(value, dtype)


def plan_steps(view: View, shape: Shape) -> list[Step] | None:
    """Return the fewest operations, with their arguments, that compute a view of this shape from
    its base.

    Return None if the view's factors along an axis of the base do not nest (`View.nested_factors`),
    or if a slice would need a symbolic stride.
    """
    steps: list[Step] = []
    source: list[Factor] = []
    sizes = list(view.base.shape)
    for axis, size in enumerate(view.base.shape):
        factors = view.nested_factors(axis)
        if factors is None:
            return None
        source += factors
        sizes[axis] = dims.size_product([f.size for f in factors])
        if not dims.is_same_dim(sizes[axis], size):
            low, high = view.bounds_along(axis)
            stride = factors[-1].stride if factors else 1
            if not dims.is_static(stride):
                return None
            steps.append((ops.slice, (axis, low, dims.as_dim(high + 1), abs(stride))))
    reversed_axes = tuple({f.axis: 0 for f in source if not is_forward(f.stride)})
    steps += [(ops.rev, reversed_axes)] if reversed_axes else []
    return steps + _plan_arrangement(view, source, tuple(sizes), shape)


def _plan_arrangement(view: View, source: list[Factor], sizes: Shape, shape: Shape) -> list[Step]:
    """Return the steps that bring sliced elements into the order and the shape of the view.

    They are a reshape, a transpose, a reshape and a broadcast. Operations that have no effect are
    omitted. ``source`` contains the factors in the order of the base, ``sizes`` is the shape after
    slicing, and ``shape`` is that of the view.
    """
    runs = _contiguous_runs(source, [f for group in view.groups for f in group])
    ordered = sorted(runs, key=lambda run: source.index(run[0]))
    order = [ordered.index(run) for run in runs]
    split = tuple(dims.size_product([f.size for f in run]) for run in ordered)
    pieces = [
        piece
        for group, d in zip(view.groups, shape, strict=True)
        for piece in _split_axis(group, d)
    ]
    if all(varies or dims.is_same_dim(d, 1) for d, varies in pieces):
        return _plan_rearrangement(sizes, split, order, shape)
    base_axes = [i for i, (_, varies) in enumerate(pieces) if varies]
    base_shape, piece_sizes = tuple(pieces[i][0] for i in base_axes), tuple(d for d, _ in pieces)
    steps = _plan_rearrangement(sizes, split, order, base_shape)
    return [
        *steps,
        (ops.broadcast_in_dim, (piece_sizes, base_axes)),
        *_plan_reshape(piece_sizes, shape),
    ]


def rearrange(editor: Editor, x: Value, split: Shape, order: Sequence[int], target: Shape) -> Value:
    """Emit a reshape of ``x`` to ``split``, a transposition by the permutation ``order`` and a
    reshape to ``target``. Return the result.

    Operations without effect are omitted.
    """
    for op, argument in _plan_rearrangement(x.shape, split, order, target):
        x = _EMITTERS[op](editor, x, argument)
    return x


def _plan_rearrangement(
    shape: Shape, split: Shape, order: Sequence[int], target: Shape
) -> list[Step]:
    """Return the fewest operations for a reshape to ``split``, a transposition by ``order`` and a
    reshape to ``target``.

    ``shape`` is the shape before them. Axes of size one may be anywhere in between. They are kept
    if this avoids a reshape.
    """
    order = [i for i in order if not dims.is_same_dim(split[i], 1)]
    if order == sorted(order):
        return _plan_reshape(shape, target)
    sizes = [split[i] for i in sorted(order)]
    is_split = dims.is_same_shape(_long_sizes(shape), sizes)
    is_merged = dims.is_same_shape(_long_sizes(target), [split[i] for i in order])
    added_ones = (1,) * (len(target) - len(sizes) if is_merged else 0)
    source = shape if is_split else (*added_ones, *sizes)
    ones = [i for i, d in enumerate(source) if dims.is_same_dim(d, 1)]
    long_axes = [i for i in range(len(source)) if i not in ones]
    moved = [long_axes[sorted(order).index(i)] for i in order]
    if is_merged and len(source) == len(target):
        permutation = [(ones if dims.is_same_dim(d, 1) else moved).pop(0) for d in target]
    else:
        permutation = [*ones, *moved]
    transposed = tuple(source[i] for i in permutation)
    return [
        *_plan_reshape(shape, source),
        (ops.transpose, permutation),
        *_plan_reshape(transposed, target),
    ]


def _long_sizes(shape: Shape) -> list[Dim]:
    """Return the sizes that are not one."""
    return [d for d in shape if not dims.is_same_dim(d, 1)]


def _plan_reshape(shape: Shape, target: Shape) -> list[Step]:
    """Return a reshape, or no step if the shapes are equal."""
    return [] if dims.is_same_shape(shape, target) else [(ops.reshape, target)]


def _split_axis(group: Group, size: Dim) -> list[tuple[Dim, bool]]:
    """Return the parts of an axis of a view: the size of each, and whether elements vary along it.

    If a factor of the axis repeats elements, each factor is a part. Elements vary along all parts
    but the repeated ones. Otherwise the full axis is the only part, and elements vary along it
    unless it has no factors.

    Arguments:
        group: the factors of the axis.
        size: the size of the axis.
    """
    repeated = any(f.axis is None for f in group)
    return [(f.size, f.axis is not None) for f in group] if repeated else [(size, bool(group))]


def _contiguous_runs(source: list[Factor], flat: list[Factor]) -> list[list[Factor]]:
    """Return the factors of a view in runs that can be moved as one axis, in the order of the view.

    A factor belongs to the run of the factor before it in ``flat`` if it also follows that one in
    ``source`` and both go along the same axis of the base. Factors that repeat elements are in no
    run.

    Arguments:
        source: the factors in the order of the axes of the base.
        flat: all factors in the order of the axes of the view, including factors that repeat
            elements.
    """
    runs: list[list[Factor]] = []
    previous: Factor | None = None
    for factor in flat:
        is_neighbour = previous in source[:-1] and source[source.index(previous) + 1] == factor
        if previous is not None and is_neighbour and previous.axis == factor.axis:
            runs[-1].append(factor)
        elif factor.axis is not None:
            runs.append([factor])
        previous = factor
    return runs


_EMITTERS: dict[Op, Callable[[Editor, Value, Any], Value]] = {
    ops.slice: lambda editor, x, cut: editor.slice(x, *cut),
    ops.rev: lambda editor, x, axes: editor.rev(x, axes),
    ops.reshape: lambda editor, x, shape: editor.reshape(x, shape),
    ops.transpose: lambda editor, x, order: editor.transpose(x, order),
    ops.broadcast_in_dim: lambda editor, x, spread: editor.broadcast(x, *spread),
}
