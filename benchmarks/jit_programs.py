"""Programs for `against_jit.py`: numerical programs and networks.

Each is a plain JAX function with inputs of two sizes. Inputs are drawn from a seed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import optax
from jax import lax
from jax.experimental.ode import odeint

import zoo

Array: TypeAlias = jax.Array
Make: TypeAlias = Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]]

KEY = jax.random.key(0)
WIDTH = 64


@dataclass(frozen=True)
class Program:
    """Program to measure.

    ``make(size)`` returns the function and its inputs. ``sizes`` are a small and a realistic size.
    """

    group: str
    name: str
    make: Make
    sizes: tuple[int, int]


def draw_normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def draw_positive(*shape: int) -> np.ndarray:
    return np.abs(draw_normal(*shape)) + np.float32(0.1)


def draw_integers(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, high, shape).astype(np.int32)


def function_of(fn: Callable[..., Any], *draws: Callable[[int], Any]) -> Make:
    """Return a program of a function whose inputs are drawn for a size."""
    return lambda n: (fn, tuple(draw(n) for draw in draws))


def draw_square(n: int) -> np.ndarray:
    return draw_normal(n, n) + np.float32(n) * np.eye(n, dtype=np.float32)


def make_programs(group: str, sizes: tuple[int, int], table: Mapping[str, Make]) -> list[Program]:
    return [Program(group, name, make, sizes) for name, make in table.items()]


# ----------------------------------------------------------------------------------------- loops


def collatz(x: Array) -> Array:
    def step(state: Any) -> Any:
        x, n = state
        return jnp.where(x % 2 == 0, x // 2, 3 * x + 1), n + 1

    return lax.while_loop(lambda s: s[0] > 1, step, (x, 0))[1]


def write_by_index(x: Array) -> Array:
    return lax.fori_loop(0, x.shape[0], lambda i, y: y.at[i].set(x[i] * 2 + i), jnp.zeros_like(x))


LOOPS = make_programs("loops", (8, 1024), {
    "collatz": function_of(collatz, lambda n: np.int32(n - 1)),
    "written by index": function_of(write_by_index, draw_normal),
})  # fmt: skip


# ----------------------------------------------------------------------------------------- draws


def random_program(sample: Callable[[Array, int], Array]) -> Make:
    """Return a program whose input is the seed of a key. The sample's shape is a part of the
    program."""
    return lambda n: (lambda seed: sample(jax.random.key(seed), n), (np.uint32(3),))


def key_step(key: Array, _: Any) -> tuple[Array, Array]:
    key, subkey = jax.random.split(key)
    return key, jax.random.normal(subkey, (4,))


DRAWS = make_programs("draws", (4, 4096), {
    "normal": random_program(lambda k, n: jax.random.normal(k, (n,))),
    "permutation": random_program(lambda k, n: jax.random.permutation(k, n)),
    "categorical": random_program(lambda k, n: jax.random.categorical(k, jnp.zeros((n, 10)))),
    "gamma": random_program(lambda k, n: jax.random.gamma(k, 2.0, (n,))),
    "keys of a loop": random_program(
        lambda k, n: lax.scan(key_step, k, None, length=min(n, 32))[1]),
})  # fmt: skip


# -------------------------------------------------------------------------------- linear algebra


def draw_symmetric(n: int) -> np.ndarray:
    a = draw_normal(n, n)
    return a @ a.T / np.float32(n) + np.eye(n, dtype=np.float32)


MATRICES = make_programs("linear algebra", (4, 32), {
    "svd": function_of(jnp.linalg.svd, draw_square),
    "eigh": function_of(jnp.linalg.eigh, draw_symmetric),
    "qr": function_of(jnp.linalg.qr, draw_square),
    "cholesky": function_of(jnp.linalg.cholesky, draw_symmetric),
    "solve": function_of(jnp.linalg.solve, draw_square, draw_normal),
    "lstsq": function_of(
        lambda a, b: jnp.linalg.lstsq(a, b)[0], lambda n: draw_normal(2 * n, n),
        lambda n: draw_normal(2 * n)),
    "pinv": function_of(jnp.linalg.pinv, lambda n: draw_normal(2 * n, n)),
})  # fmt: skip


# ------------------------------------------------------------------------------ image processing


def draw_picture(n: int) -> np.ndarray:
    return draw_positive(3, n, n)


IMAGES = make_programs("image processing", (16, 224), {
    "resize, bilinear": function_of(
        lambda x: jax.image.resize(x, (3, x.shape[1] // 2, x.shape[2] // 2), "bilinear"),
        draw_picture),
    "histogram": function_of(lambda x: jnp.histogram(x, 32, (0, 4))[0], draw_picture),
    "equalised": function_of(
        lambda x: jnp.interp(x, jnp.linspace(0, 4, 16), jnp.linspace(0, 1, 16)), draw_picture),
})  # fmt: skip


# ----------------------------------------------------------------------------- special functions

FUNCTIONS = make_programs("special functions", (4, 4096), {
    "exp1": function_of(jsp.exp1, draw_positive),
    "gammainc": function_of(jsp.gammainc, draw_positive, draw_positive),
    "erfinv": function_of(lambda x: jsp.erfinv(jnp.tanh(x)), draw_normal),
    "logsumexp": function_of(lambda x: jsp.logsumexp(x), draw_normal),
})  # fmt: skip


# ------------------------------------------------------------------------ physics and equations


def lorenz(s: Array) -> Array:
    x, y, z = s
    return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


def rk4(field: Callable[[Array], Array], step: float, s: Array) -> Array:
    a = field(s)
    b = field(s + step / 2 * a)
    c = field(s + step / 2 * b)
    return s + step / 6 * (a + 2 * b + 2 * c + field(s + step * c))


def steps_program(advance: Callable[[Any], Any], draw_state: Callable[[int], Any]) -> Make:
    """Return a program that makes `n` steps from a state and returns all states."""

    def make_program(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        def run(state: Any) -> Any:
            return lax.scan(lambda s, _: (advance(s),) * 2, state, None, length=n)[1]

        return run, (draw_state(n),)

    return make_program


def heat_step(u: Array) -> Array:
    around = sum(jnp.roll(u, s, a) for s in (1, -1) for a in (0, 1))
    return u + 0.1 * (around - 4 * u)


def adaptive_program(field: Callable[..., Any], start: np.ndarray) -> Make:
    return lambda n: (
        lambda y: odeint(field, y, jnp.linspace(0.0, 2.0, n), rtol=1e-4, atol=1e-4), (start,)
    )  # fmt: skip


def energy(x: Array) -> Array:
    """Return the Lennard-Jones energy of particles."""
    offsets = x[None] - x[:, None]
    square_distance = (offsets**2).sum(-1) + jnp.eye(len(x)) * 9.0
    inverse = 1 / (square_distance + 0.5) ** 3
    return (4 * (inverse**2 - inverse)).sum() / 2


def oscillator(y: Array, _: Any) -> Array:
    return jnp.stack([y[1], 2 * (1 - y[0] ** 2) * y[1] - y[0]])


def lotka_volterra(y: Array) -> Array:
    return jnp.stack([1.1 * y[0] - 0.4 * y[0] * y[1], 0.1 * y[0] * y[1] - 0.4 * y[1]])


PHYSICS = make_programs("physics", (8, 100), {
    "heat equation": steps_program(heat_step, lambda n: draw_normal(32, 32)),
    "lennard-jones forces": function_of(jax.grad(energy), lambda n: draw_normal(n, 3)),
    "descent of energy": steps_program(
        lambda x: x - 1e-3 * jax.grad(energy)(x), lambda n: draw_normal(16, 3)),
})  # fmt: skip
EQUATIONS = make_programs("differential equations", (8, 100), {
    "lorenz, rk4": steps_program(partial(rk4, lorenz, 0.01), lambda n: draw_positive(3)),
    "hunters, rk4": steps_program(partial(rk4, lotka_volterra, 0.05), lambda n: draw_positive(2)),
    "euler": steps_program(lambda s: s + 0.01 * lorenz(s), lambda n: draw_positive(3)),
    "oscillator, odeint": adaptive_program(oscillator, np.array([1.0, 0.0], np.float32)),
})  # fmt: skip

# ------------------------------------------------------------------------------------ frameworks


def linen(module: nn.Module, *inner: int) -> Make:
    """Return a program of a Flax Linen module on a batch."""

    def make_program(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        params = module.init(KEY, draw_normal(1, *inner))
        return partial(module.apply, params), (draw_normal(n, *inner),)

    return make_program


LAYERS = make_programs("layers", (1, 32), {
    "Linen LayerNorm": linen(nn.LayerNorm(), 49, WIDTH),
    "Linen RNN": linen(nn.RNN(nn.LSTMCell(WIDTH)), 32, WIDTH),
})  # fmt: skip


# ------------------------------------------------------------------------------------------- zoo


def zoo_network(name: str) -> Make:
    """Return a program of a network of the zoo on pictures. Its result is the first output."""

    def make_program(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        model = zoo.create(name, key=KEY)
        return jax.vmap(lambda x: jax.tree.leaves(model(x))[0]), (draw_normal(n, 3, 224, 224),)

    return make_program


NAMES = ("dinov3_vits16", "dinov2_vits14", "dinov3_convnext_tiny", "siglip2_vitb16_224")
NETWORKS = make_programs("zoo", (1, 8), {name: zoo_network(name) for name in NAMES})


# -------------------------------------------------------------------------------------- training


def training_program(optimiser: Any) -> Make:
    """Return a program of one training step of a perceptron. Its results are the new parameters."""
    model = eqx.nn.MLP(16, 10, WIDTH, 2, key=KEY)
    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    state = optimiser.init(arrays)

    def loss(arrays: Any, x: Array, labels: Array) -> Array:
        logits = jax.vmap(eqx.combine(arrays, static))(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(x: Array, labels: Array) -> Any:
        gradient = jax.grad(loss)(arrays, x, labels)
        updates, _ = optimiser.update(gradient, state, arrays)
        return jax.tree.leaves(eqx.apply_updates(arrays, updates))

    return function_of(step, lambda n: draw_normal(n, 16), lambda n: draw_integers(10, n))


TRAINING = make_programs("training", (4, 128), {
    "sgd": training_program(optax.sgd(0.1)),
    "adam": training_program(optax.adam(1e-3)),
})  # fmt: skip


# ------------------------------------------------------------------------------------- sequences


def kalman_filter(measurements: Array) -> Array:
    move, noise = jnp.array([[1.0, 0.1], [0.0, 1.0]]), 0.01 * jnp.eye(2)

    def step(state: Any, y: Array) -> Any:
        mean, spread = state
        mean, spread = move @ mean, move @ spread @ move.T + noise
        gain = spread[:, 0] / (spread[0, 0] + 0.1)
        mean = mean + gain * (y - mean[0])
        return (mean, spread - jnp.outer(gain, spread[0])), mean

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), measurements)[1]


def edit_distance(a: Array, b: Array) -> Array:
    def line_of(above: Array, x: Array) -> tuple[Array, None]:
        cost = jnp.minimum(above[:-1] + (b != x), above[1:] + 1)

        def along(left: Array, c: Array) -> tuple[Array, Array]:
            return (jnp.minimum(left + 1, c),) * 2

        first = above[0] + 1
        return jnp.concatenate([first[None], lax.scan(along, first, cost)[1]]), None

    start = jnp.arange(b.shape[0] + 1)
    return lax.scan(line_of, start, a)[0][-1]


SEQUENCES = make_programs("sequences", (8, 128), {
    "kalman filter": function_of(kalman_filter, draw_normal),
    "edit distance": function_of(
        edit_distance, lambda n: draw_integers(4, min(n, 32)),
        lambda n: draw_integers(4, min(n, 40))),
    "cumulative sum": function_of(lambda x: jnp.cumsum(x, 0), lambda n: draw_normal(n, 16)),
    "ctc loss": function_of(
        lambda x: optax.ctc_loss(x[None], jnp.zeros(x.shape[:1])[None],
                                 jnp.array([[1, 2, 3, 2]]), jnp.zeros((1, 4))),
        lambda n: draw_normal(n, 8)),
    "discounted returns": function_of(
        lambda r: lax.scan(lambda g, r: ((r + 0.9 * g,) * 2), 0.0, r, reverse=True)[1],
        draw_normal),
})  # fmt: skip


NUMBERS = (*LOOPS, *DRAWS, *MATRICES, *IMAGES, *FUNCTIONS, *PHYSICS, *EQUATIONS)
PROGRAMS = (*NUMBERS, *LAYERS, *NETWORKS, *TRAINING, *SEQUENCES)
