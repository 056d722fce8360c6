"""Reference formulas in JAX of the recurrent operators of ONNX.

    x: [T, B, I]    w: [1, gates * H, I]    r: [1, gates * H, H]    b: [1, 2 * gates * H]
    initial states: [1, B, H], zero if they are left out

T is the number of steps, B is the batch size, I is the width of the input and H is the width of the
state. ``b`` has the biases of the input, then those of the state. The results are the states after
every step, [T, 1, B, H], and the states after the last step, [1, B, H]. With ``reverse``, the steps
run from the last entry of ``x`` to the first, and the state after a step is at the index of that
entry.
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
    """Return the states of an LSTM after each step, then the last state and the last cell.

    Cell and state are c' = f * c + i * g and h' = o * act(c'). The gates are in the order i, o, f,
    g. ``first`` are the initial state and cell. ``activations`` are the names of the activations of
    the gates i, o and f, of g, and of the cell.
    """
    f, g, h = (ACTIVATION_FORMULAS[name] for name in activations)

    def step(states: tuple[Array, ...], wx: Array) -> tuple[Array, ...]:
        state, cell = states
        i, o, forget, new = jnp.split(wx + state @ r[0].T, 4, axis=-1)
        cell = f(forget) * cell + f(i) * g(new)
        return f(o) * h(cell), cell

    return _scan_steps(
        step, x, w, b[0].reshape(2, -1).sum(0), _initial_states(x, r, first, 2), reverse
    )


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
    """Return the states of a GRU after each step, then the last state.

    The state is h' = (1 - z) * n + z * h. The gates are in the order z, r, n. ``first`` is the
    initial state. ``activations`` are the names of the activation of z and r, and of the activation
    of n. With ``reset_last``, r is multiplied with the product of the state and its matrix, plus
    bias; otherwise with the state.
    """
    f, g = (ACTIVATION_FORMULAS[name] for name in activations)
    size = r.shape[-1]
    bias, state_bias = jnp.split(b[0], 2)

    def step(states: tuple[Array, ...], wx: Array) -> tuple[Array, ...]:
        (state,) = states
        state_part = state @ r[0, : 2 * size].T + state_bias[: 2 * size]
        z, reset = jnp.split(f(wx[:, : 2 * size] + state_part), 2, axis=-1)
        rows, new_bias = r[0, 2 * size :].T, state_bias[2 * size :]
        inner = (
            reset * (state @ rows + new_bias) if reset_last else (reset * state) @ rows + new_bias
        )
        return ((1 - z) * g(wx[:, 2 * size :] + inner) + z * state,)

    return _scan_steps(step, x, w, bias, _initial_states(x, r, first, 1), reverse)


def rnn(
    x: Array, w: Array, r: Array, b: Array, *first: Array, reverse: bool, activations: Sequence[str]
) -> tuple[Array, ...]:
    """Return the states h' = act(x w + h r + b) after each step, then the last state.

    ``first`` is the initial state. ``activations`` contains the name of the one activation.
    """
    (f,) = (ACTIVATION_FORMULAS[name] for name in activations)

    def step(states: tuple[Array, ...], wx: Array) -> tuple[Array, ...]:
        return (f(wx + states[0] @ r[0].T),)

    return _scan_steps(
        step, x, w, b[0].reshape(2, -1).sum(0), _initial_states(x, r, first, 1), reverse
    )


def _initial_states(x: Array, r: Array, first: Sequence[Array], count: int) -> tuple[Array, ...]:
    """Return the initial states ``first`` without their first axis, or ``count`` states of
    zeros."""
    zeros = jnp.zeros((x.shape[1], r.shape[-1]), x.dtype)
    return tuple(v[0] for v in first) or (zeros,) * count


def _scan_steps(
    step: RecurrentStep, x: Array, w: Array, bias: Array, first: tuple[Array, ...], reverse: bool
) -> tuple[Array, ...]:
    """Scan ``step`` over the rows of x w + bias.

    ``step(states, row)`` returns the next states. ``first`` are the initial states. Return the
    first state after each step, then all states after the last step.
    """

    def turn(states: tuple[Array, ...], wx: Array) -> tuple[tuple[Array, ...], Array]:
        states = step(states, wx)
        return states, states[0]

    last, all_states = lax.scan(turn, first, x @ w[0].T + bias, reverse=reverse)
    return (all_states[:, None], *(v[None] for v in last))
