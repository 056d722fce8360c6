"""Steps with attention, rotary embeddings and updates as networks outside of the zoo write them."""

from tests.forms.draw import Draw
from tests.forms.steps.registry import lines, step

lines("""
# Parts of a value are overwritten in turn.
0.5 overwrite {{x:*1+}|jnp.zeros_like({x})}.at[..., {p=::2|:2|1:3|1:}].set({like x}[..., {p}])
    .at[..., {q=1::2|2:|:2|::2|:1}].set({like x}[..., {q}])
# The maximum of one or more rows is subtracted before a softmax.
MAXIMUM = t.max({(-1,)|-1|None|{axis x}|{axes x}}, keepdims=True)
SHIFT = {{MAXIMUM}|(lambda m: jnp.where(jnp.isfinite(m), m, 0))({MAXIMUM})
    |jnp.maximum({MAXIMUM}, -1e4)|1}
SHIFTED = {t - {SHIFT}|(t - {SHIFT}) * 0.5|t * 0.5 - {SHIFT}|jnp.where(t > 0, t, -1e4) - {SHIFT}
    |jnp.where({of x bool}, t - {SHIFT}, -jnp.inf)}
0.7 softmax_shifted (lambda t: jax.nn.softmax({SHIFTED}, {near x}))({x:f1+!&})
# Pairs of elements are multiplied by matrices, most of which are rotations.
ANGLES = {along x -2}[:, None] * 0.1 ** jnp.arange({x}.shape[-1] // 2)
MATRIX = jnp.stack([jnp.cos(t), {-|}jnp.sin(t), {|-}jnp.sin(t), jnp.cos(t)], -1)
PRODUCT = {jnp.einsum('...ij,...j->...i', m, p)|(m @ p[..., None])[..., 0]
    |jnp.sum(m * p[..., None, :], -1)|(m[..., 0] * p[..., 0, None] + m[..., 1] * p[..., 1, None])
    |(p[..., None, :] @ m)[..., 0, :]}
0.7 rotary_by_matrices (lambda p, t: (lambda m: ({PRODUCT}).reshape({x}.shape))(
    {MATRIX}.reshape(*t.shape, 2, 2)))({x:f2+!&}.reshape(*{x}.shape[:-1], -1, 2), {ANGLES})
# Rotated halves are among other parts.
WAVES = jnp.cos({a=along x -2}[:, None] * jnp.arange(1, {h} + 1)),
    {|-}jnp.sin({a}[:, None] * jnp.arange(1, {h} + 1))
0.7 rotary_of_parts (lambda t, h, c, s: jnp.concatenate([{|t[..., :1], }
    t[..., 1:h + 1] * c - t[..., h + 1:2 * h + 1] * s,
    t[..., h + 1:2 * h + 1] * c + t[..., 1:h + 1] * s{|, t[..., 2 * h + 1:]}], -1))(
    {x:f2+!&}, {h=1|2}, {WAVES})
""")


@step(0.7)
def attention_of_groups(d: Draw) -> str:
    """Compute attention with grouped queries. Two axes of the scores are merged for the softmax."""
    sizes = {"b": d.integer(1, 2), "t": d.integer(2, 3), "k": 2, "g": 2, "s": 3, "c": 2}
    names = "".join(d.sample("btkgs", 5))
    query, key, value = (
        d.of(tuple(sizes[n] for n in shape), "float32") for shape in ("btkgc", "bskc", "bskc")
    )
    first = d.choice(*(i for i in range(4) if "s" not in names[i : i + 2]))
    shape = [sizes[n] for n in names]
    merged = [*shape[:first], shape[first] * shape[first + 1], *shape[first + 2 :]]
    axis = names.index("s") - (names.index("s") > first)
    mask = d.of(tuple(n if i == axis or d.chance(0.5) else 1 for i, n in enumerate(merged)), "bool")
    scores = f"jnp.einsum('btkgc,bskc->{names}', {query}, {key}).reshape({merged}) / 2"
    scores = d.choice(scores, f"jnp.where({mask}, {scores}, -1e30)", f"{scores} + {mask}")
    weights = f"jax.nn.softmax({scores}, {axis})"
    weights = d.choice(weights, weights, f"jnp.where({mask}, {weights}, 0)")
    return f"jnp.einsum('{names},bskc->btkgc', {weights}.reshape({shape}), {value})"
