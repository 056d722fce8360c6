"""Programs that resemble a structure which recognisers fuse. They are not fused, and the report
gives the reason if they are near misses."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import ops
from converter.targets.schemas import operator_name
from tests.conformance import DEFAULT, Case
from tests.programs.sampling import HWC, LOOK_ALIKES, POINTS
from tests.programs.spellings import turned

FUSED = ("Attention", "RotaryEmbedding", "LayerNormalization", "RMSNormalization", "LogSoftmax")
NONE = dict.fromkeys((*FUSED, "Gelu"), 0)


def scores(q, k):
    return jnp.einsum("hqd,hkd->hqk", q, k)


def attend(weights, v):
    return jnp.einsum("hqk,hkd->hqd", weights, v)


def attention(change):
    """Return attention whose scores are changed before the softmax."""

    def fn(q, k, v, *mask):
        return attend(jax.nn.softmax(change(scores(q, k), *mask), axis=-1), v)

    return fn


def transpose_reduction(reduced):
    """Return a matrix as a reduction of its transpose is: [b, a, 1]."""
    return reduced.T[:, :, None]


def exponentiate(x):
    """Return the exponentials of x less its maxima along axis 2."""
    return jnp.exp(x - x.max(2, keepdims=True))


def of_one_query(q, k, v):
    return jax.nn.softmax(k @ q / 2) @ v


def returned(index):
    """Return attention with a second output: its weights, or the scores."""

    def fn(q, k, v):
        logits = scores(q, k)
        weights = jax.nn.softmax(logits, axis=-1)
        return attend(weights, v), (weights, logits)[index]

    return fn


def weights_masked(q, k, v, mask):
    return attend(jnp.where(mask > 0, jax.nn.softmax(scores(q, k), axis=-1), 0), v)


def shared_chain(x, v):
    """Attend to scores after forty steps, each of which reads the last one twice. A search would
    visit 2^40 paths."""
    for _ in range(40):
        x = x * 0.5 + x
    return jax.nn.softmax(x, axis=-1) @ v


def unequal_halves(x, table):
    return turned(x, jnp.cos(table), jnp.sin(table))


def centre(x):
    return x - x.mean(-1, keepdims=True)


def simple_norm(x):
    """Normalize as timm's SimpleNorm in Equimo: x itself is divided by the sample deviation."""
    deviation = x - x.mean(1, keepdims=True)
    variance = jnp.sum(jnp.square(deviation), axis=1, keepdims=True) / (x.shape[1] - 1)
    return x * lax.rsqrt(variance + 1e-6) * jnp.arange(1.0, 9.0)[:, None]


def length(x):
    """Return the Euclidean norm of each row."""
    return jnp.linalg.norm(x, axis=-1, keepdims=True)


def zeroed_by_another(q, k, v, mask):
    masked = jnp.where(mask > 0, scores(q, k), -1e9)
    return attend(jnp.where(mask > 0.5, jax.nn.softmax(masked, axis=-1), 0), v)


def zeroed_below_a_bias(q, k, v, mask, bias):
    masked = jnp.where(mask > 0, scores(q, k) + bias, -1e9)
    return attend(jnp.where(mask > 0, jax.nn.softmax(masked, axis=-1), 0), v)


def products_of_nothing(q, k, v, mask):
    """Attend with weights times a mask. Rows that are hidden throughout are NaN, and NaN times zero
    is NaN."""
    visible = mask > -9
    masked = jnp.where(visible, scores(q, k), -jnp.inf)
    return attend(jax.nn.softmax(masked, axis=-1) * visible, v)


QKV = ((3, 5, 8), (3, 7, 8), (3, 7, 6))
MASKED = (*QKV, (5, 7))


def own_softmax(q, k, v):
    """Attend with a sum that has an epsilon, which is no softmax."""
    weights = scores(q, k)
    exps = jnp.exp(weights - weights.max(-1, keepdims=True))
    return attend(exps / (exps.sum(-1, keepdims=True) + 1e-6), v)


def with_a_sink(q, k, v):
    """Attend with a learned score of no value in each softmax, as gpt-oss does."""
    logits = scores(q, k)
    sinks = jnp.broadcast_to(jnp.arange(3.0)[:, None, None], (*logits.shape[:-1], 1))
    weights = jax.nn.softmax(jnp.concatenate([logits, sinks], -1), -1)
    return attend(weights[..., :-1], v)


def divided_after_the_product(q, k, v):
    """Attend and divide by the sum of the exponentials last, as blockwise attention does."""
    logits = scores(q, k)
    exps = jnp.exp(logits - lax.stop_gradient(logits.max(-1, keepdims=True)))
    return attend(exps, v) / exps.sum(-1, keepdims=True)


def with_one_in_the_sum(q, k, v):
    """Attend with exp(x) / (1 + sum(exp(x))), whose weights may all be near zero."""
    logits = scores(q, k)
    highest = jnp.maximum(logits.max(-1, keepdims=True), 0)
    exps = jnp.exp(logits - highest)
    return attend(exps / (exps.sum(-1, keepdims=True) + jnp.exp(-highest)), v)


def by_log_of_sum(q, k, v):
    """Attend with exp(x - logsumexp(x)). A row with +inf has other zeros and NaN than a softmax."""
    logits = scores(q, k)
    return attend(jnp.exp(logits - jax.nn.logsumexp(logits, -1, keepdims=True)), v)


def difference_of_two(q, k, v):
    """Attend with the difference of two softmaxes [Ye et al., arXiv:2410.05258]."""
    weights = [jax.nn.softmax(scores(q[..., i::2], k[..., i::2]), -1) for i in (0, 1)]
    return attend(weights[0] - 0.25 * weights[1], v)


def rolled_with_signs(x):
    """Rotate with a roll of the halves, whose signs are in an array of their own."""
    angles = jnp.tile(jnp.arange(20.0).reshape(5, 4) / 7, 2)
    signs = jnp.repeat(jnp.array([-1.0, 1.0]), 4)
    return x * jnp.cos(angles) + jnp.roll(x, 4, -1) * signs * jnp.sin(angles)


MISSES = {
    "Attention": [
        (returned(0), QKV, "weights of the softmax are used elsewhere"),
        (returned(1), QKV, "scores are used elsewhere"),
        (weights_masked, MASKED, "between the softmax and the second product"),
        (zeroed_by_another, MASKED, "weights are hidden that it does not hide"),
        (zeroed_below_a_bias, (*MASKED, (3, 5, 7)), "may be below what hidden ones are"),
        (products_of_nothing, MASKED, "hidden throughout is NaN"),
        (attention(lambda s, m: jnp.where(m > 0, s, -50.0)), MASKED, "not negative enough"),
        (attention(lambda s, m: jnp.tanh((s + m) / 5) * 5), MASKED, "before they are capped"),
        (attention(lambda s, m: jnp.tanh(s / 5) * m[:, :1]), MASKED, "before they are multiplied"),
        (attention(lambda s, m: (s + m) * m[:, :1]), MASKED, "before they are multiplied"),
        (attention(lambda s: -0.5 * s), QKV, "not positive"),
        (attention(lambda s: s.astype(int).astype(float)), QKV, "not understood"),
        (shared_chain, ((5, 7), (7, 3)), "scores are used elsewhere"),
        (with_a_sink, QKV, "between the softmax and the second product stands slice"),
    ],
    "Softmax": [
        (lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), ((5, 7),), "may overflow"),
        (lambda x: jax.nn.softmax(x, axis=(0, 1)), ((5, 7),), "several axes"),
    ],
    "RotaryEmbedding": [
        (unequal_halves, ((3, 5, 8), (5, 8)), "halves"),
        (lambda x: unequal_halves(x, jnp.arange(40.0).reshape(5, 8)), ((3, 5, 8),), "differ"),
        (rolled_with_signs, ((3, 5, 8),), "without a sign"),
    ],
    "LayerNormalization": [
        (lambda x: centre(x) / (x.std(-1, keepdims=True) + 1e-5), ((3, 8),), "to the deviation"),
        (
            lambda x: centre(x) / jnp.sqrt(x.var(-1, ddof=1, keepdims=True) + 1e-5),
            ((3, 8),),
            "ddof",
        ),
        (lambda x: 8**0.5 * centre(x) / length(centre(x)), ((3, 8),), "no epsilon is added"),
    ],
    "RMSNormalization": [
        (simple_norm, ((3, 8, 5),), "squared only"),
        (lambda x: x / length(x) * 5**0.5, ((3, 8, 5),), "no epsilon is added"),
        (lambda x: x * 5**0.5 / jnp.maximum(length(x), 1e-6), ((3, 8, 5),), "no epsilon"),
    ],
}

# ------------------------------------------------------------------ near misses without a reason


def mean(x):
    return x.mean(1, keepdims=True)


def less(x):
    """Return the exponents of a softmax."""
    return x - x.max(1, keepdims=True)


def copies(x):
    """Return four copies of each row."""
    return jnp.broadcast_to(x[:, None], (6, 4, 8))


def norm_of_products(x, other=1.0, average=1.0, twice=False):
    """Normalize by x * s - mean * s as Keras does, with a factor in one product only."""
    inverse = lax.rsqrt(x.var(1, keepdims=True) + 1e-3)
    scaled = x * inverse * inverse if twice else x * inverse
    return scaled - average * mean(x) * (inverse * other)


def weighted(q, k, change=lambda s: s, axis=-1):
    weights = jax.nn.softmax(change(q @ k.T * 0.4), axis)
    return weights @ k, weights


GROUPS = {
    "Gelu": ops.ACTIVATIONS[ops.gelu].near_misses,
    "Softmax": {
        "base two": lambda x, y: jnp.exp2(less(x)) / jnp.exp2(less(x)).sum(1, keepdims=True),
        "negative": lambda x, y: jnp.exp(-less(x)) / jnp.exp(-less(x)).sum(1, keepdims=True),
        "of another": lambda x, y: jnp.exp(less(x)) / jnp.exp(less(y)).sum(1, keepdims=True),
        "of a whole": lambda x, y: jnp.exp(less(x)) / jnp.exp(less(x)).sum(keepdims=True),
        "along another": lambda x, y: jnp.exp(less(x)) / jnp.exp(less(x)).sum(0, keepdims=True),
        "of copies": lambda x, y: jnp.exp(less(x)) / copies(jnp.exp(less(x))).sum((1, 2))[:, None],
        "logarithm, base two": lambda x, y: less(x) - jnp.log(jnp.exp2(less(x)).sum(1)[:, None]),
        "logarithm, along another": lambda x, y: less(x) - jnp.log(jnp.exp(less(x)).sum(0)),
    },
    "LayerNormalization": {
        "highest": lambda x, y: (x - x.max(1, keepdims=True)) * lax.rsqrt(x.var(1)[:, None] + 1),
        "mean of others": lambda x, y: (x - x.mean(0)) * lax.rsqrt(x.var(1)[:, None] + 1e-3),
        "variance of all": lambda x, y: (x - mean(x)) * lax.rsqrt(x.var() + 1e-3),
        "plain square": lambda x, y: (x - mean(x)) * lax.rsqrt(mean(x**2) + 1e-3),
        "other": lambda x, y: (y - mean(x)) * lax.rsqrt(x.var(1)[:, None] + 1e-3),
        "power": lambda x, y: (x - mean(x)) * lax.rsqrt(mean(abs(x - mean(x)) ** 3) + 1e-3),
        "other scale": lambda x, y: norm_of_products(x, other=1.25),
        "half the mean": lambda x, y: norm_of_products(x, average=0.5),
        "other average": lambda x, y: norm_of_products(x, average=-1.0),
        "inverse twice": lambda x, y: norm_of_products(x, twice=True),
        "root mean square of another": lambda x, y: y * lax.rsqrt(mean(x**2) + 1e-3),
        "root mean cube": lambda x, y: x * lax.rsqrt(mean(abs(x) ** 3) + 1e-3),
        "root of another count": lambda x, y: x * lax.rsqrt((x**2).sum(1)[:, None] / 7 + 1e-3),
        "mean with a summand that cancels": lambda x, y: (
            (x - mean(x + y - y)) * lax.rsqrt(x.var(1)[:, None] + 1e-3)
        ),
    },
    "Attention": {
        "along queries": lambda x, y: weighted(x, y, axis=0)[0],
        "sine of scores": lambda x, y: weighted(x, y, lambda s: jnp.sin(s / 5) * 5)[0],
        "truncated weights": lambda x, y: jnp.trunc(4 * weighted(x, y)[1]) @ y,
        "values kept apart": lambda x, y: jnp.einsum("qk,kv->qkv", weighted(x, y)[1], y),
    },
}


NEAR = {
    operator_name(op): row.near_misses.values()
    for op, row in ops.ACTIVATIONS.items()
    if op is not ops.gelu
}
"""Near misses of activations of one operand."""


def moments_that_cancel(x):
    """Normalize with the variance as E[x^2] - E[x]^2, which loses digits that the fused node
    keeps."""
    variance = mean(jnp.square(x)) - jnp.square(mean(x))
    return (x - mean(x)) * lax.rsqrt(variance + 1e-5)


def padded_with_its_edge(table):
    """Return a rotation of a padded array, whose last column is repeated by slices without
    strides."""

    def fn(x):
        t = jnp.pad(x, ((0, 2), (0, 0), (0, 1)), mode="edge")
        return t * jnp.cos(table) + jnp.concatenate([-t[..., 3:], t[..., :3]], -1) * jnp.sin(table)

    return fn


def with_a_prefix(head, rest):
    def fn(x):
        rows = x[rest]
        table = jnp.tile(jnp.arange(4.0 * rows.shape[1]).reshape(-1, 4) / 7, 2)
        return jnp.concatenate([x[head], unequal_halves(rows, table)], 1)

    return fn


def standardized(x, epsilon=1e-5):
    return (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + epsilon)


def of_halves(count):
    """Return a norm in half precision, whose mean of squares is computed in float32. In bfloat16,
    1/383 equals 1/384."""

    def fn(x):
        centred = x - x.mean(1, keepdims=True)
        variance = jnp.square(centred.astype(jnp.float32)).sum(1, keepdims=True) / count
        return centred * lax.rsqrt(variance.astype(x.dtype) + jnp.asarray(1e-3, x.dtype))

    return fn


ANGLES = np.linspace(0, 2, 9, dtype=np.float32).reshape(3, 3)
CLOSE = np.float32(1 + 1e-2 * np.random.default_rng(4).standard_normal((40, 2)))
LARGE = 8 * np.eye(
    3, 64, dtype=np.float16
)  # after the norm: 7.9 at one position of each row, -0.13 elsewhere
SCALES = [np.full(64, 300, np.float16)] * 2
NORM = "LayerNormalization"
X, Y = np.random.default_rng(3).standard_normal((2, 6, 8)).astype(np.float32)
EDGES = np.array([[0, 1e-8, -1e-8, -3, 3], [6, 7, -2.9999, -7.5, 5.5]], np.float32)
OTHERS = [
    *(Case(fn.__name__.replace("_", " "), fn, QKV, ops={**NONE, "Softmax": 0},
           said="its softmax is written in a way that is not known")
      for fn in (own_softmax, divided_after_the_product, with_one_in_the_sum, by_log_of_sum)),
    *(Case(f"{name} of transposed reductions", fn, ((3, 3, 3),), ops=NONE | {"Softmax": 0},
           tolerance=2, tags=DEFAULT)
      for name, fn in (
        ("shares", lambda x: exponentiate(x) / transpose_reduction(exponentiate(x).sum(2))),
        ("norm", lambda x: x * lax.rsqrt(transpose_reduction(jnp.square(x).mean(2)) + 1e-5)),
      )),
    # Under `vmap` there are several queries, and it is fused.
    Case("of one query", of_one_query, ((4,), (7, 4), (7, 5)), ops={"Attention": 0, "Softmax": 1},
         tags=DEFAULT),
    Case("difference of two", difference_of_two, QKV, ops={**NONE, "Softmax": 2},
         said="between the softmax and the second product stands sub"),
    Case("moments that cancel", moments_that_cancel, [CLOSE], ops={NORM: 1}, tolerance=1000),
    Case("tiled halves", padded_with_its_edge(jnp.tile(ANGLES, 2)), ((1, 1, 5),)),
    Case("repeated halves", padded_with_its_edge(jnp.repeat(ANGLES, 2, -1)), ((1, 1, 5),)),
    Case("a prefix", with_a_prefix(np.s_[:, :2], np.s_[:, 2:8:1]), ((3, 8, 8),),
         ops={"RotaryEmbedding": 1, "Slice": 0}),
    Case("no prefix", with_a_prefix(np.s_[:, :4], np.s_[:, 1:8:2]), ((3, 8, 8),),
         ops={"RotaryEmbedding": 1}),
    # The dtype of the divisor distinguishes the sample variance.
    *(Case(f"divided by {n}", of_halves(n), (((5, 384), jnp.bfloat16),), ops={NORM: n == 384})
      for n in (384.0, 383.0)),
    # Scales whose product overflows float16 are not multiplied.
    Case("scales of float16", lambda x, w, g: standardized(x, 1e-3) * w * g, [LARGE, *SCALES],
         tolerance=3),
    Case("a scale by position", lambda x, s: standardized(x) * s, ((5, 8), (5, 1)),
         ops={NORM: 1, "Mul": 1}),
    *(Case(f"attention of nothing {i}", attention(lambda s: 0.5 * s),
           [[0 if j == i else n for j, n in enumerate(shape)] for shape in QKV],
           ops={"Attention": 0}) for i in range(3)),
]  # fmt: skip
PROGRAMS = [
    *(Case(f"near {name} {i}", fn, shapes, ops={**NONE, "Softmax": name == "Attention"}, said=said,
           tolerance=4, tags=DEFAULT | ({"nested vmap"} if name == "RMSNormalization" else set()))
      for name, rows in MISSES.items() for i, (fn, shapes, said) in enumerate(rows)),
    *(Case(name, fn, [X, Y], ops=NONE if kind == "Attention" else {**NONE, "Softmax": 0},
           tolerance=4, tags=DEFAULT)
      for kind, rows in GROUPS.items() for name, fn in rows.items()),
    *(Case(f"no {name} {i}", fn, [EDGES], (24,), {name: 0}, tags=DEFAULT)
      for name, fns in NEAR.items() for i, fn in enumerate(fns)),
    *(Case(f"no sampling, {name}", fn, (HWC, POINTS), ops={"GridSample": 0}, tolerance=4,
           tags=DEFAULT) for name, fn in LOOK_ALIKES.items()),
    *(replace(case, tags=DEFAULT) for case in OTHERS),
]  # fmt: skip
