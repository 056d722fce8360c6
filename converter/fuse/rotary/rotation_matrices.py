"""Rotations written as products with 2 x 2 matrices.

    y[i] = sum_j matrix[i, j] * x[j],    matrix = [[cos, -sin], [sin, cos]]

where ``x`` is a value whose width is split into pairs. The product is an einsum, the sum of a
product along the axis ``j``, or ``matrix[..., 0] * x[0] + matrix[..., 1] * x[1]`` as in FLUX [Black
Forest Labs, ``apply_rope``]. If only the numbers of the matrices show that they are rotations, the
numbers are compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from converter.fuse.match import MatchContext, operand
from converter.fuse.rotary.halves import EmitValue, equal_tables, unite_halves
from converter.fuse.rotary.rotation import (
    SIGNS,
    MatchedRotation,
    emit_rotation,
    signed_products,
)
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import Factor, View, as_group, view_of
from converter.ir.dims import Shape
from converter.ir.dtypes import is_float
from converter.ir.moves import emit_view, look_through
from converter.ir.origins import ancestors
from converter.ir.rewrite import Editor


@dataclass(frozen=True)
class PairProduct:
    """A product of 2 x 2 matrices with pairs of elements, along the axes of its result.

    - `axis`: the axis of the result with the two elements of a pair.
    - `columns`: the views of ``matrix[:, 0]`` and ``matrix[:, 1]``, each with 1 or -1 as its sign.
    - `pair`: the views of ``x[0]`` and ``x[1]``, which do not vary along ``axis``.
    """

    axis: int
    columns: tuple[tuple[int, View], tuple[int, View]]
    pair: tuple[View, View]


@dataclass(frozen=True)
class PairRotation:
    """A rotation whose result is split into pairs of elements.

    ``axis`` is the axis of the split result that has the two elements of a pair. The axes of
    ``rotation`` are those of the result before the split.
    """

    rotation: MatchedRotation
    axis: int


NO_ROTATIONS = "the matrices of two that pairs are multiplied by are not shown to be rotations"


def match_pair_rotation(node: Node, context: MatchContext) -> PairRotation | str | None:
    """Match a product of 2 x 2 rotation matrices with pairs of elements.

    ``node`` is an einsum, a sum along an axis, or a sum of two products. Return the rotation, a
    text with the reason for a near miss, or None.
    """
    reason: str | None = None
    for product in _pair_products(node, context) if is_float(node.out.dtype) else ():
        rotation = _match_rotation(product, node.out.shape, context)
        if isinstance(rotation, PairRotation):
            return rotation
        reason = reason or rotation
    return reason


# -------------------------------------------------------------------------------------- products


def _pair_products(node: Node, context: MatchContext) -> Iterator[PairProduct]:
    """Yield each way to see a node as a product of 2 x 2 matrices with pairs of elements."""
    pairs = [i for i, size in enumerate(node.out.shape) if dims.is_same_dim(size, 2)]
    if not pairs:
        return
    if node.op in SIGNS:
        yield from _sums_of_columns(node, pairs, context)
        return
    for matrix, vector in _contracted_operands(node):
        for axis in pairs:
            if matrix.groups[axis] and not vector.groups[axis]:
                last = len(matrix.groups) - 1
                halves = [[_entry(view, last, j) for j in (0, 1)] for view in (matrix, vector)]
                (first, second), (x, y) = halves
                if first and second and x and y:
                    yield PairProduct(axis, ((1, first), (1, second)), (x, y))


def _contracted_operands(node: Node) -> Iterator[tuple[View, View]]:
    """Yield the two operands of a contraction over one axis of size two, in both orders.

    The contraction is an einsum, or the sum of a product. The views of the operands have the axes
    of the result and then the contracted one. Nothing is yielded for other nodes.
    """
    if node.op is ops.einsum:
        labels = [node.params["lhs"], node.params["rhs"]]
        out_labels = list(node.params["out"])
        sizes = dict(zip(labels[0], node.inputs[0].shape, strict=True))
        summed = [label for label in labels[0] if label not in out_labels]
        summed = [label for label in summed if not dims.is_same_dim(sizes[label], 1)]
        if (
            len(summed) != 1
            or not dims.is_same_dim(sizes[summed[0]], 2)
            or summed[0] not in labels[1]
        ):
            return
        if any(label not in labels[0] for label in labels[1] if label not in out_labels):
            return
        axes = [
            [names.index(label) if label in names else None for label in (*out_labels, *summed)]
            for names in labels
        ]
        one, other = (view_of(v, a) for v, a in zip(node.inputs, axes, strict=True))
    else:
        source, summed_axes = node.inputs[0], node.params["axes"]
        if len(summed_axes) != 1 or not dims.is_same_dim(source.shape[summed_axes[0]], 2):
            return
        order = [a for a in range(source.rank) if a != summed_axes[0]]
        product = look_through(view_of(source, (*order, summed_axes[0])))
        if product.op() is not ops.mul:
            return
        one, other = operand(product, 0), operand(product, 1)
    yield one, other
    yield other, one


def _sums_of_columns(node: Node, pairs: list[int], context: MatchContext) -> Iterator[PairProduct]:
    """Yield each way to see a sum of two products as ``matrix[:, 0] * x[0] + matrix[:, 1] * x[1]``.

    ``pairs`` are the axes of size two. One of them has the rows of the matrices.
    """
    terms = signed_products(view_of(node.out), context)
    for (sign, one), (other_sign, other) in (terms, terms[::-1]) if terms else ():
        for axis in pairs:
            columns = [[v for v in factors if v.groups[axis]] for factors in (one, other)]
            pair = [[v for v in factors if not v.groups[axis]] for factors in (one, other)]
            if all(len(views) == 1 for views in (*columns, *pair)):
                (first,), (second,), (x,), (y,) = *columns, *pair
                yield PairProduct(axis, ((sign, first), (other_sign, second)), (x, y))


def _entry(view: View, axis: int, index: int) -> View | None:
    """Return the elements at an index of an axis, as a view without that axis.

    Return None if no view expresses them.
    """
    part = view.slice_axis(axis, index, 1)
    if part is None:
        return None
    return part.select_axes([i for i in range(len(view.groups)) if i != axis])


# ------------------------------------------------------------------------------------- rotations


def _match_rotation(
    product: PairProduct, shape: Shape, context: MatchContext
) -> PairRotation | str | None:
    """Match a product of matrices with pairs as a rotation: the matrices are ``[[c, -s], [s, c]]``.

    ``shape`` is the shape of the product's result. Return the rotation, a text with the reason for
    a near miss, or None.
    """
    axis = product.axis
    other_axes = [i for i in range(len(shape)) if i != axis]
    entries = [
        [(sign, _entry(column, axis, i)) for sign, column in product.columns] for i in (0, 1)
    ]
    views = [view for row in entries for _, view in row if view is not None]
    pairs_shape = tuple(shape[i] for i in other_axes)
    varying = [i for i in range(len(pairs_shape)) if any(view.groups[i] for view in views)]
    pair = tuple(view.select_axes(other_axes) for view in product.pair)
    widths = [i for i in varying if dims.is_static(pairs_shape[i])]
    united = _unite_pair(pair[0], pair[1], widths, axis)
    if len(views) < 4 or united is None:
        return None
    x, width, interleaved = united
    positions = tuple(sorted({*varying} - {width}, key=lambda i: (i < width, i)))
    (c, minus_s), (s, other_c) = entries
    cos = _match_equal_entries(c, other_c, 1, pairs_shape, context)
    sin = _match_equal_entries(s, minus_s, -1, pairs_shape, context)
    if cos is None or sin is None:
        is_near = cos is not None or sin is not None or any(map(_may_rotate, views))
        return NO_ROTATIONS if is_near and positions else None
    if not positions:
        return "the tables do not depend on a position"
    value_shape = tuple(dims.as_dim(d * 2) if i == width else d for i, d in enumerate(pairs_shape))
    if not x.has_no_broadcast_axes(value_shape):
        return "the rotated value is broadcast"
    axes = tuple((*positions, width))
    tables = tuple(
        (table, tuple(i if view.groups[i] else None for i in axes))
        for table, view in ((cos, views[0]), (sin, views[2]))
    )
    return PairRotation(
        MatchedRotation(value_shape, x, tables, positions, width, interleaved), axis
    )


def _unite_pair(x: View, y: View, widths: list[int], axis: int) -> tuple[View, int, bool] | None:
    """Return the value whose pairs of elements are ``x`` and ``y``, the axis of its width, and a
    flag.

    The flag is True if the elements of a pair are neighbours along the width, and False if they are
    in different halves of it. ``widths`` are the axes of ``x`` that are tried. A view with full
    axes is preferred. Return None if ``x`` and ``y`` are no pairs of one value.

    ``axis`` is the axis of the pairs in the result of the product. An axis next to it is tried
    first as the width.
    """
    candidates = [(i, interleaved) for i in widths for interleaved in (True, False)]
    candidates.sort(key=lambda candidate: candidate not in ((axis - 1, True), (axis, False)))
    values: list[tuple[View, int, bool]] = []
    for width, interleaved in candidates:
        value = unite_halves(x, y, width, interleaved)
        if value is not None and value.has_nested_factors():
            values.append((value, width, interleaved))
            if value.has_full_axes:
                return values[-1]
    return values[0] if values else None


def _match_equal_entries(
    one: tuple[int, View | None],
    other: tuple[int, View | None],
    sign: int,
    shape: Shape,
    context: MatchContext,
) -> EmitValue | None:
    """Return a function that emits the entry ``one`` if it equals ``sign * other``, otherwise None.

    An entry is a pair ``(sign, view)`` with the value ``sign * view``. No view may be None. All
    signs are 1 or -1. ``shape`` is the shape along the axes of the views. The emitted array has
    size 1 along the axes on which ``one`` does not vary.
    """
    (first_sign, first), (second_sign, second) = one, other
    assert first is not None and second is not None
    emit_entry = equal_tables(
        first, second, first.unbroadcast_shape(shape), sign * first_sign * second_sign, context.memo
    )
    if emit_entry is None or first_sign > 0:
        return emit_entry

    def emit_negated(editor: Editor) -> Value:
        value = emit_entry(editor)
        return editor.add(ops.neg, [value], value.shape, value.dtype)

    return emit_negated


def _may_rotate(view: View) -> bool:
    """Return True if a value is computed from sines, cosines or a parameter without an array."""
    return any(
        value.producer_if(ops.cos) or value.producer_if(ops.sin) or _is_open(value)
        for value in ancestors(look_through(view, conversions="none", reach="parts").base)
    )


def _is_open(value: Value) -> bool:
    """Return True if a value is a parameter that has no array yet."""
    return value.kind == "param" and value.bound is None


def emit_pair_rotation(node: Node, pairs: PairRotation, editor: Editor) -> Value:
    """Emit the rotation, and return its result split into pairs, with the shape of ``node``."""
    rotation = pairs.rotation
    value = emit_rotation(rotation, node.out.dtype, editor)
    width, axis = rotation.width, pairs.axis
    size = node.out.shape[width if width < axis else width + 1]
    strides = (2, 1) if rotation.interleaved else (1, size)
    groups = [*view_of(value).groups]
    groups[width] = as_group([Factor(width, strides[0], size)])
    groups.insert(axis, as_group([Factor(width, strides[1], 2)]))
    return emit_view(editor, View(value, tuple(groups), (0,) * value.rank), node.out.shape)
