"""Draw operands from every kind of source that lowering rules may distinguish.

All sources are exact, so that the operation under test gets the same numbers in a file as in JAX.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir.dtypes import highest, is_float, is_integer, lowest
from tests.rules.programs import ALL, INTEGERS, Drawn, Expr, Shape, numbers

Pool = Sequence[Any]
Source = Callable[[Drawn, Shape, str, Pool], Expr]


def ends(dtype: str) -> list[Any]:
    """Return the limits of a dtype, in addition to the usual numbers."""
    kind = jnp.dtype(dtype)
    if not is_float(kind):
        return numbers(dtype)
    limits = jnp.finfo(kind)
    small = [float(limits.smallest_normal), float(limits.eps), 1 - float(limits.eps) / 2]
    magnitudes = [float(limits.max), *small, 88.0, 127.5, 32767.5]
    return [*numbers(dtype), *magnitudes, *(-magnitude for magnitude in magnitudes)]


def subnormal(dtype: str) -> list[Any]:
    """Return the numbers of `ends` and subnormal ones, which XLA keeps only if they are moved."""
    kind = jnp.dtype(dtype)
    smallest = [float(jnp.finfo(kind).smallest_subnormal)] if is_float(kind) else []
    return [*ends(dtype), *smallest, *(-x for x in smallest)]


def moderate(dtype: str) -> list[Any]:
    """Return numbers for which operators differ from JAX by rounding only."""
    if is_float(jnp.dtype(dtype)):
        return [0.5, -0.75, 1.25, 2.0, -1.5, 3.0, 0.25, -2.5]
    return [n for n in numbers(dtype) if abs(int(n)) <= 7]


def edges(d: Drawn, dtype: str) -> Pool:
    """Draw a pool of usual numbers, of limits or of moderate numbers."""
    return d.pick([numbers, ends, moderate])(dtype)


# ------------------------------------------------------------------------------------- sources


def _leaf(d: Drawn, shape: Shape, dtype: str, pool: Pool = ()) -> Expr:
    return d.pick([d.input, d.input, d.param, d.constant])(shape, dtype, pool)


def _converted(source_dtypes: Sequence[str]) -> Source:
    def make(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
        source = d.pick(source_dtypes)
        source_pool = [n for n in _integers(pool) if _is_representable(source, n)]
        x = boolean(d, shape) if source == "bool" else _leaf(d, shape, source, source_pool)
        return converted(d, x, dtype)

    return make


def _integers(pool: Pool) -> list[int]:
    """Return the integers of a pool. For a pool with floats, return small ones if all are small."""
    if any(isinstance(n, float) for n in pool):
        return [0, 1, 2, 3, -1] if all(abs(n) < 100 for n in pool) else []
    return [int(n) for n in pool]


def _is_representable(dtype: str, number: Any) -> bool:
    """Whether a number is within the range of an integer dtype."""
    kind = jnp.dtype(dtype)
    return is_integer(kind) and int(lowest(kind)) <= number <= int(highest(kind))


def converted(d: Drawn, x: Expr, dtype: str) -> Expr:
    return d.apply(lambda a: lax.convert_element_type(a, jnp.dtype(dtype)), x)


def boolean(d: Drawn, shape: Shape) -> Expr:
    """Draw Booleans: an input, parameter or constant, or the result of a comparison."""
    if d.chance():
        return _leaf(d, shape, "bool")
    return compared(d, shape, "bool", ())


def compared(d: Drawn, shape: Shape, dtype: str, _: Pool) -> Expr:
    kind = d.pick(["float32", "int32", "uint8"])
    op = d.pick([lax.lt, lax.le, lax.gt, lax.ge, lax.eq, lax.ne])
    return converted(d, d.apply(op, _leaf(d, shape, kind), d.number(shape, kind)), dtype)


def _clipped(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    x, bounds = _leaf(d, shape, dtype, pool), sorted(d.array((2,), dtype, moderate(dtype)))
    low, high = (np.asarray(end, jnp.dtype(dtype)) for end in bounds)
    if d.chance():
        return d.apply(lambda a: lax.clamp(low, a, high), x)
    return d.apply(lambda a: lax.min(lax.max(a, lax.full_like(a, low)), lax.full_like(a, high)), x)


def _scalar(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    """Draw a scalar that is broadcast to the shape."""
    scalar = _leaf(d, (), dtype, pool)
    d.named |= {size for size in shape if isinstance(size, str)}
    return Expr(lambda env: lax.broadcast(scalar.run(env), env.shape(shape)), shape, dtype)


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
    condition = boolean(d, shape)
    return d.apply(lax.select, condition, *(_leaf(d, shape, dtype, pool) for _ in range(2)))


def _remainder(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    x, divisor = _leaf(d, shape, dtype, pool), np.asarray(d.pick([2, 3]), jnp.dtype(dtype))
    return d.apply(lambda a: lax.rem(a, lax.full_like(a, divisor)), x)


def _size(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    """Draw an array of the size of a symbolic axis."""
    dimension = d.pick(["n", "m"])
    d.named |= {dimension, *(size for size in shape if isinstance(size, str))}
    kind = jnp.dtype(dtype)
    return Expr(
        lambda env: lax.full(
            env.shape(shape), lax.convert_element_type(env.sizes[dimension], kind)
        ),
        shape,
        dtype,
    )


def _arg_largest(d: Drawn, shape: Shape, dtype: str, pool: Pool) -> Expr:
    """Draw the positions of the largest of three numbers."""
    x = d.input((*shape, 3), "int32", [0, 1, 2, 3, 5])
    axis = len(shape)
    return converted(d, d.apply(lambda a: lax.argmax(a, axis, np.int32), x, shape=shape), dtype)


ANY: dict[str, Source] = {
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
OF_NUMBERS: dict[str, Source] = {
    "clipped": _clipped,
    "of a comparison": compared,
    "of a float": _converted(["float32", "float16", "float64"]),
    "place": _arg_largest,
    "size": _size,
}
OF_INTEGERS: dict[str, Source] = {"remainder": _remainder}
OF_BOOLEANS: dict[str, Source] = {
    "compared": compared,
    "converted": lambda d, shape, dtype, _: converted(d, _leaf(d, shape, d.pick(ALL)), dtype),
}


def sources(dtype: str) -> dict[str, Source]:
    """Return the sources of operands of a dtype, by name."""
    kind = jnp.dtype(dtype)
    if kind == np.bool_:
        plain = {name: make for name, make in ANY.items() if not name.startswith("of a")}
        return {**plain, **OF_BOOLEANS}
    return {**ANY, **OF_NUMBERS, **(OF_INTEGERS if is_integer(kind) else {})}


def operand(d: Drawn, shape: Shape, dtype: str, pool: Pool = ()) -> Expr:
    """Draw an operand from any source; more than half of the draws are inputs."""
    makers = sources(dtype)
    name = d.pick(["input", *makers] if d.chance() else ["input"])
    return makers[name](d, shape, dtype, pool)
