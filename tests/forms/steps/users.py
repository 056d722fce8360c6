"""Steps with code that users write: named axes, masks of gathered values, custom primitives, and
checks."""

from tests.forms.draw import Draw, Unfit
from tests.forms.steps.registry import lines, step

lines("""
COLLECTIVE = {lax.psum(t, 'n')|lax.pmean(t, 'n')|lax.pmax(t, 'n')|lax.pmin(t, 'n')
    |t - lax.pmean(t, 'n')|t * lax.psum(1, 'n')|t + lax.axis_index('n').astype(t.dtype)
    |lax.all_gather(t, 'n')|lax.all_gather(t, 'n', axis=-1, tiled=True)}
NAMED = jax.vmap(lambda t: {COLLECTIVE}, in_axes={place x}, axis_name='n')
1 named_axis {NAMED}({x:fiu1-4})
0.5 named_axis_in_vmap jax.vmap({NAMED}, in_axes={-1|0}, out_axes={0|-1})({x:fiu2-4})
# Custom primitives have the names of other libraries' operations.
OWN = own.applied({'relu', t|'copy', t|'softplus', t|'name', t, accuracy=2, unroll=3})
1 own_primitive (lambda t: {OWN})({x:f})
0.3 own_primitive_in_vmap jax.vmap(lambda t: {OWN}, in_axes={place x})({x:f1+})
0.7 checked own.checked({x:fiu})
""")


@step(1.5)
def masked_gather(d: Draw) -> str:
    """Gather with indices that may be out of range, under a mask that hides the values there."""
    x = d.any("fiu", (1, 4))
    index = d.indices(d.sizes(0, 2), d.pool[x].shape[0], "int32")
    shift = d.choice("", " + 1", " * 2", " - 3")
    moved = d.choice("y", "y", "y * 2", "abs(y)")
    return (
        f"(lambda t, i: jnp.where((i >= 0) & (i < t.size), (lambda y: {moved})(t[i]), 0))"
        f"({x}.ravel(), {index}{shift})"
    )


@step(0.5)
def map_coordinates(d: Draw) -> str:
    x = d.floating(1, 2, static=True)
    rank = d.pool[x].rank
    coordinates = ", ".join(d.of((5,), "float32") for _ in range(rank))
    mode = d.choice("constant", "constant", "nearest", "wrap", "mirror", "reflect")
    order = d.choice("0", "1")
    return f"jax.scipy.ndimage.map_coordinates({x}, [{coordinates}], {order}, {mode!r})"


@step(0.4)
def unpickled(d: Draw) -> str:
    """Use a dtype that is another object than numpy's."""
    x = d.any()
    dtype = d.pool[x].dtype
    if dtype == "bfloat16":
        raise Unfit
    return f"{x} + jnp.asarray(np.ones((), own.unpickled({dtype!r})))"
