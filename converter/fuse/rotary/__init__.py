"""Rotary position embedding [Su et al., arXiv:2104.09864], half-split and interleaved.

    rotary(x, cos, sin) = join(a * cos - b * sin, b * cos + a * sin)
    rotary(x, cos, -sin) = join(a * cos + b * sin, b * cos - a * sin)

where ``a`` and ``b`` are the halves of x along its width, ``[:n]`` and ``[n:]``, or its even and
odd elements where it is interleaved, and the tables ``cos`` and ``sin`` [positions, n] depend on
one other axis, or on several: [batch, positions, n] where each sample has its own positions. It is
written so, in pairs, or turned, as ``x * cos + rotate(x) * sin`` where
``rotate`` joins ``-b`` and ``a``, with tables of the full width, the halves of which have to be
shown to be equal (``halves``). The root is the last sum or the joining of the halves.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from converter.fuse.match import (
    NearMiss,
    Recogniser,
    Uses,
    only_reader,
    operands,
    proved,
)
from converter.fuse.product_terms import product
from converter.fuse.rotary.halves import (
    JoinedHalves,
    Write,
    distinct_half,
    joined_halves,
    stacked,
    united,
)
from converter.fuse.rotary.unnamed import rotary_like
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import View, along
from converter.ir.dims import Shape
from converter.ir.moves import above, descended, write
from converter.ir.rewrite import Editor


@dataclass(frozen=True)
class ProvedRotation:
    """All that the node takes; ``positions`` are the axes that the tables vary along besides
    ``width``, that of elements.

    Of that ``shape``, which may count pairs along one axis where the root has two. Of each table
    what writes the half of it, and its own axes of positions and of elements.
    """

    shape: Shape
    x: View
    tables: tuple[tuple[Write, tuple[int | None, ...]], ...]
    positions: tuple[int, ...]
    width: int
    interleaved: bool


def rotation(
    shape: Shape,
    x: View,
    tables: Sequence[View],
    join: JoinedHalves,
    half: Callable[[View], Write | str],
    backwards: bool,
) -> ProvedRotation | str:
    """``x`` turned by tables, cosines first, of which ``half`` gives what is needed; or why not.

    It is turned ``backwards`` by sines with the other sign.
    """
    positions = _positions(x, tables, join.axis, shape)
    if isinstance(positions, str):
        return positions
    halves: list[tuple[Write, tuple[int | None, ...]]] = []
    for table in tables:
        half_or_reason = half(table)
        if isinstance(half_or_reason, str):
            return half_or_reason
        if backwards and halves:
            half_or_reason = partial(_with_other_sign, half_or_reason)
        halves.append((half_or_reason, tuple(table.axes[i] for i in (*positions, join.axis))))
    return ProvedRotation(shape, x, tuple(halves), positions, join.axis, join.interleaved)


def _with_other_sign(value: Write, editor: Editor) -> Value:
    own = value(editor)
    return editor.add(ops.neg, [own], own.shape, own.dtype)


def _positions(x: View, tables: Sequence[View], width: int, shape: Shape) -> tuple[int, ...] | str:
    """The axes besides ``width`` that the tables depend on, or why there are none.

    Positions are the last of them before ``width``; the others are batches that have their own.
    """
    if any(t.axes[width] is None or not t.complete() for t in tables):
        return "a table does not vary along the rotated axis"
    axes = {i for t in tables for i, a in enumerate(t.axes) if a is not None and i != width}
    if not axes:
        return "the tables do not depend on a position"
    ordered = tuple(sorted(axes, key=lambda i: (i < width, i)))
    return ordered if x.fills(shape) else "the rotated value is broadcast"


def prove_rotary(node: Node, uses: Uses) -> ProvedRotation | str | None:
    return _turned(node, uses) if node.op in _SIGNS else _pairwise(node, uses)


_SIGNS = {ops.add: 1, ops.sub: -1}
"""Of the second term of a sum, and of a difference."""

Signed: TypeAlias = tuple[int, list[View]]
"""A sign and the two factors of a product."""


def _signed_products(view: View, uses: Uses) -> list[Signed] | None:
    """The two terms of a sum or a difference, if both are products of two."""
    op = view.op()
    if op not in _SIGNS:
        return None
    products: list[Signed] = []
    for sign, term in zip((1, _SIGNS[op]), operands(view), strict=True):
        if term.op() not in (ops.mul, ops.neg):
            return None
        parts = product(term, uses)
        if abs(parts.coefficient) != 1 or parts.divisors or len(parts.factors) != 2:
            return None
        products.append((sign * int(parts.coefficient), parts.factors))
    return products


# ----------------------------------------------------------------------------------------- in pairs


def _pairwise(node: Node, uses: Uses) -> ProvedRotation | str | None:
    """All readers of pairs get what is built, or none: a reshape of them that is turned in between
    has to be the only one."""
    pairs = stacked(node)
    rotated = None if pairs is None else _rotated(pairs[0], pairs[1], uses)
    join = joined_halves(along(node.out)) if rotated is None else None
    if join is None or not (join.node is node or only_reader(node.inputs[0], join.node.out, uses)):
        return rotated
    return _rotated(join, node.out.shape, uses)


def _rotated(join: JoinedHalves, shape: Shape, uses: Uses) -> ProvedRotation | str | None:
    first, second = (_signed_products(half, uses) for half in (join.first, join.second))
    if first is None or second is None:
        return None
    crossed = [(sign, set(factors)) for sign, factors in second]
    rotated: ProvedRotation | str | None = None
    for (sign, ac), (other, bs) in (first, first[::-1]):
        for (a, cos), (b, sin) in itertools.product((ac, ac[::-1]), (bs, bs[::-1])):
            expected = [(1, {b, cos}), (-other, {a, sin})]
            x = united(a, b, join.axis, join.interleaved)
            if sign == 1 and x is not None and crossed in (expected, expected[::-1]):
                rotated = rotation(shape, x, (cos, sin), join, _own_table, other == 1)
                if isinstance(rotated, ProvedRotation):
                    return rotated
    return rotated


def _own_table(table: View) -> Write:
    return lambda _: table.base


# ------------------------------------------------------------------------------------------- turned


def _turned(node: Node, uses: Uses) -> ProvedRotation | str | None:
    terms = _signed_products(along(node.out), uses)
    for (sign, straight), (other, turned) in (terms, terms[::-1]) if terms else ():
        for rotated, sin in (turned, turned[::-1]) if sign == 1 else ():
            half_turn = _rotate_half(rotated, uses)
            if half_turn is None:
                continue
            x, join, direction = half_turn

            def half(table: View, join: JoinedHalves = join) -> Write | str:
                axis = table.axes[join.axis]
                assert axis is not None, table
                return distinct_half(table.base, axis, join.interleaved, uses.memo)

            for plain, cos in (straight, straight[::-1]):
                if descended(plain) == x:
                    backwards = other * direction < 0
                    return rotation(node.out.shape, plain, (cos, sin), join, half, backwards)
    return None


def _rotate_half(view: View, uses: Uses) -> tuple[View, JoinedHalves, int] | None:
    """x, where the view is ``(-b, a)`` of the halves ``a, b`` of x, or -1 times that."""
    join = joined_halves(view)
    if join is None:
        return None
    parts = [product(half, uses) for half in (join.first, join.second)]
    signs = [part.coefficient for part in parts]
    if signs not in ([-1, 1], [1, -1]):
        return None
    if any(part.divisors or len(part.factors) != 1 for part in parts):
        return None
    (b,), (a,) = (part.factors for part in parts)
    x = united(a, b, join.axis, join.interleaved)
    return None if x is None else (descended(x), join, int(signs[1]))


# ------------------------------------------------------------------------------------------ writing


def build_rotary(node: Node, rotated: ProvedRotation, editor: Editor) -> Value:
    count = tuple(rotated.shape[i] for i in rotated.positions)
    shape, dtype = (*count, rotated.shape[rotated.width] // 2), node.out.dtype
    tables = [
        write(editor, along(half(editor), axes), shape, dtype) for half, axes in rotated.tables
    ]
    value = write(editor, rotated.x, rotated.shape, dtype)
    params = {
        "positions": rotated.positions,
        "width": rotated.width,
        "interleaved": rotated.interleaved,
    }
    turned = editor.add(ops.rotary, [value, *tables], value.shape, value.dtype, params)
    return editor.reshape(turned, node.out.shape)


ROTARY = proved(
    "RotaryEmbedding",
    (ops.add, ops.sub, ops.concatenate, ops.reshape),
    prove_rotary,
    build_rotary,
    rotary_like,
)


# ----------------------------------------------------------------------------------------- a prefix


def _prefix(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    """``concatenate([x[:n], rotary(x[n:])])`` along the positions is one rotation of x.

    Prefix tokens that are not rotated are rows with cos = 1 and sin = 0.
    """
    if len(node.inputs) != 2:
        return None
    seq = node.params["dimension"]
    head, tail = node.inputs
    turned = tail.node
    if turned is None or turned.op is not ops.rotary or turned.params["positions"][-1] != seq:
        return None
    kept, others = above(along(head)), above(along(turned.inputs[0]))
    if kept is None or not dims.same_shape(kept.base.shape, node.out.shape):
        return None
    source, count = along(kept.base), head.shape[seq]
    cuts = source.cut(seq, 0, count), source.cut(seq, count, tail.shape[seq])
    if (kept, others) != cuts or not editor.single_use(tail) or not dims.is_static(count):
        return None
    tables = [
        editor.concatenate([_rows(editor, table, count, fill), table], table.rank - 2)
        for table, fill in zip(turned.inputs[1:], (1, 0), strict=True)
    ]
    params = {**turned.params, "prefix": True}
    return editor.add(ops.rotary, [kept.base, *tables], node.out.shape, node.out.dtype, params)


def _rows(editor: Editor, table: Value, count: int, fill: int) -> Value:
    return editor.broadcast(
        const(fill, table.dtype), (*table.shape[:-2], count, table.shape[-1]), ()
    )


PREFIX = Recogniser((ops.concatenate,), _prefix)
