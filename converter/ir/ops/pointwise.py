"""Primitives of JAX's that treat every element alike."""

import operator
from functools import partial
from typing import Any

import numpy as np
from jax import lax

from converter.ir.dtypes import convert_as_xla
from converter.ir.op import Linear, Rounding
from converter.ir.ops.catalogue import define_op

_NONE, _ONCE, _ADDS = Rounding.NONE, Rounding.ONCE, Rounding.ADDS
_FUNCTION, _CANCELS = Rounding.FUNCTION, Rounding.CANCELS
_SUM = Linear.TOGETHER
_each = partial(define_op, elementwise=True)
_both = partial(define_op, elementwise=True, broadcasts=True)


def _integer_pow(x: Any, *, y: int) -> Any:
    """By repeated squaring, as JAX does; numpy takes no exponent that the dtype cannot hold."""
    result, square, left = np.ones_like(x), x, y if y >= 0 else -y
    while left:
        if left % 2:
            result = result * square
        square, left = square * square, left // 2
    return result if y >= 0 else 1 / result


def _chosen_in_numpy(which: Any, *cases: Any) -> Any:
    """What is out of range chooses the nearest."""
    result = cases[-1]
    for number in reversed(range(len(cases) - 1)):
        result = np.where(which <= number, cases[number], result)
    return result


def _clamped_in_numpy(low: Any, x: Any, high: Any) -> Any:
    return np.minimum(np.maximum(low, x), high)


# ------------------------------------------------------------------------- operands that broadcast

_sum = partial(_both, rounding=_ADDS, linear=_SUM)
_choice = partial(_both, rounding=_NONE, any_zero=True)
_comparison = partial(_both, rounding=_NONE)

add = _sum("add", lax.add, operator.add, commutes=True)
sub = _sum("sub", lax.sub, operator.sub)
mul = _both(
    "mul", lax.mul, operator.mul, rounding=_ONCE, linear=Linear.EACH, multiplies=True, commutes=True
)
div = _both("div", lax.div, operator.truediv, divides=True, rounding=_ONCE, multiplies=True)
max = _choice("max", lax.max, np.maximum, commutes=True)
min = _choice("min", lax.min, np.minimum, commutes=True)
pow = _both("pow", lax.pow, operator.pow, divides=True)
rem = _both("rem", lax.rem, rounding=_NONE)
atan2 = _both("atan2", lax.atan2)
nextafter = _both("nextafter", lax.nextafter, rounding=_NONE)
and_ = _both("and", lax.bitwise_and, operator.and_, commutes=True)
or_ = _both("or", lax.bitwise_or, operator.or_, commutes=True)
xor = _both("xor", lax.bitwise_xor)
eq = _comparison("eq", lax.eq, operator.eq)
ne = _comparison("ne", lax.ne, operator.ne)
lt = _comparison("lt", lax.lt, operator.lt)
le = _comparison("le", lax.le, operator.le)
gt = _comparison("gt", lax.gt, operator.gt)
ge = _comparison("ge", lax.ge, operator.ge)
shift_left = _both("shift_left", lax.shift_left)
shift_right_logical = _both("shift_right_logical", lax.shift_right_logical)
shift_right_arithmetic = _both("shift_right_arithmetic", lax.shift_right_arithmetic)
select_n = _choice("select_n", lax.select_n, _chosen_in_numpy, linear=_SUM)
clamp = _choice("clamp", lax.clamp, _clamped_in_numpy)

# JAX's alone: equal shapes only.
add_any = define_op("add_any", rounding=_ADDS, linear=_SUM)
eq_to = define_op("eq_to", rounding=_NONE)
le_to = define_op("le_to", rounding=_NONE)
lt_to = define_op("lt_to", rounding=_NONE)
polynomial = define_op("polynomial")

# ------------------------------------------------------------------------------------ one operand

_whole = partial(_each, rounding=_NONE, any_zero=True)
_function = partial(_each, rounding=_FUNCTION)

abs = _each("abs", lax.abs, np.abs, rounding=_NONE)
ceil = _whole("ceil", numpy=np.ceil)
floor = _whole("floor", numpy=np.floor)
round = _whole("round")
sign = _whole("sign")
neg = _each("neg", lax.neg, operator.neg, rounding=_NONE, linear=_SUM)
not_ = _each("not", lax.bitwise_not, operator.invert)
is_finite = _each("is_finite")
population_count = _each("population_count")
clz = define_op("clz")
convert_element_type = _each(
    "convert_element_type",
    lax.convert_element_type,
    lambda x, *, new_dtype: convert_as_xla(x, new_dtype),
    rounding=_ONCE,
)
reduce_precision = _each("reduce_precision")
sqrt = _each("sqrt", lax.sqrt, np.sqrt, rounding=_ONCE)
square = _each("square", lax.square, lambda x: x * x, rounding=_ONCE, multiplies=True)
integer_pow = _each("integer_pow", numpy=_integer_pow, rounding=_ONCE, multiplies=True)
exp = _function("exp", lax.exp, np.exp)
log = _function("log", numpy=np.log)
sin = _function("sin", numpy=np.sin)
cos = _function("cos", numpy=np.cos)
tan = _function("tan")
acos = _function("acos")
asin = _function("asin")
atan = _function("atan")
tanh = _function("tanh")
erf = _function("erf")
logistic = _function("logistic")
rsqrt = _function("rsqrt")
acosh = _each("acosh")
asinh = _each("asinh")
atanh = _each("atanh")
# XLA's are exp(x - log(2)), in which the rounding of the sum grows with x.
cosh = _each("cosh")
sinh = _each("sinh")
cbrt = _each("cbrt")
erf_inv = _each("erf_inv")
erfc = _each("erfc", lax.erfc)
exp2 = _each("exp2")
expm1 = _each("expm1")
log1p = _each("log1p")
one_minus_square = _each("one_minus_square")
digamma = _each("digamma", rounding=_CANCELS)
lgamma = _each("lgamma", rounding=_CANCELS)
