"""Programs for `against_jit.py`: of numbers, and networks.

Each is a plain function of JAX at two sizes. Inputs are drawn from a seed.
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
    """``make(size)`` gives the function and its inputs; ``sizes`` are small and realistic."""

    group: str
    name: str
    make: Make
    sizes: tuple[int, int]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.abs(normal(*shape)) + np.float32(0.1)


def integers(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, high, shape).astype(np.int32)


def of(fn: Callable[..., Any], *draws: Callable[[int], Any]) -> Make:
    """A function of what is drawn for a size."""
    return lambda n: (fn, tuple(draw(n) for draw in draws))


def square(n: int) -> np.ndarray:
    return normal(n, n) + np.float32(n) * np.eye(n, dtype=np.float32)


def rows(group: str, sizes: tuple[int, int], table: Mapping[str, Make]) -> list[Program]:
    return [Program(group, name, make, sizes) for name, make in table.items()]


# ----------------------------------------------------------------------------------------- loops


def collatz(x: Array) -> Array:
    def step(state: Any) -> Any:
        x, n = state
        return jnp.where(x % 2 == 0, x // 2, 3 * x + 1), n + 1

    return lax.while_loop(lambda s: s[0] > 1, step, (x, 0))[1]


def written(x: Array) -> Array:
    return lax.fori_loop(0, x.shape[0], lambda i, y: y.at[i].set(x[i] * 2 + i), jnp.zeros_like(x))


LOOPS = rows("loops", (8, 1024), {
    "collatz": of(collatz, lambda n: np.int32(n - 1)),
    "written by index": of(written, normal),
})  # fmt: skip


# ----------------------------------------------------------------------------------------- draws


def draw(sample: Callable[[Array, int], Array]) -> Make:
    """From the key of a number; its shape belongs to the program."""
    return lambda n: (lambda seed: sample(jax.random.key(seed), n), (np.uint32(3),))


def key_step(key: Array, _: Any) -> tuple[Array, Array]:
    key, own = jax.random.split(key)
    return key, jax.random.normal(own, (4,))


DRAWS = rows("draws", (4, 4096), {
    "normal": draw(lambda k, n: jax.random.normal(k, (n,))),
    "permutation": draw(lambda k, n: jax.random.permutation(k, n)),
    "categorical": draw(lambda k, n: jax.random.categorical(k, jnp.zeros((n, 10)))),
    "gamma": draw(lambda k, n: jax.random.gamma(k, 2.0, (n,))),
    "keys of a loop": draw(lambda k, n: lax.scan(key_step, k, None, length=min(n, 32))[1]),
})  # fmt: skip


# -------------------------------------------------------------------------------- linear algebra


def symmetric(n: int) -> np.ndarray:
    a = normal(n, n)
    return a @ a.T / np.float32(n) + np.eye(n, dtype=np.float32)


MATRICES = rows("linear algebra", (4, 32), {
    "svd": of(jnp.linalg.svd, square),
    "eigh": of(jnp.linalg.eigh, symmetric),
    "qr": of(jnp.linalg.qr, square),
    "cholesky": of(jnp.linalg.cholesky, symmetric),
    "solve": of(jnp.linalg.solve, square, normal),
    "lstsq": of(lambda a, b: jnp.linalg.lstsq(a, b)[0], lambda n: normal(2 * n, n),
                lambda n: normal(2 * n)),
    "pinv": of(jnp.linalg.pinv, lambda n: normal(2 * n, n)),
})  # fmt: skip


# ------------------------------------------------------------------------------ image processing


def picture(n: int) -> np.ndarray:
    return positive(3, n, n)


IMAGES = rows("image processing", (16, 224), {
    "resize, bilinear": of(
        lambda x: jax.image.resize(x, (3, x.shape[1] // 2, x.shape[2] // 2), "bilinear"), picture),
    "histogram": of(lambda x: jnp.histogram(x, 32, (0, 4))[0], picture),
    "equalised": of(lambda x: jnp.interp(x, jnp.linspace(0, 4, 16), jnp.linspace(0, 1, 16)),
                    picture),
})  # fmt: skip


# ----------------------------------------------------------------------------- special functions

FUNCTIONS = rows("special functions", (4, 4096), {
    "exp1": of(jsp.exp1, positive),
    "gammainc": of(jsp.gammainc, positive, positive),
    "erfinv": of(lambda x: jsp.erfinv(jnp.tanh(x)), normal),
    "logsumexp": of(lambda x: jsp.logsumexp(x), normal),
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


def steps(advance: Callable[[Any], Any], draw_state: Callable[[int], Any]) -> Make:
    """So many steps from a state, all of which are given."""

    def made(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        def run(state: Any) -> Any:
            return lax.scan(lambda s, _: (advance(s),) * 2, state, None, length=n)[1]

        return run, (draw_state(n),)

    return made


def heat(u: Array) -> Array:
    around = sum(jnp.roll(u, s, a) for s in (1, -1) for a in (0, 1))
    return u + 0.1 * (around - 4 * u)


def adaptive(field: Callable[..., Any], start: np.ndarray) -> Make:
    return lambda n: (
        lambda y: odeint(field, y, jnp.linspace(0.0, 2.0, n), rtol=1e-4, atol=1e-4), (start,)
    )  # fmt: skip


def energy(x: Array) -> Array:
    """Lennard-Jones."""
    apart = x[None] - x[:, None]
    square_distance = (apart**2).sum(-1) + jnp.eye(len(x)) * 9.0
    inverse = 1 / (square_distance + 0.5) ** 3
    return (4 * (inverse**2 - inverse)).sum() / 2


def oscillator(y: Array, _: Any) -> Array:
    return jnp.stack([y[1], 2 * (1 - y[0] ** 2) * y[1] - y[0]])


def hunted(y: Array) -> Array:
    return jnp.stack([1.1 * y[0] - 0.4 * y[0] * y[1], 0.1 * y[0] * y[1] - 0.4 * y[1]])


PHYSICS = rows("physics", (8, 100), {
    "heat equation": steps(heat, lambda n: normal(32, 32)),
    "lennard-jones forces": of(jax.grad(energy), lambda n: normal(n, 3)),
    "descent of energy": steps(lambda x: x - 1e-3 * jax.grad(energy)(x), lambda n: normal(16, 3)),
})  # fmt: skip
EQUATIONS = rows("differential equations", (8, 100), {
    "lorenz, rk4": steps(partial(rk4, lorenz, 0.01), lambda n: positive(3)),
    "hunters, rk4": steps(partial(rk4, hunted, 0.05), lambda n: positive(2)),
    "euler": steps(lambda s: s + 0.01 * lorenz(s), lambda n: positive(3)),
    "oscillator, odeint": adaptive(oscillator, np.array([1.0, 0.0], np.float32)),
})  # fmt: skip

# ------------------------------------------------------------------------------------ frameworks


def linen(module: nn.Module, *inner: int) -> Make:
    """A module of Flax Linen on a batch."""

    def made(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        params = module.init(KEY, normal(1, *inner))
        return partial(module.apply, params), (normal(n, *inner),)

    return made


LAYERS = rows("layers", (1, 32), {
    "Linen LayerNorm": linen(nn.LayerNorm(), 49, WIDTH),
    "Linen RNN": linen(nn.RNN(nn.LSTMCell(WIDTH)), 32, WIDTH),
})  # fmt: skip


# ------------------------------------------------------------------------------------------- zoo


def zoo_network(name: str) -> Make:
    """A network of the zoo on pictures; its first output."""

    def made(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        model = zoo.create(name, key=KEY)
        return jax.vmap(lambda x: jax.tree.leaves(model(x))[0]), (normal(n, 3, 224, 224),)

    return made


NAMES = ("dinov3_vits16", "dinov2_vits14", "dinov3_convnext_tiny", "siglip2_vitb16_224")
NETWORKS = rows("zoo", (1, 8), {name: zoo_network(name) for name in NAMES})


# -------------------------------------------------------------------------------------- training


def training(optimiser: Any) -> Make:
    """A step of training a perceptron: what its parameters become."""
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

    return of(step, lambda n: normal(n, 16), lambda n: integers(10, n))


TRAINING = rows("training", (4, 128), {
    "sgd": training(optax.sgd(0.1)),
    "adam": training(optax.adam(1e-3)),
})  # fmt: skip


# ------------------------------------------------------------------------------------- sequences


def kalman(seen: Array) -> Array:
    move, noise = jnp.array([[1.0, 0.1], [0.0, 1.0]]), 0.01 * jnp.eye(2)

    def step(state: Any, y: Array) -> Any:
        mean, spread = state
        mean, spread = move @ mean, move @ spread @ move.T + noise
        gain = spread[:, 0] / (spread[0, 0] + 0.1)
        mean = mean + gain * (y - mean[0])
        return (mean, spread - jnp.outer(gain, spread[0])), mean

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), seen)[1]


def edit_distance(a: Array, b: Array) -> Array:
    def line_of(above: Array, x: Array) -> tuple[Array, None]:
        cost = jnp.minimum(above[:-1] + (b != x), above[1:] + 1)

        def along(left: Array, c: Array) -> tuple[Array, Array]:
            return (jnp.minimum(left + 1, c),) * 2

        first = above[0] + 1
        return jnp.concatenate([first[None], lax.scan(along, first, cost)[1]]), None

    start = jnp.arange(b.shape[0] + 1)
    return lax.scan(line_of, start, a)[0][-1]


SEQUENCES = rows("sequences", (8, 128), {
    "kalman filter": of(kalman, normal),
    "edit distance": of(edit_distance, lambda n: integers(4, min(n, 32)),
                        lambda n: integers(4, min(n, 40))),
    "cumulative sum": of(lambda x: jnp.cumsum(x, 0), lambda n: normal(n, 16)),
    "ctc loss": of(
        lambda x: optax.ctc_loss(x[None], jnp.zeros(x.shape[:1])[None],
                                 jnp.array([[1, 2, 3, 2]]), jnp.zeros((1, 4))),
        lambda n: normal(n, 8)),
    "discounted returns": of(
        lambda r: lax.scan(lambda g, r: ((r + 0.9 * g,) * 2), 0.0, r, reverse=True)[1], normal),
})  # fmt: skip


NUMBERS = (*LOOPS, *DRAWS, *MATRICES, *IMAGES, *FUNCTIONS, *PHYSICS, *EQUATIONS)
PROGRAMS = (*NUMBERS, *LAYERS, *NETWORKS, *TRAINING, *SEQUENCES)
