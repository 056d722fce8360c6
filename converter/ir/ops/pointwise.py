"""JAX's elementwise primitives."""

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
_unary = partial(define_op, elementwise=True)
_broadcasting = partial(define_op, elementwise=True, broadcasts=True)


def _integer_pow(x: Any, *, y: int) -> Any:
    """Return x to the integer power y by repeated squaring, as JAX does.

    numpy's own power rejects an exponent that the dtype cannot hold.
    """
    result, square, exponent = np.ones_like(x), x, y if y >= 0 else -y
    while exponent:
        if exponent % 2:
            result = result * square
        square, exponent = square * square, exponent // 2
    return result if y >= 0 else 1 / result


def _select_in_numpy(index: Any, *cases: Any) -> Any:
    """Return for each element the case whose number is ``index``, which may be Boolean. An index
    out of range means the nearest case."""
    result = cases[-1]
    for number in reversed(range(len(cases) - 1)):
        result = np.where(index <= number, cases[number], result)
    return result


def _clamp_in_numpy(low: Any, x: Any, high: Any) -> Any:
    """Return ``x``, limited to the range from ``low`` to ``high``."""
    return np.minimum(np.maximum(low, x), high)


# ------------------------------------------------------------------------- operands that broadcast

_additive = partial(_broadcasting, rounding=_ADDS, linear=_SUM)
_selection = partial(_broadcasting, rounding=_NONE, zero_sign_is_open=True)
_comparison = partial(_broadcasting, rounding=_NONE)

add = _additive("add", lax.add, operator.add, commutes=True)
sub = _additive("sub", lax.sub, operator.sub)
mul = _broadcasting(
    "mul",
    lax.mul,
    operator.mul,
    rounding=_ONCE,
    linear=Linear.SEPARATELY,
    can_fuse_into_sum=True,
    commutes=True,
)
div = _broadcasting(
    "div", lax.div, operator.truediv, divides=True, rounding=_ONCE, can_fuse_into_sum=True
)
max = _selection("max", lax.max, np.maximum, commutes=True)
min = _selection("min", lax.min, np.minimum, commutes=True)
pow = _broadcasting("pow", lax.pow, operator.pow, divides=True)
rem = _broadcasting("rem", lax.rem, rounding=_NONE)
atan2 = _broadcasting("atan2", lax.atan2)
nextafter = _broadcasting("nextafter", lax.nextafter, rounding=_NONE)
and_ = _broadcasting("and", lax.bitwise_and, operator.and_, commutes=True)
or_ = _broadcasting("or", lax.bitwise_or, operator.or_, commutes=True)
xor = _broadcasting("xor", lax.bitwise_xor)
eq = _comparison("eq", lax.eq, operator.eq)
ne = _comparison("ne", lax.ne, operator.ne)
lt = _comparison("lt", lax.lt, operator.lt)
le = _comparison("le", lax.le, operator.le)
gt = _comparison("gt", lax.gt, operator.gt)
ge = _comparison("ge", lax.ge, operator.ge)
shift_left = _broadcasting("shift_left", lax.shift_left)
shift_right_logical = _broadcasting("shift_right_logical", lax.shift_right_logical)
shift_right_arithmetic = _broadcasting("shift_right_arithmetic", lax.shift_right_arithmetic)
select_n = _selection("select_n", lax.select_n, _select_in_numpy, linear=_SUM)
clamp = _selection("clamp", lax.clamp, _clamp_in_numpy)

# Operations on operands of equal shapes that exist in JAX but not in ONNX.
add_any = define_op("add_any", rounding=_ADDS, linear=_SUM)
eq_to = define_op("eq_to", rounding=_NONE)
le_to = define_op("le_to", rounding=_NONE)
lt_to = define_op("lt_to", rounding=_NONE)
polynomial = define_op("polynomial")

# ------------------------------------------------------------------------------------ one operand

_whole_number = partial(_unary, rounding=_NONE, zero_sign_is_open=True)
_function = partial(_unary, rounding=_FUNCTION)

abs = _unary("abs", lax.abs, np.abs, rounding=_NONE)
ceil = _whole_number("ceil", numpy=np.ceil)
floor = _whole_number("floor", numpy=np.floor)
round = _whole_number("round")
sign = _whole_number("sign")
neg = _unary("neg", lax.neg, operator.neg, rounding=_NONE, linear=_SUM)
not_ = _unary("not", lax.bitwise_not, operator.invert)
is_finite = _unary("is_finite")
population_count = _unary("population_count")
clz = define_op("clz")
convert_element_type = _unary(
    "convert_element_type",
    lax.convert_element_type,
    lambda x, *, new_dtype: convert_as_xla(x, new_dtype),
    rounding=_ONCE,
)
reduce_precision = _unary("reduce_precision")
sqrt = _unary("sqrt", lax.sqrt, np.sqrt, rounding=_ONCE)
square = _unary("square", lax.square, lambda x: x * x, rounding=_ONCE, can_fuse_into_sum=True)
integer_pow = _unary("integer_pow", numpy=_integer_pow, rounding=_ONCE, can_fuse_into_sum=True)
exp = _function("exp", lax.exp, np.exp)
log = _function("log", numpy=np.log)
sin = _function("sin", numpy=np.sin, rounds_float64_operand=True)
cos = _function("cos", numpy=np.cos, rounds_float64_operand=True)
tan = _function("tan", rounds_float64_operand=True)
acos = _function("acos")
asin = _function("asin")
atan = _function("atan")
tanh = _function("tanh")
erf = _function("erf")
logistic = _function("logistic")
rsqrt = _function("rsqrt")
acosh = _unary("acosh")
asinh = _unary("asinh")
# The largest errors on a grid, compared with results of 50 digits, are 73 units in the last place
# near 0.414, and 120 units for log1p near -0.414.
atanh = _unary("atanh", float64_units=80)
# XLA computes these by exp(x - log(2)), in which the rounding error of the sum grows with x.
cosh = _unary("cosh")
sinh = _unary("sinh")
cbrt = _unary("cbrt")
erf_inv = _unary("erf_inv")
erfc = _unary("erfc", lax.erfc)
exp2 = _unary("exp2")
expm1 = _unary("expm1")
log1p = _unary("log1p", float64_units=128)
one_minus_square = _unary("one_minus_square")
digamma = _unary("digamma", rounding=_CANCELS)
lgamma = _unary("lgamma", rounding=_CANCELS)
# For small operands, the errors of XLA in float32 are up to 3e5 units in the last place for
# igammac, which subtracts from 1, and up to 51 for igamma, which computes an exponential of a sum.
igamma = define_op("igamma", rounding=_CANCELS)
igammac = define_op("igammac", rounding=_CANCELS)
regularized_incomplete_beta = define_op("regularized_incomplete_beta", rounding=_CANCELS)
polygamma = define_op("polygamma", rounding=_CANCELS)
