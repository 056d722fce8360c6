"""Programs for forms that channels are turned in: axes of one, and elements that are repeated."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from converter.canonicalize import canonicalize
from converter.ir import ops
from converter.layout.channel_forms import (
    AFTER_REORDERING,
    BEFORE_REORDERING,
    drop_ones_before_transpose,
    match_repeat,
)
from tests.rules.canonical import COUNT, LAX, dtypes_of
from tests.rules.programs import Drawn, Expr
from tests.rules.prove import Case, Draw, swept
from tests.rules.recognised import PLAIN

POINTWISE = [
    op for op in BEFORE_REORDERING if op in LAX and op not in (ops.select_n, ops.reduce_precision)
]
BARE = (2, 3, 4)


def put_in(d: Drawn, at: int, dtype: str) -> Expr:
    """An input with an axis of one put in, or a number."""
    wide = (*BARE[:at], 1, *BARE[at:])
    return d.apply(lambda a: a.reshape(wide), d.input(BARE, dtype))


def pointwise(d: Drawn) -> Expr:
    """Any operation that treats all elements alike; one of several operands may be a number."""
    op, at = d.pick(POINTWISE), d.integer(0, 3)
    arity = COUNT.get(op) or (2 if op.broadcasts else 1)
    dtype = d.pick(dtypes_of(op))
    xs = [put_in(d, at, dtype) for _ in range(arity)]
    if arity > 1 and d.chance():
        xs[d.integer(0, arity - 1)] = d.number(xs[0].shape, dtype)
    return d.apply(LAX[op], *xs)


def moving(d: Drawn) -> Expr:
    """What has a parameter for each axis, or for one."""
    at = d.integer(0, 3)
    xs = [put_in(d, at, "float32") for _ in range(2)]
    axis = d.pick([i for i in range(4) if i != at or d.chance()])
    widths = tuple((0, 0) if i == at else (d.integer(0, 1), d.integer(0, 2)) for i in range(4))
    how = d.pick(
        (
            lambda a, b: jnp.concatenate([a, b], axis),
            lambda a, b: jnp.pad(a, widths),
            lambda a, b: a[:, :2][..., ::2],
            lambda a, b: lax.rev(a, (axis,)) if axis != at else a[..., 1:],
        )
    )
    return d.apply(how, *xs)


def dropped(d: Drawn) -> Expr:
    """Axes of one left out behind a transposition."""
    shape, order = (2, 1, 3, 4), d.order(4)
    kept = [shape[i] for i in order if i != 1]
    return d.apply(lambda a: a.transpose(order).reshape(kept), d.input(shape, "float32", PLAIN))


def repeated(d: Drawn) -> Expr:
    """Elements several times along one axis or two, or whole axes, which is something else."""
    x, axis = d.input((2, 3, 4, 2), "float32", PLAIN), d.integer(0, 3)
    times, other = d.integer(2, 3), d.pick((None, 1, 2))

    def run(a: Any) -> Any:
        y = jnp.repeat(a, times, axis)
        return y if other is None else jnp.repeat(y, 2, other)

    return d.apply(run if d.integer(0, 3) else lambda a: jnp.tile(a, (1, times, 1, 1)), x)


def form(draw: Draw) -> Case:
    return Case(draw, swept(BEFORE_REORDERING), prepare=[canonicalize], units=4)


CASES: dict[str, Case] = {
    "layout.channel_forms.BEFORE_REORDERING pointwise": Case(
        pointwise, swept(BEFORE_REORDERING), units=4, zeros=True, enough=12
    ),
    "layout.channel_forms.BEFORE_REORDERING moving": form(moving),
    "layout.channel_forms.BEFORE_REORDERING repeated": form(repeated),
    "layout.channel_forms.drop_ones_before_transpose": Case(
        dropped, swept({ops.reshape: drop_ones_before_transpose})
    ),
    "layout.channel_forms.match_repeat": Case(
        repeated, swept({ops.reshape: match_repeat}), prepare=[canonicalize]
    ),
    "layout.channel_forms.AFTER_REORDERING[repeat]": Case(
        repeated,
        swept(AFTER_REORDERING),
        prepare=[canonicalize, swept({ops.reshape: match_repeat})],
    ),
}
