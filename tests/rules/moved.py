"""Programs that only move elements: reshapes, transpositions, slices, copies and paddings."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import ops
from converter.ir.op import Op
from tests.rules.programs import Drawn, Expr
from tests.rules.prove import Draw

SHAPES: tuple[tuple[Any, ...], ...] = ((2, 3, 4), (1, 3), (3, 1, 2), (0, 2), ("n", 3), (4,))


def _reshape(d: Drawn, x: Expr) -> Expr:
    if x.is_open or d.chance():
        axis = d.integer(0, len(x.shape))
        ones = [i for i, size in enumerate(x.shape) if size == 1]
        if ones and d.chance():
            shape = tuple(s for i, s in enumerate(x.shape) if i != ones[0])
        else:
            shape = (*x.shape[:axis], 1, *x.shape[axis:])
        return Expr(lambda env: lax.reshape(x.run(env), env.shape(shape)), shape, x.dtype)
    size = int(np.prod(x.shape))
    shape = d.pick([(size,), (size, 1), (2, size // 2) if size % 2 == 0 else (1, size), x.shape])
    return d.apply(lambda a: lax.reshape(a, shape), x)


def transposed(d: Drawn, x: Expr) -> Expr:
    order = d.order(len(x.shape))
    return d.apply(lambda a: lax.transpose(a, order), x, shape=tuple(x.shape[i] for i in order))


def _broadcast(d: Drawn, x: Expr) -> Expr:
    axis, size = d.integer(0, len(x.shape)), d.pick([1, 2])
    shape = [size if s == 1 and d.chance() else s for s in x.shape]
    shape.insert(axis, size)
    axes = [i for i in range(len(shape)) if i != axis]
    return Expr(
        lambda env: lax.broadcast_in_dim(x.run(env), env.shape(tuple(shape)), axes),
        tuple(shape),
        x.dtype,
    )


def _axis(d: Drawn, x: Expr) -> int | None:
    """Return an axis of known size, or None if all sizes are symbolic."""
    axes = [i for i, size in enumerate(x.shape) if not isinstance(size, str)]
    return d.pick(axes) if axes else None


def _slice(d: Drawn, x: Expr) -> Expr:
    axis = _axis(d, x)
    if axis is None:
        return x
    size = x.shape[axis]
    start = d.integer(0, size)
    stop, step = d.integer(start, size), d.pick([1, 1, 2])
    shape = tuple(-(-(stop - start) // step) if i == axis else s for i, s in enumerate(x.shape))
    return d.apply(lambda a: lax.slice_in_dim(a, start, stop, step, axis), x, shape=shape)


def _rev(d: Drawn, x: Expr) -> Expr:
    axes = [i for i in range(len(x.shape)) if d.chance()] or [0]
    return d.apply(lambda a: lax.rev(a, axes), x) if x.shape else x


def _concatenate(d: Drawn, x: Expr) -> Expr:
    axis = _axis(d, x)
    if axis is None:
        return x
    size = d.integer(0, 2)
    shape = tuple(size if i == axis else s for i, s in enumerate(x.shape))
    other = d.pick([x, d.number(shape, x.dtype), d.input(shape, x.dtype), _broadcast_like(d, x)])
    if other.shape[:axis] + other.shape[axis + 1 :] != x.shape[:axis] + x.shape[axis + 1 :]:
        other = x
    xs = d.pick([(x,), (x, other), (other, x), (x, other, other)])
    result_shape = tuple(
        sum(v.shape[i] for v in xs) if i == axis else s for i, s in enumerate(x.shape)
    )
    return d.apply(lambda *parts: lax.concatenate(parts, axis), *xs, shape=result_shape)


def _broadcast_like(d: Drawn, x: Expr) -> Expr:
    """Return an input broadcast to the shape of `x`, along the axes that are missing in it."""
    own_axes = [i for i, s in enumerate(x.shape) if not isinstance(s, str) and d.chance()]
    inner = d.input(tuple(x.shape[i] for i in own_axes), x.dtype)
    return Expr(
        lambda env: lax.broadcast_in_dim(inner.run(env), env.shape(x.shape), own_axes),
        x.shape,
        x.dtype,
    )


def _pad(d: Drawn, x: Expr) -> Expr:
    if x.is_open:
        return x
    config = [(d.integer(-1, 2), d.integer(0, 2), d.integer(0, 1)) for _ in x.shape]
    config = [
        (max(low, -size), high, inner)
        for (low, high, inner), size in zip(config, x.shape, strict=True)
    ]
    config = [(0, 0, 0)] * len(config) if d.chance() else config
    zero = np.zeros((), jnp.dtype(x.dtype))
    return d.apply(lambda a: lax.pad(a, zero, config), x)


def _split(d: Drawn, x: Expr) -> Expr:
    axis = _axis(d, x)
    if axis is None:
        return x
    first = d.integer(0, x.shape[axis])
    sizes, part = (first, x.shape[axis] - first), d.integer(0, 1)
    shape = tuple(sizes[part] if i == axis else s for i, s in enumerate(x.shape))
    return d.apply(lambda a: lax.split(a, sizes, axis)[part], x, shape=shape)


def _squeeze(d: Drawn, x: Expr) -> Expr:
    ones = [i for i, size in enumerate(x.shape) if size == 1]
    shape = tuple(s for s in x.shape if s != 1)
    return d.apply(lambda a: lax.squeeze(a, ones), x, shape=shape)


def _index(d: Drawn, x: Expr) -> Expr:
    """Gather entries of an axis at constant indices."""
    axis = _axis(d, x)
    if axis is None or not x.shape[axis]:
        return x
    size = x.shape[axis]
    start, step = d.integer(0, size - 1), d.integer(1, 2)
    indices = np.arange(start, size, step, dtype=np.int32)[: d.integer(1, 3), None]
    indices = indices[0] if d.chance() else indices
    other_axes = tuple(i for i in range(len(x.shape)) if i != axis)
    offset_axes = tuple(i - (indices.ndim == 1 and i > axis) for i in other_axes)
    shape = tuple(
        len(indices) if i == axis else s
        for i, s in enumerate(x.shape)
        if i != axis or indices.ndim == 2
    )
    numbers = lax.GatherDimensionNumbers(offset_axes, (axis,), (axis,))
    mode = d.pick(["clip", "fill", "promise_in_bounds"])

    def gathered(a: Any) -> Any:
        sizes = tuple(1 if i == axis else s for i, s in enumerate(a.shape))
        return lax.gather(a, indices, numbers, sizes, mode=mode, fill_value=7)

    return d.apply(gathered, x, shape=shape)


MOVES: dict[Op, Callable[[Drawn, Expr], Expr]] = {
    ops.reshape: _reshape,
    ops.transpose: transposed,
    ops.broadcast_in_dim: _broadcast,
    ops.slice: _slice,
    ops.rev: _rev,
    ops.concatenate: _concatenate,
    ops.pad: _pad,
    ops.split: _split,
    ops.squeeze: _squeeze,
    ops.gather: _index,
}


def moves(*last: Op, most: int = 3) -> Draw:
    """Return a draw of up to `most` random moves of an input, followed by the moves `last`."""

    def draw(d: Drawn) -> Expr:
        shape = d.pick(SHAPES)
        x = d.input(shape, d.pick(["int32", "int32", "bool", "float16"]), ())
        for step in [d.pick(list(MOVES.values())) for _ in range(d.integer(0, most))]:
            x = step(d, x)
        for op in last:
            x = MOVES[op](d, x)
        return x

    return draw


def stacked(d: Drawn) -> Expr:
    shape = d.pick(SHAPES)
    xs = [d.input(shape, "int32") for _ in range(d.integer(1, 3))]
    axis = d.integer(0, len(shape))
    result_shape = (*shape[:axis], len(xs), *shape[axis:])
    return d.apply(lambda *a: lax.stack_p.bind(*a, axis=axis), *xs, shape=result_shape)


def unstacked(d: Drawn) -> list[Expr]:
    x = d.input(d.pick([(2, 3), (3,), ("n", 2), (1, 4)]), "int32")
    axis = _axis(d, x)
    shape = tuple(s for i, s in enumerate(x.shape) if i != axis)
    return [
        d.apply(lambda a, i=i: lax.unstack_p.bind(a, axis=axis)[i], x, shape=shape)
        for i in range(x.shape[axis or 0])
    ]
