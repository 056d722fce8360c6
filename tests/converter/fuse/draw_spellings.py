"""Random spellings of the activations that ONNX has an operator for, and of their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.converter.fuse.drawing import Draw, Pencil, moved

Formula = Callable[..., Any]
"""``(pencil, x, y, a, b)``: the pencil turns operands, ``y`` is another array, ``a`` and ``b``
are numbers."""

EDGES = (
    *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-6, -1e-6, 6e-8, -6e-8, 1.0, -1.0, 3.0, -3.0),
    *(6.0, -6.0, 9.0, -9.0, 20.0, -20.0, 88.0, -88.0, 104.0, -104.0, 2.999, -2.999, 0.5, -0.5),
)

NUMBERS = (0.01, 0.2, 0.7, 1.0, 1.5, 3.0, -0.3, -1.0, 0.0, 6.0)


def _mul(pencil: Pencil, *factors: Any) -> Any:
    one, other = pencil.order(factors)
    return one * other


def _add(pencil: Pencil, *terms: Any) -> Any:
    one, other = pencil.order(terms)
    return one + other


def _largest(pencil: Pencil, *values: Any) -> Any:
    return jnp.maximum(*pencil.order(values))


def _least(pencil: Pencil, *values: Any) -> Any:
    return jnp.minimum(*pencil.order(values))


def _six(pencil: Pencil, x: Any, three: float = 3.0, six: float = 6.0) -> Any:
    shifted = _add(pencil, x, three)
    forms = (
        lambda: jnp.clip(shifted, 0, six),
        lambda: _least(pencil, _largest(pencil, shifted, 0.0), six),
        lambda: _least(pencil, jax.nn.relu(shifted), six),
    )
    return forms[pencil.pick("six", range(3))]()


def _sixth(pencil: Pencil, x: Any, six: float = 6.0) -> Any:
    return x / six if pencil.chance("divided", 0.5) else _mul(pencil, x, 1 / six)


def _softplus(pencil: Pencil, x: Any) -> Any:
    return pencil.pick(
        "softplus",
        (jax.nn.softplus, lambda v: jnp.logaddexp(v, 0.0), lambda v: jnp.logaddexp(0.0, v)),
    )(x)


def _unit(x: Any, alpha: Any, edge: float = 0.0) -> Any:
    return jnp.where(x > edge, x, alpha * jnp.expm1(jnp.where(x > edge, 0.0, x)))


@dataclass(frozen=True)
class Family:
    """Spellings of one operation, and what is no spelling of it.

    ``takes`` says for which numbers the spelling is the operation.
    """

    forms: tuple[Formula, ...]
    misses: tuple[Formula, ...]
    takes: Callable[[float, float], bool] = field(default=lambda a, b: True)


FAMILIES = {
    "clip": Family(
        (
            lambda p, x, y, a, b: _least(p, _largest(p, x, a), b),
            lambda p, x, y, a, b: _largest(p, _least(p, x, b), a),
            lambda p, x, y, a, b: jnp.clip(x, a, b),
            lambda p, x, y, a, b: jnp.where(x > b, b, jnp.where(x < a, a, x)),
        ),
        (
            lambda p, x, y, a, b: _least(p, _largest(p, x, y), b),
            lambda p, x, y, a, b: _least(p, _least(p, x, a), b),
            lambda p, x, y, a, b: _least(p, _largest(p, x, a), y),
        ),
        lambda a, b: a <= b,
    ),
    "hard_sigmoid": Family(
        (
            lambda p, x, y, a, b: _sixth(p, _six(p, x)),
            lambda p, x, y, a, b: jnp.clip(_add(p, _sixth(p, x), 0.5), 0, 1),
            lambda p, x, y, a, b: jnp.clip(_add(p, _mul(p, x, 0.2), 0.5), 0, 1),
        ),
        (
            lambda p, x, y, a, b: _sixth(p, _six(p, x, three=3.01)),
            lambda p, x, y, a, b: _sixth(p, _six(p, x, six=5.9)),
            lambda p, x, y, a, b: _sixth(p, _six(p, x), six=6.01),
        ),
    ),
    "hard_swish": Family(
        (
            lambda p, x, y, a, b: _mul(p, x, _sixth(p, _six(p, x))),
            lambda p, x, y, a, b: _sixth(p, _mul(p, x, _six(p, x))),
        ),
        (
            lambda p, x, y, a, b: _mul(p, y, _sixth(p, _six(p, x))),
            lambda p, x, y, a, b: _mul(p, x, _sixth(p, _six(p, x, six=6.1))),
            lambda p, x, y, a, b: _mul(p, x + 1, _sixth(p, _six(p, x))),
            lambda p, x, y, a, b: _sixth(p, _mul(p, x, _six(p, x, three=2.9))),
        ),
    ),
    "softplus": Family(
        (lambda p, x, y, a, b: _softplus(p, x),),
        (
            lambda p, x, y, a, b: jnp.logaddexp(x, 0.1),
            lambda p, x, y, a, b: jnp.logaddexp(x, abs(y)),
            lambda p, x, y, a, b: jnp.logaddexp2(x, 0.0),
        ),
    ),
    "mish": Family(
        (lambda p, x, y, a, b: _mul(p, x, jnp.tanh(_softplus(p, x))),),
        (
            lambda p, x, y, a, b: _mul(p, y, jnp.tanh(_softplus(p, x))),
            lambda p, x, y, a, b: _mul(p, x, jnp.sinh(_softplus(p, -abs(x)))),
            lambda p, x, y, a, b: _mul(p, x, jnp.tanh(_softplus(p, x * 1.1))),
        ),
    ),
    "swish": Family(
        (lambda p, x, y, a, b: _mul(p, x, jax.nn.sigmoid(x)),),
        (
            lambda p, x, y, a, b: _mul(p, x, jax.nn.sigmoid(1.702 * x)),
            lambda p, x, y, a, b: _mul(p, y, jax.nn.sigmoid(x)),
        ),
    ),
    "soft_sign": Family(
        (lambda p, x, y, a, b: x / _add(p, abs(x), 1.0),),
        (
            lambda p, x, y, a, b: x / _add(p, abs(x), 1.1),
            lambda p, x, y, a, b: x / _add(p, abs(y), 1.0),
            lambda p, x, y, a, b: x / _add(p, x, 1.0),
        ),
    ),
    "leaky_relu": Family(
        (
            lambda p, x, y, a, b: jnp.where(x >= 0, x, _mul(p, x, a)),
            lambda p, x, y, a, b: jnp.where(x > 0, x, _mul(p, x, a)),
            lambda p, x, y, a, b: jax.nn.leaky_relu(x, a),
        ),
        (
            lambda p, x, y, a, b: jnp.where(x > 0.25, x, _mul(p, x, a)),
            lambda p, x, y, a, b: jnp.where(x > 0, y, _mul(p, x, a)),
            lambda p, x, y, a, b: jnp.where(y > 0, x, _mul(p, x, a)),
            lambda p, x, y, a, b: jnp.where(x > 0, _mul(p, x, a), x),
            lambda p, x, y, a, b: jnp.where(x < 0, x, _mul(p, x, a)),
        ),
        lambda a, b: a not in (0.0, 1.0, -1.0),  # which are simpler things
    ),
    "leaky_relu of max": Family(
        (lambda p, x, y, a, b: _largest(p, x, _mul(p, x, a)),),
        (
            lambda p, x, y, a, b: _largest(p, y, _mul(p, x, a)),
            lambda p, x, y, a, b: _least(p, x, _mul(p, x, a)),
        ),
        lambda a, b: 0 < a < 1,
    ),
    "elu": Family(
        (
            lambda p, x, y, a, b: jax.nn.elu(x, a),
            lambda p, x, y, a, b: _unit(x, a),
            lambda p, x, y, a, b: jax.nn.elu(x),
        ),
        (
            lambda p, x, y, a, b: _unit(x, a, 0.25),
            lambda p, x, y, a, b: jnp.where(y > 0, x, a * jnp.expm1(jnp.where(x > 0, 0.0, x))),
            lambda p, x, y, a, b: jnp.where(x > 0, x, a * jnp.expm1(jnp.where(x > 0, 1.0, x))),
        ),
        lambda a, b: a not in (0.0, -1.0),
    ),
    "selu": Family(
        (lambda p, x, y, a, b: jax.nn.selu(x),),
        (
            lambda p, x, y, a, b: 1.04 * _unit(x, 1.6732632423543772),
            lambda p, x, y, a, b: 1.0507009873554805 * _unit(x, 1.7),
        ),
    ),
    "celu": Family(
        (
            lambda p, x, y, a, b: jax.nn.celu(x, a),
            lambda p, x, y, a, b: jnp.maximum(x, 0) + a * jnp.expm1(jnp.minimum(x, 0) / a),
        ),
        (
            lambda p, x, y, a, b: jnp.maximum(x, 0) + a * jnp.expm1(jnp.minimum(x, 0) / (a * 1.1)),
            lambda p, x, y, a, b: jnp.maximum(y, 0) + a * jnp.expm1(jnp.minimum(x, 0) / a),
            lambda p, x, y, a, b: jnp.maximum(x, 0.1) + a * jnp.expm1(jnp.minimum(x, 0) / a),
        ),
        lambda a, b: a not in (0.0, 1.0, -1.0),
    ),
}


def activation(pencil: Pencil) -> Draw:
    """One spelling or near miss, on edges among ordinary numbers."""
    name = pencil.pick("family", [*FAMILIES])
    family, op = FAMILIES[name], name.split(" ", maxsplit=1)[0]
    a, b = (pencil.pick(n, NUMBERS) for n in "ab")
    miss = pencil.chance("near", 0.3)
    table = family.misses if miss else family.forms
    formula, seed = table[pencil.pick("form", range(len(table)))], int(pencil.rng.integers(1 << 30))
    dtype = pencil.pick("dtype", ("float32", "float32", "float16"))

    def fn(x, y):
        return formula(Pencil(np.random.default_rng(seed)), x, y, a, b)

    found = int(not miss) if family.takes(a, b) else None
    x = _numbers(pencil, dtype)
    f, inputs = moved(pencil, fn, [x, pencil.array(x.shape, dtype)])
    return Draw(pencil, f, inputs, op, found)


def _numbers(pencil: Pencil, dtype: str) -> jax.Array:
    """Every edge, at random places."""
    numbers = [*EDGES, *pencil.rng.uniform(-7, 7, 45 - len(EDGES))]
    return jnp.asarray(pencil.rng.permutation(numbers).reshape(3, 5, 3), dtype)
