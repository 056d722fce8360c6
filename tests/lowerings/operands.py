"""Operands of every provenance: how a value was made, which lowering rules may ask for.

All of them are exact: the operation that is tried gets the same numbers in a file as in JAX.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir.dtypes import highest, is_float, is_integer, lowest
from tests.rules.programs import ALL, INTEGERS, Drawn, Expr, Shape, numbers

Pool = Sequence[Any]
Make = Callable[[Drawn, Shape, str, Pool], Expr]


def ends(dtype: str) -> list[Any]:
    """The numbers at which a dtype ends, beside those that every draw has."""
    kind = jnp.dtype(dtype)
    if not is_float(kind):
        return numbers(dtype)
    limits = jnp.finfo(kind)
    least = [float(limits.smallest_normal), float(limits.eps), 1 - float(limits.eps) / 2]
    sizes = [float(limits.max), *least, 88.0, 127.5, 32767.5]
    return [*numbers(dtype), *sizes, *(-size for size in sizes)]


def subnormal(dtype: str) -> list[Any]:
    """Numbers of which XLA keeps the smallest too, as long as they are only moved."""
    kind = jnp.dtype(dtype)
    least = [float(jnp.finfo(kind).smallest_subnormal)] if is_float(kind) else []
    return [*ends(dtype), *least, *(-x for x in least)]


def moderate(dtype: str) -> list[Any]:
    """Numbers of which no operation makes another than JAX does, but for rounding."""
    if is_float(jnp.dtype(dtype)):
        return [0.5, -0.75, 1.25, 2.0, -1.5, 3.0, 0.25, -2.5]
    return [n for n in numbers(dtype) if abs(int(n)) <= 7]


def edges(d: Drawn, dtype: str) -> Pool:
    return d.pick([numbers, ends, moderate])(dtype)


# ---------------------------------------------------------------------------------------- ways


def _leaf(d: Drawn, shape: Shape, dtype: str, pool: Pool = ()) -> Expr:
    return d.pick([d.input, d.input, d.param, d.constant])(shape, dtype, pool)


def _converted(sources: Sequence[str]) -> Make:
    def make(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
        source = d.pick(sources)
        kept = [n for n in _whole(pool) if _holds(source, n)]
        x = boolean(d, shape) if source == "bool" else _leaf(d, shape, source, kept)
        return converted(d, x, dtype)

    return make


def _whole(pool: Pool) -> list[int]:
    """Integers for a pool: small ones where all of its numbers are small floats."""
    if any(isinstance(n, float) for n in pool):
        return [0, 1, 2, 3, -1] if all(abs(n) < 100 for n in pool) else []
    return [int(n) for n in pool]


def _holds(dtype: str, number: Any) -> bool:
    kind = jnp.dtype(dtype)
    return is_integer(kind) and int(lowest(kind)) <= number <= int(highest(kind))


def converted(d: Drawn, x: Expr, dtype: str) -> Expr:
    return d.apply(lambda a: lax.convert_element_type(a, jnp.dtype(dtype)), x)


def boolean(d: Drawn, shape: Shape) -> Expr:
    """Truth values: given, or what a comparison makes."""
    if d.chance():
        return _leaf(d, shape, "bool")
    return compared(d, shape, "bool", ())


def compared(d: Drawn, shape: Shape, dtype: str, _: Pool) -> Expr:
    kind = d.pick(["float32", "int32", "uint8"])
    op = d.pick([lax.lt, lax.le, lax.gt, lax.ge, lax.eq, lax.ne])
    return converted(d, d.apply(op, _leaf(d, shape, kind), d.number(shape, kind)), dtype)


def _clipped(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    x, ends_of = _leaf(d, shape, dtype, pool), sorted(d.array((2,), dtype, moderate(dtype)))
    low, high = (np.asarray(end, jnp.dtype(dtype)) for end in ends_of)
    if d.chance():
        return d.apply(lambda a: lax.clamp(low, a, high), x)
    return d.apply(lambda a: lax.min(lax.max(a, lax.full_like(a, low)), lax.full_like(a, high)), x)


def _scalar(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    """One number all over an array."""
    one = _leaf(d, (), dtype, pool)
    d.named |= {size for size in shape if isinstance(size, str)}
    return Expr(lambda env: lax.broadcast(one.run(env), env.shape(shape)), shape, dtype)


def _number(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    return d.number(shape, dtype, pool)


def _constant(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    return d.constant(shape, dtype, pool)


def _param(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    return d.param(shape, dtype, pool)


def _input(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    return d.input(shape, dtype, pool)


def _iota(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    return d.iota(shape, dtype, pool)


def _moved(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    x = _leaf(d, shape, dtype, pool)
    return d.apply(lambda a: lax.rev(a, range(len(shape))), x)


def _chosen(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    which = boolean(d, shape)
    return d.apply(lax.select, which, *(_leaf(d, shape, dtype, pool) for _ in range(2)))


def _remainder(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    x, by = _leaf(d, shape, dtype, pool), np.asarray(d.pick([2, 3]), jnp.dtype(dtype))
    return d.apply(lambda a: lax.rem(a, lax.full_like(a, by)), x)


def _size(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    """The number of entries of an axis."""
    named = d.pick(["n", "m"])
    d.named |= {named, *(size for size in shape if isinstance(size, str))}
    kind = jnp.dtype(dtype)
    return Expr(
        lambda env: lax.full(env.shape(shape), lax.convert_element_type(env.sizes[named], kind)),
        shape,
        dtype,
    )


def _place(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    """Where the largest of three is."""
    x = d.input((*shape, 3), "int32", [0, 1, 2, 3, 5])
    axis = len(shape)
    return converted(d, d.apply(lambda a: lax.argmax(a, axis, np.int32), x, shape=shape), dtype)


ANY: dict[str, Make] = {
    "input": _input,
    "parameter": _param,
    "constant": _constant,
    "number": _number,
    "iota": _iota,
    "scalar": _scalar,
    "of a boolean": _converted(["bool"]),
    "of an integer": _converted(INTEGERS),
    "moved": _moved,
    "chosen": _chosen,
}
OF_NUMBERS: dict[str, Make] = {
    "clipped": _clipped,
    "of a comparison": compared,
    "of a float": _converted(["float32", "float16", "float64"]),
    "place": _place,
    "size": _size,
}
OF_INTEGERS: dict[str, Make] = {"remainder": _remainder}
OF_BOOLEANS: dict[str, Make] = {
    "compared": compared,
    "converted": lambda d, shape, dtype, _: converted(d, _leaf(d, shape, d.pick(ALL)), dtype),
}


def ways(dtype: str) -> dict[str, Make]:
    """How an operand of a dtype may be made."""
    kind = jnp.dtype(dtype)
    if kind == np.bool_:
        plain = {name: make for name, make in ANY.items() if not name.startswith("of a")}
        return {**plain, **OF_BOOLEANS}
    return {**ANY, **OF_NUMBERS, **(OF_INTEGERS if is_integer(kind) else {})}


def operand(d: Drawn, shape: Shape, dtype: str, pool: Pool = ()) -> Expr:
    """An operand of any provenance; of a half of the draws an input."""
    makes = ways(dtype)
    name = d.pick(["input", *makes] if d.chance() else ["input"])
    return makes[name](d, shape, dtype, pool)
