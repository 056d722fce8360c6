"""Programs of operations on each element alone."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import ops
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.lower.lowerings import BUILTIN_RULES
from tests.converter.test_edges import HALVES, TOLERATED, UNITS
from tests.lowerings.operands import boolean, edges, moderate, operand, subnormal
from tests.lowerings.prove import Applied, LoweringCase, LoweringDraw, Result
from tests.rules.canonical import LAX, dtypes_of
from tests.rules.programs import ALL, FLOATS, INTEGERS, NUMBERS, Drawn, Expr, Shape

SUPPORTED = ("float32", "float16")
"""Dtypes of the operators that recognisers write; they ask for no others."""

SHAPES: tuple[Shape, ...] = ((2, 3), (3,), (), (1, 3), (0, 3), ("n", 3), ("m",))
MOST = 2
"""Results of a program at most: each has operands of its own."""

Fn = Callable[..., Any]


def results(one: Callable[[Drawn], Result]) -> LoweringDraw:
    """Some results in one program."""
    return lambda d: [one(d) for _ in range(d.integer(1, MOST))]


def applied(d: Drawn, fn: Fn, *xs: Expr) -> Result:
    """A function, and for half precision the same in float32, rounded once."""
    made = d.apply(fn, *xs)
    if xs[0].dtype not in HALVES or made.dtype != xs[0].dtype:
        return Result(made)
    kind = jnp.dtype(made.dtype)

    def wide(*arrays: Any) -> Any:
        same = (a.astype(jnp.float32) if a.dtype == kind else a for a in arrays)
        return fn(*same).astype(kind)

    return Result(made, d.apply(wide, *xs))


def each(fn: Fn, kinds: Sequence[str], arity: int) -> LoweringDraw:
    """Operands of all kinds; now and then the same one twice."""

    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(kinds)
        pool = edges(d, dtype)
        xs = [operand(d, shape, dtype, pool) for _ in range(arity)]
        if arity > 1 and d.integer(0, 3) == 0:
            xs[1] = xs[0]
        return applied(d, fn, *xs)

    return results(one)


def _powers(d: Drawn) -> Result:
    """An exponent may be an integer."""
    shape, dtype = d.pick(SHAPES), d.pick(FLOATS)
    x = operand(d, shape, dtype, edges(d, dtype))
    kind = d.pick([dtype, dtype, "int32"])
    y = operand(d, shape, kind, moderate(kind))
    return applied(d, lambda a, b: lax.pow(a, b), x, y)


def _whole_power(d: Drawn) -> Result:
    y = d.integer(-3, 5)
    kinds = NUMBERS if y >= 0 else FLOATS
    shape, dtype = d.pick(SHAPES), d.pick(kinds)
    x = operand(d, shape, dtype, edges(d, dtype))
    return applied(d, lambda a: lax.integer_pow_p.bind(a, y=y), x)


def _rounded(d: Drawn) -> Result:
    shape, dtype = d.pick(SHAPES), d.pick(FLOATS)
    x = operand(d, shape, dtype, [*edges(d, dtype), 0.5, 1.5, -2.5, 0.49999997])
    return Result(d.apply(partial(lax.round, rounding_method=d.pick([*lax.RoundingMethod])), x))


def _clamped(d: Drawn) -> Result:
    """Between scalars or arrays, either end of any provenance."""
    shape, dtype = d.pick(SHAPES), d.pick(NUMBERS)
    ends = () if d.chance() else shape
    pool = edges(d, dtype)
    low, high = (operand(d, ends, dtype, pool) for _ in range(2))
    return Result(d.apply(lax.clamp, low, operand(d, shape, dtype, pool), high, shape=shape))


def _selected(d: Drawn) -> Result:
    """A Boolean or an integer chooses, which may have been made of a Boolean; out of range too."""
    shape, dtype, count = d.pick(SHAPES), d.pick(ALL), d.integer(1, 4)
    flag = count <= 2 and d.chance()
    which = boolean(d, shape) if flag else operand(d, shape, "int32", [0, 1, 2, 3, -1, 5])
    pool = subnormal(dtype)
    cases = [operand(d, shape, dtype, pool) for _ in range(count)]
    return Result(d.apply(lambda w, *xs: lax.select_n(w, *xs), which, *cases, shape=shape))


def _converted(d: Drawn) -> Result:
    shape, source, target = d.pick(SHAPES), d.pick(ALL), d.pick(ALL)
    x = operand(d, shape, source, edges(d, source))
    return Result(d.apply(lambda a: lax.convert_element_type(a, jnp.dtype(target)), x))


def _four_bits(d: Drawn) -> Result:
    """There and back, as a file has no inputs of four bits."""
    source, four = d.pick(["int32", "int8", "float32"]), d.pick(["int4", "uint4"])
    x = operand(d, d.pick(SHAPES), source, [0, 1, 2, 3, 7])
    back = jnp.dtype(source)
    return Result(
        d.apply(
            lambda a: lax.convert_element_type(lax.convert_element_type(a, jnp.dtype(four)), back),
            x,
        )
    )


PRECISIONS = ((8, 7), (5, 10), (11, 52), (11, 60))


def _less_precise(d: Drawn) -> Result:
    shape, dtype = d.pick(SHAPES), d.pick(FLOATS)
    exponent, mantissa = d.pick(PRECISIONS)
    x = operand(d, shape, dtype, edges(d, dtype))
    return Result(d.apply(lambda a: lax.reduce_precision(a, exponent, mantissa), x))


def _unwritten_precision(d: Drawn) -> Result:
    x = d.input((3,), "float32")
    return Result(d.apply(lambda a: lax.reduce_precision(a, 4, 3), x))


BITS = {16: ("float16", "bfloat16", "int16", "uint16"), 32: ("float32", "int32", "uint32")}
BITS |= {64: ("float64", "int64", "uint64"), 8: ("int8", "uint8")}


def _bits(d: Drawn) -> Result:
    """Bits of floats are compared as such; of NaN it is open which they are."""
    kinds = BITS[d.pick(list(BITS))]
    source, target = d.pick(kinds), d.pick(kinds)
    pool = edges(d, source)
    pool = [n for n in pool if not (is_float(jnp.dtype(source)) and np.isnan(n))]
    # A choice may lose the sign of a zero, and a conversion may make a NaN.
    exact = [d.input, d.param, d.constant, d.number]
    x = d.pick(exact)(d.pick(SHAPES), source, pool)
    return Result(d.apply(lambda a: lax.bitcast_convert_type(a, jnp.dtype(target)), x))


def _bits_of_other_widths(d: Drawn) -> Result:
    x = d.input((3,), "uint32")
    return Result(d.apply(lambda a: lax.bitcast_convert_type(a, np.uint16), x))


def _shifted(fn: Fn) -> Callable[[Drawn], Result]:
    """By amounts that are known to be fewer than the bits, and others."""

    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(INTEGERS)
        x = operand(d, shape, dtype, edges(d, dtype))
        bits = np.dtype(dtype).itemsize * 8
        few = [0, 1, 3, bits - 1]
        pool = d.pick([few, [*few, bits, bits + 1, 100], edges(d, dtype)])
        by = operand(d, shape, dtype, pool) if d.chance() else d.number(shape, dtype, pool)
        return Result(d.apply(fn, x, by))

    return one


def _polynomial(d: Drawn) -> Result:
    """The coefficients begin with the constant; JAX has the operation since 0.12."""
    shape, dtype, count = d.pick(SHAPES), d.pick(["float32", "float64"]), d.integer(1, 4)
    x = operand(d, shape, dtype, moderate(dtype))
    others = [d.pick([d.number, d.input])((), dtype, moderate(dtype)) for _ in range(count)]

    def meaning(arrays: Sequence[Any], _: Any) -> list[Any]:
        a, *coefficients = arrays
        total = jnp.full_like(a, coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            total = total * a + coefficient
        return [total]

    return Result(Applied(ops.polynomial, [x, *others], meaning=meaning))


def _less_square(d: Drawn) -> Result:
    shape, dtype = d.pick(SHAPES), d.pick(["float32", "float64"])
    x = operand(d, shape, dtype, edges(d, dtype))
    return Result(
        Applied(ops.one_minus_square, [x], meaning=lambda arrays, _: [1 - arrays[0] * arrays[0]])
    )


def _sum_of_two(d: Drawn) -> Result:
    shape, dtype = d.pick(SHAPES), d.pick(NUMBERS)
    xs = [operand(d, shape, dtype, edges(d, dtype)) for _ in range(2)]
    return Result(Applied(ops.add_any, xs, meaning=lambda arrays, _: [lax.add(*arrays)]))


def _formula(
    op: Op, kinds: Sequence[str] = FLOATS, **params: Callable[[Drawn], Any]
) -> LoweringDraw:
    """An operation of the converter's, whose formula says what it is."""

    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(kinds)
        x = operand(d, shape, dtype, edges(d, dtype))
        return Result(Applied(op, [x], {name: draw(d) for name, draw in params.items()}))

    return results(one)


def _leaky(d: Drawn) -> Result:
    """One slope, or one for each entry of the last axis."""
    shape, dtype = d.pick([s for s in SHAPES if s]), d.pick(SUPPORTED)
    x = operand(d, shape, dtype, moderate(dtype))
    if d.chance():
        return Result(Applied(ops.leaky_relu, [x], {"slope": d.pick([0.25, 0.5, 2.0])}))
    last = 1 if isinstance(shape[-1], str) else shape[-1]
    slopes = d.pick([d.input, d.param, d.constant])((last,), dtype, moderate(dtype))
    return Result(Applied(ops.leaky_relu, [x, slopes]))


def _factor(d: Drawn) -> Result:
    x = d.pick([d.input, d.param])(d.pick(SHAPES), "float32", moderate("float32"))
    return Result(Applied(ops.factor, [x], {"least": 0.0, "most": 100.0}))


TOTAL = {ops.eq_to: lax.eq_to_p.bind, ops.le_to: lax.le_to_p.bind, ops.lt_to: lax.lt_to_p.bind}

ARITY = {ops.clamp: 3, ops.select_n: 3}
EXACT = frozenset(
    {ops.abs, ops.ceil, ops.floor, ops.neg, ops.sign, ops.max, ops.min, ops.sqrt, ops.is_finite}
)
"""Operations that round once, or not at all."""


def _case(op: Op) -> LoweringCase:
    units = 0 if op in EXACT else max(TOLERATED.get(op.name, (0, ""))[0], UNITS)
    draw = each(LAX[op], dtypes_of(op), 2 if op.broadcasts else 1)
    return LoweringCase(draw, units, of_one=op.name in ("logistic", "lgamma", "digamma"))


def _activation(op: Op, **params: Callable[[Drawn], Any]) -> LoweringCase:
    return LoweringCase(_formula(op, SUPPORTED, **params), 16, of_one=True)


def _number(*numbers: float) -> Callable[[Drawn], float]:
    return lambda d: d.pick(numbers)


def _simple(draw: Callable[[Drawn], Result], units: float = 0, **how: Any) -> LoweringCase:
    return LoweringCase(results(draw), units, **how)


CASES: dict[Op, Sequence[LoweringCase]] = {
    **{op: [_case(op)] for op in LAX if op in BUILTIN_RULES},
    **{op: [LoweringCase(each(fn, ALL, 2))] for op, fn in TOTAL.items()},
    ops.clz: [LoweringCase(each(lax.clz, INTEGERS, 1))],
    ops.pow: [_simple(_powers, 64)],
    ops.integer_pow: [_simple(_whole_power, UNITS)],
    ops.round: [_simple(_rounded)],
    ops.clamp: [_simple(_clamped)],
    ops.select_n: [_simple(_selected)],
    ops.convert_element_type: [
        _simple(_converted),
        _simple(_four_bits, refusal="before opset 21"),
    ],
    ops.reduce_precision: [
        _simple(_less_precise),
        _simple(_unwritten_precision, refusal="of that precision"),
    ],
    ops.bitcast_convert_type: [
        _simple(_bits),
        _simple(_bits_of_other_widths, refusal="at the same width"),
    ],
    ops.shift_left: [_simple(_shifted(lax.shift_left))],
    ops.shift_right_logical: [_simple(_shifted(lax.shift_right_logical))],
    ops.shift_right_arithmetic: [_simple(_shifted(lax.shift_right_arithmetic))],
    ops.polynomial: [_simple(_polynomial, 16, of_largest=True)],
    ops.one_minus_square: [_simple(_less_square, 4, of_one=True)],
    ops.add_any: [_simple(_sum_of_two)],
    ops.relu: [LoweringCase(_formula(ops.relu, ("float32", "float16", "int32", "int8")))],
    ops.clip: [_activation(ops.clip, low=_number(-1.0, 0.0), high=_number(1.0, 6.0))],
    ops.celu: [_activation(ops.celu, alpha=_number(1.0, 0.5))],
    ops.elu: [_activation(ops.elu, alpha=_number(1.0, 0.5))],
    ops.hard_sigmoid: [_activation(ops.hard_sigmoid, alpha=_number(0.2), beta=_number(0.5))],
    ops.swish: [_activation(ops.swish, alpha=_number(1.0, 1.702))],
    ops.gelu: [_activation(ops.gelu, approximate=lambda d: d.chance())],
    ops.leaky_relu: [_simple(_leaky, 1)],
    ops.factor: [_simple(_factor)],
}
