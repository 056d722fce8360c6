"""Programs that gather, scatter and slice by indices of every provenance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import Value, ops
from converter.ir.op import Op
from tests.lowerings.elementwise import results
from tests.lowerings.operands import converted, moderate, operand, subnormal
from tests.lowerings.prove import Applied, LoweringCase, Result
from tests.rules.programs import ALL, INTEGERS, Drawn, Expr, Shape

INDICES = [0, 1, 2, 3, -1, 5, -7, 100]
"""In range, one off on either side, and far off."""


def _indices(d: Drawn, shape: Shape, within: int | None = None) -> Expr:
    """Indices of any integer dtype; all of them smaller than a number, if one is given."""
    dtype = d.pick(["int32", "int32", *INTEGERS])
    low = 0 if within is not None or dtype.startswith("u") else -100
    pool = [n for n in INDICES if low <= n and (within is None or n < within)]
    x = operand(d, shape, dtype, pool)
    if within is None:
        return x
    kind = jnp.dtype(dtype)
    return d.apply(lambda a: lax.clamp(np.asarray(0, kind), a, np.asarray(within - 1, kind)), x)


def _taken(d: Drawn) -> Result:
    """Whole slices along one axis, as layout rules write it; negative ones count from the end."""
    shape, axis = d.pick([((4, 3), 0), ((2, 4), 1), ((4,), 0), (("n", 4), 1)])
    dtype = d.pick(ALL)
    x = operand(d, shape, dtype, subnormal(dtype))
    where = d.pick([(), (2,), (2, 2), (0,)])
    indices = _indices(d, where, 4)
    if d.chance():
        indices = converted(d, indices, "int32")
    return Result(_take(x, indices, axis))


def _taken_of_many(d: Drawn) -> Result:
    """Enough entries for another operator."""
    dtype = d.pick(["float32", "int32", "bool"])
    x = operand(d, (4,), dtype)
    indices = d.input(d.pick([(300,), (30, 10), ("n", 300)]), d.pick(["int32", "int64"]), [0, 1, 3])
    return Result(_take(x, indices, 0))


def _taken_at_extremes(d: Drawn) -> Result:
    """Where the largest is, in whatever dtype, and converted or not."""
    x = d.input((2, 4), "float32", moderate("float32"))
    fn, kind = d.pick([lax.argmax, lax.argmin]), np.dtype(d.pick(["int32", "int64", "int8"]))
    where = d.apply(lambda a: fn(a, 1, kind), x)
    if d.chance():
        where = d.apply(lambda a: lax.convert_element_type(a, np.int32), where)
    return Result(_take(d.input((4, 2), "int32"), where, 0))


def _take(x: Expr, indices: Expr, axis: int) -> Applied:
    def types(v: Value, i: Value) -> list[tuple[Any, Any]]:
        return [((*v.shape[:axis], *i.shape, *v.shape[axis + 1 :]), v.dtype)]

    return Applied(ops.take, [x, indices], {"axis": axis}, types)


# ------------------------------------------------------------------------- gathers and scatters


@dataclass(frozen=True)
class Window:
    """An operand, index vectors and the windows that they start, along each axis of the operand.

    The role of an axis is "shared" with the indices, "single" or "wide" where they point into it,
    "whole" or "short" where they do not.
    """

    operand: Shape
    roles: Sequence[str]
    sizes: Sequence[Any]
    pointed: Sequence[int]
    before: Shape
    batching: Sequence[int]

    def axes(self, *roles: str) -> tuple[int, ...]:
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
        whole = size
        if named and role in ("whole", "single", "shared") and d.chance():
            size = whole = "n"
        shape.append(size)
        window = {"wide": d.pick([2, 3]), "whole": whole, "short": d.pick([0, 1, 2])}
        sizes.append(window.get(role, 1))
    pointed = [i for i, role in enumerate(roles) if role in ("single", "wide")]
    if d.chance():
        pointed.reverse()
    before: list[Any] = list(d.pick([(), (2,), (2, 1), (0,), (3,)]))
    if named and d.chance():
        before.append("m")
    batching = []
    for axis in (i for i, role in enumerate(roles) if role == "shared"):
        at = d.integer(0, len(before))
        before.insert(at, shape[axis])
        batching.append(at)
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
    kept = [i for i in range(len(window.operand)) if i not in (*collapsed, *window.axes("shared"))]
    total = len(kept) + len(window.before)
    offsets = tuple(sorted(d.order(total)[: len(kept)]))
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
    """Integers are compared wherever several updates meet, so that their order does not show."""

    def one(d: Drawn) -> Result:
        window, mode = _window(d, d.chance()), d.pick(MODES)
        kinds = ("float32", *INTEGERS) if op is not ops.scatter else ALL
        dtype = d.pick(kinds)
        pool = [1, 2, 3] if dtype != "float32" else [0.5, 1.0, 2.0]
        x = operand(d, window.operand, dtype, () if dtype == "bool" else pool)
        indices = _index_vectors(d, window, mode)
        inserted = tuple(i for i in window.axes("single", "short") if window.sizes[i] == 1)
        inserted = inserted if d.chance() else ()
        kept = [
            i for i in range(len(window.operand)) if i not in (*inserted, *window.axes("shared"))
        ]
        total = len(kept) + len(window.before)
        places = tuple(sorted(d.order(total)[: len(kept)]))
        rest, inner = iter(window.before), iter([window.sizes[i] for i in kept])
        shape = tuple(next(inner) if i in places else next(rest) for i in range(total))
        numbers = lax.ScatterDimensionNumbers(
            places,
            inserted,
            tuple(window.pointed),
            window.axes("shared"),
            tuple(window.batching),
        )
        # Where updates meet it is open which of them is written: they are all alike.
        make = d.number if op is ops.scatter else lambda *a: operand(d, *a)
        updates = make(shape, dtype, [1] if dtype == "bool" else pool)

        def run(env: Any) -> Any:
            return fn(x.run(env), indices.run(env), updates.run(env), numbers, mode=mode)

        return Result(Expr(run, window.operand, dtype))

    return one


def _cache(d: Drawn) -> Result:
    """One window as large as the operand but along one axis, or one for each entry of a batch."""
    dtype = d.pick(["float32", "int32", "float16"])
    batch, size = d.pick([2, "n"]), d.pick([1, 2])
    x = d.input((batch, 4, 3), dtype)
    update = d.input((batch, size, 3), dtype)
    at = _indices(d, (batch,) if d.chance() else ())

    def one(a: Any, b: Any, i: Any) -> Any:
        return lax.dynamic_update_slice(a, b, (i, jnp.zeros_like(i)))

    if at.shape:
        fn = lambda a, b, i: jax.vmap(one)(a, b, i)  # noqa: E731
    else:
        fn = lambda a, b, i: jax.vmap(one, (0, 0, None))(a, b, i)  # noqa: E731
    return Result(d.apply(fn, x, update, at, shape=x.shape))


def _written_apart(d: Drawn) -> Result:
    """Updates of distinct places, each another."""
    dtype = d.pick(ALL)
    shape = d.pick([(4, 3), (4,), (4, "n")])
    x = operand(d, shape, dtype, subnormal(dtype))
    places = d.pick([[0, 2], [3, 1, 0], [-1, 1], [5, 1]])
    rows = np.array(places)
    update = operand(d, (len(places), *shape[1:]), dtype, subnormal(dtype))
    mode = d.pick(["drop", "clip"]) if min(places) < 4 and max(places) < 4 else "drop"
    return Result(d.apply(lambda a, b: a.at[rows].set(b, mode=mode), x, update, shape=shape))


# ------------------------------------------------------------------------------- dynamic slices


def _sliced(d: Drawn) -> Result:
    shape, sizes = d.pick(SLICES)
    dtype = d.pick(ALL)
    x = operand(d, shape, dtype, subnormal(dtype))
    starts = _starts(d, len(shape))

    def run(env: Any) -> Any:
        first = [s.run(env) for s in starts]
        return lax.dynamic_slice(x.run(env), first, env.shape(sizes))

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
        first = [s.run(env) for s in starts]
        return lax.dynamic_update_slice(x.run(env), update.run(env), first)

    return Result(Expr(run, shape, dtype))


def _exact(*draws: Callable[[Drawn], Result], signs: bool = False) -> list[LoweringCase]:
    return [LoweringCase(results(draw), keeps_signs=signs) for draw in draws]


SCATTERS = {
    ops.scatter_add: lax.scatter_add,
    ops.scatter_mul: lax.scatter_mul,
    ops.scatter_max: lax.scatter_max,
    ops.scatter_min: lax.scatter_min,
}
CASES: dict[Op, Sequence[LoweringCase]] = {
    ops.take: _exact(_taken, _taken_of_many, _taken_at_extremes),
    ops.gather: _exact(_gathered),
    ops.scatter: _exact(_scattered(lax.scatter, ops.scatter), _cache, _written_apart),
    **{op: _exact(_scattered(fn, op)) for op, fn in SCATTERS.items()},
    ops.dynamic_slice: _exact(_sliced),
    ops.dynamic_update_slice: _exact(_updated),
}
