"""Programs of numbers for `against_jit.py`: loops, draws, matrices, images, functions, physics.

Each is a plain function of JAX at two sizes. Inputs are drawn from a seed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jax import lax
from jax.experimental.ode import odeint

Array: TypeAlias = jax.Array
Make: TypeAlias = Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]]


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


def line(n: int) -> np.ndarray:
    return normal(n)


def square(n: int) -> np.ndarray:
    return normal(n, n) + np.float32(n) * np.eye(n, dtype=np.float32)


def rows(group: str, sizes: tuple[int, int], table: Mapping[str, Make]) -> Iterator[Program]:
    return (Program(group, name, make, sizes) for name, make in table.items())


# ----------------------------------------------------------------------------------------- loops


def newton(x: Array) -> Array:
    return lax.fori_loop(0, 10, lambda _, y: 0.5 * (y + x / y), jnp.ones_like(x))


def power_iteration(a: Array) -> Array:
    def step(_: Any, v: Array) -> Array:
        v = a @ v
        return v / jnp.linalg.norm(v)

    return lax.fori_loop(0, 20, step, jnp.ones(a.shape[0]))


def collatz(x: Array) -> Array:
    def step(state: Any) -> Any:
        x, n = state
        return jnp.where(x % 2 == 0, x // 2, 3 * x + 1), n + 1

    return lax.while_loop(lambda s: s[0] > 1, step, (x, 0))[1]


def mandelbrot(x: Array) -> Array:
    re, im = jnp.meshgrid(x, x)

    def step(_: Any, state: Any) -> Any:
        a, b, count = state
        a, b = a * a - b * b + re, 2 * a * b + im
        return jnp.clip(a, -9, 9), jnp.clip(b, -9, 9), count + (a * a + b * b < 4)

    zero = jnp.zeros_like(re)
    return lax.fori_loop(0, 30, step, (zero, zero, jnp.zeros(re.shape, jnp.int32)))[2]


def branches(x: Array) -> Array:
    def step(total: Array, x: Array) -> tuple[Array, Array]:
        total = lax.cond(x > 0, lambda t: t + x, lambda t: t * 0.5, total)
        return total, total

    return lax.scan(step, jnp.float32(0), x)[1]


def written(x: Array) -> Array:
    return lax.fori_loop(0, x.shape[0], lambda i, y: y.at[i].set(x[i] * 2 + i), jnp.zeros_like(x))


def bisect(x: Array) -> Array:
    def step(state: Any) -> Any:
        low, high = state
        middle = (low + high) / 2
        above = middle**3 > x
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    return lax.while_loop(lambda s: jnp.any(s[1] - s[0] > 1e-4), step, (jnp.zeros_like(x), x + 1))[
        0
    ]


LOOPS = {
    "newton": of(newton, lambda n: positive(n)),
    "power iteration": of(power_iteration, lambda n: square(min(n, 128))),
    "collatz": of(collatz, lambda n: np.int32(n - 1)),
    "mandelbrot": of(mandelbrot, lambda n: np.linspace(-2, 1, min(n, 128), dtype=np.float32)),
    "branches in a scan": of(branches, line),
    "written by index": of(written, line),
    "bisection": of(bisect, lambda n: positive(n)),
    "map": of(lambda x: lax.map(lambda r: jnp.tanh(r) @ r, x), lambda n: normal(min(n, 256), 16)),
    "polynomial by scan": of(
        lambda x: lax.scan(lambda y, c: (y * x + c, None), x, jnp.arange(12.0))[0], line
    ),
    "sinkhorn": of(
        lambda a: lax.fori_loop(
            0, 20, lambda _, p: (p / p.sum(0)) / (p / p.sum(0)).sum(1, keepdims=True), jnp.exp(a)
        ),
        lambda n: normal(min(n, 128), min(n, 128)),
    ),
    "k-means": of(
        lambda x: lax.fori_loop(0, 5, partial(kmeans_step, x), x[:8]), lambda n: normal(n, 4)
    ),
}


def kmeans_step(x: Array, _: Any, centres: Array) -> Array:
    nearest = jnp.argmin(((x[:, None] - centres) ** 2).sum(-1), 1)
    member = jax.nn.one_hot(nearest, centres.shape[0])
    return member.T @ x / (member.sum(0)[:, None] + 1e-6)


# ----------------------------------------------------------------------------------------- draws


def draw(sample: Callable[[Array, int], Array]) -> Make:
    """From the key of a number; its shape belongs to the program."""
    return lambda n: (lambda seed: sample(jax.random.key(seed), n), (np.uint32(3),))


def key_step(key: Array, _: Any) -> tuple[Array, Array]:
    key, own = jax.random.split(key)
    return key, jax.random.normal(own, (4,))


DRAWS = {
    "uniform": draw(lambda k, n: jax.random.uniform(k, (n,))),
    "normal": draw(lambda k, n: jax.random.normal(k, (n,))),
    "bernoulli": draw(lambda k, n: jax.random.bernoulli(k, 0.3, (n,))),
    "randint": draw(lambda k, n: jax.random.randint(k, (n,), 0, 10)),
    "permutation": draw(lambda k, n: jax.random.permutation(k, n)),
    "categorical": draw(lambda k, n: jax.random.categorical(k, jnp.zeros((n, 10)))),
    "gumbel": draw(lambda k, n: jax.random.gumbel(k, (n,))),
    "truncated normal": draw(lambda k, n: jax.random.truncated_normal(k, -2, 2, (n,))),
    "gamma": draw(lambda k, n: jax.random.gamma(k, 2.0, (n,))),
    "beta": draw(lambda k, n: jax.random.beta(k, 2.0, 3.0, (n,))),
    "poisson": draw(lambda k, n: jax.random.poisson(k, 4.0, (n,))),
    "dirichlet": draw(lambda k, n: jax.random.dirichlet(k, jnp.ones(3), (n,))),
    "dropout": draw(lambda k, n: jnp.where(jax.random.bernoulli(k, 0.9, (n,)), jnp.ones(n), 0)),
    "keys of a loop": draw(lambda k, n: lax.scan(key_step, k, None, length=min(n, 32))[1]),
}


# -------------------------------------------------------------------------------- linear algebra


def symmetric(n: int) -> np.ndarray:
    a = normal(n, n)
    return a @ a.T / np.float32(n) + np.eye(n, dtype=np.float32)


MATRICES = {
    "svd": of(jnp.linalg.svd, square),
    "eigh": of(jnp.linalg.eigh, symmetric),
    "qr": of(jnp.linalg.qr, square),
    "cholesky": of(jnp.linalg.cholesky, symmetric),
    "solve": of(jnp.linalg.solve, square, line),
    "lstsq": of(lambda a, b: jnp.linalg.lstsq(a, b)[0], lambda n: normal(2 * n, n),
                lambda n: normal(2 * n)),
    "inv": of(jnp.linalg.inv, square),
    "det": of(jnp.linalg.det, square),
    "pinv": of(jnp.linalg.pinv, lambda n: normal(2 * n, n)),
    "matrix power": of(lambda a: jnp.linalg.matrix_power(a / 30, 5), square),
    "expm": of(lambda a: jax.scipy.linalg.expm(a / 30), square),
    "triangular solve": of(
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), square, line),
    "conjugate gradient": of(
        lambda a, b: jax.scipy.sparse.linalg.cg(a, b, maxiter=20)[0], symmetric, line),
    "einsum": of(lambda a: jnp.einsum("ij,kj,kl->il", a, a, a), square),
}  # fmt: skip


# ------------------------------------------------------------------------------ image processing


def blur(x: Array) -> Array:
    taps = jnp.exp(-(jnp.arange(-3.0, 4.0) ** 2) / 2)
    kernel = (taps[:, None] * taps / taps.sum() ** 2)[None, None]
    return lax.conv_general_dilated(x[:, None], kernel, (1, 1), "SAME")[:, 0]


def sobel(x: Array) -> Array:
    dy, dx = jnp.gradient(x, axis=(1, 2))
    return jnp.hypot(dx, dy)


def rotated(x: Array) -> Array:
    size = x.shape[-1]
    i, j = jnp.meshgrid(jnp.arange(size), jnp.arange(size), indexing="ij")
    places = jnp.stack([0.9 * i - 0.2 * j, 0.2 * i + 0.9 * j])
    return jax.vmap(lambda p: jax.scipy.ndimage.map_coordinates(p, places, 1))(x)


def hsv(x: Array) -> Array:
    high, low = x.max(0), x.min(0)
    r, g, b = x
    span = high - low + 1e-6
    hue = jnp.where(high == r, (g - b) / span,
                    jnp.where(high == g, 2 + (b - r) / span, 4 + (r - g) / span))  # fmt: skip
    return jnp.stack([hue / 6 % 1, span / (high + 1e-6), high])


def picture(n: int) -> np.ndarray:
    return positive(3, n, n)


def resized(x: Array, method: str) -> Array:
    return jax.image.resize(x, (3, x.shape[1] // 2, x.shape[2] // 2), method)


IMAGES = {
    "resize, bilinear": of(partial(resized, method="bilinear"), picture),
    "resize, cubic": of(partial(resized, method="cubic"), picture),
    "blur": of(blur, picture),
    "sobel": of(sobel, picture),
    "rotation": of(rotated, picture),
    "to hsv": of(hsv, picture),
    "erosion": of(
        lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 3, 3), (1, 1, 1), "SAME"), picture),
    "histogram": of(lambda x: jnp.histogram(x, 32, (0, 4))[0], picture),
    "equalised": of(lambda x: jnp.interp(x, jnp.linspace(0, 4, 16), jnp.linspace(0, 1, 16)),
                    picture),
    "median": of(lambda x: jnp.median(jnp.stack(
        [jnp.roll(x, (i, j), (1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)]), 0), picture),
    "normalised": of(lambda x: (x - x.mean((1, 2), keepdims=True)) /
                     x.std((1, 2), keepdims=True), picture),
    "spectrum": of(lambda x: jnp.abs(jnp.fft.rfft2(x)), picture),
}  # fmt: skip


# ----------------------------------------------------------------------------- special functions

FUNCTIONS: dict[str, Make] = {
    "exp1": of(jsp.exp1, lambda n: positive(n)),
    "expi": of(jsp.expi, lambda n: positive(n)),
    "hyp1f1": of(lambda x: jsp.hyp1f1(1.5, 2.5, x), line),
    "gammainc": of(jsp.gammainc, lambda n: positive(n), lambda n: positive(n)),
    "gammaln": of(jsp.gammaln, lambda n: positive(n)),
    "digamma": of(jsp.digamma, lambda n: positive(n)),
    "betainc": of(jsp.betainc, lambda n: positive(n), lambda n: positive(n),
                  lambda n: np.linspace(0.1, 0.9, n, dtype=np.float32)),
    "erf": of(jsp.erf, line),
    "erfinv": of(lambda x: jsp.erfinv(jnp.tanh(x)), line),
    "erfc": of(jsp.erfc, line),
    "zeta": of(lambda x: jsp.zeta(x + 1, 2.0), lambda n: positive(n)),
    "polygamma": of(lambda x: jsp.polygamma(1, x), lambda n: positive(n)),
    "i0e": of(jsp.i0e, line),
    "logsumexp": of(lambda x: jsp.logsumexp(x), line),
    "ndtri": of(lambda x: jsp.ndtri(jax.nn.sigmoid(x)), line),
    "sph bessel": of(lambda x: jnp.sin(x) / x**2 - jnp.cos(x) / x, lambda n: positive(n)),
}  # fmt: skip


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


def verlet(state: Array) -> Array:
    """Bodies that draw each other."""
    x, v = state

    def force(x: Array) -> Array:
        apart = x[None] - x[:, None]
        return (apart / ((apart**2).sum(-1) + 0.1)[..., None] ** 1.5).sum(1)

    v = v + 0.005 * force(x)
    x = x + 0.01 * v
    return jnp.stack([x, v + 0.005 * force(x)])


def heat(u: Array) -> Array:
    around = sum(jnp.roll(u, s, a) for s in (1, -1) for a in (0, 1))
    return u + 0.1 * (around - 4 * u)


def life(u: Array) -> Array:
    ways = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    around = sum(jnp.roll(u, way, (0, 1)) for way in ways)
    return ((around == 3) | ((u == 1) & (around == 2))).astype(u.dtype)


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


def pendulum(y: Array, _: Any) -> Array:
    return jnp.stack([y[1], -jnp.sin(y[0])])


def oscillator(y: Array, _: Any) -> Array:
    return jnp.stack([y[1], 2 * (1 - y[0] ** 2) * y[1] - y[0]])


def hunted(y: Array) -> Array:
    return jnp.stack([1.1 * y[0] - 0.4 * y[0] * y[1], 0.1 * y[0] * y[1] - 0.4 * y[1]])


PHYSICS = {
    "n bodies, verlet": steps(verlet, lambda n: normal(2, 16, 3)),
    "heat equation": steps(heat, lambda n: normal(32, 32)),
    "game of life": steps(life, lambda n: (normal(32, 32) > 0).astype(np.int32)),
    "lennard-jones forces": of(jax.grad(energy), lambda n: normal(n, 3)),
    "descent of energy": steps(lambda x: x - 1e-3 * jax.grad(energy)(x), lambda n: normal(16, 3)),
    "wave equation": steps(
        lambda s: jnp.stack([s[1], 2 * s[1] - s[0] + 0.2 * (heat(s[1]) - s[1])]),
        lambda n: normal(2, 32, 32)),
    "ising energy": of(lambda s: -(s * (jnp.roll(s, 1, 0) + jnp.roll(s, 1, 1))).sum(),
                       lambda n: normal(n, n)),
}  # fmt: skip
EQUATIONS = {
    "lorenz, rk4": steps(partial(rk4, lorenz, 0.01), lambda n: positive(3)),
    "hunters, rk4": steps(partial(rk4, hunted, 0.05), lambda n: positive(2)),
    "euler": steps(lambda s: s + 0.01 * lorenz(s), lambda n: positive(3)),
    "pendulum, odeint": adaptive(pendulum, np.array([0.5, 0.0], np.float32)),
    "oscillator, odeint": adaptive(oscillator, np.array([1.0, 0.0], np.float32)),
    "linear, rk4": steps(partial(rk4, lambda y: jnp.asarray(normal(16, 16)) @ y / 8, 0.01),
                         lambda n: normal(16)),
    "neural field, euler": steps(
        lambda s: s + 0.1 * jnp.tanh(s @ jnp.asarray(normal(32, 32)) / 6), lambda n: normal(8, 32)),
}  # fmt: skip

NUMBERS = (
    *rows("loops", (8, 1024), LOOPS),
    *rows("draws", (4, 4096), DRAWS),
    *rows("linear algebra", (4, 32), MATRICES),
    *rows("image processing", (16, 224), IMAGES),
    *rows("special functions", (4, 4096), FUNCTIONS),
    *rows("physics", (8, 100), PHYSICS),
    *rows("differential equations", (8, 100), EQUATIONS),
)
