"""Resizes that have a kernel in ONNX Runtime, and a rewrite of resizes that its optimizer would
break.

The kernels were found by running a file for each mode, rank and set of scaled axes (1.32.0, opsets
11 to 24):

    nearest    any axes
    linear     any axes of two or three, the last two or the middle two of four, the last three of
               five
    cubic      any axes of two, the last two or the middle two of four

The optimizer moves a transpose of four axes by (0, 2, 3, 1) or (0, 3, 1, 2) from before a
``Resize`` to after it (``HandleResize`` of its transpose optimizer). Then other axes are scaled,
for which there may be no kernel. The optimizer moves no transpose through a ``Reshape`` that merges
axes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from converter.ir import Node, Value, dims, ops
from converter.ir.rewrite import Editor

Permutation: TypeAlias = tuple[int, ...]
Permutations: TypeAlias = frozenset[Permutation] | None
"""Transposes that the optimizer may move to a value; None if they are unknown."""

NO_PERMUTATIONS: Permutations = frozenset()

SCALED_AXES: dict[str, dict[int, tuple[frozenset[int], ...]]] = {
    "linear": {
        **{rank: (frozenset(range(rank)),) for rank in (2, 3)},
        4: (frozenset({1, 2}), frozenset({2, 3})),
        5: (frozenset({2, 3, 4}),),
    },
    "cubic": {2: (frozenset({0, 1}),), 4: (frozenset({1, 2}), frozenset({2, 3}))},
}
"""By mode and rank, the sets of axes of which any subset can be scaled."""

MOVED_PERMUTATIONS = frozenset({(0, 2, 3, 1), (0, 3, 1, 2)})
"""Transposes that are moved through a resize."""

MAX_PERMUTATIONS = 8
"""Largest number of different transposes of a value that are distinguished."""

BARRIERS = frozenset(
    {
        *(ops.conv, ops.conv_transpose, ops.max_pool, ops.sum_pool, ops.avg_pool, ops.grid_sample),
        *(ops.matmul, ops.attention, ops.lstm, ops.gru, ops.rnn, ops.layer_norm, ops.rms_norm),
        *(ops.group_norm, ops.batch_norm, ops.rotary_heads),
    }
)
"""Operations through which no transpose is moved, and that are lowered without one."""


def has_kernel(mode: str, rank: int, axes: Collection[int]) -> bool:
    """Return True if ONNX Runtime has a kernel for a resize.

    Arguments:
        mode: the ONNX mode: "nearest", "linear" or "cubic".
        rank: number of axes of the operand.
        axes: the axes whose size changes.
    """
    return mode not in SCALED_AXES or any(
        set(axes) <= supported for supported in SCALED_AXES[mode].get(rank, ())
    )


def scaled_axes(node: Node) -> list[int]:
    """Return the axes along which a resize changes the size.

    An axis with a named size is included unless its size is the same before and after for all sizes
    of the named dimensions.
    """
    pairs = enumerate(zip(node.inputs[0].shape, node.out.shape, strict=True))
    return [axis for axis, (before, after) in pairs if not dims.is_same_dim(before, after)]


def resize_mode(node: Node) -> str:
    """Return the ONNX mode of a resize: "nearest", "linear" or "cubic"."""
    name: str = node.params["kinds"][0][0]
    return next((mode for mode in ("nearest", "cubic") if name.startswith(mode)), "linear")


def resize_axes_separately(node: Node, editor: Editor) -> Value | None:
    """Return a resize of the last two of four axes as two resizes of one axis, for which there
    always is a kernel.

    Return None, so that the node is kept, for other axes and for the mode "nearest". Return None
    also if there is a kernel after every transpose that the optimizer may move to the resize.
    """
    (x,), axes = node.inputs, node.params["axes"]
    if x.rank != 4 or set(axes) != {2, 3} or resize_mode(node) not in SCALED_AXES:
        return None
    permutations, scaled = moved_permutations(x, editor.memo), scaled_axes(node)
    moved = MOVED_PERMUTATIONS if permutations is None else MOVED_PERMUTATIONS & permutations
    if all(
        has_kernel(resize_mode(node), 4, [permutation[axis] for axis in scaled])
        for permutation in moved
    ):
        return None
    for axis in (3, 2):
        size = node.out.shape[axis]
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        x = editor.copy_with_operands(node, [x], shape, axes=(axis,), sizes=(size,))
    return x


# ---------------------------------------------------------------------------------- transpositions


def moved_permutations(value: Value, memo: dict[Any, Any]) -> Permutations:
    """Return the permutations by which ONNX Runtime's optimizer may transpose a value.

    The optimizer moves ``Transpose`` nodes forwards through the graph. The result is empty if it
    moves none to the value, and None if the permutations are unknown. ``memo`` contains the results
    for other values. The results that are computed here are added to it.
    """
    stack = [value]
    while stack:
        top = stack[-1]
        missing = [v for v in _sources(top) if ("permutations", id(v)) not in memo]
        if missing:
            stack += missing
        else:
            memo["permutations", id(top)] = _compute_permutations(top, memo)
            stack.pop()
    permutations: Permutations = memo["permutations", id(value)]
    return permutations


def _sources(value: Value) -> list[Value]:
    """Return the operands of a value's producer from which the optimizer may move transposes to the
    value."""
    node = value.node
    return [] if node is None or node.op in BARRIERS or _merges(node) else node.inputs


def _compute_permutations(value: Value, memo: dict[Any, Any]) -> Permutations:
    """Return the permutations by which ONNX Runtime's optimizer may transpose a value, or None if
    they are unknown.

    ``memo`` contains the permutations of all operands of its producer.
    """
    node, source_permutations = (
        value.node,
        [(v, memo["permutations", id(v)]) for v in _sources(value)],
    )
    if node is None or node.op in BARRIERS or _merges(node):
        return NO_PERMUTATIONS
    if node.op is ops.transpose:
        return _compose_permutations(tuple(node.params["permutation"]), source_permutations[0][1])
    if not (node.op.elementwise or node.op.moves or node.op.reduces or node.op in _TRANSPARENT):
        return None
    if node.op is ops.reshape:
        source_permutations = [
            (value, _permutations_after_reshape(node, permutations))
            for _, permutations in source_permutations
        ]
    moved = [
        (v.rank, permutations)
        for v, permutations in source_permutations
        if permutations != NO_PERMUTATIONS
    ]
    if any(permutations is None or rank != value.rank for rank, permutations in moved):
        return None
    return _limit_permutations(
        permutation for _, permutations in moved for permutation in permutations or ()
    )


_TRANSPARENT = frozenset(
    {ops.concatenate, ops.pad, ops.softmax, ops.log_softmax, ops.resize, ops.repeat, ops.take}
)
"""Operations that are lowered without a transpose, and through which one may be moved."""


def _permutations_after_reshape(node: Node, permutations: Permutations) -> Permutations:
    """Return the permutations of the operand of a reshape as permutations of its result.

    They are known only if the reshape adds or removes axes of size one before or after all other
    axes. Return None if they are unknown.
    """
    if permutations is None or permutations == NO_PERMUTATIONS:
        return permutations
    before, after = node.inputs[0].shape, node.out.shape
    added, removed = _start_among_ones(after, before), _start_among_ones(before, after)
    if added is not None:
        last = range(added + len(before), len(after))
        return _limit_permutations(
            (*range(added), *(added + axis for axis in o), *last) for o in permutations
        )
    if removed is not None:
        kept_axes = range(removed, removed + len(after))
        return _limit_permutations(
            _renumber_axes([permutation[axis] for axis in kept_axes])
            for permutation in permutations
        )
    return None


def _start_among_ones(longer: dims.Shape, shorter: dims.Shape) -> int | None:
    """Return the axis of ``longer`` at which the sizes of ``shorter`` start.

    All other axes of ``longer`` must have size one. None if there is no such axis.
    """
    for first in range(len(longer) - len(shorter) + 1):
        end = first + len(shorter)
        ones = (*longer[:first], *longer[end:])
        if dims.is_same_shape(longer[first:end], shorter) and all(
            dims.is_same_dim(d, 1) for d in ones
        ):
            return first
    return None


def _renumber_axes(axes: list[int]) -> Permutation:
    """Return the axes as a permutation of 0 to n - 1 in the same order.

    Example: [4, 2, 5] gives (1, 0, 2).
    """
    return tuple(sorted(axes).index(axis) for axis in axes)


def _merges(node: Node) -> bool:
    """Return True if a node is a reshape that does more than adding and removing axes of size
    one."""
    shapes = (node.inputs[0].shape, node.out.shape) if node.op is ops.reshape else ((), ())
    before, after = ([d for d in shape if not dims.is_same_dim(d, 1)] for shape in shapes)
    return not dims.is_same_shape(tuple(before), tuple(after))


def _compose_permutations(last: Permutation, before: Permutations) -> Permutations:
    """Return the permutation ``last`` of a transpose, and its compositions with the permutations
    before it of the same rank.

    None if those before it are unknown, or if there are more than ``MAX_PERMUTATIONS``.
    """
    if before is None:
        return None
    same_rank = [first for first in before if len(first) == len(last)]
    return _limit_permutations([last, *(tuple(first[i] for i in last) for first in same_rank)])


def _limit_permutations(permutations: Iterable[Permutation]) -> Permutations:
    """Return the permutations without duplicates, or None if there are more than
    ``MAX_PERMUTATIONS``."""
    different = frozenset(permutations)
    return different if len(different) <= MAX_PERMUTATIONS else None
