"""Programs for the rules of `layout.channel_forms`: axes of size one, and repeated elements."""

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


def insert_axis(d: Drawn, axis_of_one: int, dtype: str) -> Expr:
    """Return an input of shape `BARE` into which an axis of size one is inserted at `at`."""
    shape = (*BARE[:axis_of_one], 1, *BARE[axis_of_one:])
    return d.apply(lambda a: a.reshape(shape), d.input(BARE, dtype))


def pointwise(d: Drawn) -> Expr:
    """Draw an elementwise operation; one of several operands may be a constant number."""
    op, axis_of_one = d.pick(POINTWISE), d.integer(0, 3)
    arity = COUNT.get(op) or (2 if op.broadcasts else 1)
    dtype = d.pick(dtypes_of(op))
    xs = [insert_axis(d, axis_of_one, dtype) for _ in range(arity)]
    if arity > 1 and d.chance():
        xs[d.integer(0, arity - 1)] = d.number(xs[0].shape, dtype)
    return d.apply(LAX[op], *xs)


def moving(d: Drawn) -> Expr:
    """Draw an operation with a parameter for each axis, or for one axis."""
    axis_of_one = d.integer(0, 3)
    xs = [insert_axis(d, axis_of_one, "float32") for _ in range(2)]
    axis = d.pick([i for i in range(4) if i != axis_of_one or d.chance()])
    widths = tuple(
        (0, 0) if i == axis_of_one else (d.integer(0, 1), d.integer(0, 2)) for i in range(4)
    )
    function = d.pick(
        (
            lambda a, b: jnp.concatenate([a, b], axis),
            lambda a, b: jnp.pad(a, widths),
            lambda a, b: a[:, :2][..., ::2],
            lambda a, b: lax.rev(a, (axis,)) if axis != axis_of_one else a[..., 1:],
        )
    )
    return d.apply(function, *xs)


def dropped(d: Drawn) -> Expr:
    """Draw a transposition and then a reshape that drops the axis of size one."""
    shape, order = (2, 1, 3, 4), d.order(4)
    remaining = [shape[i] for i in order if i != 1]
    return d.apply(
        lambda a: a.transpose(order).reshape(remaining), d.input(shape, "float32", PLAIN)
    )


def repeated(d: Drawn) -> Expr:
    """Draw repeated elements along one or two axes, or a tiled axis (no rule applies to that)."""
    x, axis = d.input((2, 3, 4, 2), "float32", PLAIN), d.integer(0, 3)
    times, second_axis = d.integer(2, 3), d.pick((None, 1, 2))

    def run(a: Any) -> Any:
        y = jnp.repeat(a, times, axis)
        return y if second_axis is None else jnp.repeat(y, 2, second_axis)

    return d.apply(run if d.integer(0, 3) else lambda a: jnp.tile(a, (1, times, 1, 1)), x)


def reordering_case(draw: Draw) -> Case:
    """Return a case for `BEFORE_REORDERING`."""
    return Case(draw, swept(BEFORE_REORDERING), prepare=[canonicalize], units=4)


CASES: dict[str, Case] = {
    "layout.channel_forms.BEFORE_REORDERING pointwise": Case(
        pointwise, swept(BEFORE_REORDERING), units=4, zeros=True, enough=12
    ),
    "layout.channel_forms.BEFORE_REORDERING moving": reordering_case(moving),
    "layout.channel_forms.BEFORE_REORDERING repeated": reordering_case(repeated),
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
