"""The table of activations for which ONNX has an operator: all facts about each in one row.

The operations, their recognisers and deviations, and tests are made from the rows. Facts about
runtimes are in ``converter/targets``.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir.activation_row import ActivationForm, ActivationRow, Condition
from converter.ir.op import Formula
from converter.ir.ops import pointwise

Array = jax.Array

# ------------------------------------------------------------------------------------------- clips

_ARE_ORDERED = Condition(lambda low, high: low <= high, "", np.nan)
"""low <= high. Only under this condition do min(max(x, low), high) and max(min(x, high), low)
agree."""

CLIP = ActivationRow(
    "clip",
    lambda x, *, low, high: jnp.minimum(jnp.maximum(x, low), high),
    forms=(
        ActivationForm(
            pointwise.min, lambda x, low, high: lax.min(lax.max(x, low), high), _ARE_ORDERED
        ),
        ActivationForm(
            pointwise.min, lambda x, low, high: lax.max(lax.min(x, high), low), _ARE_ORDERED
        ),
        ActivationForm(
            pointwise.select_n,
            lambda x, low, high: jnp.where(x > high, high, jnp.where(x < low, low, x)),
            _ARE_ORDERED,
        ),
    ),
    numbers={"low": -1.5, "high": 2.0},
    examples=(jax.nn.relu6, lambda x: jnp.maximum(jnp.minimum(2.0, x), -1.5)),
    near_misses={
        "bounds in the wrong order": lambda x: jnp.minimum(jnp.maximum(x, 2.0), -1.5),
        "an array as bound": lambda x: jnp.minimum(jnp.maximum(x, x[:1]), 6),
    },
)


def _relu6(x: Array) -> Array:
    return jnp.minimum(jnp.maximum(x, 0), 6)


def _clip_to_unit(x: Array) -> Array:
    return jnp.clip(x, 0, 1)


def _hard_sigmoid(x: Array, *, alpha: float = 1 / 6, beta: float = 0.5) -> Array:
    """Return alpha * x + beta, clipped to 0 and 1."""
    return jnp.clip(x * alpha + beta, 0, 1)


HARD_SIGMOID = ActivationRow(
    "hard_sigmoid",
    _hard_sigmoid,
    "HardSigmoid",
    forms=(
        ActivationForm(pointwise.min, lambda x: _clip_to_unit(x / 6 + 0.5)),
        ActivationForm(pointwise.min, lambda x: _clip_to_unit((x + 3) / 6)),
        ActivationForm(pointwise.min, lambda x: _clip_to_unit(x * (1 / 6) + 0.5)),
        ActivationForm(pointwise.min, lambda x, alpha, beta: _clip_to_unit(x * alpha + beta)),
        ActivationForm(pointwise.min, lambda x: _relu6(x + 3) / 6, contains="clip"),
        ActivationForm(pointwise.min, lambda x: _relu6(x + 3) * (1 / 6), contains="clip"),
    ),
    numbers={"alpha": 0.2, "beta": 0.5},
    examples=(jax.nn.hard_sigmoid, lambda x: jnp.clip(0.2 * x + 0.5, 0, 1)),
    near_misses={
        "another divisor": lambda x: jnp.clip(x + 3, 0, 6) / 6.1,
        "another bound": lambda x: jnp.clip(x + 3, 0, 5.9) / 6,
        "another summand": lambda x: jnp.clip(x + 3.1, 0, 6) / 6,
    },
    is_inexact=True,
    deviation="a hard sigmoid is off by up to 1e-7, which next to -3 is all of it",
    fails_verification=True,
)

HARD_SWISH = ActivationRow(
    "hard_swish",
    jax.nn.hard_swish,
    "HardSwish",
    forms=(
        ActivationForm(pointwise.min, lambda x: x * (_relu6(x + 3) / 6)),
        ActivationForm(pointwise.min, lambda x: x * _relu6(x + 3) / 6),
        ActivationForm(pointwise.min, lambda x: x * _relu6(x + 3) * (1 / 6)),
    ),
    examples=(
        jax.nn.hard_swish,
        lambda x: x * (jax.nn.relu6(x + 3.0) * (1 / 6)),
        lambda x: jax.nn.hard_sigmoid(x) * x,
        lambda x: x * jnp.clip(x / 6 + 0.5, 0, 1),
    ),
    near_misses={
        "another summand": lambda x: x * jnp.clip(x + 3.1, 0, 6) / 6,
        "of another operand": lambda x: x * jnp.clip(x[:1] + 3, 0, 6) / 6,
    },
    is_inexact=True,
    deviation=(
        "a hard swish is off by up to 1e-7, which next to -3 is all of it, and is finite where six "
        "times its operand is not"
    ),
    fails_verification=True,
)

# ------------------------------------------------------------------------- logarithms and sigmoids


def _softplus(x: Array) -> Array:
    """Compute ``log(1 + exp(x))`` without overflow."""
    return jnp.logaddexp(x, 0.0)


SOFTPLUS = ActivationRow(
    "softplus",
    jax.nn.softplus,
    "Softplus",
    # `converter/fuse/activations.py` also recognises log1p(exp(x)) for x that cannot be positive.
    forms=(
        ActivationForm(
            pointwise.log1p, lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))
        ),
        ActivationForm(pointwise.log1p, _softplus),
        ActivationForm(pointwise.log1p, lambda x: jnp.logaddexp(0.0, x)),
    ),
    examples=(
        jax.nn.softplus,
        lambda x: jnp.log1p(jnp.exp(-jnp.abs(x))) + jnp.maximum(x, 0),
    ),
    near_misses={
        "may overflow": lambda x: jnp.log1p(jnp.exp(x)),
        "of the absolute value": lambda x: jnp.log1p(jnp.exp(abs(x))),
    },
)

MISH = ActivationRow(
    "mish",
    jax.nn.mish,
    "Mish",
    forms=(
        ActivationForm(pointwise.log1p, lambda x: x * jnp.tanh(_softplus(x))),
        # If exp(x) overflows to infinity, the tanh is one, so that the result is still right.
        ActivationForm(pointwise.log1p, lambda x: x * jnp.tanh(jnp.log1p(jnp.exp(x)))),
    ),
    examples=(jax.nn.mish, lambda x: jnp.tanh(jax.nn.softplus(x)) * x),
    near_misses={"another factor": lambda x: jnp.tanh(jax.nn.softplus(x)) * (x + 1)},
)

SWISH = ActivationRow(
    "swish",
    lambda x, *, alpha=1.0: x * lax.logistic(x * alpha),
    "Swish",
    forms=(
        ActivationForm(pointwise.logistic, lambda x: x * lax.logistic(x)),
        ActivationForm(pointwise.logistic, lambda x, alpha: x * lax.logistic(x * alpha)),
    ),
    numbers={"alpha": 1.702},
    examples=(jax.nn.silu, lambda x: x * jax.nn.sigmoid(1.702 * x)),
    is_inexact=True,
)

SOFT_SIGN = ActivationRow(
    "soft_sign",
    jax.nn.soft_sign,
    "Softsign",
    forms=(ActivationForm(pointwise.abs, lambda x: x / (jnp.abs(x) + 1)),),
    examples=(jax.nn.soft_sign, lambda x: x / (1 + abs(x))),
    near_misses={
        "another summand": lambda x: x / (1.1 + abs(x)),
        "of another operand": lambda x: x / (1 + abs(x[:1])),
    },
)

# --------------------------------------------------------------------- linear units with two slopes

RELU = ActivationRow("relu", lambda x: jnp.maximum(x, 0), examples=(jax.nn.relu,))
"""A function recognises it last, because other activations contain it."""


def _leaky_relu(x: Array, slopes: Array | None = None, *, slope: float = 1) -> Array:
    """Return x, multiplied by the slope where x is negative.

    ``slopes`` are slopes per channel, in a shape that is broadcast to ``x``, such as [C, 1, 1].
    They are used in place of ``slope``.
    """
    return jnp.where(x >= 0, x, x * (slope if slopes is None else slopes))


def _prelu(x: Array, slope: Array) -> Array:
    """Compute Keras' ``PReLU``: ``max(x, 0) + slope * max(-x, 0)``.

    Keras multiplies by ``-alpha``, so that ``slope`` is the negative of a leaky ReLU's slope.
    """
    return jnp.maximum(x, 0) + slope * jnp.maximum(-x, 0)


# max(x, slope * x) is a leaky ReLU only for slopes between 0 and 1. An array of slopes, for which
# the argument is None, is not accepted.
_IS_BETWEEN_0_AND_1 = Condition(
    lambda slope: slope is not None and 0 < slope < 1, "for one slope between 0 and 1", 2.0
)

LEAKY_RELU = ActivationRow(
    "leaky_relu",
    _leaky_relu,
    "LeakyRelu",
    alternative_operator="PRelu",
    forms=(
        ActivationForm(pointwise.select_n, lambda x, slope: jnp.where(x >= 0, x, slope * x)),
        ActivationForm(pointwise.select_n, lambda x, slope: jnp.where(x > 0, x, slope * x)),
        ActivationForm(
            pointwise.max, lambda x, slope: jnp.maximum(x, slope * x), _IS_BETWEEN_0_AND_1
        ),
        ActivationForm(pointwise.select_n, lambda x, slope: jnp.where(x < 0, slope * x, x)),
        ActivationForm(
            pointwise.min, lambda x, slope: jnp.maximum(x, 0) + slope * jnp.minimum(x, 0)
        ),
        ActivationForm(pointwise.neg, _prelu, negates_arguments=True),
        ActivationForm(
            pointwise.neg, lambda x, slope: jnp.maximum(x, 0) - slope * jnp.maximum(-x, 0)
        ),
    ),
    numbers={"slope": 0.2},
    examples=(jax.nn.leaky_relu, lambda x: jax.nn.relu(x) - 0.2 * jax.nn.relu(-x)),
    near_misses={
        "a slope above one": lambda x: jnp.maximum(x, 1.5 * x),
        "a minimum": lambda x: jnp.minimum(x, 0.2 * x),
        "another threshold": lambda x: jnp.where(x > 0.25, x, 0.2 * x),
        "a choice by another operand": lambda x: jnp.where(x[:1] > 0, x, 0.2 * x),
    },
)

# ------------------------------------------------------------------------ exponential linear units

NEXT_TO_ZERO = "an exponential linear unit next to zero is off by up to 1e-7 times its scale"
"""Deviation of operators that compute exp(x) - 1, where JAX computes expm1(x)."""


def _elu(x: Array, *, alpha: float = 1.0) -> Array:
    """Return x where it is positive, else alpha * (exp(x) - 1).

    The result is precise near 0, whereas ONNX's Elu loses precision there.
    """
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0)))


def _elu_by_two_choices(x: Array, alpha: Array | float) -> Array:
    """Compute ELU as ``jax.nn.elu`` does."""
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


def _elu_by_choice(x: Array, alpha: Array | float) -> Array:
    return jnp.where(x > 0, x, alpha * jnp.expm1(x))


def _elu_of_parts(x: Array, alpha: Array | float) -> Array:
    """Compute ELU as a sum of a term for positive x and a term for negative x."""
    return jnp.maximum(x, 0) + alpha * jnp.expm1(jnp.minimum(x, 0))


def _elu_by_exp(x: Array, alpha: Array | float) -> Array:
    return jnp.where(x > 0, x, alpha * (jnp.exp(x) - 1))


def _of_alpha_1(formula: Formula) -> Formula:
    """Return the formula of an exponential linear unit without its argument ``alpha``."""
    return lambda x: formula(x, 1.0)


def _unit(x: Array, edge: float = 0.0, at: float = 0.0) -> Array:
    """Return ELU with another threshold, or with another operand for positive x."""
    return jnp.where(x > edge, x, jnp.expm1(jnp.where(x > edge, at, x)))


ELU = ActivationRow(
    "elu",
    _elu,
    "Elu",
    forms=(
        ActivationForm(pointwise.expm1, _elu_by_two_choices),
        ActivationForm(pointwise.expm1, _elu_by_choice),
        ActivationForm(pointwise.expm1, _elu_of_parts),
        ActivationForm(pointwise.expm1, _of_alpha_1(_elu_by_two_choices)),
        ActivationForm(pointwise.expm1, _of_alpha_1(_elu_by_choice)),
        ActivationForm(pointwise.expm1, _of_alpha_1(_elu_of_parts)),
        ActivationForm(pointwise.exp, _of_alpha_1(_elu_by_exp)),
        ActivationForm(pointwise.exp, _elu_by_exp),
    ),
    numbers={"alpha": 0.7},
    examples=(jax.nn.elu, lambda x: jax.nn.elu(x, 0.7), jax.nn.celu),
    near_misses={
        "another threshold": lambda x: _unit(x, edge=0.5),
        "another operand": lambda x: _unit(x, at=1.0),
    },
    is_inexact=True,
    deviation=NEXT_TO_ZERO,
    absolute_functions=(pointwise.expm1,),
)

# These constants are from Klambauer et al., 2017, arXiv:1706.02515, and are the default values of
# ONNX's Selu.
SELU_ALPHA, SELU_GAMMA = 1.6732632423543772, 1.0507009873554805

SELU = ActivationRow(
    "selu",
    lambda x: SELU_GAMMA * _elu(x, alpha=SELU_ALPHA),
    "Selu",
    forms=(
        ActivationForm(pointwise.expm1, lambda x: SELU_GAMMA * _elu_by_two_choices(x, SELU_ALPHA)),
    ),
    examples=(jax.nn.selu,),
    near_misses={
        "another scale": lambda x: 1.04 * jnp.where(x > 0, x, SELU_ALPHA * _unit(x)),
        "another alpha": lambda x: SELU_GAMMA * jnp.where(x > 0, x, 1.7 * _unit(x)),
    },
    is_inexact=True,
    deviation=NEXT_TO_ZERO,
    absolute_functions=(pointwise.expm1,),
)

MAX_ALPHA = 16.0
"""If alpha is very large, ``exp(x / alpha) - 1`` loses all digits of x."""

_IS_CURVED = Condition(
    lambda alpha: 1 / MAX_ALPHA <= abs(alpha) <= MAX_ALPHA,
    f"for alpha between 1/{MAX_ALPHA:g} and {MAX_ALPHA:g} in absolute value",
    20.0,
)


def _celu(x: Array, *, alpha: float = 1.0) -> Array:
    """Return max(0, x) + min(0, alpha * (exp(x / alpha) - 1)). It is precise near 0."""
    return jnp.maximum(x, 0) + alpha * jnp.expm1(jnp.minimum(x, 0) / alpha)


CELU = ActivationRow(
    "celu",
    _celu,
    "Celu",
    forms=(ActivationForm(pointwise.expm1, lambda x, alpha: _celu(x, alpha=alpha), _IS_CURVED),),
    numbers={"alpha": 0.7},
    examples=(lambda x: jax.nn.celu(x, 0.7),),
    near_misses={
        "another divisor": lambda x: jnp.maximum(x, 0) + 0.7 * jnp.expm1(jnp.minimum(x, 0) / 0.8)
    },
    is_inexact=True,
    deviation=NEXT_TO_ZERO,
    absolute_functions=(pointwise.expm1,),
)

# -------------------------------------------------------------------------------------------- GELU


SQRT_HALF, SQRT_2_OVER_PI, CUBIC = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715
"""The constants of GELU [Hendrycks & Gimpel, arXiv:1606.08415]."""


def _near_gelu(
    inner: float = 1.0, half: float = 0.5, one: float = 1.0, cubic: float = 1.0
) -> Formula:
    """Return GELU by tanh, with constants that may be wrong."""
    root, cube = SQRT_2_OVER_PI * inner, CUBIC * cubic
    return lambda x, y: half * x * (one + jnp.tanh(root * (x + cube * x**3)))


GELU = ActivationRow(
    "gelu",
    jax.nn.gelu,
    "Gelu",
    forms=(
        ActivationForm(
            pointwise.erf,
            lambda x: x / 2 * (1 + lax.erf(x * SQRT_HALF)),
            has_any_order=True,
            params={"approximate": False},
        ),
        ActivationForm(
            pointwise.erfc,
            lambda x: x / 2 * lax.erfc(-x * SQRT_HALF),
            has_any_order=True,
            params={"approximate": False},
        ),
        ActivationForm(
            pointwise.tanh,
            lambda x: x / 2 * (1 + jnp.tanh(SQRT_2_OVER_PI * (x + CUBIC * x**3))),
            has_any_order=True,
            params={"approximate": True},
        ),
    ),
    examples=(
        lambda x: jax.nn.gelu(x, approximate=False),
        lambda x: jax.nn.gelu(x, approximate=True),
    ),
    near_misses={
        "gelu, another root": _near_gelu(inner=1.1),
        "gelu, another half": _near_gelu(half=0.55),
        "gelu, another one": _near_gelu(one=1.1),
        "gelu, another cube": _near_gelu(cubic=1.1),
        "gelu of two": lambda x, y: y * 0.5 * lax.erfc(-x * 0.5**0.5),
        "gelu of a sum": lambda x, y: 0.5 * x * (1 + jnp.tanh(SQRT_2_OVER_PI * (x + x[:1]))),
        "gelu, shifted": lambda x, y: (x + 1) * 0.5 * (1 + lax.erf(x / 2**0.5)),
        "gelu, huge": lambda x, y: x * 1e20 * (1 + lax.erf(x / 2**0.5)) * 5e-21,
        "gelu, a summand that cancels": lambda x, y: x / 2 * (1 + lax.erf((x + y - y) / 2**0.5)),
    },
    deviation="a GELU is off by up to 1e-6, which far below zero is all of it",
    absolute_functions=(pointwise.erfc,),
)
