"""Activations that ONNX has an operator for, in the spellings of JAX, of Keras and by hand."""

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

SELU_ALPHA, SELU_GAMMA = 1.6732632423543772, 1.0507009873554805
"""Of Klambauer et al., 2017, arXiv:1706.02515; what ONNX's Selu has by default."""


def _relu6(x: Array) -> Array:
    return jnp.minimum(jnp.maximum(x, 0), 6)


def _softplus(x: Array) -> Array:
    return jnp.logaddexp(x, 0.0)


def _clip_by_choice(x: Array, low: Array, high: Array) -> Array:
    return jnp.where(x > high, high, jnp.where(x < low, low, x))


def _unit(x: Array) -> Array:
    return jnp.clip(x, 0, 1)


def _hard_sigmoid(x: Array) -> Array:
    return _relu6(x + 3) / 6


def _elu(x: Array, alpha: Array | float) -> Array:
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


def _parted_elu(x: Array, alpha: Array | float) -> Array:
    return jnp.maximum(x, 0) + alpha * jnp.expm1(jnp.minimum(x, 0))


def _ordered(low: float, high: float) -> bool:
    return low <= high


def _relus(x: Array, slope: Array) -> Array:
    """Keras' ``PReLU``."""
    return jnp.maximum(x, 0) + slope * jnp.maximum(-x, 0)


def _curves(alpha: float) -> bool:
    """``exp(x / alpha) - 1`` has no digits of x where alpha is large."""
    return 1 / MOST_ALPHA <= abs(alpha) <= MOST_ALPHA


MOST_ALPHA = 16.0


def _falls(slope: float | None) -> bool:
    """``max(x, slope * x)`` has the slope below zero only if it is less than one."""
    return slope is not None and 0 < slope < 1


SPELLINGS_OF_ACTIVATIONS = (
    Spelling(ops.hard_sigmoid, ops.min, lambda x: _unit(x / 6 + 0.5)),
    Spelling(ops.hard_sigmoid, ops.min, lambda x: _unit((x + 3) / 6)),
    Spelling(ops.hard_sigmoid, ops.min, lambda x: _unit(x * (1 / 6) + 0.5)),
    Spelling(ops.hard_sigmoid, ops.min, lambda x, alpha, beta: _unit(x * alpha + beta)),
    Spelling(ops.clip, ops.min, lambda x, low, high: lax.min(lax.max(x, low), high), _ordered),
    Spelling(ops.clip, ops.min, lambda x, low, high: lax.max(lax.min(x, high), low), _ordered),
    Spelling(ops.clip, ops.select_n, _clip_by_choice, _ordered),
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
        lambda x: x * jnp.tanh(jnp.log1p(jnp.exp(x))),  # what overflows becomes one
        since=SINCE["Mish"],
    ),
    Spelling(ops.swish, ops.logistic, lambda x: x * lax.logistic(x), since=SINCE["Swish"]),
    Spelling(
        ops.swish, ops.logistic, lambda x, alpha: x * lax.logistic(x * alpha), since=SINCE["Swish"]
    ),
    Spelling(ops.soft_sign, ops.abs, lambda x: x / (jnp.abs(x) + 1)),
    Spelling(ops.leaky_relu, ops.select_n, lambda x, slope: jnp.where(x >= 0, x, slope * x)),
    Spelling(ops.leaky_relu, ops.select_n, lambda x, slope: jnp.where(x > 0, x, slope * x)),
    Spelling(ops.leaky_relu, ops.max, lambda x, slope: jnp.maximum(x, slope * x), _falls),
    Spelling(ops.leaky_relu, ops.select_n, lambda x, slope: jnp.where(x < 0, slope * x, x)),
    Spelling(
        ops.leaky_relu, ops.min, lambda x, slope: jnp.maximum(x, 0) + slope * jnp.minimum(x, 0)
    ),
    Spelling(ops.leaky_relu, ops.neg, _relus, negative=True),
    Spelling(
        ops.leaky_relu, ops.neg, lambda x, slope: jnp.maximum(x, 0) - slope * jnp.maximum(-x, 0)
    ),
    Spelling(ops.elu, ops.expm1, _elu),
    Spelling(ops.elu, ops.expm1, lambda x, alpha: jnp.where(x > 0, x, alpha * jnp.expm1(x))),
    Spelling(ops.elu, ops.expm1, _parted_elu),
    Spelling(ops.selu, ops.expm1, lambda x: SELU_GAMMA * _elu(x, SELU_ALPHA)),
    Spelling(ops.elu, ops.expm1, lambda x: _elu(x, 1.0)),
    Spelling(ops.elu, ops.expm1, lambda x: jnp.where(x > 0, x, jnp.expm1(x))),
    Spelling(ops.elu, ops.expm1, lambda x: _parted_elu(x, 1.0)),
    Spelling(ops.elu, ops.exp, lambda x: jnp.where(x > 0, x, jnp.exp(x) - 1)),
    Spelling(ops.elu, ops.exp, lambda x, alpha: jnp.where(x > 0, x, alpha * (jnp.exp(x) - 1))),
    Spelling(
        ops.celu,
        ops.expm1,
        lambda x, alpha: jnp.maximum(x, 0) + alpha * jnp.expm1(jnp.minimum(x, 0) / alpha),
        _curves,
    ),
)
"""What has others in it comes after them."""

INEXACT = frozenset({ops.swish, ops.elu, ops.selu, ops.celu, ops.hard_sigmoid, ops.hard_swish})
"""Where the operator is less precise than what JAX does."""


def _softplus_of_negative(node: Node, editor: Editor) -> Value | None:
    """``log1p(exp(x))`` for x of at most zero, where nothing overflows: a part of ``logaddexp``."""
    made, dtype = node.inputs[0].made_by(ops.exp), node.out.dtype
    if made is None or dtype != np.float32 or known_range(made.inputs[0]).high > 0:
        return None
    return editor.add(ops.softplus, made.inputs, node.out.shape, dtype)


SOFTPLUS_RULES: dict[Op, Rule] = {ops.log1p: _softplus_of_negative}


def _relu(node: Node, editor: Editor) -> Value | None:
    """``max(x, 0)``; both pass a NaN on."""
    for zero, x in (node.inputs, node.inputs[::-1]):
        floating = node.out.dtype.kind == "f" and dims.same_shape(x.shape, node.out.shape)
        if floating and scalar(zero) == 0:
            return editor.add(ops.relu, [x], x.shape, x.dtype)
    return None


RELU_RULES: dict[Op, Rule] = {ops.max: _relu}
