"""Programs for recognisers, and for rules of other packages that need recognised composites."""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.canonicalize import canonicalize, fold_constants
from converter.canonicalize.emptiness import fill_empty
from converter.canonicalize.slicing import match_interleaving
from converter.canonicalize.updates import join_updates
from converter.fuse import attention, grid_sample, layer_norm, named_calls, resize, rotary, softmax
from converter.fuse.attention import shifts
from converter.fuse.spelling import Spelling, recognise_spellings
from converter.ir import Graph, ops
from converter.pipeline.passes import distinct_passes
from converter.pipeline.settings import PassSettings
from tests.conformance import drawn
from tests.programs.sampling import SPELLED as SAMPLED
from tests.programs.spellings import dot_product, rotate_full, rotate_interleaved, rotate_rest
from tests.rules import canonical, other_forms
from tests.rules.moved import moves
from tests.rules.other_forms import ODD, PLAIN
from tests.rules.programs import Drawn, Expr
from tests.rules.prove import Case, Draw, Step, by_recogniser, swept

HUGE = (np.inf, -np.inf, np.nan, 1e30, 3e38, 1e-30, 0.0, 2.0, 0.5, -1.5)
"""Factors for which a different order of operations changes zeros or terms that cancel."""


def until(name: str, **options: Any) -> Step:
    """Return a step that runs all passes before the pass of this name."""

    def run(graph: Graph) -> None:
        settings = PassSettings(opset=23, **options)
        for step in distinct_passes():
            if step.name == name:
                return
            if step.run(graph, settings) and step.canonical:
                canonicalize(graph)

    return run


def changes(step: Callable[[Graph], object]) -> Step:
    """Return a step that reports whether `step` changed the text of the graph."""

    def run(graph: Graph) -> bool:
        before = str(graph)
        step(graph)
        return str(graph) != before

    return run


Form = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
"""A function of one sample, and the shapes of its operands."""

LANES = 3


def _vmapped(fn: Callable[..., Any], axis: int) -> Callable[..., Any]:
    return jax.vmap(fn, in_axes=axis)


def of_forms(*forms: Form, odd: bool = True) -> Draw:
    """Return a draw of one of the forms, plain or vmapped along a further axis of its operands.

    With `odd`, some inputs contain NaN, infinities and negative zeros.
    """

    def draw(d: Drawn) -> Expr:
        (fn, shapes), axis = d.pick(forms), d.pick((None, 1))
        if axis is not None:
            fn, axes = _vmapped(fn, axis), [axis % (len(s) + 1) for s in shapes]
            pairs = zip(shapes, axes, strict=True)
            shapes = tuple((*s[:position], LANES, *s[position:]) for s, position in pairs)
        pool = ODD if d.integer(0, 3) == 0 and odd else PLAIN
        return d.apply(fn, *(d.input(shape, "float32", pool) for shape in shapes))

    return draw


def of(*fns: Callable[..., Any]) -> Draw:
    """Return a draw of one of these functions of an array [3, 5]."""
    return of_forms(*((fn, ((3, 5),)) for fn in fns))


def spelled(table: Sequence[Spelling], index: int) -> Case:
    """Return the case for a spelling of a table: its formula with parameters that it may accept."""
    spelling = table[index]
    names = [name for name in signature(spelling.form.formula).parameters if name != "x"]

    def draw(d: Drawn) -> Expr:
        dtype = d.pick(("float32", "float16"))
        x = d.input((2, 3), dtype, ODD if d.chance() else PLAIN)
        pool = (0.25, 0.5, -0.5, 2.0, 0.0, 1.0, *(HUGE if d.chance() else ()))
        params = {name: np.asarray(d.pick(pool), dtype) for name in names}
        if "slope" in params and d.chance():
            slope = d.param((3,), dtype, (0.25, -0.5, 2.0, *(HUGE if d.chance() else ())))
            return d.apply(lambda a, s: spelling.form.formula(a, slope=s), x, slope)
        return d.apply(lambda a: spelling.form.formula(a, **params), x)

    def apply(graph: Graph) -> bool:
        """Whether this spelling matches where the spellings before it do not."""
        reference = graph.clone()
        for changed, count in ((reference, index), (graph, index + 1)):
            if count:
                recognise_spellings(changed, table[:count], 26, [])
        return graph.count(spelling.op) > reference.count(spelling.op)

    return Case(draw, apply, prepare=[canonicalize], units=16, enough=6 if names else 0)


# -------------------------------------------------------------------------------------- structures


def norm(x: Any, axis: int = -1) -> Any:
    """Compute a layer norm with a scale and a bias."""
    mean = x.mean(axis, keepdims=True)
    y = (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(axis, keepdims=True) + 1e-5)
    w = (np.arange(1, 6, dtype=np.float32) / 4).reshape(-1, *(1,) * (-axis - 1))
    return y * w + (w - 0.5)


def rms(x: Any) -> Any:
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * np.arange(1, 6) / 4


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = jnp.einsum("nqd,nkd->nqk", q, k) / 2
    return jax.nn.softmax(jnp.where(mask > 0, scores, -1e9), -1) @ v


def repeated(q: Any, k: Any, v: Any) -> Any:
    """Compute attention where each head of keys and values serves three heads of queries."""
    return dot_product()(q, jnp.repeat(k, 3, 1), jnp.repeat(v, 3, 1))


NORM = of_forms((norm, ((3, 5),)), (partial(norm, axis=-2), ((5, 4),)))
GELU = of(*(form.formula for form in ops.ACTIVATIONS[ops.gelu].forms))
ROTARY = of_forms(
    (rotate_full, ((5, 8),)), (rotate_interleaved, ((5, 8),)), (rotate_rest, ((6, 8),))
)
HEADS = ((5, 4, 8), (7, 4, 8), (7, 4, 8))
GROUPED = of_forms((repeated, ((5, 6, 8), (7, 2, 8), (7, 2, 8))))
UNMASKED = of_forms((dot_product(), HEADS))
MASKED = of_forms(
    (dot_product(is_causal=True), HEADS),
    (masked, ((4, 5, 8), (4, 7, 8), (4, 7, 8), (5, 7))),
    odd=False,  # a NaN that `where` masks is still an operand of the product with the values
)


def attended(d: Drawn) -> Expr:
    return d.pick((UNMASKED, MASKED))(d)


def shared_keys(d: Drawn) -> Expr:
    """Draw attention with shared keys, and a bias for each head or for all heads."""
    q, k, v = (
        d.input(shape, "float32", PLAIN) for shape in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6))
    )
    added = d.input(d.pick([(4, 5, 7), (1, 5, 7)]), "float32", PLAIN)

    def run(q: Any, k: Any, v: Any, added: Any) -> Any:
        keys, values = (jnp.repeat(x, 2, axis=1) for x in (k, v))
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, keys) / jnp.sqrt(8.0) + added
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), values)

    return d.apply(run, q, k, v, added)


def with_slopes(d: Drawn) -> Expr:
    x, slopes = d.input((2, 3), "float32"), d.param((3,), "float32", PLAIN)
    return d.apply(lambda a, s: jnp.where(a >= 0, a, s * a), x, slopes)


def factor(d: Drawn, shape: tuple[int, ...]) -> Expr:
    """Draw a factor: ordinary or huge, of any source, or bounded by a clip."""
    pool, kind = d.pick((PLAIN, HUGE, HUGE)), d.pick((d.input, d.number, d.param, d.param))
    x = kind(shape, "float32", pool)
    return d.apply(lambda a: jnp.clip(a, 0.5, 2.0), x) if d.integer(0, 5) == 0 else x


def scaled_attention(d: Drawn) -> Expr:
    """Draw attention whose queries and scores are multiplied and divided, and perhaps masked."""
    shapes, is_masked = ((2, 5, 4), (2, 7, 4), (2, 7, 3)), d.chance()
    q, k, v = (d.input(shape, "float32", PLAIN) for shape in shapes)
    steps = [d.pick((lax.mul, lax.div)) for _ in range(d.integer(1, 3))]
    factors = [factor(d, d.pick(((), (2, 1, 1), (2, 5, 1)))) for _ in steps]
    scales_queries = (
        d.chance() and not is_masked
    )  # a masked NaN of the queries would still be in a product

    def run(q: Any, k: Any, v: Any, *factors: Any) -> Any:
        remaining = [*zip(steps, factors, strict=True)]
        if scales_queries:
            step, value = remaining.pop(0)
            q = step(q, jnp.broadcast_to(value, q.shape))
        scores = jnp.einsum("nqd,nkd->nqk", q, k)
        for step, value in remaining:
            scores = step(scores, jnp.broadcast_to(value, scores.shape))
        if is_masked:
            scores = jnp.where(np.tri(5, 7, dtype=bool), scores, -1e9)
        return jax.nn.softmax(scores, -1) @ v

    return d.apply(run, q, k, v, *factors)


def scaled_norm(d: Drawn) -> Expr:
    """Draw a layer norm or RMS norm in one of several forms, with factors inside and behind it."""
    x, shape = d.input((3, 4), "float32", (*PLAIN, 1e4)), d.pick(((4,), (), (3, 1)))
    factors = [factor(d, shape) for _ in range(d.integer(1, 2))]
    form = d.integer(0, 3)

    def run(a: Any, *values: Any) -> Any:
        mean = a.mean(-1, keepdims=True) * (form < 3)
        s = lax.rsqrt(jnp.square(a - mean if form < 3 else a).mean(-1, keepdims=True) + 1e-5)
        if form == 0:
            return values[-1] * (a * (s * values[0]) - mean * (s * values[0]))
        centred = a - mean if form < 3 else a
        y = centred * (s * values[0]) if form == 1 else centred * s * values[0]
        return y * values[-1]

    return d.apply(run, x, *factors)


def group_norm(x: Any, w: Any = None, is_inside: bool = False) -> Any:
    """Normalize [channels, positions] in two groups, scaled by `w` inside the groups or after."""
    count, size = x.shape
    parts = x.reshape(2, count // 2, size)
    mean = parts.mean((1, 2), keepdims=True)
    y = (parts - mean) * lax.rsqrt(jnp.square(parts - mean).mean((1, 2), keepdims=True) + 1e-5)
    if is_inside:
        return (y * w.reshape(2, count // 2, 1)).reshape(x.shape)
    y = y.reshape(x.shape)
    return y if w is None else y * w[:, None]


def grouped(is_inside: bool) -> Draw:
    def draw(d: Drawn) -> Expr:
        x, w = d.input((2, 4, 5), "float32", PLAIN), d.param((4,), "float32", PLAIN)
        return d.apply(lambda a, b: jax.vmap(lambda e: group_norm(e, b, is_inside))(a), x, w)

    return draw


def instance_norm(d: Drawn, computed: bool = False) -> Expr:
    x, kind = d.input((2, 3, 5), "float32", PLAIN), d.input if computed else d.param
    w = kind((3,), "float32", PLAIN)

    def run(a: Any, b: Any) -> Any:
        y = a - a.mean(2, keepdims=True)
        return y * lax.rsqrt(jnp.square(y).mean(2, keepdims=True) + 1e-5) * b[:, None]

    return d.apply(run, x, w)


def batch_norm(d: Drawn) -> Expr:
    x = d.input((2, 3, 4), "float32", PLAIN)
    mean, variance = d.param((3,), "float32", PLAIN), d.param((3,), "float32", (0.5, 1.0, 2.0))
    bias, scale = d.param((3,), "float32", PLAIN), factor(d, (3,))
    scaled = d.chance()

    def run(a: Any, m: Any, v: Any, b: Any, w: Any) -> Any:
        s = lax.rsqrt(v + 1e-3) * (w if scaled else 1)
        return a * s[:, None] + (b - m * s)[:, None]

    return d.apply(run, x, mean, variance, bias, scale)


def lowered_scores(d: Drawn) -> Expr:
    x, c = d.input((2, 3), "float32", ODD), d.pick((1e9, 65504.0, 1e30))
    mask = d.input((2, 3), "bool")
    lower = lambda m, a: jnp.where(m, a - np.float32(c), a)  # noqa: E731
    return d.apply(
        lower if d.chance() else lambda m, a: jnp.where(m, a, a - np.float32(c)), mask, x
    )


def cell_loop(name: str) -> Draw:
    cell = {"lstm": eqx.nn.LSTMCell, "gru": eqx.nn.GRUCell}.get(name)
    module = drawn(lambda key: cell(4, 3, key=key)) if cell else None
    w = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)

    def run(x: Any) -> Any:
        start = jnp.zeros(3, np.float32)
        if module is None:
            step = lambda h, r: (jnp.tanh(r @ w[0] + h @ w[1, :3]),) * 2  # noqa: E731
            return lax.scan(step, start, x)[1]
        if name == "gru":
            return lax.scan(lambda h, r: (module(r, h),) * 2, start, x)[1]
        return lax.scan(lambda s, r: ((n := module(r, s)), n[0]), (start, start), x)[1]

    return lambda d: d.apply(jax.vmap(run), d.input((2, 5, 4), "float32", PLAIN))


def contracted(d: Drawn) -> Expr:
    """Draw a `scale_and_translate`, or a contraction with a constant matrix."""
    x = d.input((2, 6, 8), "float32", PLAIN)
    scale, shift = d.pick([0.5, 1.0, 1.7]), d.pick([0.0, 0.3])
    scale_and_shift = np.float32([scale, 1 / scale]), np.float32([shift, -shift])

    def translated(a: Any) -> Any:
        return jax.image.scale_and_translate(
            a, (2, 5, 11), (1, 2), *map(jnp.asarray, scale_and_shift), "linear"
        )

    weights = np.eye(6, 4, dtype=np.float32)
    return d.apply(d.pick([translated, lambda a: jnp.einsum("bnc,nm->bcm", a, weights)]), x)


def sampled(d: Drawn) -> Expr:
    """Draw a sampling at points between pixels, on pixels and outside of the image."""
    fn, shapes = SAMPLED[d.pick([*SAMPLED])]
    coordinates = (-1.5, -1.0, -0.5, 0.0, 0.25, 0.3, 1.0, 1.125, 2.5)
    inputs = [d.input(shapes[0], "float32", PLAIN), d.input(shapes[1], "float32", coordinates)]
    return d.apply(fn, *inputs)


MANY = 16
"""Number of programs in which a rule must apply if only huge factors are critical."""

CASES: dict[str, Case] = {
    "canonicalize.canonicalize": Case(moves(), changes(canonicalize)),
    "canonicalize.canonicalize product_of_one": Case(
        canonical.product_of_one, changes(canonicalize), enough=MANY
    ),
    "canonicalize.fold_constants": Case(canonical.elementwise(ops.add), fold_constants, zeros=True),
    "canonicalize.emptiness.fill_empty": Case(moves(), changes(fill_empty)),
    "canonicalize.slicing.match_interleaving": Case(
        canonical.by_turns,
        swept({ops.add: match_interleaving, ops.or_: match_interleaving}),
        zeros=True,
    ),
    "canonicalize.updates.join_updates": Case(None, swept({ops.scatter: join_updates})),
    "fuse.activations.RELU_RULES[max]": Case(canonical.elementwise(ops.max), zeros=True),
    "fuse.activations.SOFTPLUS_RULES[log1p]": Case(
        of(lambda x: jnp.log1p(jnp.exp(-jnp.abs(x)))), prepare=[canonicalize], units=4
    ),
    "fuse.affine.AFFINE": Case(NORM, prepare=[until("complete")], units=64),
    "fuse.affine.AFFINE scaled": Case(
        scaled_norm,
        prepare=[canonicalize, by_recogniser(layer_norm.LAYER_NORM), canonicalize],
        units=64,
        enough=MANY,
    ),
    "fuse.attention.ATTENTION": Case(attended, prepare=[until("attend")], units=64, finite=True),
    "fuse.attention.STRICT_ATTENTION": Case(attended, prepare=[until("attend")], units=64),
    "fuse.attention.ATTENTION tempered": Case(
        scaled_attention,
        prepare=[canonicalize, by_recogniser(softmax.SOFTMAX)],
        units=64,
        enough=MANY,
    ),
    "fuse.attention.share_repeated_heads": Case(
        GROUPED,
        swept({ops.attention: attention.share_repeated_heads}),
        prepare=[until("attend"), by_recogniser(attention.ATTENTION)],
        units=64,
    ),
    "fuse.attention.shifts.shift_recogniser": Case(
        None, by_recogniser(shifts.shift_recogniser(False)), units=8, finite=True
    ),
    "fuse.attention.shifts.shift_recogniser strict": Case(
        None, by_recogniser(shifts.shift_recogniser(True)), units=8
    ),
    "fuse.attention.rewrite_lowered_scores": Case(
        lowered_scores,
        swept({ops.select_n: attention.rewrite_lowered_scores}),
        prepare=[canonicalize],
    ),
    "fuse.batch_norm.BATCH_NORM": Case(batch_norm, prepare=[canonicalize], units=64, enough=MANY),
    "fuse.gelu.GELU": Case(GELU, prepare=[canonicalize], units=16),
    "fuse.grid_sample.SAMPLE_CALL": Case(sampled, units=256),
    "fuse.grid_sample.grid_sample_recogniser": Case(
        sampled,
        by_recogniser(grid_sample.grid_sample_recogniser(False)),
        prepare=[until("resample")],
        units=256,
    ),
    "fuse.named_calls.inline_call": Case(None, swept({ops.named_call: named_calls.inline_call})),
    "fuse.group_norm.GROUPED_CHANNELS": Case(grouped(False), prepare=[until("group")], units=64),
    "fuse.group_norm.SINGLE_CHANNELS": Case(
        instance_norm,
        prepare=[until("group")],
        units=64,
    ),
    "fuse.group_norm.SPLIT_CHANNELS": Case(
        grouped(True), prepare=[until("scale groups")], units=64
    ),
    "fuse.layer_norm.LAYER_NORM": Case(NORM, prepare=[canonicalize], units=64),
    "fuse.layer_norm.LAYER_NORM scaled": Case(
        scaled_norm, prepare=[canonicalize], units=64, enough=MANY
    ),
    "fuse.layer_norm.RMS_NORM": Case(of(rms), prepare=[until("recognise rms norm")], units=64),
    "fuse.layer_norm.RMS_NORM scaled": Case(
        scaled_norm, prepare=[canonicalize], units=64, enough=MANY
    ),
    "fuse.log_sum_exp.LOG_SUM_EXP": Case(
        of(partial(jax.nn.logsumexp, axis=-1), partial(jax.nn.logsumexp, axis=0)),
        prepare=[canonicalize],
        units=16,
    ),
    **{
        f"fuse.recurrent.RECURRENT {name}": Case(
            cell_loop(name), prepare=[until("recur")], units=64
        )
        for name in ("lstm", "gru", "rnn")
    },
    "fuse.resampling.RESAMPLING": Case(contracted, prepare=[canonicalize], units=64),
    "fuse.resize.RESIZE_CALL": Case(None, units=64),
    "fuse.resize.resize_recogniser": Case(
        None,
        by_recogniser(resize.resize_recogniser(23, False)),
        units=64,
    ),
    "fuse.rotary.ROTARY": Case(ROTARY, prepare=[canonicalize], units=16),
    "fuse.rotary.ROTARY by matrices": Case(
        other_forms.by_matrices, prepare=[canonicalize], units=16, enough=MANY
    ),
    "fuse.rotary.ROTARY among others": Case(
        other_forms.neighbours_of_rest, prepare=[canonicalize], units=16, enough=MANY
    ),
    "fuse.rotary.PREFIX": Case(
        of_forms((rotate_rest, ((6, 8),)), odd=False),
        prepare=[canonicalize, by_recogniser(rotary.ROTARY), canonicalize],
        units=16,
    ),
    "fuse.softmax.SOFTMAX": Case(
        of(jax.nn.softmax, partial(jax.nn.softmax, axis=0)), prepare=[canonicalize], units=8
    ),
    "fuse.softmax.LOG_SOFTMAX": Case(
        of(jax.nn.log_softmax, partial(jax.nn.log_softmax, axis=0)), prepare=[canonicalize], units=8
    ),
    "legalize.deviations.COMMON_DEVIATIONS[group_norm]": Case(
        partial(instance_norm, computed=True), prepare=[until("deviations")], units=64
    ),
    "A mask for each head if heads share keys[attention]": Case(
        shared_keys, prepare=[until("quirks")], units=64
    ),
    "PRelu of infinity[leaky_relu]": Case(with_slopes, prepare=[until("deviations")]),
}
