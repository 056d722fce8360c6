"""Steps with several operations on pictures, in any order of axes, with transpositions between
them."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from tests.forms.draw import Draw, Unfit
from tests.forms.errors import IN_JAX
from tests.forms.program import Spec
from tests.forms.steps.registry import step
from tests.forms.steps.transform import without

Layer = Callable[[Draw, str, Spec], str]
"""A function that writes an operation on an expression of this type."""

METHODS = (
    *("linear", "linear", "linear", "bilinear", "bilinear", "bilinear", "nearest", "nearest"),
    *("cubic", "bicubic", "lanczos3", "lanczos5"),
)
LETTERS = "NCHWD"

TRIES = 4
"""The number of operations that are tried before a step is unfit."""


def draw_axis(d: Draw, spec: Spec) -> int:
    """Draw an axis of a type, counted from either end."""
    position = d.integer(0, spec.rank - 1)
    return position - spec.rank if d.chance(0.3) else position


def draw_axes(d: Draw, spec: Spec, limit: int = 3) -> list[int]:
    """Draw one or more axes, mostly two and at most ``limit``."""
    return d.sample(range(spec.rank), min(d.choice(1, 2, 2, 3), limit, spec.rank))


def sizes(spec: Spec) -> list[int]:
    """Return the shape. Raises `Unfit` if a size is zero or named."""
    positive = [n for n in spec.shape if isinstance(n, int) and n]
    if len(positive) < spec.rank:
        raise Unfit
    return positive


def transpose(d: Draw, x: str, spec: Spec) -> str:
    order = tuple(d.sample(range(spec.rank), spec.rank))
    pair = f"{draw_axis(d, spec)}, {draw_axis(d, spec)}"
    return d.choice(
        *[f"jnp.transpose({x}, {order})"] * 3,
        *(f"jnp.moveaxis({x}, {pair})", f"jnp.swapaxes({x}, {pair})", f"({x}).T"),
    )


def normalize(d: Draw, x: str, spec: Spec) -> str:
    return normalize_over(
        d, x, d.choice(draw_axis(d, spec), draw_axis(d, spec), tuple(draw_axes(d, spec)))
    )


def normalize_over(d: Draw, x: str, axes: int | tuple[int, ...]) -> str:
    mean, variance = (f"t.{name}({axes}, keepdims=True)" for name in ("mean", "var"))
    standardized = f"jax.nn.standardize({x}, {axes})"
    return d.choice(
        *(standardized, standardized),
        f"(lambda t: (t - {mean}) * lax.rsqrt({variance} + 1e-5))({x})",
        f"(lambda t: (t - {mean}) / jnp.sqrt({variance} + 1e-3))({x})",
        f"(lambda t: t * lax.rsqrt((t * t).mean({axes}, keepdims=True) + 1e-6))({x})",
        f"jax.nn.softmax({x}, {axes})",
        f"(lambda t: t / (jnp.sqrt((t * t).sum({axes}, keepdims=True)) + 1))({x})",
    )


def vector_along(d: Draw, spec: Spec) -> str:
    """Return a value with one axis of the type, in a shape that broadcasts."""
    chosen = d.integer(0, spec.rank - 1)
    index = ", ".join(":" if i == chosen else "None" for i in range(spec.rank))
    return f"{d.of((spec.shape[chosen],), spec.dtype)}[{index}]"


def scale_and_shift(d: Draw, x: str, spec: Spec) -> str:
    other = vector_along(d, spec)
    text = d.choice(f"{x} * {other}", f"{x} + {other}", f"{x} * {other} + {vector_along(d, spec)}")
    return f"({text})"


def activate(d: Draw, x: str, spec: Spec) -> str:
    name = d.choice("jax.nn.relu", "jnp.tanh", "jnp.sin", "jax.nn.gelu", "jnp.abs")
    return d.choice(f"{name}({x})", f"({x} * {d.choice('0.5', '2', '-1')})")


def resize_axes(d: Draw, x: str, spec: Spec) -> str:
    """Resize along any axes, to larger or smaller sizes."""
    return resize_along(d, x, spec, draw_axes(d, spec))


def resize_along(d: Draw, x: str, spec: Spec, axes: Sequence[int]) -> str:
    old, new = sizes(spec), sizes(spec)
    for i in axes:
        new[i] = d.choice(*range(1, 8), 2 * old[i], 3 * old[i])
    method, antialias = d.choice(*METHODS), d.choice("", ", antialias=False", ", antialias=True")
    return f"jax.image.resize({x}, {tuple(new)}, {method!r}{antialias})"


def scale_and_translate(d: Draw, x: str, spec: Spec) -> str:
    """Resize with drawn scales and shifts."""
    axes, old, new = draw_axes(d, spec), sizes(spec), sizes(spec)
    for i in axes:
        new[i] = d.integer(1, 7)
    scales = [d.choice(round(new[i] / old[i], 4), 0.5, 1.5, 2.0, 1.0) for i in axes]
    shifts = [d.choice(0.0, 0.2, -0.3, 1.0) for _ in axes]
    return (
        f"jax.image.scale_and_translate({x}, {tuple(new)}, {tuple(axes)}, jnp.array({scales}), "
        f"jnp.array({shifts}), {d.choice('linear', 'cubic', 'lanczos3')!r})"
    )


def repeat(d: Draw, x: str, spec: Spec) -> str:
    """Repeat each element, as people write nearest-neighbour resizing by hand."""
    chosen, count = d.integer(0, spec.rank - 1), d.integer(2, 3)
    size = sizes(spec)[chosen]
    split = f"jnp.arange({size * count}) // {count}"
    return d.choice(
        f"jnp.repeat({x}, {count}, axis={chosen})", f"jnp.take({x}, {split}, axis={chosen})"
    )


def sample(d: Draw, x: str, spec: Spec) -> str:
    """Sample at coordinates that are inputs or weights, some of them out of range."""
    count = d.integer(2, 5)
    coordinates = ", ".join(
        f"{d.of((count,), spec.dtype)} * {d.choice('1', '2', '4')}" for _ in range(spec.rank)
    )
    mode = d.choice("constant", "constant", "nearest", "wrap", "mirror", "reflect")
    call = f"jax.scipy.ndimage.map_coordinates({x}, [{coordinates}], {d.choice(0, 1)}, {mode!r}"
    return f"{call}{d.choice('', ', cval=2.0')})"


def sample_channels(d: Draw, x: str, spec: Spec) -> str:
    """Sample two axes of each channel at the same coordinates, as `grid_sample` does."""
    if spec.rank < 3:
        raise Unfit
    axes = sorted(draw_axes(d, spec, 1))
    inner = without(spec, axes[0])
    text = sample(d, "t", inner) if inner.rank == 2 else sample_channels(d, "t", inner)
    return f"jax.vmap(lambda t: {text}, in_axes={axes[0]}, out_axes={d.choice(0, 1)})({x})"


def pool(d: Draw, x: str, spec: Spec) -> str:
    axes = draw_axes(d, spec, 2)
    window = tuple(d.integer(1, 3) if i in axes else 1 for i in range(spec.rank))
    strides = tuple(d.choice(1, 2) if i in axes else 1 for i in range(spec.rank))
    pads = tuple(
        (d.integer(0, 1), d.integer(0, 1)) if i in axes else (0, 0) for i in range(spec.rank)
    )
    padding = d.choice("'SAME'", "'VALID'", str(pads))
    start = d.choice("-jnp.inf, lax.max", "0.0, lax.add", "jnp.inf, lax.min")
    text = f"lax.reduce_window({x}, {start}, {window}, {strides}, {padding})"
    return f"({text} / {math.prod(window)})" if "add" in start and d.chance(0.6) else text


def convolve(d: Draw, x: str, spec: Spec) -> str:
    """Convolve over all axes but two, which are batch and channels, in a drawn order of axes."""
    if not 3 <= spec.rank <= 5:
        raise Unfit
    letters = LETTERS[: spec.rank]
    orders = ["".join(d.sample(letters, spec.rank)) for _ in range(2)]
    size = dict(zip(orders[0], sizes(spec), strict=True))
    groups = d.choice(1, 1, size["C"])
    kernel = {"I": size["C"] // groups, "O": groups * d.integer(1, 2)}
    kernel |= {c: d.integer(1, 3) for c in letters[2:]}
    order = "".join(d.sample("IO" + letters[2:], spec.rank))
    w = d.of(tuple(kernel[c] for c in order), spec.dtype)
    strides = tuple(d.choice(1, 1, 2) for _ in letters[2:])
    padding = d.choice("'SAME'", "'VALID'", str([(1, d.integer(0, 2))] * len(strides)))
    if d.chance(0.15):
        padding = f"{[(1, 1)] * len(strides)}, lhs_dilation={(2,) * len(strides)}"
    return (
        f"lax.conv_general_dilated({x}, {w}, {strides}, {padding}, "
        f"dimension_numbers={(orders[0], order, orders[1])}, feature_group_count={groups})"
    )


def pad(d: Draw, x: str, spec: Spec) -> str:
    widths = tuple(
        (d.integer(0, 2), d.integer(0, 2)) if d.chance(0.5) else (0, 0) for _ in spec.shape
    )
    mode = d.choice("constant", "edge", "reflect", "wrap", "symmetric")
    return f"jnp.pad({x}, {widths}, mode={mode!r})"


def gather(d: Draw, x: str, spec: Spec) -> str:
    """Gather along an axis at positions that are weights or constants, or take a slice."""
    chosen = d.integer(0, spec.rank - 1)
    size = sizes(spec)[chosen]
    rows = [d.integer(0, size - 1) for _ in range(d.integer(1, 4))]
    before = ":, " * chosen
    return d.choice(
        f"jnp.take({x}, jnp.array({rows}), axis={chosen})",
        f"jnp.take({x}, {d.of((3,), 'int32')}, axis={chosen}, mode={d.choice('clip', 'wrap')!r})",
        f"{x}[{before}{d.choice('::2', '::-1', '1:', ':-1', '::3')}]",
        f"jnp.flip({x}, {chosen})",
        f"jnp.roll({x}, {d.integer(-2, 2)}, {chosen})",
        f"jnp.concatenate([{x}, {x}], {chosen})",
    )


def reduce_axes(d: Draw, x: str, spec: Spec) -> str:
    name = d.choice("mean", "max", "sum")
    return f"({x}).{name}({tuple(draw_axes(d, spec, 2))}, keepdims={d.choice('True', 'False')})"


def regroup(d: Draw, x: str, spec: Spec) -> str:
    """Merge two neighbouring axes, or split one."""
    shape = sizes(spec)
    chosen = d.integer(0, spec.rank - 1)
    if shape[chosen] % 2 == 0 and spec.rank < 5:
        return f"({x}).reshape({(*shape[:chosen], 2, shape[chosen] // 2, *shape[chosen + 1 :])})"
    if not chosen:
        raise Unfit
    merged = shape[chosen - 1] * shape[chosen]
    return f"({x}).reshape({(*shape[: chosen - 1], merged, *shape[chosen + 1 :])})"


PLAIN: dict[Layer, float] = {
    **{
        transpose: 6,
        resize_axes: 6,
        normalize: 3,
        pool: 3,
        convolve: 3,
        scale_and_shift: 2,
        activate: 2,
    },
    **{pad: 2, gather: 2, sample: 1, sample_channels: 1, repeat: 1, reduce_axes: 1},
    **{regroup: 1, scale_and_translate: 1},
}


def apply_one(d: Draw, x: str, spec: Spec) -> str:
    """Write one operation of `PLAIN`."""
    return d.weighted(PLAIN)(d, x, spec)


def apply_batched(d: Draw, x: str, spec: Spec) -> str:
    """Write one operation under `vmap` over one of the axes."""
    if spec.rank < 2:
        raise Unfit
    chosen = d.integer(0, spec.rank - 1)
    text = apply_one(d, "t", without(spec, chosen))
    return f"jax.vmap(lambda t: {text}, {chosen}, {d.choice(0, 0, 1, -1)})({x})"


def either(*layers: Layer) -> Layer:
    """Return a layer that draws one of these layers."""
    return lambda d, x, spec: d.pick(layers)(d, x, spec)


def chain(d: Draw, x: str, layers: Iterable[Layer]) -> str:
    """Write operations on a value, one after the other. Each operation has several tries."""
    text, spec = x, d.pool[x]
    for layer in layers:
        text, spec = fit(d, layer, text, spec)
    return text


def fit(d: Draw, layer: Layer, text: str, spec: Spec) -> tuple[str, Spec]:
    """Return the expression with an operation on it, and its type."""
    name = f"a{d.state.number()}"
    d.state.specs[name] = spec
    for _ in range(TRIES):
        with suppress(Unfit, *IN_JAX):
            line = layer(d, name, spec)
            (result,) = d.typed(line)[1]
            sizes(result)
            return line.replace(name, text), result
    raise Unfit


def picture(d: Draw) -> str:
    """Return a value of three to five axes. Programs rarely have one with four, so it is mostly
    new."""
    if d.chance(0.3):
        with suppress(Unfit):
            return d.floating(3, 5, static=True)
    return d.fresh(
        tuple(d.choice(2, 3, 4, 5, 6, 1) for _ in range(d.choice(3, 4, 4, 4, 4, 5))), "float32"
    )


@step(2)
def layout_chain(d: Draw) -> str:
    layers = [apply_batched if d.chance(0.15) else apply_one for _ in range(d.integer(2, 5))]
    return chain(d, picture(d), layers)


@step(2)
def resize_between_layouts(d: Draw) -> str:
    """Resize between an operation that needs an order of axes and another that needs another
    order."""
    before = either(transpose, transpose, normalize, convolve, pool, scale_and_shift)
    after = either(transpose, transpose, transpose, normalize, convolve, pool, gather)
    return chain(d, picture(d), [before, resize_axes, after])


@step(3)
def resize_of_what_is_normalized(d: Draw) -> str:
    """Normalize along an axis, resize this axis, and transpose."""
    x = d.fresh(tuple(d.choice(2, 3, 4, 5) for _ in range(d.choice(3, 4, 4, 4))), "float32")
    chosen, other = d.sample(range(d.pool[x].rank), 2)

    def resize(d: Draw, x: str, spec: Spec) -> str:
        return resize_along(d, x, spec, (chosen, other) if d.chance(0.9) else (chosen,))

    return chain(d, x, [lambda d, x, _: normalize_over(d, x, chosen), resize, transpose])


@step(0.3)
def gradient_of_layouts(d: Draw) -> str:
    x = picture(d)
    text = chain(d, x, [apply_one] * d.integer(1, 3))
    of_t = re.sub(rf"\b{x}\b", "t", text)
    return f"jax.grad(lambda t: jnp.sum(jnp.sin({of_t})))({x})"
