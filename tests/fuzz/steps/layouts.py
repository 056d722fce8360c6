"""Steps with several operations on pictures, in any order of axes, with transpositions between
them."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from tests.fuzz.draw import Draw, Unfit
from tests.fuzz.errors import IN_JAX
from tests.fuzz.program import Spec
from tests.fuzz.steps.registry import step
from tests.fuzz.steps.transform import without

Layer = Callable[[Draw, str, Spec], str]
"""A function that writes an operation on an expression of this type."""

METHODS = (
    *("linear", "linear", "linear", "bilinear", "bilinear", "bilinear", "nearest", "nearest"),
    *("cubic", "bicubic", "lanczos3", "lanczos5"),
)
LETTERS = "NCHWD"

TRIES = 4
"""The number of operations that are tried before a step is unfit."""


def axis(d: Draw, spec: Spec) -> int:
    """Draw an axis of a type, counted from either end."""
    position = d.integer(0, spec.rank - 1)
    return position - spec.rank if d.chance(0.3) else position


def some(d: Draw, spec: Spec, most: int = 3) -> list[int]:
    """Draw one or more axes, mostly two."""
    return d.rng.sample(range(spec.rank), min(d.choice(1, 2, 2, 3), most, spec.rank))


def sizes(spec: Spec) -> list[int]:
    """Return the shape. Raises `Unfit` if a size is zero or named."""
    positive = [n for n in spec.shape if isinstance(n, int) and n]
    if len(positive) < spec.rank:
        raise Unfit
    return positive


def moved(d: Draw, x: str, spec: Spec) -> str:
    order = tuple(d.rng.sample(range(spec.rank), spec.rank))
    pair = f"{axis(d, spec)}, {axis(d, spec)}"
    return d.choice(
        *[f"jnp.transpose({x}, {order})"] * 3,
        *(f"jnp.moveaxis({x}, {pair})", f"jnp.swapaxes({x}, {pair})", f"({x}).T"),
    )


def normalized(d: Draw, x: str, spec: Spec) -> str:
    return normalized_over(d, x, d.choice(axis(d, spec), axis(d, spec), tuple(some(d, spec))))


def normalized_over(d: Draw, x: str, axes: int | tuple[int, ...]) -> str:
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


def along(d: Draw, spec: Spec) -> str:
    """Return a value with one axis of the type, in a shape that broadcasts."""
    chosen = d.integer(0, spec.rank - 1)
    index = ", ".join(":" if i == chosen else "None" for i in range(spec.rank))
    return f"{d.of((spec.shape[chosen],), spec.dtype)}[{index}]"


def shifted(d: Draw, x: str, spec: Spec) -> str:
    other = along(d, spec)
    text = d.choice(f"{x} * {other}", f"{x} + {other}", f"{x} * {other} + {along(d, spec)}")
    return f"({text})"


def activated(d: Draw, x: str, spec: Spec) -> str:
    name = d.choice("jax.nn.relu", "jnp.tanh", "jnp.sin", "jax.nn.gelu", "jnp.abs")
    return d.choice(f"{name}({x})", f"({x} * {d.choice('0.5', '2', '-1')})")


def resized(d: Draw, x: str, spec: Spec) -> str:
    """Resize along any axes, to larger or smaller sizes."""
    return resized_along(d, x, spec, some(d, spec))


def resized_along(d: Draw, x: str, spec: Spec, axes: Sequence[int]) -> str:
    old, new = sizes(spec), sizes(spec)
    for i in axes:
        new[i] = d.choice(*range(1, 8), 2 * old[i], 3 * old[i])
    method, antialias = d.choice(*METHODS), d.choice("", ", antialias=False", ", antialias=True")
    return f"jax.image.resize({x}, {tuple(new)}, {method!r}{antialias})"


def rescaled(d: Draw, x: str, spec: Spec) -> str:
    """Resize with drawn scales and shifts."""
    axes, old, new = some(d, spec), sizes(spec), sizes(spec)
    for i in axes:
        new[i] = d.integer(1, 7)
    scales = [d.choice(round(new[i] / old[i], 4), 0.5, 1.5, 2.0, 1.0) for i in axes]
    shifts = [d.choice(0.0, 0.2, -0.3, 1.0) for _ in axes]
    return (
        f"jax.image.scale_and_translate({x}, {tuple(new)}, {tuple(axes)}, jnp.array({scales}), "
        f"jnp.array({shifts}), {d.choice('linear', 'cubic', 'lanczos3')!r})"
    )


def repeated(d: Draw, x: str, spec: Spec) -> str:
    """Repeat each element, as people write nearest-neighbour resizing by hand."""
    chosen, count = d.integer(0, spec.rank - 1), d.integer(2, 3)
    size = sizes(spec)[chosen]
    split = f"jnp.arange({size * count}) // {count}"
    return d.choice(
        f"jnp.repeat({x}, {count}, axis={chosen})", f"jnp.take({x}, {split}, axis={chosen})"
    )


def sampled(d: Draw, x: str, spec: Spec) -> str:
    """Sample at coordinates that are inputs or weights, some of them out of range."""
    count = d.integer(2, 5)
    coordinates = ", ".join(
        f"{d.of((count,), spec.dtype)} * {d.choice('1', '2', '4')}" for _ in range(spec.rank)
    )
    mode = d.choice("constant", "constant", "nearest", "wrap", "mirror", "reflect")
    call = f"jax.scipy.ndimage.map_coordinates({x}, [{coordinates}], {d.choice(0, 1)}, {mode!r}"
    return f"{call}{d.choice('', ', cval=2.0')})"


def sampled_channels(d: Draw, x: str, spec: Spec) -> str:
    """Sample two axes of each channel at the same coordinates, as `grid_sample` does."""
    if spec.rank < 3:
        raise Unfit
    axes = sorted(some(d, spec, 1))
    inner = without(spec, axes[0])
    text = sampled(d, "t", inner) if inner.rank == 2 else sampled_channels(d, "t", inner)
    return f"jax.vmap(lambda t: {text}, in_axes={axes[0]}, out_axes={d.choice(0, 1)})({x})"


def pooled(d: Draw, x: str, spec: Spec) -> str:
    axes = some(d, spec, 2)
    window = tuple(d.integer(1, 3) if i in axes else 1 for i in range(spec.rank))
    strides = tuple(d.choice(1, 2) if i in axes else 1 for i in range(spec.rank))
    pads = tuple(
        (d.integer(0, 1), d.integer(0, 1)) if i in axes else (0, 0) for i in range(spec.rank)
    )
    padding = d.choice("'SAME'", "'VALID'", str(pads))
    start = d.choice("-jnp.inf, lax.max", "0.0, lax.add", "jnp.inf, lax.min")
    text = f"lax.reduce_window({x}, {start}, {window}, {strides}, {padding})"
    return f"({text} / {math.prod(window)})" if "add" in start and d.chance(0.6) else text


def convolved(d: Draw, x: str, spec: Spec) -> str:
    """Convolve over all axes but two, which are batch and channels, in a drawn order of axes."""
    if not 3 <= spec.rank <= 5:
        raise Unfit
    letters = LETTERS[: spec.rank]
    orders = ["".join(d.rng.sample(letters, spec.rank)) for _ in range(2)]
    size = dict(zip(orders[0], sizes(spec), strict=True))
    groups = d.choice(1, 1, size["C"])
    kernel = {"I": size["C"] // groups, "O": groups * d.integer(1, 2)}
    kernel |= {c: d.integer(1, 3) for c in letters[2:]}
    order = "".join(d.rng.sample("IO" + letters[2:], spec.rank))
    w = d.of(tuple(kernel[c] for c in order), spec.dtype)
    strides = tuple(d.choice(1, 1, 2) for _ in letters[2:])
    padding = d.choice("'SAME'", "'VALID'", str([(1, d.integer(0, 2))] * len(strides)))
    if d.chance(0.15):
        padding = f"{[(1, 1)] * len(strides)}, lhs_dilation={(2,) * len(strides)}"
    return (
        f"lax.conv_general_dilated({x}, {w}, {strides}, {padding}, "
        f"dimension_numbers={(orders[0], order, orders[1])}, feature_group_count={groups})"
    )


def padded(d: Draw, x: str, spec: Spec) -> str:
    widths = tuple(
        (d.integer(0, 2), d.integer(0, 2)) if d.chance(0.5) else (0, 0) for _ in spec.shape
    )
    mode = d.choice("constant", "edge", "reflect", "wrap", "symmetric")
    return f"jnp.pad({x}, {widths}, mode={mode!r})"


def gathered(d: Draw, x: str, spec: Spec) -> str:
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


def reduced(d: Draw, x: str, spec: Spec) -> str:
    name = d.choice("mean", "max", "sum")
    return f"({x}).{name}({tuple(some(d, spec, 2))}, keepdims={d.choice('True', 'False')})"


def regrouped(d: Draw, x: str, spec: Spec) -> str:
    """Merge two neighbouring axes, or split one."""
    shape = sizes(spec)
    chosen = d.integer(0, spec.rank - 1)
    if shape[chosen] % 2 == 0 and spec.rank < 5:
        return f"({x}).reshape({(*shape[:chosen], 2, shape[chosen] // 2, *shape[chosen + 1 :])})"
    if not chosen:
        raise Unfit
    merged = shape[chosen - 1] * shape[chosen]
    return f"({x}).reshape({(*shape[: chosen - 1], merged, *shape[chosen + 1 :])})"


PLAIN: dict[Layer, int] = {
    **{moved: 6, resized: 6, normalized: 3, pooled: 3, convolved: 3, shifted: 2, activated: 2},
    **{padded: 2, gathered: 2, sampled: 1, sampled_channels: 1, repeated: 1, reduced: 1},
    **{regrouped: 1, rescaled: 1},
}


def layered(d: Draw, x: str, spec: Spec) -> str:
    """Write one operation of `PLAIN`."""
    return d.rng.choices(list(PLAIN), list(PLAIN.values()))[0](d, x, spec)


def batched(d: Draw, x: str, spec: Spec) -> str:
    """Write one operation under `vmap` over one of the axes."""
    if spec.rank < 2:
        raise Unfit
    chosen = d.integer(0, spec.rank - 1)
    text = layered(d, "t", without(spec, chosen))
    return f"jax.vmap(lambda t: {text}, {chosen}, {d.choice(0, 0, 1, -1)})({x})"


def either(*layers: Layer) -> Layer:
    """Return a layer that draws one of these layers."""
    return lambda d, x, spec: d.rng.choice(layers)(d, x, spec)


def chained(d: Draw, x: str, layers: Iterable[Layer]) -> str:
    """Write operations on a value, one after the other. Each operation has several tries."""
    text, spec = x, d.pool[x]
    for layer in layers:
        text, spec = fitting(d, layer, text, spec)
    return text


def fitting(d: Draw, layer: Layer, text: str, spec: Spec) -> tuple[str, Spec]:
    """Return the expression with an operation on it, and its type."""
    name = f"a{d.state.number()}"
    d.state.structs[name] = spec.struct(d.state.scope)
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
    layers = [batched if d.chance(0.15) else layered for _ in range(d.integer(2, 5))]
    return chained(d, picture(d), layers)


@step(2)
def resize_between_layouts(d: Draw) -> str:
    """Resize between an operation that needs an order of axes and another that needs another
    order."""
    before = either(moved, moved, normalized, convolved, pooled, shifted)
    after = either(moved, moved, moved, normalized, convolved, pooled, gathered)
    return chained(d, picture(d), [before, resized, after])


@step(3)
def resize_of_what_is_normalized(d: Draw) -> str:
    """Normalize along an axis, resize this axis, and transpose."""
    x = d.fresh(tuple(d.choice(2, 3, 4, 5) for _ in range(d.choice(3, 4, 4, 4))), "float32")
    chosen, other = d.rng.sample(range(d.pool[x].rank), 2)

    def resize(d: Draw, x: str, spec: Spec) -> str:
        return resized_along(d, x, spec, (chosen, other) if d.chance(0.9) else (chosen,))

    return chained(d, x, [lambda d, x, _: normalized_over(d, x, chosen), resize, moved])


@step(0.3)
def gradient_of_layouts(d: Draw) -> str:
    x = picture(d)
    text = chained(d, x, [layered] * d.integer(1, 3))
    of_t = re.sub(rf"\b{x}\b", "t", text)
    return f"jax.grad(lambda t: jnp.sum(jnp.sin({of_t})))({x})"
