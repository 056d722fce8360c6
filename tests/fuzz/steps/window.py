"""Convolutions, pooling, resizing."""

from tests.fuzz.draw import Draw
from tests.fuzz.pool import Unfit
from tests.fuzz.steps.registry import step


def _padding(d: Draw, count: int) -> str:
    if d.chance(0.5):
        return repr(d.choice("SAME", "VALID"))
    return str([(d.integer(0, 2), d.integer(0, 2)) for _ in range(count)])


def _positive(d: Draw, x: str) -> None:
    if 0 in d.pool[x].shape:
        raise Unfit


@step(2)
def convolution(d: Draw) -> str:
    """Any order of axes, strides, dilations, groups."""
    x = d.any("f", (3, 4))
    rank = d.pool[x].rank
    letters = "NC" + "HW"[: rank - 2]
    lhs = "".join(d.rng.sample(letters, rank))
    batch, channels = (d.pool[x].shape[lhs.index(c)] for c in "NC")
    if not isinstance(channels, int) or channels == 0:
        raise Unfit
    groups = d.choice(1, 1, 1, channels)
    sizes = {
        "I": channels // groups,
        "O": groups * d.integer(1, 3),
        "H": d.integer(1, 3),
        "W": d.integer(1, 3),
    }
    rhs = "".join(d.rng.sample("IO" + letters[2:], rank))
    out = "".join(d.rng.sample(letters, rank))
    kernel = d.of(tuple(sizes[c] for c in rhs), d.pool[x].dtype)
    count = rank - 2
    strides = tuple(d.choice(1, 1, 2) for _ in range(count))
    more = f", feature_group_count={groups}" if groups > 1 else ""
    if d.chance(0.3):
        more += f", rhs_dilation={tuple(d.choice(1, 2) for _ in range(count))}"
    if d.chance(0.2):
        more += f", lhs_dilation={tuple(d.choice(1, 2) for _ in range(count))}"
    padding = _padding(d, count) if "lhs" not in more else str([(1, 1)] * count)
    if (
        d.chance(0.1)
        and groups == 1
        and isinstance(batch, int)
        and batch > 1
        and sizes["O"] % batch == 0
    ):
        more += f", batch_group_count={batch}"
    numbers = (lhs, rhs, out)
    return (
        f"lax.conv_general_dilated({x}, {kernel}, {strides}, {padding}, "
        f"dimension_numbers={numbers}{more})"
    )


@step(0.7)
def convolution_transpose(d: Draw) -> str:
    x = d.any("f", (3, 4))
    count = d.pool[x].rank - 2
    channels = d.pool[x].shape[-1]
    kernel = d.of(
        (*(d.integer(1, 3) for _ in range(count)), channels, d.integer(1, 3)), d.pool[x].dtype
    )
    strides = tuple(d.choice(1, 2) for _ in range(count))
    numbers = ("NWC", "WIO", "NWC") if count == 1 else ("NHWC", "HWIO", "NHWC")
    return (
        f"lax.conv_transpose({x}, {kernel}, {strides}, {d.choice('SAME', 'VALID')!r}, "
        f"dimension_numbers={numbers})"
    )


def _window(d: Draw, x: str) -> tuple[str, str, str]:
    rank = d.pool[x].rank
    chosen = set(d.axes(x)[:2])
    size = tuple(d.integer(1, 3) if i in chosen else 1 for i in range(rank))
    strides = tuple(d.choice(1, 2) if i in chosen else 1 for i in range(rank))
    if d.chance(0.5):
        padding = repr(d.choice("SAME", "VALID"))
    else:
        padding = str(
            tuple(
                (d.integer(0, 1), d.integer(0, 1)) if i in chosen else (0, 0) for i in range(rank)
            )
        )
    return str(size), str(strides), padding


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
    more = ""
    if d.chance(0.25):
        more = f", window_dilation={tuple(d.choice(1, 2) for _ in range(d.pool[x].rank))}"
    if d.chance(0.1):
        more += f", base_dilation={tuple(d.choice(1, 2) for _ in range(d.pool[x].rank))}"
    start = f"jnp.asarray({start}, {x}.dtype)" if d.chance(0.5) or kind != "f" else start
    return f"lax.reduce_window({x}, {start}, lax.{name}, {size}, {strides}, {padding}{more})"


@step(0.7)
def average_pool(d: Draw) -> str:
    """As Flax writes it."""
    x = d.any("f", (3, 4), static=True)
    size, strides, _ = _window(d, x)
    count = d.choice(f"jnp.ones_like({x})", f"jnp.ones({(1, *d.shape(x)[1:])}, {x}.dtype)")
    sums = [f"lax.reduce_window({y}, 0.0, lax.add, {size}, {strides}, 'SAME')" for y in (x, count)]
    return f"{sums[0]} / {sums[1]}"


@step(0.5)
def pool_gradient(d: Draw) -> str:
    x = d.any("f", (2, 4))
    size, strides, padding = _window(d, x)
    name, start = d.choice(("max", "-jnp.inf"), ("add", "0.0"), ("min", "jnp.inf"))
    pooled = f"lax.reduce_window(y, {start}, lax.{name}, {size}, {strides}, {padding})"
    return f"jax.grad(lambda y: jnp.sum(jnp.sin({pooled})))({x})"


@step(1)
def resize(d: Draw) -> str:
    x = d.any("f", (1, 4), static=True)
    _positive(d, x)
    shape = tuple(d.integer(1, 7) if d.chance(0.6) else n for n in d.shape(x))
    method = d.choice("nearest", "linear", "cubic", "lanczos3", "bilinear", "bicubic")
    return f"jax.image.resize({x}, {shape}, {method!r}, antialias={d.choice(True, False)})"


@step(0.3)
def scale_and_translate(d: Draw) -> str:
    x = d.any("f", (2, 2), static=True)
    _positive(d, x)
    return (
        f"jax.image.scale_and_translate({x}, (4, 5), (0, 1), jnp.array([1.5, 0.8]), "
        f"jnp.array([0.2, -0.3]), {d.choice('linear', 'cubic')!r})"
    )


@step(0.3)
def patches(d: Draw) -> str:
    x = d.fresh(d.sizes(4, 4), "float32")  # hardly any program comes to four axes by itself
    return f"lax.conv_general_dilated_patches({x}, (2, 2), (1, 1), {_padding(d, 2)})"
