"""Primitives of JAX's that treat every element alike."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from jax import lax

from converter.graph.dtypes import converted
from converter.graph.op import Linear, Rounding
from converter.graph.ops.table import known

_NONE, _ONCE, _FUNCTION = Rounding.NONE, Rounding.ONCE, Rounding.FUNCTION
_each = partial(known, elementwise=True)
_both = partial(known, elementwise=True, broadcasts=True)


def _integer_pow(x: Any, *, y: int) -> Any:
    """By repeated squaring, as JAX does; numpy takes no exponent that the dtype cannot hold."""
    result, square, left = np.ones_like(x), x, y if y >= 0 else -y
    while left:
        if left % 2:
            result = result * square
        square, left = square * square, left // 2
    return result if y >= 0 else 1 / result


# ------------------------------------------------------------------------- operands that broadcast

add = _both(
    "add",
    formula=lax.add,
    numpy=lambda x, y: x + y,
    rounding=Rounding.ADDS,
    linear=Linear.TOGETHER,
    commutes=True,
)
sub = _both(
    "sub",
    formula=lax.sub,
    numpy=lambda x, y: x - y,
    rounding=Rounding.ADDS,
    linear=Linear.TOGETHER,
)
mul = _both(
    "mul",
    formula=lax.mul,
    numpy=lambda x, y: x * y,
    rounding=_ONCE,
    linear=Linear.EACH,
    multiplies=True,
    commutes=True,
)
div = _both(
    "div",
    formula=lax.div,
    numpy=lambda x, y: x / y,
    divides=True,
    rounding=_ONCE,
    multiplies=True,
)
max = _both(
    "max",
    formula=lax.max,
    numpy=lambda x, y: np.maximum(x, y),
    rounding=_NONE,
    any_zero=True,
    commutes=True,
)
min = _both(
    "min",
    formula=lax.min,
    numpy=lambda x, y: np.minimum(x, y),
    rounding=_NONE,
    any_zero=True,
    commutes=True,
)
pow = _both("pow", formula=lax.pow, numpy=lambda x, y: x**y, divides=True)
rem = _both("rem", formula=lax.rem, rounding=_NONE)
atan2 = _both("atan2", formula=lax.atan2)
nextafter = _both("nextafter", formula=lax.nextafter, rounding=_NONE)
and_ = _both("and", formula=lax.bitwise_and, numpy=lambda x, y: x & y)
or_ = _both("or", formula=lax.bitwise_or, numpy=lambda x, y: x | y)
xor = _both("xor", formula=lax.bitwise_xor)
eq = _both("eq", formula=lax.eq, numpy=lambda x, y: x == y)
ne = _both("ne", formula=lax.ne, numpy=lambda x, y: x != y)
lt = _both("lt", formula=lax.lt, numpy=lambda x, y: x < y)
le = _both("le", formula=lax.le, numpy=lambda x, y: x <= y)
gt = _both("gt", formula=lax.gt, numpy=lambda x, y: x > y)
ge = _both("ge", formula=lax.ge, numpy=lambda x, y: x >= y)
shift_left = _both("shift_left", formula=lax.shift_left)
shift_right_logical = _both("shift_right_logical", formula=lax.shift_right_logical)
shift_right_arithmetic = _both("shift_right_arithmetic", formula=lax.shift_right_arithmetic)
select_n = _both(
    "select_n", formula=lax.select_n, rounding=_NONE, any_zero=True, linear=Linear.TOGETHER
)
clamp = _both("clamp", formula=lax.clamp, rounding=_NONE, any_zero=True)

# JAX's alone: equal shapes only.
add_any = known("add_any", rounding=Rounding.ADDS, linear=Linear.TOGETHER)
copysign = known("copysign", rounding=_NONE)
eq_to = known("eq_to")
le_to = known("le_to")
lt_to = known("lt_to")
polynomial = known("polynomial")

# ------------------------------------------------------------------------------------ one operand

abs = _each("abs", rounding=_NONE)
ceil = _each("ceil", rounding=_NONE, any_zero=True)
floor = _each("floor", rounding=_NONE, any_zero=True)
round = _each("round", rounding=_NONE, any_zero=True)
sign = _each("sign", rounding=_NONE, any_zero=True)
neg = _each("neg", formula=lax.neg, numpy=lambda x: -x, rounding=_NONE, linear=Linear.TOGETHER)
not_ = _each("not", numpy=lambda x: ~x)
is_finite = _each("is_finite")
population_count = _each("population_count")
clz = known("clz")
convert_element_type = _each(
    "convert_element_type",
    formula=lambda x, *, new_dtype: lax.convert_element_type(x, new_dtype),
    numpy=lambda x, *, new_dtype: converted(x, new_dtype),
    rounding=_ONCE,
)
reduce_precision = _each("reduce_precision")
sqrt = _each("sqrt", numpy=lambda x: np.sqrt(x), rounding=_ONCE)
square = _each(
    "square",
    formula=lax.square,
    numpy=lambda x: x * x,
    rounding=_ONCE,
    multiplies=True,
)
integer_pow = _each("integer_pow", numpy=_integer_pow, rounding=_ONCE, multiplies=True)
exp = _each("exp", formula=lax.exp, numpy=lambda x: np.exp(x), rounding=_FUNCTION)
log = _each("log", numpy=lambda x: np.log(x), rounding=_FUNCTION)
sin = _each("sin", numpy=lambda x: np.sin(x), rounding=_FUNCTION)
cos = _each("cos", numpy=lambda x: np.cos(x), rounding=_FUNCTION)
tan = _each("tan", rounding=_FUNCTION)
acos = _each("acos", rounding=_FUNCTION)
asin = _each("asin", rounding=_FUNCTION)
atan = _each("atan", rounding=_FUNCTION)
tanh = _each("tanh", rounding=_FUNCTION)
erf = _each("erf", rounding=_FUNCTION)
logistic = _each("logistic", rounding=_FUNCTION)
rsqrt = _each("rsqrt", rounding=_FUNCTION)
acosh = _each("acosh")
asinh = _each("asinh")
atanh = _each("atanh")
# XLA's are exp(x - log(2)), in which the rounding of the sum grows with x.
cosh = _each("cosh")
sinh = _each("sinh")
cbrt = _each("cbrt")
erf_inv = _each("erf_inv")
erfc = _each("erfc", formula=lax.erfc)
exp2 = _each("exp2")
expm1 = _each("expm1")
log1p = _each("log1p")
one_minus_square = _each("one_minus_square")
digamma = _each("digamma", rounding=Rounding.CANCELS)
lgamma = _each("lgamma", rounding=Rounding.CANCELS)
