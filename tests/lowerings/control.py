"""Programs with branches and loops, whose conditions and lengths come from every kind of source."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import ops
from converter.ir.op import Op
from tests.lowerings.elementwise import cases_of
from tests.lowerings.operands import boolean, converted, operand
from tests.lowerings.prove import LoweringCase, Result
from tests.rules.programs import INTEGERS, Drawn, Expr, Shape

SHAPES: tuple[Shape, ...] = ((2, 3), (), ("n", 2), (0, 2))
BRANCH_INDICES = [0, 1, 2, 3, -1, 7, -100]
"""Indices of branches, which JAX clamps to the existing branches."""


def _branch_index(d: Drawn) -> Expr:
    """Draw an index from any kind of source, often one converted from a Boolean."""
    variant = d.pick([0, 0, 1, 2, 3, 3])
    dtype = d.pick(["int32", d.pick(INTEGERS)])
    if variant == 0:
        return converted(d, boolean(d, ()), dtype)
    if variant == 1:
        flags = boolean(d, d.pick([(), (3,)]))
        return d.apply(lambda a: jnp.sum(a, dtype=np.int32), flags)
    if variant == 2:
        flag = converted(d, boolean(d, ()), "int32")
        shifted = d.pick([lambda a: 1 - a, lambda a: a + 1, lambda a: 2 * a, lambda a: -a])
        return d.apply(shifted, flag)
    return operand(d, (), dtype, [n for n in BRANCH_INDICES if n >= 0 or not dtype.startswith("u")])


def _branches(d: Drawn) -> Result:
    """Draw a switch whose branches return operands, computed values or constants."""
    shape, dtype = d.pick(SHAPES), d.pick(["float32", "int32", "bool", "float16", "uint8"])
    xs = [operand(d, shape, dtype) for _ in range(2)]
    kind = jnp.dtype(dtype)
    functions: list[Callable[..., Any]] = [
        lambda a, b: a,
        lambda a, b: b,
        lambda a, b: a | b if kind.kind == "b" else lax.max(a, b),
        lambda a, b: jnp.where(a == b, a, b),
        lambda a, b: jnp.zeros_like(a),
        lambda a, b: jnp.full_like(a, 1),
    ]
    chosen = [d.pick(functions) for _ in range(d.pick([1, 2, 3, 3, 4, 5]))]
    index = _branch_index(d)
    result_index = d.integer(0, 1)

    def run(i: Any, a: Any, b: Any) -> Any:
        pairs = [lambda f=f, k=k: (f(a, b), jnp.int32(k)) for k, f in enumerate(chosen)]
        return lax.switch(i, pairs)[result_index]

    return Result(d.apply(run, index, *xs, shape=((shape, ())[result_index])))


def _chosen_by_truth(d: Drawn) -> Result:
    shape = d.pick(SHAPES)
    x = operand(d, shape, "float32")
    flag = boolean(d, ())
    nested = d.chance()

    def run(c: Any, a: Any) -> Any:
        otherwise = (lambda: lax.cond(~c, lambda: a, lambda: -a)) if nested else (lambda: -a)
        return lax.cond(c, lambda: lax.abs(a), otherwise)

    return Result(d.apply(run, flag, x, shape=shape))


def _repeated(d: Drawn) -> Result:
    """Draw a while loop of no, one or more turns."""
    shape, dtype = d.pick(SHAPES), d.pick(["float32", "int32", "float16"])
    x = operand(d, shape, dtype, [1, 2, 3])
    limit = d.apply(lambda a: lax.min(a, np.int32(5)), operand(d, (), "int32", [0, 1, 2, 5, -1]))
    outer = d.pick([d.input, d.param, d.number])((), dtype, [1, 2])
    kind = d.pick(["count", "flag", "value"])

    def run(n: Any, a: Any, step: Any) -> Any:
        if kind == "count":
            return lax.while_loop(
                lambda s: s[0] < n,
                lambda s: (s[0] + 1, lax.rev(s[1], range(len(shape))) + step),
                (jnp.int32(0), a),
            )[1]
        if kind == "flag":
            return lax.while_loop(
                lambda s: s[0],
                lambda s: (s[2] < n, s[1] + step, s[2] + 1),
                (n > 0, a, jnp.int32(1)),
            )[1]
        return lax.while_loop(
            lambda s: jnp.all(s < 9), lambda s: s + step, lax.max(a, lax.full_like(a, 1))
        )

    if kind == "value":
        x = d.input((2, 3), dtype, [1, 2, 3])
    return Result(d.apply(run, limit, x, outer, shape=x.shape))


def _scanned(d: Drawn) -> Result:
    """Draw a scan over rows or over no rows, of fixed or symbolic length, from either end."""
    length = d.pick([0, 1, 3, "n", "m"])
    shape = d.pick([(2,), ()])
    dtype = d.pick(["float32", "int32", "bool"])
    xs = operand(d, (length, *shape), dtype)
    initial = operand(d, shape, dtype)
    reverse, result_index = d.chance(), d.integer(0, 2)
    kind = d.pick(["rows", "rows and more", "no state", "no rows"][: 3 + isinstance(length, int)])
    outer = operand(d, shape, dtype)
    # A symbolic length minus one may be zero.
    drops_first = isinstance(length, str) and d.chance()
    # A loop of 60 iterations is not unrolled.
    iterations = d.pick([length, 60]) if kind == "no rows" else length

    def combine(a: Any, b: Any) -> Any:
        return a ^ b if dtype == "bool" else lax.max(a, b)

    def step(carry: Any, row: Any, outer_value: Any) -> Any:
        state, count = carry
        return (combine(state, row), count + 1), (lax.select(count < 2, state, row), count)

    def run(initial: Any, rows: Any, outer_value: Any) -> Any:
        rows = rows[1:] if drops_first else rows
        start = (initial, jnp.int32(0))
        if kind == "rows":
            carry, ys = lax.scan(lambda c, r: step(c, r, outer_value), start, rows, reverse=reverse)
        elif kind == "rows and more":
            carry, ys = lax.scan(
                lambda c, r: step(c, combine(r[0], r[1]), outer_value),
                start,
                (rows, lax.rev(rows, (0,))),
                reverse=reverse,
            )
        elif kind == "no rows":
            carry, ys = lax.scan(
                lambda c, _: step(c, outer_value, outer_value),
                start,
                None,
                length=iterations,
                reverse=reverse,
            )
        else:
            _, mapped_rows = lax.scan(
                lambda c, r: (c, combine(r, outer_value)), (), rows, reverse=reverse
            )
            carry, ys = start, (mapped_rows, jnp.arange(1))
        return (carry[0], carry[1], ys[0])[result_index]

    shapes: Sequence[Shape] = (shape, (), ("?" if drops_first else iterations, *shape))
    return Result(d.apply(run, initial, xs, outer, shape=shapes[result_index]))


CASES: dict[Op, Sequence[LoweringCase]] = {
    ops.cond: cases_of(_branches, _chosen_by_truth, programs=8),
    ops.while_: cases_of(_repeated),
    ops.scan: cases_of(_scanned),
}
