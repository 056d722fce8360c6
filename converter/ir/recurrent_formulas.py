"""What the recurrent operators mean, as formulas in JAX.

    x: [T, B, I]    w: [1, gates * H, I]    r: [1, gates * H, H]    b: [1, 2 * gates * H]
    initial states: [1, B, H], zero if they are left out

They give the states after each round, [T, 1, B, H], and after the last, [1, B, H].
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
RecurrentStep = Callable[[tuple[Array, ...], Array], tuple[Array, ...]]

ACTIVATION_FORMULAS: dict[str, Callable[[Array], Array]] = {
    "logistic": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "hard_sigmoid": jax.nn.hard_sigmoid,
}


def lstm(
    x: Array, w: Array, r: Array, b: Array, *first: Array, reverse: bool, activations: Sequence[str]
) -> tuple[Array, ...]:
    """c' = f * c + i * g and h' = o * act(c'); gates in the order i, o, f, g."""
    f, g, h = (ACTIVATION_FORMULAS[name] for name in activations)

    def step(states: tuple[Array, ...], wx: Array) -> tuple[Array, ...]:
        state, cell = states
        i, o, forget, new = jnp.split(wx + state @ r[0].T, 4, axis=-1)
        cell = f(forget) * cell + f(i) * g(new)
        return f(o) * h(cell), cell

    return _every_round(step, x, w, b[0].reshape(2, -1).sum(0), _states(x, r, first, 2), reverse)


def gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array,
    *first: Array,
    reverse: bool,
    activations: Sequence[str],
    reset_last: bool,
) -> tuple[Array, ...]:
    """h' = (1 - z) * n + z * h; gates in the order z, r, n."""
    f, g = (ACTIVATION_FORMULAS[name] for name in activations)
    size = r.shape[-1]
    bias, own = jnp.split(b[0], 2)

    def step(states: tuple[Array, ...], wx: Array) -> tuple[Array, ...]:
        (state,) = states
        of_state = state @ r[0, : 2 * size].T + own[: 2 * size]
        z, reset = jnp.split(f(wx[:, : 2 * size] + of_state), 2, axis=-1)
        rows, bias_of_state = r[0, 2 * size :].T, own[2 * size :]
        inner = (
            reset * (state @ rows + bias_of_state)
            if reset_last
            else (reset * state) @ rows + bias_of_state
        )
        return ((1 - z) * g(wx[:, 2 * size :] + inner) + z * state,)

    return _every_round(step, x, w, bias, _states(x, r, first, 1), reverse)


def rnn(
    x: Array, w: Array, r: Array, b: Array, *first: Array, reverse: bool, activations: Sequence[str]
) -> tuple[Array, ...]:
    """h' = act(x w + h r + b)."""
    (f,) = (ACTIVATION_FORMULAS[name] for name in activations)

    def step(states: tuple[Array, ...], wx: Array) -> tuple[Array, ...]:
        return (f(wx + states[0] @ r[0].T),)

    return _every_round(step, x, w, b[0].reshape(2, -1).sum(0), _states(x, r, first, 1), reverse)


def _states(x: Array, r: Array, first: Sequence[Array], count: int) -> tuple[Array, ...]:
    zeros = jnp.zeros((x.shape[1], r.shape[-1]), x.dtype)
    return tuple(v[0] for v in first) or (zeros,) * count


def _every_round(
    step: RecurrentStep, x: Array, w: Array, bias: Array, first: tuple[Array, ...], reverse: bool
) -> tuple[Array, ...]:
    def turn(states: tuple[Array, ...], wx: Array) -> tuple[tuple[Array, ...], Array]:
        states = step(states, wx)
        return states, states[0]

    last, every = lax.scan(turn, first, x @ w[0].T + bias, reverse=reverse)
    return (every[:, None], *(v[None] for v in last))
