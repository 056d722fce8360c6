"""Small programs that are drawn: expressions of inputs, parameters and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.frontend.trace import trace
from converter.fuse.named_calls import CALLS
from converter.ir import Graph
from converter.ir.dtypes import highest, is_float, is_integer, lowest

T = TypeVar("T")
Size = Any  # a number, or the name of a symbolic dimension
Shape = tuple[Size, ...]
Array = Any

SIZES = {"n": 2, "m": 3}
"""Values of symbolic dimensions when a graph is evaluated."""

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = tuple(f"{sign}int{bits}" for bits in (32, 8, 16, 64) for sign in ("", "u"))
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, "bool")

SHAPES: tuple[Shape, ...] = ((2, 3), (3,), (), (1, 3), (0, 3), ("n", 3))
SPECIAL = (0.0, 1.0, -0.0, np.inf, -np.inf, np.nan, 2.0, 1.5, -1.0, 3.0)
COMMON = (*SPECIAL, 0.5, -0.75, 7.25, -3.5, 255.5, 300.7, 1e4, -2.5)
# Subnormal numbers are excluded: XLA flushes them to zero, and numpy does not.


def numbers(dtype: str, floats: Sequence[float] = COMMON) -> list[Any]:
    """Return the numbers that elements of a dtype are drawn from."""
    if is_float(jnp.dtype(dtype)):
        return [number for number in floats if not 6e4 < abs(number) < np.inf]
    if not is_integer(jnp.dtype(dtype)):
        return [False, True]
    low, high = int(lowest(jnp.dtype(dtype))), int(highest(jnp.dtype(dtype)))
    return [n for n in (0, 1, 2, 3, -1, 5, -7, low, high, high // 2) if low <= n <= high]


@dataclass
class Env:
    """The inputs, parameters and sizes of symbolic dimensions that a program runs with."""

    inputs: Sequence[Array]
    params: Mapping[str, Array]
    sizes: Mapping[str, Any]

    def shape(self, shape: Shape) -> tuple[Any, ...]:
        """Return the shape with names replaced by sizes."""
        return tuple(self.sizes.get(d, d) if isinstance(d, str) else d for d in shape)


@dataclass(frozen=True)
class Expr:
    """An expression of a program: how it is computed, and the shape and dtype of its value."""

    run: Callable[[Env], Array]
    shape: Shape
    dtype: str

    @property
    def is_open(self) -> bool:
        """Whether the shape has a symbolic dimension."""
        return any(isinstance(d, str) for d in self.shape)


@dataclass
class Drawn:
    """Random choices, and the inputs and parameters of the program so far.

    The generator may be hypothesis's, which makes a failing program smaller.
    """

    rng: Random
    inputs: list[np.ndarray] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    params: dict[str, np.ndarray] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def pick(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def chance(self) -> bool:
        return self.rng.randrange(2) == 1

    def order(self, rank: int) -> tuple[int, ...]:
        remaining = list(range(rank))
        return tuple(remaining.pop(self.rng.randrange(len(remaining))) for _ in range(rank))

    def array(self, shape: Shape, dtype: str, pool: Sequence[Any] = ()) -> np.ndarray:
        """Return an array of elements from `pool`, or from the usual numbers of its dtype."""
        rng = np.random.default_rng(self.integer(0, 99))
        chosen = np.array([*(pool or numbers(dtype))], object)
        return rng.choice(chosen, _closed_shape(shape)).astype(jnp.dtype(dtype))

    def _sized(self, run: Callable[[Env], Array], shape: Shape, dtype: str) -> Expr:
        """Return an expression whose shape needs the sizes of symbolic dimensions of the inputs."""
        self.named |= {d for d in shape if isinstance(d, str)}
        return Expr(run, shape, dtype)

    # ------------------------------------------------------------------------------------ operands

    def input(self, shape: Shape, dtype: str, pool: Sequence[Any] = ()) -> Expr:
        index = len(self.inputs)
        self.inputs.append(self.array(shape, dtype, pool))
        self.shapes.append(shape)
        return Expr(lambda env: env.inputs[index], shape, dtype)

    def param(self, shape: Shape, dtype: str, pool: Sequence[Any] = ()) -> Expr:
        """Add a parameter. It has no symbolic axes, and is broadcast along those of `shape`."""
        name = f"w{len(self.params)}"
        self.params[name] = self.array(tuple(_known_sizes(shape)), dtype, pool)
        own_axes = [i for i, size in enumerate(shape) if not isinstance(size, str)]

        def run(env: Env) -> Array:
            x = env.params[name]
            return (
                x
                if len(own_axes) == len(shape)
                else lax.broadcast_in_dim(x, env.shape(shape), own_axes)
            )

        return self._sized(run, shape, dtype)

    def number(self, shape: Shape, dtype: str, pool: Sequence[Any] = ()) -> Expr:
        """Return a constant number, broadcast to a shape."""
        value = np.asarray(self.pick(pool or numbers(dtype, SPECIAL)), jnp.dtype(dtype))
        return self._sized(lambda env: lax.full(env.shape(shape), value), shape, dtype)

    def constant(self, shape: Shape, dtype: str, pool: Sequence[Any] = ()) -> Expr:
        if any(isinstance(d, str) for d in shape):
            return self.number(shape, dtype, pool)
        array = self.array(shape, dtype, pool)
        return Expr(lambda env: jnp.asarray(array), shape, dtype)

    def iota(self, shape: Shape, dtype: str, pool: Sequence[Any] = ()) -> Expr:
        if dtype == "bool" or not shape:
            return self.number(shape, dtype, pool)
        axis = self.integer(0, len(shape) - 1)
        kind = jnp.dtype(dtype)
        run = lambda env: lax.broadcasted_iota(kind, env.shape(shape), axis)  # noqa: E731
        return self._sized(run, shape, dtype)

    def operand(self, shape: Shape, dtype: str, depth: int = 1) -> Expr:
        """Draw an operand: an input, parameter or constant, or a bounded function of one."""
        kind = self.pick(
            ("input", "number", "iota", "constant", "param", "made")[: 6 if depth else 5]
        )
        if kind == "made":
            return self.bounded(shape, dtype, depth - 1)
        kinds = (self.input, self.number, self.iota, self.constant, self.param)
        return {fn.__name__: fn for fn in kinds}[kind](shape, dtype)

    def bounded(self, shape: Shape, dtype: str, depth: int = 0) -> Expr:
        """Draw an operation whose range the converter can bound."""
        if dtype == "bool":
            x = self.operand(shape, "float32", depth)
            return self.apply(lax.is_finite, x)
        names = [*BOUNDED_NUMBERS, *(BOUNDED_FLOATS if is_float(jnp.dtype(dtype)) else ())]
        name = self.pick([*names, "convert"])
        if name == "convert":
            x = self.operand(shape, self.pick(ALL), depth)
            return self.apply(lambda a: lax.convert_element_type(a, jnp.dtype(dtype)), x)
        count, function = {**BOUNDED_NUMBERS, **BOUNDED_FLOATS}[name]
        xs = [self.operand(shape, dtype, depth if i == 0 else 0) for i in range(count)]
        return self.apply(function, *xs)

    def apply(self, fn: Callable[..., Array], *xs: Expr, shape: Shape | None = None) -> Expr:
        """Apply a function. Give `shape` if it is symbolic and not that of the first operand."""

        def run(env: Env) -> Array:
            return fn(*(x.run(env) for x in xs))

        if any(x.is_open for x in xs):
            result_shape = xs[0].shape if shape is None else shape
            return Expr(
                run,
                result_shape,
                _result_type(fn, *((_closed_shape(x.shape), x.dtype) for x in xs))[1],
            )
        return Expr(run, *_result_type(fn, *((x.shape, x.dtype) for x in xs)))

    # ------------------------------------------------------------------------------------- graphs

    def graph(self, *results: Expr) -> Graph:
        """Trace the program of these expressions. Dimensions without an input get an extra one."""

        def program(params: Mapping[str, Array], *inputs: Array) -> list[Array]:
            pairs = [
                (d, s)
                for shape, x in zip(self.shapes, inputs, strict=True)
                for d, s in zip(shape, x.shape, strict=True)
                if isinstance(d, str)
            ]
            env = Env(inputs, params, dict(pairs))
            return [result.run(env) for result in results]

        for name in sorted(self.named - {d for shape in self.shapes for d in shape}):
            self.input((name,), "float32")
        specs = [(shape, x.dtype) for shape, x in zip(self.shapes, self.inputs, strict=True)]
        return trace(program, specs, self.params, kept_calls=frozenset(CALLS))


@cache
def _result_type(fn: Callable[..., Array], *types: tuple[Any, str]) -> tuple[Any, str]:
    out = jax.eval_shape(fn, *(jax.ShapeDtypeStruct(s, jnp.dtype(d)) for s, d in types))
    return out.shape, jnp.dtype(out.dtype).name


def _known_sizes(shape: Shape) -> list[int]:
    return [d for d in shape if not isinstance(d, str)]


def _closed_shape(shape: Shape) -> tuple[int, ...]:
    return tuple(SIZES[d] if isinstance(d, str) else d for d in shape)


BOUNDED_NUMBERS: dict[str, tuple[int, Callable[..., Array]]] = {
    "max": (2, lax.max),
    "min": (2, lax.min),
    "add": (2, lax.add),
    "sub": (2, lax.sub),
    "mul": (2, lax.mul),
    "square": (1, lax.square),
    "abs": (1, lambda x: x if x.dtype.kind == "u" else lax.abs(x)),
    "neg": (1, lax.neg),
    "sign": (1, lax.sign),
    "rem": (2, lax.rem),
    "div": (2, lax.div),
    "clamp": (3, lambda a, b, c: lax.clamp(a, b, c)),
    "select": (2, lambda x, y: lax.select(lax.lt(x, y), x, y)),
    "total": (1, lambda x: lax.full_like(x, 0) + x.sum(dtype=x.dtype)),
    "largest": (1, lambda x: lax.full_like(x, 0) + x.max(initial=lowest(x.dtype))),
}
BOUNDED_FLOATS: dict[str, tuple[int, Callable[..., Array]]] = {
    "exp": (1, lax.exp),
    "floor": (1, lax.floor),
    "ceil": (1, lax.ceil),
    "round": (1, lax.round),
}
