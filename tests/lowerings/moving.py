"""Programs that move elements, count, or compute symbolic sizes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import core, lax

from converter.ir import Value, dims, ops
from converter.ir.op import Op
from tests.lowerings.elementwise import cases_of
from tests.lowerings.operands import operand, subnormal
from tests.lowerings.prove import Applied, LoweringCase, Result
from tests.rules.moved import MOVES
from tests.rules.programs import ALL, NUMBERS, Drawn, Expr, Shape

SHAPES: tuple[Shape, ...] = (
    *((2, 3, 4), (1, 3), (3, 1, 2), (0, 2), (4,), (1,), ()),
    *(("n", 3), ("n", 1, "m"), (2, "n"), (1, "m"), ("n", "m", 2)),
)


def _x(d: Drawn, shapes: Sequence[Shape] = SHAPES, dtypes: Sequence[str] = ALL) -> Expr:
    shape, dtype = d.pick(shapes), d.pick(dtypes)
    return operand(d, shape, dtype, subnormal(dtype))


def _moved(op: Op) -> Callable[[Drawn], Result]:
    return lambda d: Result(MOVES[op](d, _x(d, [s for s in SHAPES if s])))


def _reshaped(d: Drawn) -> Result:
    """Draw a reshape in which symbolic sizes stay, move, are split off or are multiplied."""
    before, after = d.pick(RESHAPES)
    x = _x(d, [before])
    return Result(Expr(lambda env: lax.reshape(x.run(env), after(env)), ("?",), x.dtype))


def _shape_of(*shape: Any) -> Callable[[Any], tuple[Any, ...]]:
    return lambda env: env.shape(shape)


RESHAPES: tuple[tuple[Shape, Callable[[Any], tuple[Any, ...]]], ...] = (
    ((2, 3), _shape_of(6)),
    ((2, 3), _shape_of(3, 2, 1)),
    ((1, 1), _shape_of()),
    ((), _shape_of(1, 1)),
    ((0, 3), _shape_of(3, 0)),
    ((0, 3), _shape_of(0)),
    (("n", 3), _shape_of(3, "n")),
    (("n", 3), _shape_of("n", 1, 3)),
    (("n", 3), _shape_of(1, "n", 3, 1)),
    (("n", 1, 3), _shape_of("n", 3)),
    (("n", 3), lambda env: (3 * env.sizes["n"],)),
    (("n", "m"), _shape_of("m", "n")),
    (("n", "m"), lambda env: (env.sizes["n"] * env.sizes["m"],)),
    (("n", "m", 2), lambda env: (env.sizes["n"], 2 * env.sizes["m"])),
    (("n", "m", 2), lambda env: (2, env.sizes["m"], env.sizes["n"])),
    (("n", "m", 2), _shape_of("m", 2, "n")),
    (("n", "m", 2), _shape_of("m", "n", 2)),
    (("n", "m", 1), _shape_of(1, "n", 1, "m")),
    (("n", "m", 1), lambda env: (1, env.sizes["n"], env.sizes["m"])),
    (("n", 0), lambda env: (0, env.sizes["n"])),
    (("n", 0), _shape_of(0, 3)),
    (("n", "m", 0), lambda env: (env.sizes["n"] * env.sizes["m"], 0)),
)


def _broadcasted(d: Drawn) -> Result:
    """Draw a broadcast to more axes, or of axes of size one, to fixed and symbolic sizes."""
    before, after, axes = d.pick(BROADCASTS)
    x = _x(d, [before])
    d.named |= {s for s in after if isinstance(s, str)}
    return Result(
        Expr(lambda env: lax.broadcast_in_dim(x.run(env), env.shape(after), axes), after, x.dtype)
    )


BROADCASTS: tuple[tuple[Shape, Shape, tuple[int, ...]], ...] = (
    ((), (2, 3), ()),
    ((), ("n", 3), ()),
    ((3,), (2, 3), (1,)),
    ((3,), (3, 2), (0,)),
    ((3,), (2, 3, 1), (1,)),
    ((1, 3), (2, 3), (0, 1)),
    ((1, 3), ("n", 3), (0, 1)),
    (("n", 1), ("n", "m"), (0, 1)),
    (("n",), ("m", "n"), (1,)),
    (("n",), ("n", "m"), (0,)),
    ((1,), (1, 1, 1), (1,)),
    ((2, 1), (2, 0, 1), (0, 2)),
    ((1,), (0,), (0,)),
)


def _sliced(d: Drawn) -> Result:
    """Draw a slice with constant ends and steps of fixed or symbolic axes."""
    x = _x(d, [("n", "m", 5), ("m", 5), (5, 4)])

    def cut(a: Any) -> Any:
        return a[index]

    index = d.pick(SLICES)
    return Result(Expr(lambda env: cut(x.run(env)), ("?",), x.dtype))


SLICES: tuple[Any, ...] = (
    np.s_[1:],
    np.s_[:, 1:],
    np.s_[:-1],
    np.s_[::2],
    np.s_[1:, 1::2],
    np.s_[..., 1:4:2],
    np.s_[..., :0],
    np.s_[::2, ..., 2:],
)


def _concatenated(d: Drawn) -> Result:
    dtype, axis = d.pick(ALL), d.integer(0, 1)
    sizes = [d.pick([0, 1, 2, "n", "m"]) for _ in range(d.integer(1, 3))]
    shapes = [(s, 3) if axis == 0 else (3, s) for s in sizes]
    xs = [operand(d, shape, dtype, subnormal(dtype)) for shape in shapes]
    return Result(Expr(lambda env: lax.concatenate([x.run(env) for x in xs], axis), ("?",), dtype))


def _padded(d: Drawn) -> Result:
    """Draw a padding: positive, negative or interior, of fixed or symbolic axes."""
    x = _x(d, [(2, 3), (1, 4), (0, 2), ("n", 3), ("m", "n"), (3,)])
    config = [d.pick(PADDINGS) for _ in x.shape]
    filler = d.pick([d.input, d.number, d.param])((), x.dtype, ())
    return Result(Expr(lambda env: lax.pad(x.run(env), filler.run(env), config), ("?",), x.dtype))


PADDINGS = (
    (0, 0, 0),
    (0, 0, 0),
    (1, 0, 0),
    (0, 2, 1),
    (-1, 2, 0),
    (1, -1, 0),
    (0, 0, 2),
    (2, -2, 1),
)


def _padded_to_size(d: Drawn) -> Result:
    """Draw a padding by a symbolic size."""
    x = _x(d, [(2, 3), ("n", 3)])
    zero = np.zeros((), jnp.dtype(x.dtype))
    d.named |= {"m"}

    def run(env: Any) -> Any:
        return lax.pad(x.run(env), zero, [(0, env.sizes["m"], 0), (0, 0, 0)])

    return Result(Expr(run, ("?",), x.dtype))


def _split(d: Drawn) -> Result:
    """Draw a split, an operation with several results that layout rules emit."""
    sizes = d.pick([(1, 2), (2, 2), (1, 1, 1), (0, 3), (3,)])
    axis, other_size = d.integer(0, 1), d.pick([2, "n"])
    shape = (sum(sizes), other_size) if axis == 0 else (other_size, sum(sizes))
    dtype = d.pick(ALL)
    x = operand(d, shape, dtype, subnormal(dtype))

    def types(v: Value) -> list[tuple[Any, Any]]:
        return [
            (tuple(size if i == axis else s for i, s in enumerate(v.shape)), v.dtype)
            for size in sizes
        ]

    return Result(Applied(ops.split, [x], {"axis": axis, "sizes": sizes}, types))


def _tiled(d: Drawn) -> Result:
    shape, reps = d.pick([((2, 3), (2, 1)), ((3,), (3,)), (("n", 3), (1, 2)), ((0, 2), (2, 2))])
    x = _x(d, [shape])

    def types(v: Value) -> list[tuple[Any, Any]]:
        sizes = zip(v.shape, reps, strict=True)
        return [(tuple(dims.as_dim(s * times) for s, times in sizes), v.dtype)]

    def meaning(arrays: Sequence[Any], _: Any) -> list[Any]:
        return [jnp.tile(arrays[0], reps)]

    return Result(Applied(ops.tile, [x], {"reps": reps}, types, meaning))


def _counted(d: Drawn) -> Result:
    shape = d.pick([s for s in SHAPES if s])
    return Result(d.iota(shape, d.pick(NUMBERS)))


def _size(d: Drawn) -> Result:
    """Draw a number that is computed from symbolic sizes."""
    x = d.input(("n", "m"), "float32")
    function = d.pick(SIZES)
    kind = jnp.dtype(d.pick(["int32", "int64", "float32", "uint8"]))
    return Result(
        Expr(lambda env: jnp.asarray(function(*x.run(env).shape)).astype(kind), (), kind.name)
    )


SIZES: tuple[Callable[[Any, Any], Any], ...] = (
    lambda n, m: n,
    lambda n, m: n + 2,
    lambda n, m: 3 - n,
    lambda n, m: n * m,
    lambda n, m: -n,
    lambda n, m: -n - m,
    lambda n, m: m - n,
    lambda n, m: -2 * n * m,
    lambda n, m: n // 2,
    lambda n, m: -n // 2,
    lambda n, m: -(-n // 2),
    lambda n, m: (n - m) // 2,
    lambda n, m: (m - n) // -2,
    lambda n, m: (n - m) // m,
    lambda n, m: -(n // -m),
    lambda n, m: n % -m,
    lambda n, m: n % 2,
    lambda n, m: (n - m) % 3,
    lambda n, m: n**2,
    lambda n, m: (n - m) * (m - n),
    lambda n, m: (n + m) // n,
    lambda n, m: max_size(n - 2, 0),
    lambda n, m: max_size(n, m),
    lambda n, m: min_size(n, 2),
    lambda n, m: min_size(n, m),
    lambda n, m: max_size(n, 1),
    lambda n, m: max_size(-n, 2 - m),
    lambda n, m: n - 2 * m + 3,
)


def max_size(x: Any, y: Any) -> Any:
    return core.max_dim(x, y)


def min_size(x: Any, y: Any) -> Any:
    return core.min_dim(x, y)


def _entry(d: Drawn) -> Result:
    shape = d.pick([(2, 3), ("n", 3), (3,)])
    dtype = d.pick(ALL)
    x = operand(d, shape, dtype, subnormal(dtype))
    axis = len(shape) - 1
    params = {"axis": axis, "index": d.integer(0, 2)}
    return Result(Applied(ops.select_index, [x], params, lambda v: [(v.shape[:-1], v.dtype)]))


cases_with_signs = partial(cases_of, keeps_signs=True)
"""`cases_of` for operations that keep the signs of zeros."""

CASES: dict[Op, Sequence[LoweringCase]] = {
    ops.reshape: cases_with_signs(_moved(ops.reshape), _reshaped),
    ops.transpose: cases_with_signs(_moved(ops.transpose)),
    ops.broadcast_in_dim: cases_with_signs(_moved(ops.broadcast_in_dim), _broadcasted),
    ops.concatenate: cases_with_signs(_concatenated),
    ops.slice: cases_with_signs(_moved(ops.slice), _sliced),
    ops.rev: cases_with_signs(_moved(ops.rev)),
    ops.pad: cases_with_signs(_moved(ops.pad), _padded, _padded_to_size),
    ops.split: cases_with_signs(_split),
    ops.tile: cases_with_signs(_tiled),
    ops.iota: cases_with_signs(_counted),
    ops.dim_as_value: [LoweringCase(lambda d: [_size(d) for _ in range(d.integer(4, 9))])],
    ops.select_index: cases_with_signs(_entry),
}
