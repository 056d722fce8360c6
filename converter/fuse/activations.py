"""Activations for which ONNX has an operator, as JAX, Keras and users write them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.fuse.spelling import Spelling
from converter.ir import Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import scalar
from converter.targets.schemas import SINCE

Array = jax.Array

# These constants are from Klambauer et al., 2017, arXiv:1706.02515, and are the default values of
# ONNX's Selu.
SELU_ALPHA, SELU_GAMMA = 1.6732632423543772, 1.0507009873554805


def _relu6(x: Array) -> Array:
    return jnp.minimum(jnp.maximum(x, 0), 6)


def _softplus(x: Array) -> Array:
    """Compute ``log(1 + exp(x))`` without overflow."""
    return jnp.logaddexp(x, 0.0)


def _clip_by_choice(x: Array, low: Array, high: Array) -> Array:
    """Compute ``clip(x, low, high)`` with two comparisons and selections."""
    return jnp.where(x > high, high, jnp.where(x < low, low, x))


def _clip_to_unit(x: Array) -> Array:
    return jnp.clip(x, 0, 1)


def _hard_sigmoid(x: Array) -> Array:
    """Compute ``relu6(x + 3) / 6``, as ``jax.nn.hard_sigmoid`` does."""
    return _relu6(x + 3) / 6


def _elu(x: Array, alpha: Array | float) -> Array:
    """Compute ``x`` where x is positive, otherwise ``alpha * (exp(x) - 1)``, as ``jax.nn.elu``
    does."""
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


def _elu_of_parts(x: Array, alpha: Array | float) -> Array:
    """Compute ELU as a sum of a term for positive x and a term for negative x."""
    return jnp.maximum(x, 0) + alpha * jnp.expm1(jnp.minimum(x, 0))


def _are_ordered(low: float, high: float) -> bool:
    """Return True if ``low <= high``. Only then do min(max(x, low), high) and max(min(x, high),
    low) agree."""
    return low <= high


def _prelu(x: Array, slope: Array) -> Array:
    """Compute Keras' ``PReLU``: ``max(x, 0) + slope * max(-x, 0)``.

    Keras multiplies by ``-alpha``, so that ``slope`` is the negative of a leaky ReLU's slope.
    """
    return jnp.maximum(x, 0) + slope * jnp.maximum(-x, 0)


def _is_curved(alpha: float) -> bool:
    """Return True if ``alpha`` is between 1/16 and 16 in absolute value.

    If alpha is very large, ``exp(x / alpha) - 1`` loses all digits of x.
    """
    return 1 / MAX_ALPHA <= abs(alpha) <= MAX_ALPHA


MAX_ALPHA = 16.0


def _is_between_0_and_1(slope: float | None) -> bool:
    """Return True if 0 < slope < 1, so that ``max(x, slope * x)`` is a leaky ReLU.

    ``slope`` is None if the slopes are an array. The result is then False.
    """
    return slope is not None and 0 < slope < 1


SPELLINGS_OF_ACTIVATIONS = (
    Spelling(ops.hard_sigmoid, ops.min, lambda x: _clip_to_unit(x / 6 + 0.5)),
    Spelling(ops.hard_sigmoid, ops.min, lambda x: _clip_to_unit((x + 3) / 6)),
    Spelling(ops.hard_sigmoid, ops.min, lambda x: _clip_to_unit(x * (1 / 6) + 0.5)),
    Spelling(ops.hard_sigmoid, ops.min, lambda x, alpha, beta: _clip_to_unit(x * alpha + beta)),
    Spelling(
        ops.clip, ops.min, lambda x, low, high: lax.min(lax.max(x, low), high), _are_ordered, ""
    ),
    Spelling(
        ops.clip, ops.min, lambda x, low, high: lax.max(lax.min(x, high), low), _are_ordered, ""
    ),
    Spelling(ops.clip, ops.select_n, _clip_by_choice, _are_ordered, ""),
    Spelling(ops.hard_sigmoid, ops.min, _hard_sigmoid),
    Spelling(ops.hard_sigmoid, ops.min, lambda x: _relu6(x + 3) * (1 / 6)),
    Spelling(ops.hard_swish, ops.min, lambda x: x * _hard_sigmoid(x)),
    Spelling(ops.hard_swish, ops.min, lambda x: x * _relu6(x + 3) / 6),
    Spelling(ops.hard_swish, ops.min, lambda x: x * _relu6(x + 3) * (1 / 6)),
    Spelling(
        ops.softplus, ops.log1p, lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))
    ),
    Spelling(ops.softplus, ops.log1p, _softplus),
    Spelling(ops.softplus, ops.log1p, lambda x: jnp.logaddexp(0.0, x)),
    Spelling(ops.mish, ops.log1p, lambda x: x * jnp.tanh(_softplus(x)), since=SINCE["Mish"]),
    Spelling(
        ops.mish,
        ops.log1p,
        # If exp(x) overflows to infinity, the tanh is one, so that the result is still right.
        lambda x: x * jnp.tanh(jnp.log1p(jnp.exp(x))),
        since=SINCE["Mish"],
    ),
    Spelling(ops.swish, ops.logistic, lambda x: x * lax.logistic(x), since=SINCE["Swish"]),
    Spelling(
        ops.swish, ops.logistic, lambda x, alpha: x * lax.logistic(x * alpha), since=SINCE["Swish"]
    ),
    Spelling(ops.soft_sign, ops.abs, lambda x: x / (jnp.abs(x) + 1)),
    Spelling(ops.leaky_relu, ops.select_n, lambda x, slope: jnp.where(x >= 0, x, slope * x)),
    Spelling(ops.leaky_relu, ops.select_n, lambda x, slope: jnp.where(x > 0, x, slope * x)),
    Spelling(
        ops.leaky_relu,
        ops.max,
        lambda x, slope: jnp.maximum(x, slope * x),
        _is_between_0_and_1,
        "for one slope between 0 and 1",
    ),
    Spelling(ops.leaky_relu, ops.select_n, lambda x, slope: jnp.where(x < 0, slope * x, x)),
    Spelling(
        ops.leaky_relu, ops.min, lambda x, slope: jnp.maximum(x, 0) + slope * jnp.minimum(x, 0)
    ),
    Spelling(ops.leaky_relu, ops.neg, _prelu, negates_arguments=True),
    Spelling(
        ops.leaky_relu, ops.neg, lambda x, slope: jnp.maximum(x, 0) - slope * jnp.maximum(-x, 0)
    ),
    Spelling(ops.elu, ops.expm1, _elu),
    Spelling(ops.elu, ops.expm1, lambda x, alpha: jnp.where(x > 0, x, alpha * jnp.expm1(x))),
    Spelling(ops.elu, ops.expm1, _elu_of_parts),
    Spelling(ops.selu, ops.expm1, lambda x: SELU_GAMMA * _elu(x, SELU_ALPHA)),
    Spelling(ops.elu, ops.expm1, lambda x: _elu(x, 1.0)),
    Spelling(ops.elu, ops.expm1, lambda x: jnp.where(x > 0, x, jnp.expm1(x))),
    Spelling(ops.elu, ops.expm1, lambda x: _elu_of_parts(x, 1.0)),
    Spelling(ops.elu, ops.exp, lambda x: jnp.where(x > 0, x, jnp.exp(x) - 1)),
    Spelling(ops.elu, ops.exp, lambda x, alpha: jnp.where(x > 0, x, alpha * (jnp.exp(x) - 1))),
    Spelling(
        ops.celu,
        ops.expm1,
        lambda x, alpha: jnp.maximum(x, 0) + alpha * jnp.expm1(jnp.minimum(x, 0) / alpha),
        _is_curved,
        f"for alpha between 1/{MAX_ALPHA:g} and {MAX_ALPHA:g} in absolute value",
    ),
)
"""A spelling that contains another one comes after it."""

INEXACT = frozenset({ops.swish, ops.elu, ops.selu, ops.celu, ops.hard_sigmoid, ops.hard_swish})
"""Operations whose ONNX operator is less precise than JAX."""


def _softplus_of_negative(node: Node, editor: Editor) -> Value | None:
    """Replace ``log1p(exp(x))`` of float32 by softplus if the range of x is at most zero.

    Nothing overflows then. The structure is a part of ``logaddexp``. ``node`` is the logarithm.
    Return None if it is another one, or if x may be positive.
    """
    exp_node, dtype = node.inputs[0].producer_if(ops.exp), node.out.dtype
    if exp_node is None or dtype != np.float32 or known_range(exp_node.inputs[0]).high > 0:
        return None
    return editor.add(ops.softplus, exp_node.inputs, node.out.shape, dtype)


SOFTPLUS_RULES: dict[Op, Rule] = {ops.log1p: _softplus_of_negative}


def _relu(node: Node, editor: Editor) -> Value | None:
    """Replace ``max(x, 0)`` or ``max(0, x)`` of floats by ReLU. Both propagate NaN.

    ``node`` is the maximum. Return None if it is another one, if x is broadcast, or if the dtype is
    bfloat16 or no float.
    """
    for zero, x in (node.inputs, node.inputs[::-1]):
        floating = node.out.dtype.kind == "f" and dims.is_same_shape(x.shape, node.out.shape)
        if floating and scalar(zero) == 0:
            return editor.add(ops.relu, [x], x.shape, x.dtype)
    return None


RELU_RULES: dict[Op, Rule] = {ops.max: _relu}
