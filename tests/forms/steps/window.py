"""Steps with convolutions, pooling and resizing."""

from tests.forms.draw import Draw, Unfit
from tests.forms.steps.registry import OF_A_VALUE, lines, step, tuple_of


def _padding(d: Draw, count: int) -> str:
    if d.chance(0.5):
        return repr(d.choice("SAME", "VALID"))
    return str([(d.integer(0, 2), d.integer(0, 2)) for _ in range(count)])


@step(2)
def convolution(d: Draw) -> str:
    """Convolve in any order of axes, with strides, dilations and groups."""
    x = d.any("f", (3, 4))
    rank = d.pool[x].rank
    letters = "NC" + "HW"[: rank - 2]
    lhs = "".join(d.sample(letters, rank))
    batch, channels = (d.pool[x].shape[lhs.index(c)] for c in "NC")
    if not isinstance(channels, int) or channels == 0:
        raise Unfit
    groups = d.choice(1, 1, 1, channels)
    sizes = {"I": channels // groups, "O": groups * d.integer(1, 3)}
    sizes |= {c: d.integer(1, 3) for c in "HW"}
    rhs = "".join(d.sample("IO" + letters[2:], rank))
    out = "".join(d.sample(letters, rank))
    kernel = d.of(tuple(sizes[c] for c in rhs), d.pool[x].dtype)
    count = rank - 2
    strides = tuple(d.choice(1, 1, 2) for _ in range(count))
    options = f", feature_group_count={groups}" if groups > 1 else ""
    for option, chance in (("rhs_dilation", 0.3), ("lhs_dilation", 0.2)):
        if d.chance(chance):
            options += f", {option}={tuple(d.choice(1, 2) for _ in range(count))}"
    padding = _padding(d, count) if "lhs" not in options else str([(1, 1)] * count)
    can_group_batch = isinstance(batch, int) and batch > 1 and sizes["O"] % batch == 0
    if d.chance(0.1) and groups == 1 and can_group_batch:
        options += f", batch_group_count={batch}"
    return (
        f"lax.conv_general_dilated({x}, {kernel}, {strides}, {padding}, "
        f"dimension_numbers={(lhs, rhs, out)}{options})"
    )


def _window(d: Draw, x: str) -> tuple[str, str, str]:
    """Return the window, the strides and the padding of a reduction over windows of at most two
    axes."""
    rank = d.pool[x].rank
    chosen = set(d.axes(x)[:2])
    size = tuple(d.integer(1, 3) if i in chosen else 1 for i in range(rank))
    strides = tuple(d.choice(1, 2) if i in chosen else 1 for i in range(rank))
    if d.chance(0.5):
        return str(size), str(strides), repr(d.choice("SAME", "VALID"))
    pads = [(d.integer(0, 1), d.integer(0, 1)) if i in chosen else (0, 0) for i in range(rank)]
    return str(size), str(strides), str(tuple(pads))


OF_A_VALUE |= {
    "window": lambda d, x: ", ".join(_window(d, x)),
    "stretched": tuple_of(lambda d, n: d.integer(1, 7) if d.chance(0.6) else n),
    "size_and_strides": lambda d, x: ", ".join(_window(d, x)[:2]),
    "ones": lambda d, x: f"jnp.ones({(1, *d.shape(x)[1:])}, {x}.dtype)",
}
lines("""
# Flax divides the sum by the count of elements.
0.7 average_pool {x:f3-4!} {w=size_and_strides x} {o=jnp.ones_like({x})|{ones x}} =>
    lax.reduce_window({x}, 0.0, lax.add, {w}, 'SAME') /
    lax.reduce_window({o}, 0.0, lax.add, {w}, 'SAME')
0.5 pool_gradient jax.grad(lambda y: jnp.sum(jnp.sin(lax.reduce_window(y,
    {-jnp.inf, lax.max|0.0, lax.add|jnp.inf, lax.min}, {window x}))))({x:f2-4})
1 resize jax.image.resize({x:f1-4!&}, {stretched x},
    '{nearest|linear|cubic|lanczos3|bilinear|bicubic}', antialias={True|False})
0.3 scale_and_translate jax.image.scale_and_translate({x:f2!&}, (4, 5), (0, 1),
    jnp.array([1.5, 0.8]), jnp.array([0.2, -0.3]), '{linear|cubic}')
0.3 convolution_transpose_1 lax.conv_transpose({x:f3},
    {{shaped x 1 -1 2}|{shaped x 3 -1 1}|{shaped x 2 -1 3}},
    ({1..2},), '{SAME|VALID}', dimension_numbers=('NWC', 'WIO', 'NWC'))
0.4 convolution_transpose_2 lax.conv_transpose({x:f4},
    {{shaped x 1 3 -1 2}|{shaped x 3 2 -1 1}|{shaped x 2 1 -1 3}},
    ({1..2}, {1..2}), '{SAME|VALID}', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
""")


@step(3)
def reduce_window(d: Draw) -> str:
    x = d.any("fiu", (1, 4))
    kind = d.pool[x].kind
    name = d.choice("add", "max", "min", "max", "add") if kind != "u" else d.choice("add", "max")
    start = {"add": "0", "max": "-jnp.inf", "min": "jnp.inf"}[name]
    if kind != "f" and name != "add":
        start = f"jnp.iinfo({x}.dtype).{'min' if name == 'max' else 'max'}"
    elif d.chance(0.1):
        start = "1"
    size, strides, padding = _window(d, x)
    options = ""
    for option, chance in (("window_dilation", 0.25), ("base_dilation", 0.1)):
        if d.chance(chance):
            options += f", {option}={tuple(d.choice(1, 2) for _ in range(d.pool[x].rank))}"
    start = f"jnp.asarray({start}, {x}.dtype)" if d.chance(0.5) or kind != "f" else start
    return f"lax.reduce_window({x}, {start}, lax.{name}, {size}, {strides}, {padding}{options})"


@step(0.3)
def patches(d: Draw) -> str:
    x = d.fresh(d.sizes(4, 4), "float32")  # programs rarely have a value of four axes
    return f"lax.conv_general_dilated_patches({x}, (2, 2), (1, 1), {_padding(d, 2)})"
