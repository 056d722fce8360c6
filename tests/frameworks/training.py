"""optax: a training step as a function of parameters, the optimiser's state and a batch."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.frameworks.rows import Bound, Row, draw

BATCH = (("B", 4), (("B",), np.int32))
MODEL = eqx.filter_eval_shape(lambda: eqx.nn.MLP(4, 5, 6, 1, key=jax.random.key(0)))


def loss(model: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
    logits = jax.vmap(model)(x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def step(optimiser: Any) -> Callable[..., Bound]:
    """Return ``bind`` for a training step. It returns the loss, the updated parameters and the
    optimiser's new state."""

    def fn(model_and_state: Any, x: jax.Array, labels: jax.Array) -> Any:
        model, state = model_and_state
        value, gradient = eqx.filter_value_and_grad(loss)(model, x, labels)
        arrays = eqx.filter(model, eqx.is_array)
        updates, state = optimiser.update(gradient, state, arrays)
        return value, eqx.filter(eqx.apply_updates(model, updates), eqx.is_array), state

    arrays = eqx.filter(MODEL, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    state = jax.eval_shape(optimiser.init, arrays)
    return lambda *_: (fn, jax.tree.map(positive, draw((MODEL, state))))


def positive(leaf: Any) -> Any:
    """Return the absolute value of an array. Second moments have to be positive; the sign of
    weights does not matter."""
    return jnp.abs(leaf) if eqx.is_array(leaf) else leaf


COSINE = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 10, 100)
ROWS = [
    Row("sgd", step(optax.sgd(0.1)), BATCH),
    Row("sgd, with momentum", step(optax.sgd(0.1, momentum=0.9, nesterov=True)), BATCH),
    Row("adam", step(optax.adam(1e-2)), BATCH),
    Row("adamw, with a schedule", step(optax.adamw(COSINE, weight_decay=0.1)), BATCH),
    Row("lion", step(optax.lion(1e-2)), BATCH),
    Row("rmsprop", step(optax.rmsprop(1e-2)), BATCH),
    Row("lamb", step(optax.lamb(1e-2)), BATCH),
    Row("adafactor", step(optax.adafactor(1e-2)), BATCH),
    Row("clip_by_global_norm", step(optax.chain(
        optax.clip_by_global_norm(0.1), optax.sgd(0.1))), BATCH),
    Row("piecewise_constant_schedule", step(optax.sgd(
        optax.piecewise_constant_schedule(0.1, {3: 0.5, 7: 0.1}))), BATCH),
]  # fmt: skip
