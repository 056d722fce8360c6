"""Programs for the rules of `converter/canonicalize`, drawn by operation."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import __version_info__ as jax_version
from jax import lax

from converter import canonicalize
from converter.ir import Graph, dims, make_node, ops
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.ir.rewrite import drop_dead, sweep
from converter.layout import broadcast
from tests.rules.moved import MOVES, moves, stacked, unstacked
from tests.rules.programs import ALL, FLOATS, INTEGERS, NUMBERS, SHAPES, SPECIAL, Drawn, Expr
from tests.rules.prove import Case, Draw

# ------------------------------------------------------------------------------------ elementwise

LAX: dict[Op, Callable[..., Any]] = {
    op: getattr(lax, name)
    for op in ops.defined_ops()
    for name in (op.name, f"bitwise_{op.name}")
    if op.elementwise and callable(getattr(lax, name, None))
} | {
    ops.abs: lambda x: x if x.dtype.kind == "u" else lax.abs(x),
    ops.integer_pow: lambda x: lax.integer_pow(x, 2),
    ops.convert_element_type: lambda x: lax.convert_element_type(x, np.float32),
}

OF_INTEGERS = frozenset(
    {ops.shift_left, ops.shift_right_logical, ops.shift_right_arithmetic, ops.population_count}
)
LOGIC = frozenset({ops.and_, ops.or_, ops.xor, ops.not_})
COMPARED = frozenset({ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge, ops.max, ops.min})
OF_NUMBERS = frozenset(
    {ops.add, ops.sub, ops.mul, ops.div, ops.rem, ops.abs, ops.neg, ops.sign, ops.square}
)


def dtypes_of(op: Op) -> tuple[str, ...]:
    """Return the dtypes that an operation accepts."""
    if op in LOGIC:
        return ("bool", "bool", *INTEGERS)
    if op in OF_INTEGERS:
        return INTEGERS
    if op in COMPARED:
        return ALL
    return NUMBERS if op in OF_NUMBERS else FLOATS


COUNT = {ops.clamp: 3, ops.select_n: 3}


NEUTRAL = {
    **dict.fromkeys((ops.max, ops.min), (-np.inf, np.inf)),
    **dict.fromkeys((ops.add, ops.sub, ops.or_, ops.and_), (0.0, -0.0, 1.0)),
    **dict.fromkeys((ops.mul, ops.div), (1.0, -1.0, 0.0)),
}
"""Constants for which an operation may be the identity or may be constant."""


def elementwise(op: Op) -> Draw:
    """Return a draw of an operation with operands of all kinds, of which one is often a number."""
    function, dtypes = LAX[op], dtypes_of(op)
    arity = COUNT.get(op) or (2 if op.broadcasts else 1)

    def draw(d: Drawn) -> Expr:
        shape, dtype = d.pick(SHAPES), d.pick(dtypes)
        xs = [d.operand(shape, dtype, 2) for _ in range(arity)]
        variant = d.integer(0, 3) if arity > 1 else 0
        if variant == 1:
            xs[1] = xs[0]
        elif variant > 1:
            is_integral = not is_float(np.dtype(jnp.dtype(dtype)))
            pool = [n for n in NEUTRAL.get(op, SPECIAL) if not is_integral or n in (0, 1)]
            xs[variant - 2] = d.number(shape, dtype, pool or None)
        return d.apply(function, *xs)

    return draw


def compared(op: Op) -> Draw:
    """Return a draw of a comparison of a bounded value with a number, in either order."""

    def draw(d: Drawn) -> Expr:
        shape, dtype = d.pick(SHAPES), d.pick(dtypes_of(op))
        xs = [d.bounded(shape, dtype, 1), d.number(shape, dtype)]
        return d.apply(LAX[op], *(xs if d.chance() else xs[::-1]))

    return draw


def clamped(d: Drawn) -> Expr:
    """Draw a clamp of a bounded value, often of one that has been clamped already."""
    shape, dtype = d.pick(SHAPES), d.pick(NUMBERS)
    low, high = (d.number(shape, dtype) for _ in range(2))
    x = d.bounded(shape, dtype, 1)
    inner = d.pick([x, d.apply(lax.clamp, low, x, high)])
    return d.apply(lax.clamp, low, inner, high)


def select(d: Drawn) -> Expr:
    """Draw a selection among two or three cases, which may be the same value."""
    shape, dtype, count = d.pick(SHAPES), d.pick(ALL), d.pick([2, 2, 3])
    index_dtype = "bool" if count == 2 else "int32"
    index = d.pick([d.number, d.constant, d.input])(shape, index_dtype, [0, 1, 2][:count])
    cases = [d.operand(shape, dtype) for _ in range(count)]
    if d.chance():
        cases = [cases[0]] * count
    return d.apply(lambda w, *xs: lax.select_n(w, *xs), index, *cases)


def power(d: Drawn) -> Expr:
    """Draw a power with a constant exponent, mostly of values that cannot be negative."""
    shape, dtype = d.pick(SHAPES), d.pick(FLOATS)
    x = d.apply(d.pick([lax.square, lax.exp, lax.abs, lax.neg]), d.operand(shape, dtype))
    return d.apply(lax.pow, x, d.number(shape, dtype, [1.5, 2.0, 0.5]))


def drawn_bits(d: Drawn) -> Expr:
    """Draw a float in [1, 2) from its bits, minus a number, as `jax.random.uniform` does."""
    kind, bits, digits = d.pick([("float32", "uint32", 23), ("float64", "uint64", 52)])
    n, bits_of_one = np.dtype(bits).type, np.ones((), kind).view(bits)
    x = d.input((2, 3), bits)
    x = d.apply(lambda a: lax.shift_right_logical(a, n(jnp.iinfo(bits).bits - digits)), x)
    x = d.apply(lambda a: lax.bitcast_convert_type(a | bits_of_one, kind), x)
    offset = np.asarray(d.pick([1.0, 1.0, 0.5]), kind)
    return d.apply(lambda a: a - offset, x)


def by_turns(d: Drawn) -> Expr:
    """Draw the sum of two arrays padded with interior zeros, as in `lax.associative_scan`."""
    dtype, size = d.pick(("float32", "int32", "bool")), d.integer(1, 4)
    extra = d.integer(0, 1)
    zero = np.zeros((), dtype)
    x, y = d.input((2, size + extra), dtype), d.input((2, size), dtype)
    low = d.apply(lambda a: lax.pad(a, zero, ((0, 0, 0), (0, 1 - extra, 1))), x)
    high = d.apply(lambda a: lax.pad(a, zero, ((0, 0, 0), (1, extra, 1))), y)
    pair = d.pick([(low, high), (high, low)])
    return d.apply(lax.bitwise_or if dtype == "bool" else lax.add, *pair)


# --------------------------------------------------------------------------- sums, scatters, loops

SHARDING = {"out_sharding": None} if jax_version >= (0, 8) else {}
REDUCED: dict[Op, Callable[..., Any]] = {
    ops.reduce_sum: lambda x, axes: lax.reduce_sum_p.bind(x, axes=axes, **SHARDING),
    ops.reduce_prod: lambda x, axes: lax.reduce_prod_p.bind(x, axes=axes, **SHARDING),
    ops.reduce_max: lambda x, axes: lax.reduce_max_p.bind(x, axes=axes, **SHARDING),
    ops.reduce_min: lambda x, axes: lax.reduce_min_p.bind(x, axes=axes, **SHARDING),
    ops.reduce_and: lambda x, axes: lax.reduce_and_p.bind(x, axes=axes),
    ops.reduce_or: lambda x, axes: lax.reduce_or_p.bind(x, axes=axes),
    ops.reduce_xor: lambda x, axes: lax.reduce_xor_p.bind(x, axes=axes),
}


def reduced(op: Op, shapes: Any = ((1, 3), (2, 0), (0, 3), (2, 3), ("n", 1))) -> Draw:
    logic = op in (ops.reduce_and, ops.reduce_or, ops.reduce_xor)
    dtypes = (*INTEGERS, "bool") if logic else NUMBERS

    def draw(d: Drawn) -> Expr:
        shape, dtype = d.pick(shapes), d.pick(dtypes)
        axes = tuple(i for i in range(len(shape)) if d.chance())
        result_shape = tuple(s for i, s in enumerate(shape) if i not in axes)
        x = d.operand(shape, dtype)
        return d.apply(lambda a: REDUCED[op](a, axes), x, shape=result_shape)

    return draw


def cumulative(fn: Callable[..., Any]) -> Draw:
    def draw(d: Drawn) -> Expr:
        x = d.operand(d.pick([(1, 3), (2, 1), ("n", 1), (2, 3)]), d.pick(NUMBERS))
        axis, reverse = d.integer(0, 1), d.chance()
        return d.apply(lambda a: fn(a, axis=axis, reverse=reverse), x)

    return draw


def product_of_one(d: Drawn) -> Expr:
    """Draw an einsum whose result may have axes of size one, and a reshape that moves them."""
    batch, rows, columns = d.pick([1, 2, "n"]), d.pick([1, 3]), d.pick([1, 4])
    x, y = d.input((batch, rows, 2), "int32"), d.input((batch, 2, columns), "int32")
    sizes, labels = {"b": batch, "i": rows, "j": columns}, "".join("bij"[i] for i in d.order(3))
    out = d.apply(
        lambda a, b: jnp.einsum(f"bik,bkj->{labels}", a, b),
        x,
        y,
        shape=tuple(sizes[a] for a in labels),
    )
    shape = tuple(out.shape[i] for i in d.order(3))
    if [s for s in shape if s != 1] != [s for s in out.shape if s != 1]:
        shape = out.shape
    return Expr(lambda env: lax.reshape(out.run(env), env.shape(shape)), shape, "int32")


def windowed(bind: Callable[..., Any], start: Any) -> Draw:
    """Return a draw of a pooling over an axis that may be empty, with padding."""

    def draw(d: Drawn) -> Expr:
        x = d.input((2, d.pick([0, 3])), "float32")
        shape = {"window_dimensions": (1, 2), "window_strides": (1, 1)}
        dilations = {"base_dilation": (1, 1), "window_dilation": (1, 1)}
        return d.apply(lambda a: bind(a, padding=((0, 0), (2, 2)), **shape, **dilations), x)

    return draw


def convolved(d: Drawn) -> Expr:
    shape, kernel = d.pick([((0, 2, 4), (3, 2, 2)), ((1, 0, 4), (3, 0, 2)), ((1, 2, 0), (3, 2, 1))])
    x, w = d.input(shape, "float32"), d.param(kernel, "float32")
    return d.apply(lambda a, b: lax.conv_general_dilated(a, b, (1,), ((1, 1),)), x, w)


def updated(d: Drawn) -> Expr:
    x, size = d.input((3,), "int32"), d.pick([0, 2])
    return d.apply(lambda a, b: lax.dynamic_update_slice(a, b, (1,)), x, d.input((size,), "int32"))


def scattered(fn: Callable[..., Any]) -> Draw:
    def draw(d: Drawn) -> Expr:
        dtype = d.pick(["float32", "int32"])
        x, count = d.input((4, 2), dtype), d.pick([0, 2])
        indices = d.input((count, 1), "int32", [0, 1, 3])
        numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        return d.apply(lambda *a: fn(*a, numbers), x, indices, d.input((count, 2), dtype))

    return draw


def select_and_scatter(d: Drawn) -> Expr:
    x = d.input((0, 4), "float32")
    y = d.input((0, 2), "float32")
    params = {"select_prim": lax.ge_p, "window_dimensions": (1, 2), "window_strides": (1, 2)}
    bind = lax.select_and_scatter_add_p.bind
    return d.apply(lambda a, b: bind(b, a, padding=((0, 0), (0, 0)), **params), x, y)


def looped(d: Drawn) -> list[Expr]:
    x, count = d.input((2,), "float32"), d.pick([0, 0, 2])
    xs = d.input((count, 2), "float32")
    body = lambda c, y: (c + y, c * y)  # noqa: E731
    return [d.apply(lambda a, b, i=i: lax.scan(body, a, b)[i], x, xs) for i in range(2)]


def branched(d: Drawn) -> Expr:
    """Draw a conditional in another one, with an index that may have one value only."""
    x, index = d.input((2,), "float32"), d.input((), "int32", [-1, 0, 1, 2, 5])
    low, width, inner = d.integer(-2, 4), d.pick([0, 0, 1, 9]), d.chance()
    scale = lambda y: y * 3  # noqa: E731

    def run(a: Any, i: Any) -> Any:
        def nested(y: Any) -> Any:
            return lax.cond(y[0] > 0, scale, jnp.negative, y) if inner else y + 1

        return lax.switch(jnp.clip(i, low, low + width), [jnp.abs, nested, scale], a)

    return d.apply(run, x, index)


def by_hand(op: Op, change: Callable[[Any], Any] = lambda x: x, **params: Any) -> Case:
    """Return a case for a node that JAX does not trace, which computes `change` of its operand.

    The node is inserted in front of the operand of the graph's last node.
    """

    def insert(graph: Graph) -> None:
        node = graph.outputs[0].node
        assert node is not None
        x = node.inputs[0]
        shape = change(np.zeros([1 if dims.is_symbolic(s) else s for s in x.shape])).shape
        shape = x.shape if len(shape) == x.rank else (1, *x.shape)
        meaning = lambda arrays, _: [change(arrays[0])]  # noqa: E731
        inserted = make_node(op, [x], [(shape, x.dtype)], params, meaning=meaning)
        reshaped = make_node(ops.reshape, [inserted.out], [(x.shape, x.dtype)], {"shape": x.shape})
        node.inputs[0] = reshaped.out
        graph.nodes[:0] = [inserted, reshaped]

    return Case(lambda d: d.apply(lax.neg, d.input(d.pick(SHAPES), "float32")), prepare=[insert])


def insert_size(graph: Graph) -> None:
    """Replace the operand of the output by a size that is constant by now."""
    node = graph.outputs[0].node
    assert node is not None
    size = make_node(ops.dim_as_value, [], [((), np.dtype("int32"))], {"dim": 5})
    node.inputs[0] = size.out
    graph.nodes[:0] = [size]


# ------------------------------------------------------------------------------------------ cases


def other_rules(op: Op) -> Callable[[Graph], None]:
    """Return a step with the rules of all other operations, which canonicalizes the operands."""
    rules = {key: rule for key, rule in canonicalize.RULES.items() if key is not op}

    def run(graph: Graph) -> None:
        for _ in range(2):
            sweep(graph, rules)
            drop_dead(graph)

    return run


def drop_broadcasts(graph: Graph) -> None:
    """Remove explicit broadcasts of operands that the operation broadcasts itself."""
    sweep(graph, broadcast.RULES)


def _pick_draw(*draws: Draw) -> Draw:
    return lambda d: d.pick(draws)(d)


def total_order(fn: Callable[..., Any]) -> Draw:
    kinds = ("int32", "uint8", "bool", "float32")
    return lambda d: (lambda s, t: d.apply(fn, d.operand(s, t), d.operand(s, t)))(
        d.pick(SHAPES), d.pick(kinds)
    )


DRAWS: dict[Op, Draw] = {
    **{op: elementwise(op) for op in LAX},
    **{op: moves(op) for op in MOVES},
    **{op: reduced(op) for op in REDUCED},
    **{op: compared(op) for op in (ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge)},
    ops.clamp: clamped,
    ops.select_n: select,
    ops.pow: power,
    ops.sub: _pick_draw(elementwise(ops.sub), drawn_bits),
    ops.add: _pick_draw(elementwise(ops.add), by_turns),
    ops.or_: _pick_draw(elementwise(ops.or_), by_turns),
    ops.integer_pow: lambda d: (
        lambda y: d.apply(
            lambda a: lax.integer_pow_p.bind(a, y=y), d.operand(d.pick(SHAPES), d.pick(NUMBERS))
        )
    )(d.pick([1, 2, 3])),
    ops.abs: lambda d: d.apply(
        lax.abs,
        d.apply(
            d.pick([lax.exp, lax.square, lambda a: jnp.square(a).sum(0), lambda a: a.sum(0)]),
            d.operand((2, 3), d.pick(FLOATS)),
        ),
    ),
    ops.eq_to: total_order(lax.eq_to_p.bind),
    ops.le_to: total_order(lax.le_to_p.bind),
    ops.lt_to: total_order(lax.lt_to_p.bind),
    ops.stack: stacked,
    ops.unstack: unstacked,
    ops.cumsum: cumulative(lax.cumsum),
    ops.cumprod: cumulative(lax.cumprod),
    ops.cummax: cumulative(lax.cummax),
    ops.cummin: cumulative(lax.cummin),
    ops.scatter: scattered(lax.scatter),
    ops.scatter_add: scattered(lax.scatter_add),
    ops.scatter_sub: scattered(lax.scatter_sub),
    ops.scatter_mul: scattered(lax.scatter_mul),
    ops.scatter_min: scattered(lax.scatter_min),
    ops.scatter_max: scattered(lax.scatter_max),
    ops.dynamic_update_slice: updated,
    ops.conv_general_dilated: convolved,
    ops.reduce_window_sum: windowed(lax.reduce_window_sum_p.bind, 0),
    ops.reduce_window_max: windowed(lax.reduce_window_max_p.bind, 0),
    ops.reduce_window_min: windowed(lax.reduce_window_min_p.bind, 0),
    ops.select_and_scatter_add: select_and_scatter,
    ops.scan: looped,
    ops.cond: branched,
}

ZEROS = (ops.add, ops.sub)
"""Operations for which signs of zeros may differ: XLA too replaces ``x + 0`` by x (also -0)."""

REORDERED = 4
"""Error in units in the last place of sums whose terms are added in another order."""

UNITS = {ops.pow: 2, ops.dot_general: REORDERED, ops.einsum: REORDERED}
"""Units in the last place by operation: in a power, a root and a product are rounded once each."""

WITHOUT_DRAW = (ops.dot_general, ops.einsum)
"""Operations whose rules apply often in programs of `tests.forms`."""

SINCE = {ops.stack: "0.10", ops.unstack: "0.10"}
"""The first version of JAX that has the primitive."""


BY_HAND = {
    **{op: by_hand(op) for op in canonicalize.FORWARDING_OPS},
    ops.convert_element_type: by_hand(ops.convert_element_type, new_dtype=np.dtype("float32")),
    ops.dim_as_value: Case(lambda d: d.apply(lax.neg, d.input((), "int32")), prepare=[insert_size]),
}


def case_of(op: Op) -> Case:
    """Return the case for the canonicalization rules of an operation."""
    if op in BY_HAND:
        return BY_HAND[op]
    optional = (other_rules(op), drop_broadcasts) if op.broadcasts else (other_rules(op),)
    return Case(
        None if op in WITHOUT_DRAW else DRAWS[op],
        perhaps=optional,
        zeros=op in ZEROS,
        units=UNITS.get(op, 0),
        units_of_forms=REORDERED if op is ops.transpose else 0,
        since=SINCE.get(op, ""),
    )
