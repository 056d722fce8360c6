"""Complex numbers: every primitive that takes them, and every function of one operand."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, Case

RNG = np.random.default_rng(13)


def normal(*shape):
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(np.complex64)


X, Y, M = normal(4, 5), normal(4, 5), normal(5, 3)
ROWS = np.array([2, 0, 2], np.int32)


def arithmetic(x, y):
    return (
        *(x + y, x - y, x * y, x / y, -x, x**y, x**3, x**-2, jnp.conj(x), x.real, x.imag),
        *(jnp.angle(x), jnp.abs(x), x == y, x != x, 2 * x, 1j * x, x / 2, 1 / x, jnp.sign(x)),
        *(jnp.isfinite(x), jnp.maximum(x, y), jnp.minimum(x, y), jnp.where(x.real > 0, x, y)),
        *(x.real.astype(np.complex64), jnp.sinc(x), jnp.logaddexp(x, y)),
        *(jnp.exp(1j * x.real), jnp.unwrap(jnp.angle(x)), jnp.square(x), jnp.nan_to_num(x)),
        *(jnp.polyval(x[0], y), jnp.linspace(x[0, 0], x[1, 1], 5), lax.iota(np.complex64, 5) * x),
        *(lax.bitcast_convert_type(x, np.complex64), jax.device_put(x), lax.stop_gradient(x)),
    )


def moves(x, i):
    return (
        *(x.T, x.reshape(2, 10), x[1:3, ::2], x[i], x[:, i], x.at[i + 3].get(mode="fill")),
        *(x.at[i + 3].get(mode="clip"), x.at[i + 3].get(mode="fill", fill_value=1 + 2j)),
        *(jnp.flip(x, 1), jnp.pad(x, 1), jnp.concatenate([x, x[:1]]), jnp.tile(x, (2, 1))),
        *(jnp.repeat(x, 2, 0), jnp.stack([x, 2 * x]), lax.dynamic_slice(x, (i[0], i[1]), (2, 2))),
        *(lax.dynamic_update_slice(x, x[:2, :2], (i[1], i[0])), x.at[i].set(x[:3])),
        *(x.at[i].add(x[:3]), x.at[i].multiply(x[:3]), x.at[i].subtract(x[:3]), x[None]),
        *(jnp.roll(x, 1, 1), jnp.squeeze(x[:1]), jnp.broadcast_to(x, (2, 4, 5)), jnp.tril(x)),
        *(jnp.diag(x[:, 0]), jnp.split(x, 2), jnp.unstack(x), jnp.copy(x)),
    )


STARTS = np.array([0, 1, -np.inf, np.inf], np.complex64)
WINDOWS = tuple(zip((lax.add, lax.mul, lax.max, lax.min), STARTS, strict=True))


def reductions(x):
    ties = jnp.round(x[:, 0].real) + 0j
    return (
        *(x.sum(), x.sum(0), x.mean(1), x.prod(0), x.prod(), jnp.cumsum(x, 1), jnp.std(x, 0)),
        *(jnp.cumprod(x, 0), lax.cumsum(x, 0, reverse=True), lax.cummax(x, 0), lax.cummin(x, 1)),
        *(jnp.max(x, 0), jnp.min(x), jnp.sort(x, 0), jnp.argsort(x, 1), jnp.linalg.norm(x)),
        *(lax.sort((ties, x[:, 1]), num_keys=2), jnp.var(x), jnp.nansum(x), jnp.trace(x @ x.T)),
        *(lax.reduce_window(x, z, op, (2, 2), (1, 1), "SAME") for op, z in WINDOWS),
        lax.reduce(x, np.complex64(1j), lambda a, b: a * b + 0 * a, (0,)),
        *(jnp.count_nonzero(x), jnp.any(x), jnp.prod(x[:0], 0)),
    )


def products(x, m, y):
    kernel = y[None, :3].transpose(1, 0, 2)
    return (
        *(x @ m, jnp.einsum("ij,jk->ki", x, m), jnp.vdot(x, y), jnp.inner(x, y), x @ m.real),
        *(jnp.outer(x[0], y[1]), jnp.tensordot(x, y, 2), jnp.kron(x[:2, :2], y[:2, :2])),
        *(jnp.linalg.matrix_power(x[:, :4], 3), jnp.convolve(x[0], y[1]), x.real @ (m.real + 0j)),
        lax.conv_general_dilated(x[None], kernel.repeat(4, 1), (1,), "SAME"),
    )


def control(x):
    def until_large(z):
        return lax.while_loop(lambda a: jnp.abs(a) < 10, lambda a: a * (2 + 1j), z)

    return (
        lax.scan(lambda a, b: (a * b + 1j, a), x[0], x),
        lax.fori_loop(0, 3, lambda k, a: a * 1j + k, x),
        lax.cond(x[0, 0].real > 0, lambda a: a * 2, lambda a: a + 1j, x),
        lax.switch(jnp.argmax(x[0].real) % 2, [lambda a: a, jnp.conj], x),
        jax.vmap(until_large)(x[:, 0]),
        lax.map(lambda row: row * row[0], x),
    )


def derivatives(x):
    return (
        jax.grad(lambda z: jnp.abs(jnp.fft.fft(z)).sum())(x),
        jax.vmap(jax.grad(lambda z: jnp.exp(z).imag))(x[:, 0]),
        jax.vmap(lambda z: z * x, in_axes=1, out_axes=2)(x[None]),
        jax.grad(lambda z: (jnp.sin(z) ** 2).sum(), holomorphic=True)(x),
        jax.jvp(jnp.fft.irfft, (x,), (x * 1j,))[1],
    )


FAMILIES = {
    "arithmetic": (arithmetic, (X, Y)),
    "moves": (moves, (X, ROWS)),
    "reductions": (reductions, (X,)),
    "products": (products, (X, M, Y)),
    "control": (control, (X,)),
    "derivatives": (derivatives, (X[:2, :3],)),
}
NAMES = (
    "abs acos acosh asin asinh atan atanh conj cos cosh exp expm1 imag log log1p logistic neg real"
)
NAMES += " rsqrt sign sin sinh sqrt square tan tanh"
FUNCTIONS = {name: vars(lax)[name] for name in NAMES.split()}


REAL_OPERANDS = {
    "quotient by a number": (lambda z: z / 2, {"Div": 2, "Mul": 0}),
    "real factor": (lambda z: z * z.real, {"Mul": 2}),
    "real matrix": (lambda z: z @ (z.real.T + 0j), {"MatMul": 2}),
    "transform of reals": (lambda z: jnp.fft.fft(z.real), {"MatMul": 1}),
    # `tests/fusion_counts.json` has all operators of these programs.
    "transform": (jnp.fft.fft, {"MatMul": 1, "Reshape": 2}),
}
"""Functions that cost one or two products instead of four, with the number of operators."""

EDGE_CASES = [
    *(Case(name, fn, (((3, 4), np.complex64),), ops=ops, tags=DEFAULT)
      for name, (fn, ops) in REAL_OPERANDS.items()),
]  # fmt: skip
PROGRAMS = [
    *EDGE_CASES,
    *(Case(name, fn, specs, tolerance=8, tags=DEFAULT) for name, (fn, specs) in FAMILIES.items()),
    *(Case(name, fn, [X], tolerance=8, tags=DEFAULT) for name, fn in FUNCTIONS.items()),
]
