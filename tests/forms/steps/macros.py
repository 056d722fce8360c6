"""Steps with structures that the converter fuses, in the ways in which people write them."""

from tests.forms.draw import Draw, Unfit
from tests.forms.steps.registry import lines, step

lines("""
1/3 softmax_0 jax.nn.softmax({x:f1+}, axis={a=near x})
1/3 softmax_1 jax.nn.log_softmax({x:f1+}, axis={a=near x})
1/3 softmax_2 jnp.exp({x:f1+}) / jnp.sum(jnp.exp({x}), axis={a=near x}, keepdims=True)
1/3 softmax_3 (lambda e: e / e.sum({a=near x}, keepdims=True))(jnp.exp({x:f1+} - {x}.max({a},
    keepdims=True)))
1/3 softmax_4 jnp.exp({x:f1+} - jax.scipy.special.logsumexp({x}, axis={a=near x}, keepdims=True))
1/3 softmax_5 jax.nn.softmax({x:f1+}, axis={a=near x}, where={x} > -1)
1/4 gelu_0 jax.nn.gelu({x:f}, approximate=False)
1/4 gelu_1 jax.nn.gelu({x:f})
1/4 gelu_2 0.5 * {x:f} * (1 + lax.erf({x} / 2 ** 0.5))
1/4 gelu_3 {x:f} * 0.5 * (1.0 + lax.erf({x} * 0.7071067811865476))
1/4 gelu_4 {x:f} * jax.scipy.stats.norm.cdf({x})
1/4 gelu_5 0.5 * {x:f} * (1 + jnp.tanh(0.7978845608028654 * ({x} + {0.044715|0.05} * {x} ** 3)))
1/4 gelu_6 {x:f} * jax.nn.sigmoid(1.702 * {x})
1/4 gelu_7 jnp.tanh(0.7978845608028654 * ({x:f} + {like x}))
MEAN = jnp.mean({x}, axis={a}, keepdims=True)
VARIANCE = {jnp.var({x}, axis={a}, keepdims=True)
    |jnp.mean(({x} - {MEAN}) ** 2, axis={a}, keepdims=True)
    |(jnp.mean({x} ** 2, {a}, keepdims=True) - {MEAN} ** 2).clip(0)}
NORMED = {({x} - {MEAN}) * lax.rsqrt({VARIANCE} + {e})
    |({x} - {MEAN}) / jnp.sqrt({VARIANCE} + {e})
    |jax.nn.standardize({x}, axis={a}, epsilon={e})}
2.5 layer_norm {x:f1+} {a=near x} {e=1e-5|1e-6|1e-3} {s=along x a} =>
    {NORMED}{| * {s} + {along x a}| * {s}| + {s}}
SQUARE = {jnp.mean({x} ** 2, axis={a}, keepdims=True)
    |jnp.mean(jnp.square({x}), axis={a}, keepdims=True)
    |(jnp.sum({x} * {x}, axis={a}, keepdims=True) / {x}.shape[{a}])}
RMS = {{x} * lax.rsqrt({SQUARE} + 1e-6)|{x} / jnp.sqrt({SQUARE} + 1e-5)
    |({x}.astype('float32') * lax.rsqrt({SQUARE}.astype('float32') + 1e-6)).astype({x}.dtype)}
1.5 rms_norm {x:f1+} {a=near x} {s=along x a} {n={RMS}} =>
    {{n}|{n} * {s}|{n} * (1 + {s})|{s} * ({n})}
# Keras folds the statistics into a scale and a shift.
0.4 batch_norm {x:f1+} {g=shaped x -1} {f=(lax.rsqrt(jnp.abs({shaped x -1}) + 1e-3) * {g})} =>
    {x} * {f} + ({shaped x -1} - {shaped x -1} * {f})
# Attention with batch axes, with and without masks, and with products in several orders of axes.
SCORES = {s=({q} {c}) @ jnp.swapaxes({k}, -1, -2)
    |jnp.einsum('...qd,...kd->...qk', {q}, {k}) {c}|({q} @ jnp.swapaxes({k}, -1, -2)) {c}}
BIAS = {{shaped q -2 n}|{shaped q 1 n}|{shaped q *2 -2 n}}
MASKED = {t={s}|{s}|jnp.where({truths q -2 n}, {s}, {f})|({s}) + {BIAS}
    |({s}) + jnp.where({truths q -2 n}, 0.0, {f})
    |jnp.where(jnp.tril(jnp.ones(({q}.shape[-2], {n}), bool)), {s}, {f})}
OUTPUT = {jax.nn.softmax({t}, axis=-1) @ {v}
    |jnp.einsum('...qk,...kd->...qd', jax.nn.softmax({t}, axis=-1), {v})
    |jnp.einsum('...kd,...qk->...dq', {v}, jax.nn.softmax({t}, axis=-1))
    |jax.nn.softmax({t}, axis=-2) @ {v}
    |jnp.einsum('...qk,...kd->...d', jax.nn.softmax({t}, axis=-1), {v})}
3 attention {q:f2-4} {n=1..6} {k=shaped q *2 n -1} {w=-1|-1|{1..6}} {v=shaped q *2 n w}
    {f=jnp.finfo({q}.dtype).min|-jnp.inf|-1e30|-1e9|-100.0}
    {c=/ {q}.shape[-1] ** 0.5|* {q}.shape[-1] ** -0.5||* 0.25} {SCORES} {MASKED} => {OUTPUT}
# On [batch, positions, heads, width].
1 library_attention {q:f3-4} {n=size} {g=-2|-2|1} {k=shaped q *3 n g -1} {v=shaped q *3 n g -1} =>
    jax.nn.dot_product_attention({q}, {k}, {v}{||, is_causal=True|, mask={truths q -2 -3 n}
    |, scale=0.3|, local_window_size=1}{||||||, bias={shaped q -2 -3 n}})
# Haiku's cell has one weight, of which it uses slices.
0.4 gru (lambda z, r, a: (1 - jax.nn.sigmoid(z)) *
    jnp.tanh(a * jax.nn.sigmoid(r)))(*jnp.split({x:f1-2} @
    {{shaped x -1 6} + {shaped x 6}|{shaped x -1 9} + {shaped x 9}}, 3, axis=-1))
0.7 normalise {x:f1+} / (jnp.linalg.norm({x}, axis={near x}, keepdims=True) + {1e-8|1e-6|1.0})
0.25 glu jax.nn.glu({x:f1+}, axis={axis x})
0.25 swish_glu jax.nn.silu({x:f1+}) * {like x}
0.5 losses -jnp.sum(jax.nn.softmax({like x}, -1) * jax.nn.log_softmax({x:f1+}, -1), -1)
""")


@step(0.6)
def affine_layer(d: Draw) -> str:
    """Multiply by a matrix, with factors and shifts after it. Some of these are weights, and some
    have an axis of the result that the matrix does not have."""
    x = d.floating(1, 3)
    *lead, width = d.pool[x].shape
    dtype, out = d.pool[x].dtype, d.size()
    w = d.of((width, out), dtype)
    text = d.choice(f"({x} @ {w})", f"jnp.einsum('...i,io->...o', {x}, {w})")
    for _ in range(d.integer(1, 3)):
        shape = d.choice((out,), (out,), (), (1,), (*lead[-1:], 1))
        operand = d.choice(d.of(shape, dtype), d.of(shape, dtype), d.choice("0.25", "3.0"))
        operator = d.choice("*", "*", "+", "-", "/" if operand[0].isdigit() else "*")
        text = d.choice(
            f"({text} {operator} {operand})", f"({operand} * {text})", f"jnp.tanh({text})"
        )
    return text


@step(1)
def self_attention(d: Draw) -> str:
    """Attend over tokens, with heads that are split off one projection."""
    x = d.floating(2, 3, static=True)
    *lead, count, width = d.shape(x)
    heads, depth = d.choice(1, 2, 3), d.choice(2, 4)
    dtype = d.pool[x].dtype
    w = d.of((width, 3 * heads * depth), dtype)
    split = f"({x} @ {w}).reshape({(*lead, count, 3, heads, depth)})"
    batch_rank = len(lead)
    order = (batch_rank + 1, *range(batch_rank), batch_rank + 2, batch_rank, batch_rank + 3)
    return (
        f"(lambda t: (jax.nn.softmax(t[0] @ jnp.swapaxes(t[1], -1, -2) / {depth} ** 0.5, axis=-1)"
        f" @ t[2]).swapaxes(-2, -3).reshape({(*lead, count, heads * depth)}))"
        f"(jnp.transpose({split}, {order}))"
    )


@step(2)
def rotary(d: Draw) -> str:
    """Rotate pairs of halves or of neighbours. The tables are constants, inputs or weights. A
    prefix may stay unrotated."""
    x = d.floating(2, 4)
    count, width = d.pool[x].shape[-2:]
    if not isinstance(width, int) or width < 2 or width % 2 or not isinstance(count, int):
        raise Unfit
    half = width // 2
    dtype = d.pool[x].dtype
    size = d.choice(half, width)
    frequencies = f"(10.0 ** -(jnp.arange({half}) / {half}))"
    angles = f"(jnp.arange({count})[:, None] * {frequencies})"
    if size == width:
        angles = d.choice(f"jnp.tile({angles}, (1, 2))", f"jnp.repeat({angles}, 2, axis=-1)")
    cos, sin = (f"jnp.{f}({angles}).astype('{dtype}')" for f in ("cos", "sin"))
    if d.chance(0.3):
        cos, sin = d.of((count, size), dtype), d.of((count, size), dtype)
    split = d.choice(
        f"(t[..., :{half}], t[..., {half}:])", "(t[..., ::2], t[..., 1::2])", "jnp.split(t, 2, -1)"
    )
    if size == width:
        rotated = d.choice(
            f"jnp.concatenate([-t[..., {half}:], t[..., :{half}]], -1)",
            "jnp.stack([-t[..., 1::2], t[..., ::2]], -1).reshape(t.shape)",
        )
        rotation = f"(lambda t: t * {cos} + {rotated} * {sin})"
    else:
        join = d.choice("jnp.concatenate([{}, {}], -1)", "jnp.stack([{}, {}], -1).reshape(t.shape)")
        parts = join.format(
            f"a * {cos} - b * {sin}", d.choice(f"a * {sin} + b * {cos}", f"b * {cos} + a * {sin}")
        )
        rotation = f"(lambda t: (lambda a, b: {parts})(*{split}))"
    if d.chance(0.2) and count > 1:
        return f"jnp.concatenate([{x}[..., :1, :], {rotation}({x})[..., 1:, :]], -2)"
    return f"{rotation}({x})"


@step(0.5)
def group_norm(d: Draw) -> str:
    x = d.floating(2, 4, static=True)
    *lead, channels = d.shape(x)
    if channels % 2 or not channels:
        raise Unfit
    split = f"{x}.reshape({(*lead, 2, channels // 2)})"
    axes = tuple(i for i in range(1, len(lead) + 2) if i != len(lead))
    return (
        f"(lambda t: ((t - t.mean({axes}, keepdims=True))"
        f" * lax.rsqrt(t.var({axes}, keepdims=True) + 1e-5))"
        f".reshape({(*lead, channels)}))({split})"
    )
