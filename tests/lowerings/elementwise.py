"""Programs of elementwise operations."""

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
from tests.conformance import HALVES
from tests.lowerings.operands import boolean, edges, moderate, operand, subnormal
from tests.lowerings.prove import Applied, LoweringCase, LoweringDraw, Result
from tests.programs.primitives import TOLERATED, UNITS
from tests.rules.canonical import LAX, dtypes_of
from tests.rules.programs import ALL, FLOATS, INTEGERS, NUMBERS, Drawn, Expr, Shape

SUPPORTED = ("float32", "float16")
"""The dtypes for which recognisers emit operators."""

SHAPES: tuple[Shape, ...] = ((2, 3), (3,), (), (1, 3), (0, 3), ("n", 3), ("m",))
MAX_RESULTS = 2
"""Largest number of results of a program. Each result has separate operands."""

Fn = Callable[..., Any]


def results(one: Callable[[Drawn], Result]) -> LoweringDraw:
    """Return a draw of programs with one or more results, each drawn by `one`."""
    return lambda d: [one(d) for _ in range(d.integer(1, MAX_RESULTS))]


def cases_of(*draws: Callable[[Drawn], Result], **options: Any) -> list[LoweringCase]:
    """Return a case for each draw of a result. The options are fields of `LoweringCase`."""
    return [LoweringCase(results(draw), **options) for draw in draws]


def applied(d: Drawn, fn: Fn, *xs: Expr) -> Result:
    """Apply a function. For half precision, add the alternative that computes in float32."""
    result = d.apply(fn, *xs)
    if xs[0].dtype not in HALVES or result.dtype != xs[0].dtype:
        return Result(result)
    half_dtype = jnp.dtype(result.dtype)

    def compute_in_float32(*arrays: Any) -> Any:
        widened = (a.astype(jnp.float32) if a.dtype == half_dtype else a for a in arrays)
        return fn(*widened).astype(half_dtype)

    return Result(result, d.apply(compute_in_float32, *xs))


def function_of_operands(fn: Fn, dtypes: Sequence[str], arity: int) -> LoweringDraw:
    """Return a draw of a function of operands of all kinds, sometimes of one operand twice."""

    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(dtypes)
        pool = edges(d, dtype)
        xs = [operand(d, shape, dtype, pool) for _ in range(arity)]
        if arity > 1 and d.integer(0, 3) == 0:
            xs[1] = xs[0]
        return applied(d, fn, *xs)

    return results(one)


def _powers(d: Drawn) -> Result:
    """Draw a power, whose exponent may be an integer."""
    shape, dtype = d.pick(SHAPES), d.pick(FLOATS)
    x = operand(d, shape, dtype, edges(d, dtype))
    kind = d.pick([dtype, dtype, "int32"])
    y = operand(d, shape, kind, moderate(kind))
    return applied(d, lambda a, b: lax.pow(a, b), x, y)


def _integer_power(d: Drawn) -> Result:
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
    """Draw a clamp between scalars or arrays from any kind of source."""
    shape, dtype = d.pick(SHAPES), d.pick(NUMBERS)
    ends = () if d.chance() else shape
    pool = edges(d, dtype)
    low, high = (operand(d, ends, dtype, pool) for _ in range(2))
    return Result(d.apply(lax.clamp, low, operand(d, shape, dtype, pool), high, shape=shape))


def _selected(d: Drawn) -> Result:
    """Draw a selection by a Boolean or an integer, which may be out of range."""
    shape, dtype, count = d.pick(SHAPES), d.pick(ALL), d.integer(1, 4)
    is_boolean = count <= 2 and d.chance()
    index = boolean(d, shape) if is_boolean else operand(d, shape, "int32", [0, 1, 2, 3, -1, 5])
    pool = subnormal(dtype)
    cases = [operand(d, shape, dtype, pool) for _ in range(count)]
    return Result(d.apply(lambda w, *xs: lax.select_n(w, *xs), index, *cases, shape=shape))


def _converted(d: Drawn) -> Result:
    shape, source, target = d.pick(SHAPES), d.pick(ALL), d.pick(ALL)
    x = operand(d, shape, source, edges(d, source))
    return Result(d.apply(lambda a: lax.convert_element_type(a, jnp.dtype(target)), x))


def _four_bits(d: Drawn) -> Result:
    """Draw a conversion to four bits and back, because files have no inputs of four bits."""
    source, four = d.pick(["int32", "int8", "float32"]), d.pick(["int4", "uint4"])
    x = operand(d, d.pick(SHAPES), source, [0, 1, 2, 3, 7])
    source_dtype = jnp.dtype(source)
    return Result(
        d.apply(
            lambda a: lax.convert_element_type(
                lax.convert_element_type(a, jnp.dtype(four)), source_dtype
            ),
            x,
        )
    )


PRECISIONS = ((8, 7), (5, 10), (11, 52), (11, 60))


def _reduced_precision(d: Drawn) -> Result:
    shape, dtype = d.pick(SHAPES), d.pick(FLOATS)
    exponent, mantissa = d.pick(PRECISIONS)
    x = operand(d, shape, dtype, edges(d, dtype))
    return Result(d.apply(lambda a: lax.reduce_precision(a, exponent, mantissa), x))


def _unsupported_precision(d: Drawn) -> Result:
    x = d.input((3,), "float32")
    return Result(d.apply(lambda a: lax.reduce_precision(a, 4, 3), x))


BITS = {16: ("float16", "bfloat16", "int16", "uint16"), 32: ("float32", "int32", "uint32")}
BITS |= {64: ("float64", "int64", "uint64"), 8: ("int8", "uint8")}


def _bits(d: Drawn) -> Result:
    """Draw a reinterpretation of bits. NaN is left out, because its bits are not determined."""
    kinds = BITS[d.pick(list(BITS))]
    source, target = d.pick(kinds), d.pick(kinds)
    pool = edges(d, source)
    pool = [n for n in pool if not (is_float(jnp.dtype(source)) and np.isnan(n))]
    # Other sources are not exact: a selection may lose the sign of a zero, a conversion make a NaN.
    exact_sources = [d.input, d.param, d.constant, d.number]
    x = d.pick(exact_sources)(d.pick(SHAPES), source, pool)
    return Result(d.apply(lambda a: lax.bitcast_convert_type(a, jnp.dtype(target)), x))


def _bits_of_other_widths(d: Drawn) -> Result:
    x = d.input((3,), "uint32")
    return Result(d.apply(lambda a: lax.bitcast_convert_type(a, np.uint16), x))


def _shifted(fn: Fn) -> Callable[[Drawn], Result]:
    """Return a draw of a shift by amounts below and above the number of bits."""

    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(INTEGERS)
        x = operand(d, shape, dtype, edges(d, dtype))
        bits = np.dtype(dtype).itemsize * 8
        in_range = [0, 1, 3, bits - 1]
        pool = d.pick([in_range, [*in_range, bits, bits + 1, 100], edges(d, dtype)])
        amount = operand(d, shape, dtype, pool) if d.chance() else d.number(shape, dtype, pool)
        return Result(d.apply(fn, x, amount))

    return one


def _polynomial(d: Drawn) -> Result:
    """Draw a polynomial, with the constant coefficient first. JAX has the operation since 0.12."""
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


def _one_minus_square(d: Drawn) -> Result:
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
    op: Op, dtypes: Sequence[str] = FLOATS, **params: Callable[[Drawn], Any]
) -> LoweringDraw:
    """Return a draw of an operation of the converter that is defined by its formula."""

    def one(d: Drawn) -> Result:
        shape, dtype = d.pick(SHAPES), d.pick(dtypes)
        x = operand(d, shape, dtype, edges(d, dtype))
        return Result(Applied(op, [x], {name: draw(d) for name, draw in params.items()}))

    return results(one)


def _leaky(d: Drawn) -> Result:
    """Draw a leaky ReLU with one slope, or with a slope for each entry of the last axis."""
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


def _of_keys(primitive: Any) -> Callable[..., Any]:
    """Return a comparison of floats as in a sort of JAX, which replaces -0.0 by 0.0 before it."""
    return lambda *xs: primitive.bind(*(lax.select(x == 0, lax.full_like(x, 0), x) for x in xs))


TOTAL_ORDER = {
    ops.eq_to: _of_keys(lax.eq_to_p),
    ops.le_to: _of_keys(lax.le_to_p),
    ops.lt_to: _of_keys(lax.lt_to_p),
}

ARITY = {ops.clamp: 3, ops.select_n: 3}
EXACT = frozenset(
    {ops.abs, ops.ceil, ops.floor, ops.neg, ops.sign, ops.max, ops.min, ops.sqrt, ops.is_finite}
)
"""Operations with at most one rounding, whose results must be exact."""


def _case(op: Op) -> LoweringCase:
    units = 0 if op in EXACT else max(TOLERATED.get(op.name, (0, ""))[0], UNITS)
    draw = function_of_operands(LAX[op], dtypes_of(op), 2 if op.broadcasts else 1)
    return LoweringCase(draw, units, of_one=op.name in ("logistic", "lgamma", "digamma"))


def _activation(op: Op, **params: Callable[[Drawn], Any]) -> LoweringCase:
    return LoweringCase(_formula(op, SUPPORTED, **params), 16, of_one=True)


def _number(*numbers: float) -> Callable[[Drawn], float]:
    return lambda d: d.pick(numbers)


def _simple(draw: Callable[[Drawn], Result], units: float = 0, **options: Any) -> LoweringCase:
    return LoweringCase(results(draw), units, **options)


CASES: dict[Op, Sequence[LoweringCase]] = {
    **{op: [_case(op)] for op in LAX if op in BUILTIN_RULES},
    **{op: [LoweringCase(function_of_operands(fn, ALL, 2))] for op, fn in TOTAL_ORDER.items()},
    ops.clz: [LoweringCase(function_of_operands(lax.clz, INTEGERS, 1))],
    ops.pow: [_simple(_powers, 64)],
    ops.integer_pow: [_simple(_integer_power, UNITS)],
    ops.round: [_simple(_rounded)],
    ops.clamp: [_simple(_clamped)],
    ops.select_n: [_simple(_selected)],
    ops.convert_element_type: [
        _simple(_converted),
        _simple(_four_bits, refusal="before opset 21"),
    ],
    ops.reduce_precision: [
        _simple(_reduced_precision),
        _simple(_unsupported_precision, refusal="of that precision"),
    ],
    ops.bitcast_convert_type: [
        _simple(_bits),
        _simple(_bits_of_other_widths, refusal="at the same width"),
    ],
    ops.shift_left: [_simple(_shifted(lax.shift_left))],
    ops.shift_right_logical: [_simple(_shifted(lax.shift_right_logical))],
    ops.shift_right_arithmetic: [_simple(_shifted(lax.shift_right_arithmetic))],
    ops.polynomial: [_simple(_polynomial, 16, of_largest=True)],
    ops.one_minus_square: [_simple(_one_minus_square, 4, of_one=True)],
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
