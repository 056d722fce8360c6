"""Steps that gather at positions which may be behind the end, under a mask that hides the values
there."""

from tests.forms.draw import Draw, Unfit
from tests.forms.steps.registry import OF_A_VALUE, lines


def edges(d: Draw, x: str) -> str:
    """Return positions along the first axis of a value, including the position behind the end."""
    size, shape = f"{x}.shape[0]", d.choice("-1", "2, 3", "3, 2")
    constant = f"(jnp.arange(6).reshape({shape}) % ({size} + 1))"
    try:
        index = d.of(d.sizes(1, 2), d.choice("int32", "int32", "uint8", "int8"))
    except Unfit:
        return constant
    return d.choice(
        f"jnp.clip({index}, 0, {size})",
        f"jnp.minimum(abs({index}), {size})",
        f"(abs({index}) % ({size} + 1))",
        f"jnp.where({index} > 0, 0, {size})",
        constant,
    )


OF_A_VALUE |= {"edges": edges}
lines("""
# Graphs have padded edges, whose positions are the number of rows.
ROWS = i < t.shape[0]
MASK = ({ROWS}).reshape(i.shape + (1,) * (t.ndim - 1))
TAKEN = {t[i]|jnp.take(t, i, axis=0)|t.at[i].get(mode='promise_in_bounds')}
MASKED = {{TAKEN} * {MASK}|jnp.where({MASK}, {TAKEN}, 0)|{TAKEN} * {MASK}.astype(t.dtype)
    |{MASK} * {TAKEN}|jnp.where({MASK}, {TAKEN} * 2 + 1, 0)|jnp.where(~{MASK}, 0, abs({TAKEN}))
    |lax.select(jnp.broadcast_to({MASK}, i.shape + t.shape[1:]), {TAKEN}, t[i * 0])}
0.7 masked_rows (lambda t, i: {MASKED})({x:fi1-3!&}, {edges x})
0.5 summed_edges (lambda t, i: jax.ops.segment_sum(({MASKED}).reshape(-1, *t.shape[1:]),
    i.reshape(-1), num_segments=t.shape[0]))({x:fi1-3!&}, {edges x})
0.5 modes_of_rows (lambda t, i: {t.at[i].get(mode={'clip'|'fill'|'fill', fill_value=3})
    |jnp.take(t, i, 0, mode='wrap')}{| * {MASK}|.sum(0)})({x:fi1-3!&}, {edges x})
0.3 rows_of_several (lambda t, i: t[i, i % t.shape[1]] * ({ROWS}).reshape(i.shape
    + (1,) * (t.ndim - 2)))({x:fi2-4!&}, {edges x})
0.3 masked_slices (lambda t, i: jnp.where(i + 2 <= t.shape[0],
    lax.dynamic_slice_in_dim(t, i, 2), 0))({x:fi1-3!&}, {index})
0.3 masked_writes (lambda t, i: t.at[i].{add|set|max|multiply}({2|0}{|, mode='drop'
    |, mode='clip'}))({x:fi1-3!&}, {edges x})
""")
