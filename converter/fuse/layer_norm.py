"""LayerNorm: ``(x - mean) * rsqrt(var + eps) * scale + bias`` over one or more axes.

The core (no scale, no bias) is found first; scale and bias are taken in afterwards, one at a time.
"""

from __future__ import annotations

import math

from converter.fuse.match import (
    NearMiss,
    Product,
    Recogniser,
    View,
    close,
    materialise,
    operand,
    operands,
    peel,
    product,
    reduced,
    reduction,
)
from converter.graph import Node, Value, const, dims
from converter.graph.constants import scalar
from converter.graph.rewrite import Editor


def _core(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    root = View(node.out, tuple(range(node.out.rank)))
    parts = product(root, editor)
    centred = parts.pop(lambda f: f.op() == "sub")
    inverse = parts.pop(lambda f: f.op() == "rsqrt")
    if inverse is None and len(parts.divisors) == 1 and parts.divisors[0].op() == "sqrt":
        inverse = parts.divisors.pop()
    if centred is None or inverse is None or parts.divisors:
        return None
    x, mean = operands(centred)
    axes = _mean_axes(mean, x, editor)
    if not axes or not x.complete():
        return None
    found = epsilon_of(operand(inverse, 0))
    if found is None or not _is_variance(found[0], centred, x, mean, axes, editor):
        return None
    return normalised(editor, node, "layer_norm", x, axes, found[1], parts)


def normalised(
    editor: Editor,
    node: Node,
    op: str,
    x: View,
    axes: tuple[int, ...],
    epsilon: float,
    rest: Product,
) -> Value:
    """``op`` over the logical ``axes`` of ``x``, without scale, times what else is multiplied."""
    order = [i for i in range(len(x.axes)) if i not in axes] + list(axes)
    value = editor.transpose(materialise(editor, x, node.out.shape, node.out.dtype), order)
    shape = value.shape[-len(axes) :]
    ones = editor.broadcast(const(1, value.dtype), shape, ())
    first = value.rank - len(axes)
    params = {"axis": first, "epsilon": epsilon}
    normed = editor.add(op, [value, ones], value.shape, value.dtype, params)
    result = editor.transpose(normed, [order.index(i) for i in range(len(order))])
    for factor in rest.factors:
        result = editor.binary("mul", result, _spread(editor, factor, node.out))
    if rest.coefficient != 1:
        result = editor.binary("mul", result, const(rest.coefficient, value.dtype))
    return result


def _spread(editor: Editor, view: View, like: Value) -> Value:
    shape = tuple(1 if a is None else d for a, d in zip(view.axes, like.shape, strict=True))
    return materialise(editor, view, shape, like.dtype)


def _mean_axes(mean: View, x: View, editor: Editor) -> tuple[int, ...] | None:
    """The axes over which ``mean`` is the mean of ``x``."""
    total = sum_of_mean(mean, editor)
    if total is None:
        return None
    axes = reduction(total[0], x, "reduce_sum")
    return axes if axes and is_count(total[1], x, axes) else None


def sum_of_mean(view: View, editor: Editor) -> tuple[View, float] | None:
    """(sum, coefficient) of a value that is a sum times a number."""
    parts = product(view, editor, rounding=True)
    if len(parts.factors) == 1 and not parts.divisors and parts.factors[0].op() == "reduce_sum":
        return parts.factors[0], parts.coefficient
    return None


def is_count(coefficient: float, x: View, axes: tuple[int, ...]) -> bool:
    sizes = [x.base.shape[a] for i in axes if (a := x.axes[i]) is not None]
    return dims.all_static(sizes) and close(coefficient, 1 / math.prod(sizes), x.base.dtype)


def epsilon_of(view: View) -> tuple[View, float] | None:
    """(variance, epsilon) of their sum."""
    if view.op() != "add":
        return None
    left, right = operands(view)
    for number, other in ((scalar(left.base), right), (scalar(right.base), left)):
        if number is not None:
            return _unclipped(other), float(number)
    return None


def _unclipped(view: View) -> View:
    """A variance is often clipped at zero; it cannot be negative here."""
    view = peel(view, rounding=True)
    if view.op() == "max":
        left, right = operands(view)
        if scalar(left.base) == 0:
            return right
        if scalar(right.base) == 0:
            return left
    return view


def _is_variance(
    view: View, centred: View, x: View, mean: View, axes: tuple[int, ...], editor: Editor
) -> bool:
    total = sum_of_mean(view, editor)
    if total is not None and is_count(total[1], x, axes):
        squares = squared_sum(total[0])
        return squares is not None and (
            _sums(squares, centred, axes) or _centres(squares, x, axes, editor)
        )
    if view.op() != "sub":
        return False
    # E[x^2] - E[x]^2
    left, right = operands(view)
    total = sum_of_mean(left, editor)
    if total is None or not is_count(total[1], x, axes) or right.op() != "square":
        return False
    squares = squared_sum(total[0])
    return squares is not None and _sums(squares, x, axes) and operand(right, 0) == mean


def squared_sum(total: View) -> View | None:
    """What is squared and summed, the summed axes appended to the logical ones."""
    inner = reduced(total, "reduce_sum")
    inner = None if inner is None else peel(inner)
    return operand(inner, 0) if inner is not None and inner.op() == "square" else None


def _sums(squares: View, of: View, axes: tuple[int, ...]) -> bool:
    """``squares`` (with its appended axes) runs over ``of``, reduced over ``axes``."""
    rank = len(of.axes)
    if squares.base is not of.base:
        return False
    kept = all(squares.axes[i] == of.axes[i] for i in range(rank) if i not in axes)
    gone = {a for a in squares.axes[rank:] if a is not None}
    return kept and gone == {of.axes[i] for i in axes}


def _centres(squares: View, x: View, axes: tuple[int, ...], editor: Editor) -> bool:
    """The same difference written a second time, perhaps in another precision."""
    if squares.op() != "sub":
        return False
    again, mean = operands(squares)
    inner = View(mean.base, mean.axes[: len(x.axes)])  # without the summed axes
    return _sums(again, x, axes) and _mean_axes(inner, x, editor) == axes


# ----------------------------------------------------------------------------------- scale, bias


def _affine(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    root = View(node.out, tuple(range(node.out.rank)))
    sides = operands(root)
    for normed, other in (sides, sides[::-1]):
        if normed.op() in _TAKES[node.op] and _may_take(node, normed, editor):
            return _absorb(node, normed, other, editor)
    return None


def _may_take(node: Node, normed: View, editor: Editor) -> bool:
    """Several scales of one norm get a norm each: that is less work than to scale and shift it."""
    bare = node.op == "mul" and scalar(normed.node().inputs[1]) == 1
    return bare or editor.single_use(normed.base)


def _absorb(node: Node, normed: View, other: View, editor: Editor) -> Value | None:
    inner = normed.node()
    first = inner.params["axis"]
    within = [i for i, a in enumerate(normed.axes) if a is not None and a >= first]
    takes_more = len(inner.inputs) == 2 and inner.out.dtype == node.out.dtype
    in_place = normed.complete() and normed.fills(node.out.shape)
    if not takes_more or not in_place or not other.covers(within):
        return None
    # the other operand along the normalised axes of the norm itself
    axes = tuple(
        other.axes[normed.axes.index(a)] if a in normed.axes else None
        for a in range(first, inner.out.rank)
    )
    operand_ = materialise(editor, View(other.base, axes), inner.out.shape[first:], inner.out.dtype)
    x, scale = inner.inputs
    if node.op == "mul":
        ones = scalar(scale) == 1
        inputs = [x, operand_ if ones else editor.binary("mul", scale, operand_)]
    else:
        inputs = [x, scale, operand_]
    out = editor.add(inner.op, inputs, inner.out.shape, inner.out.dtype, inner.params)
    return materialise(editor, View(out, normed.axes), node.out.shape)


_TAKES = {"mul": ("layer_norm", "rms_norm"), "add": ("layer_norm",)}
CORE = Recogniser(("mul", "div"), _core)
AFFINE = Recogniser(("mul", "add"), _affine)
