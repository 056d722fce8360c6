"""Programs for the rules of `converter/layout`, of `converter/legalize` and of targets' quirks."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.canonicalize import canonicalize
from converter.fuse.gelu import GELU
from converter.ir import Graph, ops
from converter.ir.op import Op, Rounding
from converter.ir.rewrite import Rule
from converter.layout import broadcast, chains, contraction, convolution, pooling
from converter.legalize import bounds, deviations, dtype_fallback
from converter.targets import Target, find_target
from converter.weight_folding.weight_programs import weight_values
from tests.rules import canonical
from tests.rules.canonical import LAX
from tests.rules.moved import moves
from tests.rules.programs import FLOATS, INTEGERS, Drawn, Expr
from tests.rules.prove import Case, Draw, Step, Sweep, by_recogniser, swept

SMALL = (-2, -1, 0, 1, 2, 3)
"""Numbers whose sums and products are exact."""


def of_dtypes(op: Op, dtypes: Sequence[str], shape: tuple[int, ...] = (2, 3)) -> Draw:
    """Return a draw of an elementwise operation in one of these dtypes."""

    def draw(d: Drawn) -> Expr:
        dtype = d.pick(dtypes)
        count = canonical.COUNT.get(op) or (2 if op.broadcasts else 1)
        xs = [d.operand(shape, dtype) for _ in range(count)]
        if op is ops.select_n:
            xs[0] = d.input(shape, "bool")
        return d.apply(LAX[op], *xs)

    return draw


def reduced(op: Op, dtypes: Sequence[str]) -> Draw:
    """Return a draw of a reduction in one of these dtypes."""

    def draw(d: Drawn) -> Expr:
        x = d.input(d.pick([(2, 3), (4, 3), ("n", 3)]), d.pick(dtypes))
        axes = d.pick([(0,), (1,), (0, 1)])
        result_shape = tuple(s for i, s in enumerate(x.shape) if i not in axes)
        return d.apply(lambda a: canonical.REDUCED[op](a, axes), x, shape=result_shape)

    return draw


# --------------------------------------------------------------------------------------- legalize


def bounds_sweep(strict: bool) -> Sweep:
    return Sweep(lambda graph: bounds.bounds_rules(graph, strict, {}))


def integer_case(op: Op) -> Case:
    return Case(of_dtypes(op, INTEGERS))


def cast(d: Drawn) -> Expr:
    target = np.dtype(d.pick(INTEGERS))
    x = d.operand((2, 3), d.pick(FLOATS), 2)
    return d.apply(lambda a: lax.convert_element_type(a, target), x)


def clamped(d: Drawn) -> Expr:
    """Draw a clamp whose bounds may be NaN, and may be known constants.

    Operands may be broadcast. The pass before the rule removes these broadcasts.
    """
    shape, dtype = (2, 3), d.pick(FLOATS)

    def draw_operand() -> Expr:
        if d.pick((False, True)):
            return d.apply(
                partial(jnp.broadcast_to, shape=shape), d.input(d.pick(((), (3,))), dtype)
            )
        return d.pick((d.input, d.number))(shape, dtype)

    x = d.pick((partial(d.operand, shape, dtype), draw_operand))()
    if d.pick((False, True)):
        low, high = (d.pick((d.input, d.number))((), dtype) for _ in range(2))
    else:
        low, high = draw_operand(), draw_operand()
    return d.apply(lax.clamp, low, x, high)


def to_float8(d: Drawn) -> Expr:
    numbers = [1.0, np.inf, -np.inf, np.nan, 6e4, -6.2e4, 3e-2, 61440, 0, 464, 480, 512]
    x, dtype = (
        d.input((4, 5), d.pick(FLOATS), numbers),
        d.pick((jnp.float8_e5m2, jnp.float8_e4m3fn)),
    )
    return d.apply(lambda a: lax.convert_element_type(a, dtype), x)


def gelu(shape: tuple[int, ...]) -> Draw:
    def draw(d: Drawn) -> Expr:
        x = d.input(shape, "float32", [-1.5, 0.0, 2.5, -6.0, 0.25])
        return d.apply(lambda a: jax.nn.gelu(a, approximate=False), x)

    return draw


STRICT_DEVIATIONS = Sweep(
    lambda graph: deviations.deviation_rules(True, {}, find_target("onnxruntime"))
)
"""The rules for deviations of ONNX Runtime in a strict conversion."""


CANCELLED = 64
"""Error of XLA's float32 ``lgamma`` and ``digamma`` in units in the last place. The fallback to
float64 is near the truth. At most 50 were measured near 300 poles and zeros, for ``lgamma`` at
-8.999997."""

ROUNDED_TWICE = 8
"""Error of a formula in half precision in units in the last place. The fallback computes in float32
and rounds once more. At most 4 were measured for drawn numbers (``exp2`` at 7.25 in bfloat16)."""


def fallbacks() -> Iterator[tuple[str, Case]]:
    """Yield a case for each target and each operation with a dtype fallback, in those dtypes."""
    for name in ("standard", "onnxruntime", "openvino"):
        target = find_target(name)
        for op, fallback in target.kernels.items():
            dtypes = [d for d in fallback.conversions if d in canonical.dtypes_of(op)]
            if not dtypes or op not in {**LAX, **canonical.REDUCED}:
                continue
            draw = reduced(op, dtypes) if op in canonical.REDUCED else of_dtypes(op, dtypes)
            floats = any("float" in d for d in dtypes)
            cancels = "float32" in dtypes and op.rounding is Rounding.CANCELS
            units = CANCELLED if cancels else ROUNDED_TWICE * floats
            yield f"{name} {op}", Case(draw, _fallback(target), units=units)


def _fallback(target: Target) -> Step:
    return Sweep(lambda graph: dtype_fallback.dtype_fallback_rules(graph, 23, target))


# ----------------------------------------------------------------------------------------- layout

REDUNDANT_MOVES = (ops.transpose, ops.reshape, ops.transpose, ops.reshape)
"""A chain of moves that a shorter chain can replace."""


def rolled(d: Drawn) -> Expr:
    x, shift = d.input((4, 2), "int32"), d.integer(1, 3)
    return d.apply(lambda a: lax.concatenate([a[shift:], a[:shift]], 0), x)


def entry(d: Drawn) -> Expr:
    x = d.input(d.pick([(4, 2), (3, 2, 2)]), "int32")
    axis = d.integer(0, len(x.shape) - 1)
    index = d.integer(0, x.shape[axis] - 1)
    return d.apply(lambda a: lax.index_in_dim(a, index, axis, keepdims=False), x)


def parted(d: Drawn) -> list[Expr]:
    x, axis = d.input((4, 6), "int32"), d.integer(0, 1)
    bounds = sorted({d.integer(1, 3), d.integer(1, 3)})
    return [
        d.apply(lambda a, i=i: jnp.split(a, bounds, axis)[i], x) for i in range(len(bounds) + 1)
    ]


def pool_full_axis(bind: Callable[..., Any]) -> Draw:
    """Return a draw of a pooling whose window is as long as an axis of symbolic size."""

    def run(a: Any) -> Any:
        sizes = {"window_dimensions": (1, a.shape[1], 2), "window_strides": (1, 1, 2)}
        plain = dict.fromkeys(("base_dilation", "window_dilation"), (1, 1, 1))
        return bind(a, padding=((0, 0),) * 3, **sizes, **plain)

    return lambda d: d.apply(run, d.input((2, "n", 4), "float32", SMALL), shape=(2, 1, 2))


def pooling_sweep(strict: bool) -> Sweep:
    return swept(pooling.pooling_rules(23, strict, find_target("onnxruntime")))


def padded_away(d: Drawn) -> Expr:
    x = d.input(d.pick([(2, 3), (1, 3), (0, 3)]), d.pick(("float32", "int32")))
    ends = [(d.integer(-2, 2), d.integer(-1, 2), d.integer(0, 1)) for _ in x.shape]
    sizes = (n + max(n - 1, 0) * inner for n, (_, _, inner) in zip(x.shape, ends, strict=True))
    fits = all(n + min(a, 0) + min(b, 0) >= 0 for n, (a, b, _) in zip(sizes, ends, strict=True))
    config = ends if fits else [(-x.shape[0], 2, 0), (0, 1, 0)]
    return d.apply(lambda a: lax.pad(a, jnp.asarray(7, a.dtype), config), x)


def summed(d: Drawn) -> Expr:
    """Draw sums or means of windows that are padded at some ends."""
    x, ends = d.input((1, 2, 5, 4), "float32", SMALL), [d.integer(0, 1) for _ in range(4)]
    padding = ((0, 0), (0, 0), (ends[0], ends[1]), (ends[2], ends[3]))
    windows = ((1, 1, 2, 2), (1, 1, *d.pick([(1, 1), (2, 1)])), padding)
    y = d.apply(lambda a: lax.reduce_window(a, 0.0, lax.add, *windows), x)
    return d.apply(lambda a: a / 4, y) if d.chance() else y


def averaged(d: Drawn) -> Expr:
    """Draw sums of windows, divided by the window size or by the count without padding."""
    x, pads = d.input((1, 2, 5, 4), "float32", SMALL), d.pick([0, 1])
    size = (1, 1, 2, 2)
    padding = ((0, 0), (0, 0), (pads, pads), (0, pads))
    total = lambda a: lax.reduce_window(a, 0.0, lax.add, size, size, padding)  # noqa: E731
    counted = d.chance()
    return d.apply(lambda a: total(a) / (total(np.ones(a.shape, a.dtype)) if counted else 4.0), x)


def padded_pool(d: Drawn) -> Expr:
    x = d.input((1, 2, 5, 4), "float32", SMALL)
    zero = np.float32(0)
    size = (1, 1, 2, 2)
    start, combine = d.pick([(-np.inf, lax.max), (0.0, lax.add)])
    padded = d.apply(lambda a: lax.pad(a, zero, ((0, 0, 0), (0, 0, 0), (1, 1, 0), (0, 1, 0))), x)
    y = d.apply(
        lambda a: lax.reduce_window(a, np.float32(start), combine, size, size, "VALID"), padded
    )
    return d.apply(lambda a: a / 4, y) if combine is lax.add and d.chance() else y


def contraction_rules(graph: Graph) -> dict[Op, Rule]:
    """Return the rule that replaces contractions by matrix products."""
    return {ops.einsum: partial(contraction.to_matrix_product, weight_ids=weight_values(graph))}


def convolution_sweep(has: bool) -> Sweep:
    """Return the sweep that emits convolutions, for a runtime with or without the operator."""
    emit = partial(convolution.emit_convolution, has_operator=lambda *_: has)
    return swept({ops.conv_general_dilated: emit})


def adds_nodes(op: Op, step: Callable[[Graph], object]) -> Step:
    """Return a step that reports whether it added nodes of this operation."""

    def run(graph: Graph) -> bool:
        before = graph.count(op)
        step(graph)
        return graph.count(op) > before

    return run


CASES: dict[str, Case] = {
    # ------------------------------------------------------------------------------------ legalize
    "legalize.deviations.COMMON_DEVIATIONS[reduce_max]": Case(reduced(ops.reduce_max, FLOATS)),
    "legalize.deviations.COMMON_DEVIATIONS[reduce_min]": Case(reduced(ops.reduce_min, FLOATS)),
    "legalize.deviations.COMMON_DEVIATIONS[argmax]": Case(None),
    "legalize.deviations.COMMON_DEVIATIONS[argmin]": Case(None),
    "legalize.deviations.COMMON_DEVIATIONS[scatter-max]": Case(None),
    "legalize.deviations.COMMON_DEVIATIONS[scatter-min]": Case(None),
    "legalize.deviations.COMMON_DEVIATIONS[top_k]": Case(None),
    "legalize.deviations.COMMON_DEVIATIONS[gelu]": Case(
        gelu((2, 3)), prepare=[canonicalize, by_recogniser(GELU)], units=4
    ),
    "legalize.deviations.ARITHMETIC_RULES[clamp]": Case(
        clamped, prepare=[canonicalize, swept(broadcast.RULES)], zeros=True
    ),
    "legalize.deviations.ARITHMETIC_RULES[convert_element_type]": Case(cast),
    "legalize.deviations.ARITHMETIC_RULES[div]": integer_case(ops.div),
    "legalize.deviations.ARITHMETIC_RULES[rem]": integer_case(ops.rem),
    "legalize.bounds.bounds_rules": Case(None, bounds_sweep(False)),
    "legalize.bounds.bounds_rules strict": Case(None, bounds_sweep(True)),
    "legalize.deviations.deviation_rules": Case(
        gelu((2, 3)), STRICT_DEVIATIONS, prepare=[canonicalize, by_recogniser(GELU)], units=4
    ),
    **{f"legalize.dtype_fallback.dtype_fallback_rules {name}": case for name, case in fallbacks()},
    # -------------------------------------------------------------------------------------- layout
    **{
        f"layout.chains.RULES[{op}]": Case(
            moves(*REDUNDANT_MOVES, op, most=0), prepare=[canonicalize]
        )
        for op in (ops.reshape, ops.transpose, ops.slice)
    },
    "layout.chains.SELECT[reshape]": Case(entry, prepare=[canonicalize]),
    "layout.chains.SELECT[concatenate]": Case(rolled, prepare=[canonicalize]),
    "layout.chains.merge_splits": Case(
        parted, adds_nodes(ops.split, chains.merge_splits), prepare=[canonicalize]
    ),
    "layout.broadcast.RULES of all operations": Case(None, swept(broadcast.RULES)),
    "layout.contraction.to_matrix_product": Case(
        None, Sweep(contraction_rules), units=canonical.REORDERED
    ),
    "layout.convolution.emit_convolution": Case(
        None, convolution_sweep(True), units=canonical.REORDERED
    ),
    # XLA does not multiply padding with an infinite kernel in some algorithms.
    "layout.convolution.emit_convolution by patches": Case(
        None, convolution_sweep(False), units=canonical.REORDERED, finite=True
    ),
    "layout.pooling.pooling_rules": Case(None, pooling_sweep(False)),
    "layout.pooling.pooling_rules strict": Case(None, pooling_sweep(True)),
    **{
        f"layout.pooling.pooling_rules whole {bind.__self__.name}": Case(
            pool_full_axis(bind), pooling_sweep(False), zeros=True
        )
        for bind in (lax.reduce_window_sum_p.bind, lax.reduce_window_max_p.bind)
    },
    "layout.pooling.match_average_pool": Case(
        averaged,
        swept({ops.div: pooling.match_average_pool}),
        prepare=[pooling_sweep(False), canonicalize],
        units=2,
    ),
    "layout.take.RULES[gather]": Case(None),
    # -------------------------------------------------------------------------------------- quirks
    "The lowest integer divided by -1[div]": integer_case(ops.div),
    "The remainder of the lowest integer by -1[rem]": integer_case(ops.rem),
    "Remainder of 64-bit integers[rem]": integer_case(ops.rem),
    "Sign of 64-bit integers[sign]": integer_case(ops.sign),
    "Sum of integers beyond their range[reduce_sum]": Case(reduced(ops.reduce_sum, INTEGERS)),
    "Product of integers beyond their range[reduce_prod]": Case(reduced(ops.reduce_prod, INTEGERS)),
    **{
        f"Largest of many 64-bit integers[{op}]": Case(reduced(op, ("int64", "uint64", "uint32")))
        for op in (ops.reduce_max, ops.reduce_min)
    },
    **{
        f"A padding in front of a pool of maxima[{op}]": Case(
            padded_pool,
            prepare=[
                pooling_sweep(False),
                canonicalize,
                swept({ops.div: pooling.match_average_pool}),
            ],
            zeros=True,
        )
        for op in (ops.max_pool, ops.sum_pool, ops.avg_pool)
    },
    **{
        f"Padding that a mean counts[{op}]": Case(
            summed,
            prepare=[
                pooling_sweep(False),
                canonicalize,
                swept({ops.div: pooling.match_average_pool}),
            ],
            zeros=True,
            units=2,
        )
        for op in (ops.sum_pool, ops.avg_pool)
    },
    "A negative padding that leaves no elements[pad]": Case(padded_away),
    "The error function of NaN[erf]": Case(of_dtypes(ops.erf, ("float32", "float16"))),
    "Floats that overflow in eight bits[convert_element_type]": Case(to_float8),
    "GELU of a single number, as its formula[gelu]": Case(
        gelu(()), prepare=[canonicalize, by_recogniser(GELU)]
    ),
    "Sigmoid of negative numbers[logistic]": Case(
        of_dtypes(ops.logistic, ("float32", "float64")), units=4
    ),
}
