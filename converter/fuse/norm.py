"""What the norms share: a product with the inverse of a deviation, and how one is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from converter.fuse.match import Uses, operand, pair
from converter.fuse.product_terms import Product, product
from converter.ir import Node, Value, const, ops
from converter.ir.axes import View, along
from converter.ir.dims import Shape
from converter.ir.moves import write
from converter.ir.op import Op
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

NormTerm: TypeAlias = tuple[Op, View]
"""What is added or subtracted (`ops.add` or `ops.sub`)."""


@dataclass(frozen=True)
class Norm:
    """``coefficient * prod(factors)`` times ``x`` divided by its deviation along ``axes``, and then
    the ``terms``.

    ``shape`` is that of ``x`` along its logical axes, if one of the node's was split for it.
    """

    x: View
    axes: tuple[int, ...]
    epsilon: float
    factors: tuple[View, ...]
    coefficient: float
    terms: tuple[NormTerm, ...] = ()
    shape: Shape | None = None


@dataclass(frozen=True)
class NormDeviation:
    """``sqrt(spread + epsilon)``, of which ``rest`` is divided."""

    spread: View
    epsilon: float
    rest: Product


def norm_deviations(node: Node, uses: Uses) -> Iterator[NormDeviation]:
    """Every way to see a node as something divided by a deviation."""
    parts = product(along(node.out), uses)
    return divided_by_deviation(parts, node.out.dtype)


def divided_by_deviation(parts: Product, dtype: np.dtype) -> Iterator[NormDeviation]:
    """Every way to see a product as something divided by a deviation."""
    if not parts.divisors:
        inverses = [f for f in parts.factors if f.op() is ops.rsqrt or _is_power(f, -0.5)]
    else:
        roots = [d for d in parts.divisors if d.op() is ops.sqrt or _is_power(d, 0.5)]
        inverses = roots if len(parts.divisors) == 1 else []
    real = jnp.issubdtype(dtype, jnp.floating)
    for inverse in inverses if real and fits(parts.coefficient, dtype) else ():
        factors = parts.factors if parts.divisors else parts.without(inverse)
        inside = operand(inverse, 0)
        for number, spread in pair(inside) if inside.op() is ops.add else ():
            epsilon = scalar(number.base)
            if epsilon is None or not _is_attribute(float(epsilon), dtype):
                continue
            if _in_any_order(parts, factors, dtype):
                yield NormDeviation(spread, float(epsilon), Product(parts.coefficient, factors))


def _is_power(view: View, exponent: float) -> bool:
    return view.op() is ops.pow and scalar(operand(view, 1).base) == exponent


def _is_attribute(number: float, dtype: np.dtype) -> bool:
    """Whether ONNX's attributes, which are float32, hold the number for this dtype."""
    return dtype != np.float64 or float(np.float32(number)) == number


def _in_any_order(parts: Product, factors: Sequence[View], dtype: np.dtype) -> bool:
    """Whether it makes no difference what the result is multiplied by first.

    In float16 one order may overflow and another not.
    """
    others = len(factors) - 1 + (parts.coefficient != 1)
    return dtype.name != "float16" or others <= 1


def fits(number: float, dtype: np.dtype) -> bool:
    """Whether a number can be written in ``dtype`` without becoming zero or infinite."""
    info = jnp.finfo(dtype)
    return number == 0 or float(info.tiny) <= abs(number) <= float(info.max)


def build_norm(op: Op, node: Node, norm: Norm, editor: Editor) -> Value:
    """``op`` over the logical axes of x, without scale, times and plus what else there is."""
    shape = node.out.shape if norm.shape is None else norm.shape
    normed = _bare(op, norm, shape, node.out.dtype, editor)
    rest = Product(norm.coefficient, list(norm.factors))
    return dressed(editor.reshape(normed, node.out.shape), rest, norm.terms, editor)


def _bare(op: Op, norm: Norm, shape: Shape, dtype: np.dtype, editor: Editor) -> Value:
    """``op`` over the logical axes of x, which have that shape, without scale."""
    count = len(norm.axes)
    order = [i for i in range(len(norm.x.axes)) if i not in norm.axes] + list(norm.axes)
    value = editor.transpose(write(editor, norm.x, shape, dtype), order)
    ones = editor.broadcast(const(1, dtype), value.shape[-count:], ())
    params = {"axis": value.rank - count, "epsilon": norm.epsilon}
    normed = editor.add(op, [value, ones], value.shape, dtype, params)
    return editor.transpose(normed, [order.index(i) for i in range(len(order))])


def dressed(normed: Value, rest: Product, terms: Sequence[NormTerm], editor: Editor) -> Value:
    """What is normalised times what else there is of a product, and plus the terms."""
    result = normed
    for factor in rest.factors:
        result = editor.binary(ops.mul, result, _norm_spread(editor, factor, normed))
    if rest.coefficient != 1:
        result = editor.binary(ops.mul, result, const(rest.coefficient, normed.dtype))
    for op, term in terms:
        result = editor.binary(op, result, _norm_spread(editor, term, normed))
    return result


def _norm_spread(editor: Editor, view: View, like: Value) -> Value:
    return write(editor, view, view.bare(like.shape), like.dtype)
