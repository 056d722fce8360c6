"""Rotations written as the pair ``a * cos - b * sin`` and ``b * cos + a * sin``."""

import itertools

from converter.fuse.match import MatchContext, is_only_read_through
from converter.fuse.rotary.halves import (
    EmitValue,
    JoinedHalves,
    match_joined_halves,
    match_stacked_halves,
    unite_halves,
)
from converter.fuse.rotary.rotation import (
    MatchedRotation,
    emit_rotation,
    match_rotation,
    signed_products,
)
from converter.ir import Node, Value, dims
from converter.ir.axes import View, view_of
from converter.ir.dims import Shape
from converter.ir.moves import look_through
from converter.ir.rewrite import Editor

Rotations = dict[int, MatchedRotation]
"""Rotations of parts of a concatenation, by the index of the first half."""


def match_pair(node: Node, context: MatchContext) -> MatchedRotation | str | None:
    """Match a concatenation of two rotated halves, or a reshape of one.

    Return the rotation, a text with the reason for a near miss, or None. Pairs [..., n, 2] are
    matched at their concatenation, so that all readers get the rotated value. A reshape of pairs is
    matched only if nothing else reads the concatenation.
    """
    pairs = match_stacked_halves(node)
    rotation = None if pairs is None else _rotation_of(pairs[0], pairs[1], context)
    join = match_joined_halves(view_of(node.out)) if rotation is None else None
    if join is None or not (
        join.node is node or is_only_read_through(node.inputs[0], join.node.out, context)
    ):
        return rotation
    return _rotation_of(join, node.out.shape, context)


def _rotation_of(
    join: JoinedHalves, shape: Shape, context: MatchContext
) -> MatchedRotation | str | None:
    """Match two joined halves as ``a * cos - b * sin`` and ``b * cos + a * sin``.

    The sines may have the opposite sign in both. Terms and factors may be in any order. ``shape``
    is the shape of the joined value. Return the rotation, a text with the reason for a near miss,
    or None.
    """
    first, second = (signed_products(half, context) for half in (join.first, join.second))
    if first is None or second is None:
        return None
    crossed = [(sign, set(factors)) for sign, factors in second]
    rotation: MatchedRotation | str | None = None
    for (sign, ac), (other, bs) in (first, first[::-1]):
        for (a, cos), (b, sin) in itertools.product((ac, ac[::-1]), (bs, bs[::-1])):
            expected = [(1, {b, cos}), (-other, {a, sin})]
            x = unite_halves(a, b, join.axis, join.interleaved)
            if sign == 1 and x is not None and crossed in (expected, expected[::-1]):
                rotation = match_rotation(
                    shape, x, (cos, sin), join.axis, join.interleaved, _use_half_table, other == 1
                )
                if isinstance(rotation, MatchedRotation):
                    return rotation
    return rotation


def _use_half_table(table: View) -> EmitValue:
    """Return a function that returns the base of ``table``, which already has half of the width.

    The function emits no node.
    """
    return lambda _: table.base


# ------------------------------------------------------------------------ halves among other parts


def match_parts(node: Node, context: MatchContext) -> Rotations | str | None:
    """Match ``concatenate([…, a', b', …])`` where ``a'`` and ``b'`` are rotated halves.

    Griffin [De et al., arXiv:2402.19427] rotates the first half of the width of each head, and
    concatenates both halves of it with the rest. Return all rotations by the index of their first
    operand ``a'``. If there is none, return the reason for a near miss as a text, or None.
    """
    rotations, reasons, index = Rotations(), list[str](), 0
    while index + 1 < len(node.inputs):
        rotation = _rotation_of_neighbours(node, index, context)
        if isinstance(rotation, MatchedRotation):
            rotations[index] = rotation
            index += 1
        elif rotation is not None:
            reasons.append(rotation)
        index += 1
    return rotations or next(iter(reasons), None)


def _rotation_of_neighbours(
    node: Node, index: int, context: MatchContext
) -> MatchedRotation | str | None:
    """Match the operands ``index`` and ``index + 1`` of a concatenation as rotated halves.

    Return the rotation, a text with the reason for a near miss, or None.
    """
    first, second = node.inputs[index : index + 2]
    axis = node.params["dimension"]
    size = first.shape[axis]
    if not (dims.is_static(size) and dims.is_same_dim(size, second.shape[axis])):
        return None
    shape = (*first.shape[:axis], size * 2, *first.shape[axis + 1 :])
    join = JoinedHalves(
        node, look_through(view_of(first)), look_through(view_of(second)), axis, interleaved=False
    )
    return _rotation_of(join, shape, context)


def emit_parts(node: Node, rotations: Rotations, editor: Editor) -> Value:
    """Emit the rotations and concatenate them with the other operands of ``node``, in their
    order."""
    parts: list[Value] = []
    for index, value in enumerate(node.inputs):
        if index in rotations:
            parts.append(emit_rotation(rotations[index], node.out.dtype, editor))
        elif index - 1 not in rotations:
            parts.append(value)
    return parts[0] if len(parts) == 1 else editor.concatenate(parts, node.params["dimension"])
