"""Dimensions: integers, or JAX's symbolic expressions over named sizes.

All questions about dimensions are answered here: whether they are known or equal, and their
products. ``lower/size_arithmetic.py`` writes symbolic dimensions as ONNX arithmetic.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from jax import export

from converter.errors import SpecError
from converter.jax_versions import InconclusiveDimensionOperation

T = TypeVar("T")

# JAX's symbolic dimension expression has no public class; it behaves like an integer.
Dim: TypeAlias = Any
Shape: TypeAlias = tuple[Dim, ...]


def is_static(dim: Dim) -> bool:
    """Return True if a dimension is a Python integer, and False if it is an expression of named
    dimensions. A numpy integer is not static; see `as_dim`."""
    return isinstance(dim, int)


def all_static(shape: Iterable[Dim]) -> bool:
    """Return True if all dimensions are Python integers."""
    return all(is_static(d) for d in shape)


def as_dim(dim: Dim) -> Dim:
    """Return numpy integers and 0-d arrays as ``int``, and a symbolic dimension unchanged."""
    if type(dim) is int:
        return dim
    return int(dim) if not is_symbolic(dim) else dim


def as_shape(shape: Iterable[Dim]) -> Shape:
    """Return dimensions as a tuple, with numpy integers and 0-d arrays as ``int``."""
    return tuple(as_dim(d) for d in shape)


def size_product(dims: Sequence[Dim]) -> Dim:
    """Return the product of dimensions: a Python integer, or an expression of named dimensions. It
    is 1 if there are no dimensions."""
    return as_dim(math.prod(dims))


def is_same_dim(a: Dim, b: Dim) -> bool:
    """Return True if two dimensions are equal for all sizes of the named dimensions."""
    if a is b:
        return True
    if type(a) is type(b):
        # This case is checked first, because it is the most frequent one.
        return bool(a == b)
    return is_static(a) == is_static(b) and bool(a == b)


def is_one(dim: Dim) -> bool:
    """Return True if a dimension is the integer one."""
    return is_static(dim) and bool(dim == 1)


def is_same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Return True if two shapes have the same rank and are equal for all sizes of the named
    dimensions."""
    return a is b or (len(a) == len(b) and all(map(is_same_dim, a, b)))


def is_at_least(dim: Dim, least: int) -> bool:
    """Return True if ``dim >= least`` is proved for all sizes of the named dimensions, else
    False."""
    try:
        return bool(dim >= least)
    except InconclusiveDimensionOperation:
        return False


def clip_at_zero(dim: Dim) -> Dim:
    """Return ``max(dim, 0)``. It is ``dim`` itself if ``dim >= 0`` is proved for all sizes of the
    named dimensions."""
    if is_static(dim):
        return max(dim, 0)
    if is_at_least(dim, 0):
        return dim
    return export.symbolic_shape(f"max({dim}, 0)", scope=dim.scope)[0]


def dilated_size(size: Dim, inner: int) -> Dim:
    """Return the size of an axis after ``inner`` entries are inserted between neighbours.

    That is ``size + (size - 1) * inner``. An axis of size 0 is still empty.
    """
    return clip_at_zero(as_dim(size + (size - 1) * inner)) if inner else size


def divide_exactly(dividend: Dim, divisor: Dim) -> Dim | None:
    """Return ``dividend / divisor`` if it is proved to be an integer for all sizes of the named
    dimensions.

    Otherwise return None, also for a divisor of zero.
    """
    if is_static(dividend) and is_static(divisor):
        return dividend // divisor if divisor and dividend % divisor == 0 else None
    if is_same_dim(divisor, dividend):
        return 1
    if is_static(divisor) and divisor == 1:
        return dividend
    if is_static(dividend) or is_same_dim(divisor, 0):
        return None
    quotient = dividend // divisor
    return as_dim(quotient) if is_same_dim(as_dim(quotient * divisor), dividend) else None


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """Return the shape to which numpy broadcasts these shapes, or None if they are incompatible.

    A named dimension is compatible with one and with an equal expression only. The result is () if
    there are no shapes.
    """
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = [1] * rank
    for shape in shapes:
        for i, dim in enumerate(shape, rank - len(shape)):
            if is_same_dim(out[i], 1):
                out[i] = dim
            elif not (is_same_dim(dim, 1) or is_same_dim(dim, out[i])):
                return None
    return tuple(out)


def expand_with_ones(shape: Shape, axes: Sequence[int], rank: int) -> Shape:
    """Return a shape of this rank in which axis ``axes[i]`` has size ``shape[i]``, and other axes
    have size 1."""
    table = dict(zip(axes, shape, strict=True))
    return tuple(table.get(axis, 1) for axis in range(rank))


def shape_text(shape: Shape) -> str:
    """Return the sizes as text, separated by commas, without brackets."""
    return ",".join(str(d) for d in shape)


def is_symbolic(dim: Any) -> bool:
    """Return True if a dimension is an expression of named dimensions, not an integer."""
    return export.is_symbolic_dim(dim)


# --------------------------------------------------------------------------- symbolic expressions

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Pow: "pow",
}


def fold_dims(dim: Dim, leaf: Callable[[str | int], T], apply: Callable[[str, list[T]], T]) -> T:
    """Fold a dimension expression bottom up: compute a result for each part from the results of its
    parts.

    ``dim`` is a dimension, or its text. ``leaf`` gets each name or integer. ``apply`` gets an
    operation (add, sub, mul, pow, neg, floordiv, mod, max, min) and the results of its operands.
    The grammar is that of ``jax.export.symbolic_shape``.

    **Raises** `SpecError` for syntax outside of this grammar, such as a subscript.
    """

    def fold_node(node: ast.expr) -> T:
        match node:
            case ast.Constant(value=int(number)):
                return leaf(number)
            case ast.Name(id=name):
                return leaf(name)
            case ast.BinOp(left=left, op=op, right=right):
                return apply(_OPERATORS[type(op)], [fold_node(left), fold_node(right)])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return apply("neg", [fold_node(operand)])
            case ast.Call(func=ast.Name(id=name), args=args):
                return apply(name, [fold_node(a) for a in args])
            case _:
                raise SpecError(f"dimension {dim} has an expression that is not supported")

    return fold_node(ast.parse(str(dim).replace("^", "**"), mode="eval").body)


INTEGER: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "pow": operator.pow,
    "neg": operator.neg,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}


def evaluate_dim(dim: Dim, sizes: Mapping[str, int]) -> int:
    """Return the integer value of a dimension, or of its text. ``sizes`` must contain the size of
    each name in it."""
    if is_static(dim):
        return dim
    return fold_dims(
        dim, lambda x: x if isinstance(x, int) else sizes[x], lambda op, args: INTEGER[op](*args)
    )


def substitute_sizes(params: Any, sizes: Mapping[str, int]) -> Any:
    """Return node parameters with every symbolic dimension replaced by its value.

    Dicts, tuples and lists are searched, and copied. Anything else is returned unchanged, also
    named tuples. ``sizes`` must contain the size of each named dimension.
    """
    if isinstance(params, dict):
        return {k: substitute_sizes(v, sizes) for k, v in params.items()}
    if type(params) in (tuple, list):
        return type(params)(substitute_sizes(v, sizes) for v in params)
    return evaluate_dim(params, sizes) if is_symbolic(params) else params
