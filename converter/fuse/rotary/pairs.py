"""Rotations written as the pair ``a * cos - b * sin`` and ``b * cos + a * sin``."""

import itertools

from converter.fuse.match import Uses, only_reader, peel
from converter.fuse.rotary.halves import (
    JoinedHalves,
    Write,
    match_joined_halves,
    match_stacked_halves,
    unite_halves,
)
from converter.fuse.rotary.rotation import (
    ProvedRotation,
    emit_rotation,
    prove_rotation,
    signed_products,
)
from converter.ir import Node, Value, dims
from converter.ir.axes import View, along
from converter.ir.dims import Shape
from converter.ir.rewrite import Editor

Rotations = dict[int, ProvedRotation]
"""Rotations of parts of a concatenation, by the index of the first half."""


def prove_pair(node: Node, uses: Uses) -> ProvedRotation | str | None:
    """Match a concatenation of two rotated halves, or a reshape of one.

    Return the rotation, a text with the reason for a near miss, or None. Pairs [..., n, 2] are
    matched at their concatenation, so that all readers get the rotated value. A reshape of pairs is
    matched only if nothing else reads the concatenation.
    """
    pairs = match_stacked_halves(node)
    rotation = None if pairs is None else _rotation_of(pairs[0], pairs[1], uses)
    join = match_joined_halves(along(node.out)) if rotation is None else None
    if join is None or not (join.node is node or only_reader(node.inputs[0], join.node.out, uses)):
        return rotation
    return _rotation_of(join, node.out.shape, uses)


def _rotation_of(join: JoinedHalves, shape: Shape, uses: Uses) -> ProvedRotation | str | None:
    """Match two joined halves as ``a * cos - b * sin`` and ``b * cos + a * sin``, with any signs
    and orders.

    ``shape`` is the shape of the joined value. Return the rotation, a text with the reason for a
    near miss, or None.
    """
    first, second = (signed_products(half, uses) for half in (join.first, join.second))
    if first is None or second is None:
        return None
    crossed = [(sign, set(factors)) for sign, factors in second]
    rotation: ProvedRotation | str | None = None
    for (sign, ac), (other, bs) in (first, first[::-1]):
        for (a, cos), (b, sin) in itertools.product((ac, ac[::-1]), (bs, bs[::-1])):
            expected = [(1, {b, cos}), (-other, {a, sin})]
            x = unite_halves(a, b, join.axis, join.interleaved)
            if sign == 1 and x is not None and crossed in (expected, expected[::-1]):
                rotation = prove_rotation(
                    shape, x, (cos, sin), join.axis, join.interleaved, _write_table, other == 1
                )
                if isinstance(rotation, ProvedRotation):
                    return rotation
    return rotation


def _write_table(table: View) -> Write:
    """Return a function that returns the table as it is, because it already has half of the
    width."""
    return lambda _: table.base


# ------------------------------------------------------------------------ halves among other parts


def prove_parts(node: Node, uses: Uses) -> Rotations | str | None:
    """Match ``concatenate([…, a', b', …])`` where ``a'`` and ``b'`` are rotated halves.

    Griffin [De et al., arXiv:2402.19427] rotates the first half of the width of each head, and
    concatenates both halves of it with the rest. Return all rotations by the index of their first
    operand. If there is none, return the reason for a near miss as a text, or None.
    """
    rotations, reasons, index = Rotations(), list[str](), 0
    while index + 1 < len(node.inputs):
        rotation = _rotation_of_neighbours(node, index, uses)
        if isinstance(rotation, ProvedRotation):
            rotations[index] = rotation
            index += 1
        elif rotation is not None:
            reasons.append(rotation)
        index += 1
    return rotations or next(iter(reasons), None)


def _rotation_of_neighbours(node: Node, index: int, uses: Uses) -> ProvedRotation | str | None:
    """Match the operands ``index`` and ``index + 1`` of a concatenation as rotated halves.

    Return the rotation, a text with the reason for a near miss, or None.
    """
    first, second = node.inputs[index : index + 2]
    axis = node.params["dimension"]
    size = first.shape[axis]
    if not (dims.is_static(size) and dims.same(size, second.shape[axis])):
        return None
    shape = (*first.shape[:axis], size * 2, *first.shape[axis + 1 :])
    join = JoinedHalves(node, peel(along(first)), peel(along(second)), axis, interleaved=False)
    return _rotation_of(join, shape, uses)


def emit_parts(node: Node, rotations: Rotations, editor: Editor) -> Value:
    """Emit the rotations and concatenate them with the other operands of ``node``."""
    parts: list[Value] = []
    for index, value in enumerate(node.inputs):
        if index in rotations:
            parts.append(emit_rotation(rotations[index], node.out.dtype, editor))
        elif index - 1 not in rotations:
            parts.append(value)
    return parts[0] if len(parts) == 1 else editor.concatenate(parts, node.params["dimension"])
