"""Programs that gather, scatter and slice, with indices from every kind of source."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import Value, ops
from converter.ir.op import Op
from tests.lowerings.elementwise import cases_of
from tests.lowerings.operands import converted, moderate, operand, subnormal
from tests.lowerings.prove import Applied, LoweringCase, Result
from tests.rules.programs import ALL, INTEGERS, Drawn, Expr, Shape

INDICES = [0, 1, 2, 3, -1, 5, -7, 100]
"""Indices in range, just out of range on either side, and far out of range."""


def _indices(d: Drawn, shape: Shape, within: int | None = None) -> Expr:
    """Draw indices of any integer dtype, clamped to [0, within - 1] if `within` is given."""
    dtype = d.pick(["int32", "int32", *INTEGERS])
    low = 0 if within is not None or dtype.startswith("u") else -100
    pool = [n for n in INDICES if low <= n and (within is None or n < within)]
    x = operand(d, shape, dtype, pool)
    if within is None:
        return x
    kind = jnp.dtype(dtype)
    return d.apply(lambda a: lax.clamp(np.asarray(0, kind), a, np.asarray(within - 1, kind)), x)


def _taken(d: Drawn) -> Result:
    """Draw slices along one axis, as layout rules emit them. Negative indices are allowed."""
    shape, axis = d.pick([((4, 3), 0), ((2, 4), 1), ((4,), 0), (("n", 4), 1)])
    dtype = d.pick(ALL)
    x = operand(d, shape, dtype, subnormal(dtype))
    index_shape = d.pick([(), (2,), (2, 2), (0,)])
    indices = _indices(d, index_shape, 4)
    if d.chance():
        indices = converted(d, indices, "int32")
    return Result(_take(x, indices, axis))


def _taken_of_many(d: Drawn) -> Result:
    """Draw so many entries that another operator is used."""
    dtype = d.pick(["float32", "int32", "bool"])
    x = operand(d, (4,), dtype)
    indices = d.input(d.pick([(300,), (30, 10), ("n", 300)]), d.pick(["int32", "int64"]), [0, 1, 3])
    return Result(_take(x, indices, 0))


def _taken_at_extremes(d: Drawn) -> Result:
    """Draw a take at the position of an extreme, in any index dtype, perhaps converted."""
    x = d.input((2, 4), "float32", moderate("float32"))
    fn, kind = d.pick([lax.argmax, lax.argmin]), np.dtype(d.pick(["int32", "int64", "int8"]))
    position = d.apply(lambda a: fn(a, 1, kind), x)
    if d.chance():
        position = d.apply(lambda a: lax.convert_element_type(a, np.int32), position)
    return Result(_take(d.input((4, 2), "int32"), position, 0))


def _take(x: Expr, indices: Expr, axis: int) -> Applied:
    def types(v: Value, i: Value) -> list[tuple[Any, Any]]:
        return [((*v.shape[:axis], *i.shape, *v.shape[axis + 1 :]), v.dtype)]

    return Applied(ops.take, [x, indices], {"axis": axis}, types)


# ------------------------------------------------------------------------- gathers and scatters


@dataclass(frozen=True)
class Window:
    """The shapes of a gather or scatter: its operand, its index vectors and its windows.

    The role of an axis of the operand is "shared" if it is a batch axis of the indices too. It is
    "single" or "wide" if the indices point into it, by the size of the window, and otherwise
    "whole" or "short". ``pointed`` are the axes that the indices point into, ``before`` the batch
    shape of the indices, and ``batching`` the shared axes in that shape.
    """

    operand: Shape
    roles: Sequence[str]
    sizes: Sequence[Any]
    pointed: Sequence[int]
    before: Shape
    batching: Sequence[int]

    def axes(self, *roles: str) -> tuple[int, ...]:
        """Return the axes with one of these roles."""
        return tuple(i for i, role in enumerate(self.roles) if role in roles)


def _window(d: Drawn, named: bool) -> Window:
    rank = d.integer(0, 3)
    roles = [d.pick(["shared", "shared", "single", "wide", "whole", "short"]) for _ in range(rank)]
    if d.integer(0, 5) == 0:
        roles = ["whole"] * rank
    if roles.count("shared") > 1:
        roles = ["single" if role == "shared" else role for role in roles]
    shape, sizes = list[Any](), list[Any]()
    for role in roles:
        size: Any = 2 if role == "shared" else d.pick([3, 4])
        full = size
        if named and role in ("whole", "single", "shared") and d.chance():
            size = full = "n"
        shape.append(size)
        window = {"wide": d.pick([2, 3]), "whole": full, "short": d.pick([0, 1, 2])}
        sizes.append(window.get(role, 1))
    pointed = [i for i, role in enumerate(roles) if role in ("single", "wide")]
    if d.chance():
        pointed.reverse()
    before: list[Any] = list(d.pick([(), (2,), (2, 1), (0,), (3,)]))
    if named and d.chance():
        before.append("m")
    batching = []
    for axis in (i for i, role in enumerate(roles) if role == "shared"):
        position = d.integer(0, len(before))
        before.insert(position, shape[axis])
        batching.append(position)
    return Window(tuple(shape), roles, sizes, pointed, tuple(before), batching)


MODES = ("clip", "fill", "promise_in_bounds")


def _index_vectors(d: Drawn, window: Window, mode: str) -> Expr:
    shape = (*window.before, len(window.pointed))
    if mode != "promise_in_bounds":
        return _indices(d, shape)
    return _indices(d, shape, 2)


def _gathered(d: Drawn) -> Result:
    window, mode = _window(d, d.chance()), d.pick(MODES)
    dtype = d.pick(ALL)
    x = operand(d, window.operand, dtype, subnormal(dtype))
    indices = _index_vectors(d, window, mode)
    collapsed = tuple(i for i in window.axes("single", "short") if window.sizes[i] == 1)
    collapsed = collapsed if d.chance() else ()
    window_axes = [
        i for i in range(len(window.operand)) if i not in (*collapsed, *window.axes("shared"))
    ]
    total = len(window_axes) + len(window.before)
    offsets = tuple(sorted(d.order(total)[: len(window_axes)]))
    numbers = lax.GatherDimensionNumbers(
        offsets,
        collapsed,
        tuple(window.pointed),
        window.axes("shared"),
        tuple(window.batching),
    )

    def run(env: Any) -> Any:
        sizes = env.shape(tuple(window.sizes))
        return lax.gather(x.run(env), indices.run(env), numbers, sizes, mode=mode, fill_value=fill)

    fill = d.pick([None, 7 if dtype != "bool" else 1])
    return Result(Expr(run, ("?",), dtype))


def _scattered(fn: Callable[..., Any], op: Op) -> Callable[[Drawn], Result]:
    """Return a draw of a scatter whose result is independent of the order of its updates."""

    def one(d: Drawn) -> Result:
        window, mode = _window(d, d.chance()), d.pick(MODES)
        dtypes = ("float32", *INTEGERS) if op is not ops.scatter else ALL
        dtype = d.pick(dtypes)
        pool = [1, 2, 3] if dtype != "float32" else [0.5, 1.0, 2.0]
        x = operand(d, window.operand, dtype, () if dtype == "bool" else pool)
        indices = _index_vectors(d, window, mode)
        inserted = tuple(i for i in window.axes("single", "short") if window.sizes[i] == 1)
        inserted = inserted if d.chance() else ()
        window_axes = [
            i for i in range(len(window.operand)) if i not in (*inserted, *window.axes("shared"))
        ]
        total = len(window_axes) + len(window.before)
        positions = tuple(sorted(d.order(total)[: len(window_axes)]))
        batch_sizes, window_sizes = (
            iter(window.before),
            iter([window.sizes[i] for i in window_axes]),
        )
        shape = tuple(
            next(window_sizes) if i in positions else next(batch_sizes) for i in range(total)
        )
        numbers = lax.ScatterDimensionNumbers(
            positions,
            inserted,
            tuple(window.pointed),
            window.axes("shared"),
            tuple(window.batching),
        )
        # JAX does not define which of several colliding updates is written, so that all are equal.
        draw_updates = d.number if op is ops.scatter else lambda *a: operand(d, *a)
        updates = draw_updates(shape, dtype, [1] if dtype == "bool" else pool)

        def run(env: Any) -> Any:
            return fn(x.run(env), indices.run(env), updates.run(env), numbers, mode=mode)

        return Result(Expr(run, window.operand, dtype))

    return one


def _cache_update(d: Drawn) -> Result:
    """Draw an update of a cache along one axis, at one position or at one for each batch entry."""
    dtype = d.pick(["float32", "int32", "float16"])
    batch, size = d.pick([2, "n"]), d.pick([1, 2])
    x = d.input((batch, 4, 3), dtype)
    update = d.input((batch, size, 3), dtype)
    indices = _indices(d, (batch,) if d.chance() else ())

    def update_one(a: Any, b: Any, i: Any) -> Any:
        return lax.dynamic_update_slice(a, b, (i, jnp.zeros_like(i)))

    if indices.shape:
        fn = lambda a, b, i: jax.vmap(update_one)(a, b, i)  # noqa: E731
    else:
        fn = lambda a, b, i: jax.vmap(update_one, (0, 0, None))(a, b, i)  # noqa: E731
    return Result(d.apply(fn, x, update, indices, shape=x.shape))


def _scattered_at_distinct_positions(d: Drawn) -> Result:
    """Draw a scatter of different updates at distinct constant positions."""
    dtype = d.pick(ALL)
    shape = d.pick([(4, 3), (4,), (4, "n")])
    x = operand(d, shape, dtype, subnormal(dtype))
    positions = d.pick([[0, 2], [3, 1, 0], [-1, 1], [5, 1]])
    rows = np.array(positions)
    update = operand(d, (len(positions), *shape[1:]), dtype, subnormal(dtype))
    mode = d.pick(["drop", "clip"]) if min(positions) < 4 and max(positions) < 4 else "drop"
    return Result(d.apply(lambda a, b: a.at[rows].set(b, mode=mode), x, update, shape=shape))


# ------------------------------------------------------------------------------- dynamic slices


def _sliced(d: Drawn) -> Result:
    shape, sizes = d.pick(SLICES)
    dtype = d.pick(ALL)
    x = operand(d, shape, dtype, subnormal(dtype))
    starts = _starts(d, len(shape))

    def run(env: Any) -> Any:
        start_values = [s.run(env) for s in starts]
        return lax.dynamic_slice(x.run(env), start_values, env.shape(sizes))

    return Result(Expr(run, sizes, dtype))


SLICES: tuple[tuple[Shape, Shape], ...] = (
    ((4, 3), (2, 3)),
    ((4, 3), (4, 3)),
    ((4, 3), (2, 2)),
    ((4, 3), (1, 3)),
    ((4, 3, 2), (2, 3, 1)),
    ((2, 4, 3), (2, 1, 2)),
    ((4, 3), (4, 1)),
    ((4,), (2,)),
    ((4, 0), (1, 0)),
    ((4,), (0,)),
    (("n", 4), ("n", 2)),
    (("n", 4), (1, 4)),
    (("n", 4), (1, 2)),
    ((), ()),
)


def _starts(d: Drawn, rank: int) -> list[Expr]:
    dtype = d.pick(["int32", "int32", *INTEGERS])
    low = 0 if dtype.startswith("u") else -100
    pool = d.pick([[n for n in INDICES if n >= low], [0, 1]])
    return [operand(d, (), dtype, pool) for _ in range(rank)]


def _updated(d: Drawn) -> Result:
    shape, sizes = d.pick(SLICES)
    dtype = d.pick(ALL)
    x, update = (operand(d, s, dtype, subnormal(dtype)) for s in (shape, sizes))
    starts = _starts(d, len(shape))

    def run(env: Any) -> Any:
        start_values = [s.run(env) for s in starts]
        return lax.dynamic_update_slice(x.run(env), update.run(env), start_values)

    return Result(Expr(run, shape, dtype))


SCATTERS = {
    ops.scatter_add: lax.scatter_add,
    ops.scatter_mul: lax.scatter_mul,
    ops.scatter_max: lax.scatter_max,
    ops.scatter_min: lax.scatter_min,
}
CASES: dict[Op, Sequence[LoweringCase]] = {
    ops.take: cases_of(_taken, _taken_of_many, _taken_at_extremes),
    ops.gather: cases_of(_gathered),
    ops.scatter: cases_of(
        _scattered(lax.scatter, ops.scatter), _cache_update, _scattered_at_distinct_positions
    ),
    **{op: cases_of(_scattered(fn, op)) for op, fn in SCATTERS.items()},
    ops.dynamic_slice: cases_of(_sliced),
    ops.dynamic_update_slice: cases_of(_updated),
}
