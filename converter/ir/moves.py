"""Operations that only move elements as views of their operands, and views as operations."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from converter.ir import dims, ops
from converter.ir.axes import Factor, Group, View, along, as_group, is_forward
from converter.ir.dims import Dim, Shape
from converter.ir.nodes import Graph, Node, Value
from converter.ir.op import Op
from converter.ir.rewrite import Editor


def above(seen: View) -> View | None:
    """The same elements in what the base's node moved, if that is all it does."""
    node = seen.base.node
    if node is None or node.op not in _MOVES:
        return None
    inner = _MOVES[node.op](node)
    return None if inner is None else seen.of(inner)


def descended(seen: View) -> View:
    """The same elements where they were computed, as far up as it can be written from there."""
    while (inner := part(seen) or above(seen)) is not None and inner.is_writable():
        seen = inner
    return seen


def part(seen: View) -> View | None:
    """The same elements in the operand of a concatenation that has all of them."""
    if seen.op() is not ops.concatenate:
        return None
    axis, offset = seen.node().params["dimension"], 0
    low, high = seen.reach(axis)
    for value in seen.node().inputs:
        size = value.shape[axis]
        if dims.is_at_least(low - offset, 0) and dims.is_at_least(offset + size - high, 1):
            starts = (*seen.starts[:axis], seen.starts[axis] - offset, *seen.starts[axis + 1 :])
            return View(value, seen.groups, starts)
        offset += size
    return None


# ---------------------------------------------------------------------------- operations that move


def _broadcast(node: Node) -> View:
    source, axes = node.inputs[0], node.params["broadcast_dimensions"]
    table = {a: i for i, a in enumerate(axes) if dims.same(source.shape[i], node.out.shape[a])}
    return along(source, [table.get(a) for a in range(node.out.rank)])


def _tile(node: Node) -> View:
    whole, reps = along(node.inputs[0]), node.params["reps"]
    pairs = zip(reps, whole.base.shape, strict=True)
    groups = (as_group([Factor(None, 0, r), Factor(i, 1, d)]) for i, (r, d) in enumerate(pairs))
    return whole._replace(groups=tuple(groups))


def _moves_slice(node: Node) -> View:
    whole, params = along(node.inputs[0]), node.params
    strides = params["strides"] or (1,) * node.out.rank
    parts = enumerate(zip(strides, node.out.shape, strict=True))
    groups = tuple(as_group([Factor(i, stride, size)]) for i, (stride, size) in parts)
    return View(whole.base, groups, tuple(params["start_indices"]))


def _rev(node: Node) -> View:
    source, turned = node.inputs[0], node.params["dimensions"]
    signs = [-1 if i in turned else 1 for i in range(source.rank)]
    groups = (as_group([Factor(i, signs[i], d)]) for i, d in enumerate(source.shape))
    starts = (dims.as_dim(d - 1) if i in turned else 0 for i, d in enumerate(source.shape))
    return View(source, tuple(groups), tuple(starts))


def _moves_reshape(node: Node) -> View | None:
    source, target = node.inputs[0], node.out.shape
    pairs = enumerate(zip(source.shape, target, strict=False))
    kept = next((i for i, pair in pairs if not dims.same(*pair)), min(source.rank, len(target)))
    before, after = source.shape[kept:], target[kept:]
    split = _known_split if dims.all_static((*before, *after)) else _reshape_split
    groups = split(before, after, kept)
    if groups is None:
        return None
    return View(source, (*along(source, range(kept)).groups, *groups), (0,) * source.rank)


def _reshape_split(source: Shape, target: Shape, first: int) -> tuple[Group, ...] | None:
    """Each axis of a reshape's result as stretches of the operand's, from the first on."""
    groups: list[Group] = []
    queue = [Factor(i, 1, d) for i, d in enumerate(source, first) if not dims.same(d, 1)]
    for left in target:
        factors: list[Factor] = []
        while not dims.same(left, 1):
            if not queue:
                return None
            axis, _, size = queue.pop(0)
            remaining = 1 if dims.same(size, left) else dims.exact_quotient(size, left)
            if remaining is None:
                remaining, inner = 1, dims.exact_quotient(left, size)
                if inner is None:
                    return None
                queue.insert(0, Factor(axis, 1, inner))
                factors.append(Factor(axis, inner, left))
            else:
                factors.append(Factor(axis, 1, size))
            left = remaining
        groups.append(as_group(factors))
    return None if queue else tuple(groups)


_known_split = lru_cache(4096)(_reshape_split)
"""Recognisers ask for the same few shapes over and over; named sizes have no hash across scopes."""


_MOVES: dict[Op, Callable[[Node], View | None]] = {
    ops.transpose: lambda node: along(node.inputs[0], node.params["permutation"]),
    ops.broadcast_in_dim: _broadcast,
    ops.tile: _tile,
    ops.slice: _moves_slice,
    ops.rev: _rev,
    ops.reshape: _moves_reshape,
}


# ----------------------------------------------------------------------------------------- slices


def shortened_axes(node: Node) -> list[int]:
    """The axes that a slice shortens."""
    pairs = enumerate(zip(node.inputs[0].shape, node.out.shape, strict=True))
    return [i for i, (whole, part) in pairs if not dims.same(whole, part)]


def has_strides(node: Node) -> bool:
    """Whether a slice leaves out some of what lies between its ends."""
    strides = node.params["strides"]
    return strides is not None and any(s != 1 for s in strides)


def shortened_axis(node: Node) -> int | None:
    """The one axis that a slice without strides shortens, where sizes are known."""
    if node.op is not ops.slice or has_strides(node):
        return None
    cut = shortened_axes(node)
    is_known = len(cut) == 1 and dims.all_static(
        (node.inputs[0].shape[cut[0]], node.out.shape[cut[0]])
    )
    return cut[0] if is_known else None


def slices_by_source(graph: Graph) -> dict[tuple[int, int], list[Node]]:
    """(id(source), axis) -> its slices along that axis, those of bodies left out."""
    table: dict[tuple[int, int], list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if (axis := shortened_axis(node)) is not None:
            table[id(node.inputs[0]), axis].append(node)
    return table


# ---------------------------------------------------------------------------------------- writing

Step = tuple[Op, Any]
"""An operation and what it takes besides its operand."""


def write(editor: Editor, seen: View, shape: Shape, dtype: Any = None) -> Value:
    """A view as a value of that shape: the view's, but one where it says so."""
    steps = plan_steps(seen, shape)
    assert steps is not None, seen
    value, dtype = seen.base, dtype or seen.base.dtype
    for op, argument in steps:
        value = editor.convert(value, dtype) if op is ops.broadcast_in_dim else value
        value = _WRITTEN[op](editor, value, argument)
    return editor.convert(value, dtype)


def plan_steps(seen: View, shape: Shape) -> list[Step] | None:
    """The fewest operations that make a view of its base, if it has no gaps in what is one axis.

    Nor is there one where a slice would take every n-th element for a named n.
    """
    steps: list[Step] = []
    source: list[Factor] = []
    sizes = list(seen.base.shape)
    for axis, whole in enumerate(seen.base.shape):
        own = seen.nested(axis)
        if own is None:
            return None
        source += own
        sizes[axis] = dims.size_product([f.size for f in own])
        if not dims.same(sizes[axis], whole):
            low, high = seen.reach(axis)
            stride = own[-1].stride if own else 1
            if not dims.is_static(stride):
                return None
            steps.append((ops.slice, (axis, low, dims.as_dim(high + 1), abs(stride))))
    turned = tuple({f.axis: 0 for f in source if not is_forward(f.stride)})
    steps += [(ops.rev, turned)] if turned else []
    return steps + _arranged(seen, source, tuple(sizes), shape)


def _arranged(seen: View, source: list[Factor], sizes: Shape, shape: Shape) -> list[Step]:
    """A reshape, a transpose, a reshape and a broadcast, as far as they do anything."""
    runs = _runs(source, [f for group in seen.groups for f in group])
    ordered = sorted(runs, key=lambda run: source.index(run[0]))
    order = [ordered.index(run) for run in runs]
    split = tuple(dims.size_product([f.size for f in run]) for run in ordered)
    pieces = [
        piece
        for group, d in zip(seen.groups, shape, strict=True)
        for piece in _moves_spread(group, d)
    ]
    if all(real or dims.same(d, 1) for d, real in pieces):
        return _rearranging(sizes, split, order, shape)
    places = [i for i, (_, real) in enumerate(pieces) if real]
    bare, wide = tuple(pieces[i][0] for i in places), tuple(d for d, _ in pieces)
    steps = _rearranging(sizes, split, order, bare)
    return [*steps, (ops.broadcast_in_dim, (wide, places)), *_reshaping(wide, shape)]


def rearrange(editor: Editor, x: Value, split: Shape, order: Sequence[int], target: Shape) -> Value:
    """``x`` as ``split``, its axes in that order, as ``target``."""
    for op, argument in _rearranging(x.shape, split, order, target):
        x = _WRITTEN[op](editor, x, argument)
    return x


def _rearranging(shape: Shape, split: Shape, order: Sequence[int], target: Shape) -> list[Step]:
    """A reshape to ``split``, its transposition and a reshape to ``target``, in as few steps.

    Which axes of one lie between them is free: they stay where that saves a reshape.
    """
    order = [i for i in order if not dims.same(split[i], 1)]
    if order == sorted(order):
        return _reshaping(shape, target)
    sizes = [split[i] for i in sorted(order)]
    is_split = dims.same_shape(_long(shape), sizes)
    is_merged = dims.same_shape(_long(target), [split[i] for i in order])
    ones = (1,) * (len(target) - len(sizes) if is_merged else 0)
    source = shape if is_split else (*ones, *sizes)
    short = [i for i, d in enumerate(source) if dims.same(d, 1)]
    long = [i for i in range(len(source)) if i not in short]
    moved = [long[sorted(order).index(i)] for i in order]
    if is_merged and len(source) == len(target):
        permutation = [(short if dims.same(d, 1) else moved).pop(0) for d in target]
    else:
        permutation = [*short, *moved]
    after = tuple(source[i] for i in permutation)
    return [*_reshaping(shape, source), (ops.transpose, permutation), *_reshaping(after, target)]


def _long(shape: Shape) -> list[Dim]:
    return [d for d in shape if not dims.same(d, 1)]


def _reshaping(shape: Shape, target: Shape) -> list[Step]:
    return [] if dims.same_shape(shape, target) else [(ops.reshape, target)]


def _moves_spread(group: Group, size: Dim) -> list[tuple[Dim, bool]]:
    """The sizes of an axis as what is broadcast has them, and whether it varies along them."""
    repeated = any(f.axis is None for f in group)
    return [(f.size, f.axis is not None) for f in group] if repeated else [(size, bool(group))]


def _runs(source: list[Factor], flat: list[Factor]) -> list[list[Factor]]:
    """Factors that stay neighbours, in the view's order; those of different axes stay apart."""
    runs: list[list[Factor]] = []
    before: Factor | None = None
    for factor in flat:
        near = before in source[:-1] and source[source.index(before) + 1] == factor
        if before is not None and near and before.axis == factor.axis:
            runs[-1].append(factor)
        elif factor.axis is not None:
            runs.append([factor])
        before = factor
    return runs


_WRITTEN: dict[Op, Callable[[Editor, Value, Any], Value]] = {
    ops.slice: lambda editor, x, cut: editor.slice(x, *cut),
    ops.rev: lambda editor, x, axes: editor.rev(x, axes),
    ops.reshape: lambda editor, x, shape: editor.reshape(x, shape),
    ops.transpose: lambda editor, x, order: editor.transpose(x, order),
    ops.broadcast_in_dim: lambda editor, x, spread: editor.broadcast(x, *spread),
}
