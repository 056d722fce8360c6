"""What users write around JAX's own: named axes, masks of what is gathered, things of their own."""

from tests.fuzz.draw import Draw
from tests.fuzz.pool import Unfit
from tests.fuzz.steps.registry import lines, step

lines(checked=(0.7, "own.checked({x:fiu})"))

COLLECTIVES = (
    *("lax.psum(t, 'n')", "lax.pmean(t, 'n')", "lax.pmax(t, 'n')", "lax.pmin(t, 'n')"),
    *("t - lax.pmean(t, 'n')", "t * lax.psum(1, 'n')", "t + lax.axis_index('n').astype(t.dtype)"),
    *("lax.all_gather(t, 'n')", "lax.all_gather(t, 'n', axis=-1, tiled=True)"),
)


@step(1.5)
def named_axis(d: Draw) -> str:
    """Under a vmap, or under one of two."""
    x = d.any("fiu", (1, 4))
    axis = d.axis(x, negative=False)
    call = f"jax.vmap(lambda t: {d.choice(*COLLECTIVES)}, in_axes={axis}, axis_name='n')"
    if d.pool[x].rank > axis + 1 and d.chance(0.4):
        return f"jax.vmap({call}, in_axes=-1, out_axes={d.choice('0', '-1')})({x})"
    return f"{call}({x})"


@step(1.5)
def masked_gather(d: Draw) -> str:
    """Indices that may be outside, where a mask then hides what they give."""
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
    places = ", ".join(d.of((5,), "float32") for _ in range(rank))
    mode = d.choice("constant", "constant", "nearest", "wrap", "mirror", "reflect")
    order = d.choice("0", "1")
    return f"jax.scipy.ndimage.map_coordinates({x}, [{places}], {order}, {mode!r})"


@step(1)
def own_primitive(d: Draw) -> str:
    """Under the names of others' operations."""
    x = d.floating()
    name = d.choice("relu", "copy", "softplus", "name")
    how = ", accuracy=2, unroll=3" if name == "name" else ""
    call = f"own.applied({name!r}, {x}{how})"
    if d.pool[x].rank and d.chance(0.3):
        axis = d.axis(x, negative=False)
        call = f"jax.vmap(lambda t: own.applied({name!r}, t{how}), in_axes={axis})({x})"
    return call


@step(0.4)
def unpickled(d: Draw) -> str:
    """A dtype that is not numpy's own object."""
    x = d.any()
    dtype = d.pool[x].dtype
    if dtype == "bfloat16":
        raise Unfit
    return f"{x} + jnp.asarray(np.ones((), own.unpickled({dtype!r})))"
