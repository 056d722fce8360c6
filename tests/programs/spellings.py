"""Structures that recognisers fuse, in the ways in which people write them, for one sample. No two
sizes of a shape are equal, and every weight changes the output."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import ops
from tests.conformance import DEFAULT, STRUCTURE, Case, drawn
from tests.programs.resize import to
from tests.programs.sampling import SPELLED as SAMPLED
from zoo.architectures.depth.aligned_resize import resize_aligned


def floats(module, change):
    """Return the module with every array of floats changed."""

    def leaf(x):
        is_float = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating)
        return change(x) if is_float else x

    return jax.tree.map(leaf, module)


def perturbed(module, seed=3):
    """Return the module with weights that are neither zero nor one, so that every weight changes
    the output."""
    rng = np.random.default_rng(seed)
    return floats(module, lambda x: x + 0.3 * rng.standard_normal(x.shape).astype(x.dtype))


def channels_first(x):
    """Normalize over the channels at each position, in float32 for any dtype, as Equimo's
    LayerNorm2d does."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, axis=0, keepdims=True)
    variance = jnp.mean(jnp.square(wide - mean), axis=0, keepdims=True)
    weight = jnp.arange(1, 9, dtype=jnp.float32)[:, None, None] / 8
    y = (wide - mean) * lax.rsqrt(variance + 1e-6) * weight + (weight - 0.5)
    return y.astype(x.dtype)


def tables(x, repeat=lambda t: t):
    """Return cosines and sines of half the width of ``x``, or of its full width if ``repeat``
    repeats them."""
    *_, length, width = x.shape
    angles = np.arange(length)[:, None] / 10 ** (np.arange(width // 2) / width)
    return [repeat(jnp.asarray(fn(angles), x.dtype)) for fn in (np.cos, np.sin)]


def turned(x, cos, sin):
    """Rotate halves, as llama does."""
    a, b = jnp.split(x, 2, axis=-1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def neighbours(x, cos, sin):
    return x * cos + jnp.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape) * sin


def rotate_full(x):
    """Rotate with tables that are tiled to the full width."""
    return turned(x, *tables(x, lambda t: jnp.concatenate([t, t], -1)))


def rotate_interleaved(x):
    cos, sin = tables(x)
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def rotate_interleaved_full(x):
    return neighbours(x, *tables(x, lambda t: jnp.repeat(t, 2, axis=-1)))


def rotate_rest(x):
    """Rotate all but the first tokens, as DINOv3 does."""
    return jnp.concatenate([x[..., :2, :], rotate_full(x[..., 2:, :])], -2)


def dot_product(**options):
    return lambda *xs: jax.nn.dot_product_attention(*xs, **options)


def dot_product_masked(q, k, v, mask):
    return jax.nn.dot_product_attention(q, k, v, mask=mask > 0)


def mha_rotary(q, k, v):
    rotate = jax.vmap(eqx.nn.RotaryPositionalEmbedding(4), 1, 1)
    return MHA(q, k, v, process_heads=lambda q, k, v: (rotate(q), rotate(k), v))


def spelled(name, fn, shapes, fused, *ways):
    """Return a case on floats with its expected operators. The default tier has it also in these
    ``ways``."""
    tags = DEFAULT | {STRUCTURE, *ways}
    return Case(name, fn, shapes, (23,), fused, tolerance=2, tags=tags)


NORM = perturbed(eqx.nn.LayerNorm(8))
OTHER_NORM = perturbed(eqx.nn.LayerNorm(8), seed=1)
ROPE = eqx.nn.RotaryPositionalEmbedding(8)
MHA = drawn(lambda key: eqx.nn.MultiheadAttention(3, 12, key=key))
OF_MHA = ((5, 12), (7, 12), (7, 12))
TNH = ((5, 4, 8), (7, 4, 8), (7, 4, 8))
GROUPED = ((5, 6, 8), (7, 2, 8), (7, 2, 8))
EXACT_GELU, TANH_GELU = ops.ACTIVATIONS[ops.gelu].examples
NORMS, RMS, GELU = {"LayerNormalization": 1}, {"RMSNormalization": 1}, {"Gelu": 1}
SAMPLED_WAYS = {
    "coordinates": ("vmap of grad",),
    "shares": ("nested vmap",),
    "nearest": ("vmap 1", "open batch"),
    "channels last": ("vmap last",),
}
LOG, ROTARY, ONE = {"LogSoftmax": 1}, {"RotaryEmbedding": 1}, {"Attention": 1}
FAMILIES = {
    "norm": [
        spelled("eqx", NORM, ((8,),), NORMS, "open batch"),
        spelled("eqx_two_axes", perturbed(eqx.nn.LayerNorm((4, 6), eps=1e-3)), ((4, 6),), NORMS),
        spelled("channels_first", channels_first, ((8, 3, 5),), NORMS),
        spelled(
            "two_scales", lambda x: NORM(x) * OTHER_NORM(x), ((8,),), {"LayerNormalization": 2}
        ),
    ],
    "rms": [spelled("eqx", perturbed(eqx.nn.RMSNorm(8, use_bias=False)), ((8,),), RMS)],
    "gelu": [
        spelled("jax_exact", EXACT_GELU, ((3, 5),), GELU),
        spelled("jax_tanh", TANH_GELU, ((3, 5),), GELU),
        spelled("gated", lambda x, y: jax.nn.gelu(x) * y, ((3, 5), (3, 5)), GELU, "vmap 1"),
    ],
    "log_softmax": [
        spelled("jax", jax.nn.log_softmax, ((3, 5),), LOG),
        spelled(
            "jax_middle", lambda x: jax.nn.log_softmax(x, axis=-2), ((2, 5, 3),), LOG, "vmap last"
        ),
    ],
    "rotary": [
        spelled("eqx", ROPE, ((5, 8),), ROTARY),
        spelled("eqx_heads", jax.vmap(ROPE, in_axes=1, out_axes=1), ((5, 3, 8),), ROTARY),
        spelled("full", rotate_full, ((3, 5, 8),), ROTARY),
        spelled("interleaved", rotate_interleaved, ((3, 5, 8),), ROTARY),
        spelled("interleaved_full", rotate_interleaved_full, ((3, 5, 8),), ROTARY),
        spelled("prefix", rotate_rest, ((3, 7, 8),), ROTARY, "nested vmap"),
    ],
    "attention": [
        spelled("jax", dot_product(), TNH, ONE),
        spelled("jax_causal", dot_product(is_causal=True), TNH, ONE, "vmap in scan"),
        spelled("jax_grouped", dot_product(), GROUPED, ONE),
        spelled("jax_bias", dot_product(), (*TNH, (4, 5, 7)), ONE),
        spelled("jax_mask", dot_product_masked, (*TNH, (4, 5, 7)), ONE),
        spelled("jax_local", dot_product(local_window_size=2), TNH, ONE),
        spelled("eqx", MHA, OF_MHA, ONE, "nested vmap"),
        spelled("eqx_rotary", mha_rotary, OF_MHA, {"Attention": 1, "RotaryEmbedding": 2}),
    ],
    "resize": [
        spelled("linear", to(9, 4), ((5, 7),), {"Resize": 1}),
        spelled("linear channels", to(9, 4, 2), ((5, 7, 2),), {"Resize": 1}),
        spelled("cubic", to(3, 9, 4, method="cubic"), ((3, 5, 7),), {"Resize": 1}),
        spelled("nearest", to(2, 10, 14, method="nearest"), ((2, 5, 7),), {"Resize": 1}),
        spelled("one axis", to(2, 9), ((2, 5),), {"Resize": 1}, "vmap last"),
        spelled("aligned", lambda x: resize_aligned(x, (9, 4)), ((3, 5, 7),), {"Resize": 1}),
        spelled("lanczos3", to(9, 4, method="lanczos3"), ((5, 7),), {}),
    ],
    "sampling": [
        spelled(name, fn, shapes, {"GridSample": 1, "GatherND": 0}, *SAMPLED_WAYS.get(name, ()))
        for name, (fn, shapes) in SAMPLED.items()
    ],
}
SPELLINGS = [
    replace(case, name=f"{family}, {case.name}")
    for family, cases in FAMILIES.items()
    for case in cases
]
SINCE = {"Attention": 23, "RotaryEmbedding": 23, "RMSNormalization": 23, "Gelu": 20}


def at(case, opset, tags=frozenset()):
    """Return the case at an opset, with the operators that this opset has."""
    ops = {op: n if SINCE.get(op, 17) <= opset else 0 for op, n in case.ops.items()}
    return replace(case, name=f"{case.name}, {opset}", opsets=(opset,), ops=ops, tags=tags)


def low(case, dtype, tags=frozenset()):
    """Return the case with weights and inputs of a narrower dtype."""
    fn = floats(case.fn, lambda x: x.astype(dtype))
    specs = [(shape, dtype) for shape in case.specs]
    name = f"{case.name}, {jnp.dtype(dtype)}"
    return replace(case, name=name, fn=fn, specs=specs, opsets=(23,), tags=tags)


FIRST = SPELLINGS[0]
OTHERS = [case for case in SPELLINGS if not case.name.startswith("resize")]
"""Spellings of which `resize` has no rows."""
SHORT = [case for case in OTHERS if not case.name.startswith("sampling")]
"""Spellings that may be computed in bfloat16: positions of samples need more digits."""
NARROW = [case for case in SHORT if not case.name.startswith("attention, jax")]
"""Spellings that JAX itself runs in float16 on a CPU."""
PROGRAMS = [
    *SPELLINGS,
    *(at(case, opset, DEFAULT if case == FIRST else frozenset())
      for case in OTHERS for opset in (17, 18, 20, 26)),
    *(low(case, jnp.float16, DEFAULT if case == FIRST else frozenset()) for case in NARROW),
    *(low(case, jnp.bfloat16, DEFAULT if case == FIRST else frozenset()) for case in SHORT),
]  # fmt: skip
