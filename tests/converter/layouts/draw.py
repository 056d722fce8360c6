"""Draw functions of one array: windows between transpositions, reshapes, vmap and residual sums.

A program is a list of lines ``x = <text>``, so that a failure can be printed and run again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.image import resize
from jax.scipy.ndimage import map_coordinates

OPSETS = (17, 18, 20, 21, 23, 24)
SIZES = (1, 2, 3, 3, 4, 4, 5, 6)
LARGEST = 900
"""The largest number of elements that a value of a program may have."""

Shape = tuple[int, ...]
Text = str


def numbers(seed: int, *shape: int) -> jax.Array:
    """Return weights of a shape, which depend on the seed alone."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


NAMES = {
    **{"jax": jax, "jnp": jnp, "lax": lax, "np": np},
    **{"resize": resize, "map_coordinates": map_coordinates, "numbers": numbers},
}


@dataclass(frozen=True)
class Program:
    """A function of one array: the shape of its input, its lines, and the opset of its file."""

    shape: Shape
    lines: tuple[Text, ...]
    opset: int

    def __call__(self, x: Any) -> Any:
        for line in self.lines:
            x = eval(line, NAMES, {"x": x})
        return x

    def __str__(self) -> str:
        return "\n".join((f"x: {list(self.shape)}, opset {self.opset}", *self.lines))


class Draw:
    """Random choices for one program, and the shape of its value so far."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.shape: Shape = ()

    def chance(self, probability: float = 0.5) -> bool:
        """Return True with this probability."""
        return self.rng.random() < probability

    def pick(self, options: Sequence[Any]) -> Any:
        return self.rng.choice(options)

    def axes(self, low: int, high: int) -> list[int]:
        """Return between `low` and `high` of the axes, in order."""
        count = min(self.rng.randint(low, high), len(self.shape))
        return sorted(self.rng.sample(range(len(self.shape)), count))

    def permutation(self) -> list[int]:
        return self.rng.sample(range(len(self.shape)), len(self.shape))

    def seed(self) -> int:
        return self.rng.randint(0, 99)

    def padding(self, most: int) -> list[tuple[int, int]]:
        """Return the padding at both ends of each axis, up to `most`; one or two axes have any."""
        chosen = self.axes(1, 2)
        return [
            (self.rng.randint(0, most), self.rng.randint(0, most)) if i in chosen else (0, 0)
            for i in range(len(self.shape))
        ]


# ------------------------------------------------------------------------------------ order of axes


def transposed(d: Draw) -> Text:
    return f"x.transpose({d.permutation()})"


def merged(d: Draw) -> Text:
    """Merge two neighbouring axes by a reshape."""
    axis = d.rng.randrange(len(d.shape) - 1)
    return (
        f"x.reshape({[*d.shape[:axis], d.shape[axis] * d.shape[axis + 1], *d.shape[axis + 2 :]]})"
    )


def split(d: Draw) -> Text:
    """Split one axis into two by a reshape."""
    axis = d.rng.randrange(len(d.shape))
    size = d.shape[axis]
    part = d.pick([n for n in range(1, size + 1) if size % n == 0])
    return f"x.reshape({[*d.shape[:axis], part, size // part, *d.shape[axis + 1 :]]})"


ORDERS = (transposed, transposed, transposed, merged, split)

# ---------------------------------------------------------------------------------- every element


def pointwise(d: Draw) -> Text:
    return d.pick(("jnp.tanh(x)", "x * 2 + 1", "jax.nn.relu(x)", "jax.nn.gelu(x)", "-x", "abs(x)"))


def weighted(d: Draw) -> Text:
    """Add, subtract or multiply by a parameter that is broadcast."""
    shape = [n if d.chance() else 1 for n in d.shape]
    return f"x {d.pick('+*-')} numbers({d.seed()}, *{shape})"


def residual(d: Draw) -> Text:
    """Add a function of the transposed value, transposed back, to the value."""
    permutation = d.permutation()
    inverse = [permutation.index(i) for i in range(len(permutation))]
    inner = d.pick(("jnp.tanh(y)", "jax.nn.standardize(y)", "y[..., ::-1]", "y - y.mean(0)"))
    return f"x + (lambda y: {inner})(x.transpose({permutation})).transpose({inverse})"


def doubled(d: Draw) -> Text:
    return f"jnp.concatenate([x, jnp.sin(x)], {d.rng.randrange(len(d.shape))})"


EVERY = (pointwise, weighted, residual, doubled)

# --------------------------------------------------------------------------------------- windows

METHODS = ("nearest", "linear", "linear", "linear", "cubic", "lanczos3")


def resized(d: Draw) -> Text:
    chosen = d.axes(1, 3)
    shape = [d.pick(SIZES) if i in chosen else n for i, n in enumerate(d.shape)]
    return f"resize(x, {shape}, {d.pick(METHODS)!r}, antialias={d.chance()})"


MODES = ("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "mean", "linear_ramp")


def padded(d: Draw) -> Text:
    if d.chance(0.7):
        return f"jnp.pad(x, {d.padding(2)}, {d.pick(MODES)!r})"
    config = [(low, high, d.pick((0, 0, 1))) for low, high in d.padding(2)]
    cut = d.rng.randrange(len(config))  # a negative padding removes one element
    config[cut] = (config[cut][0] - 1, *config[cut][1:])
    return f"lax.pad(x, jnp.float32(0.5), {config})"


POOLS = {
    "max": "lax.reduce_window(x, -jnp.inf, lax.max, {})",
    "min": "lax.reduce_window(x, jnp.inf, lax.min, {})",
    "sum": "lax.reduce_window(x, 0.0, lax.add, {})",
    "mean": "lax.reduce_window(x, 0.0, lax.add, {}) / {count}",
}


def pooled(d: Draw) -> Text:
    chosen = d.axes(1, 3)
    rank = range(len(d.shape))
    window = tuple(d.rng.randint(1, min(3, d.shape[i])) if i in chosen else 1 for i in rank)
    strides = tuple(d.rng.randint(1, 2) if i in chosen else 1 for i in rank)
    padding = d.pick(("SAME", "VALID"))
    form = POOLS[d.pick(list(POOLS))]
    return form.format(f"{window}, {strides}, {padding!r}", count=math.prod(window))


def convolved(d: Draw) -> Text:
    """Convolve with axes in any order, and perhaps dilations, groups or a transposition."""
    rank = len(d.shape)
    letters = ["N", "C", *"HWD"[: rank - 2]]
    lhs_spec = "".join(d.rng.sample(letters, rank)) if d.chance() else "N" + "HWD"[: rank - 2] + "C"
    out_spec = lhs_spec if d.chance(0.7) else "".join(d.rng.sample(letters, rank))
    channels = d.shape[lhs_spec.index("C")]
    groups = d.pick([n for n in range(1, channels + 1) if channels % n == 0])
    spatial = [d.rng.randint(1, min(3, d.shape[lhs_spec.index(c)])) for c in letters[2:]]
    kernel_spec = "OI" + "".join(letters[2:])
    kernel = (groups * d.rng.randint(1, 2), channels // groups, *spatial)
    strides, rhs_dilation = ([d.rng.randint(1, 2) for _ in spatial] for _ in range(2))
    lhs_dilation = [d.rng.randint(1, 2) if d.chance(0.3) else 1 for _ in spatial]
    padding = d.pick(("'SAME'", str([(d.rng.randint(0, 2), 2) for _ in spatial])))
    if lhs_dilation != [1] * len(spatial):
        padding = str([(d.rng.randint(1, 2), 2) for _ in spatial])
    return (
        f"lax.conv_general_dilated(x, numbers({d.seed()}, *{kernel}), {strides}, {padding}, "
        f"lhs_dilation={lhs_dilation}, rhs_dilation={rhs_dilation}, feature_group_count={groups}, "
        f"dimension_numbers=({lhs_spec!r}, {kernel_spec!r}, {out_spec!r}))"
    )


def sampled(d: Draw) -> Text:
    """Interpolate between elements along the last two axes, at each index of the other axes."""
    mode, order = d.pick(("constant", "nearest", "wrap")), d.pick((0, 1, 1))
    count = d.rng.randint(1, 5)
    coordinates = f"list(numbers({d.seed()}, 2, {count}) * 3)"
    inner = f"lambda a: map_coordinates(a, {coordinates}, {order}, {mode!r})"
    return f"jax.vmap({inner})(x.reshape(-1, *x.shape[-2:])).reshape(*x.shape[:-2], {count})"


# ---------------------------------------------------------------------------------------- norms


def layer_normed(d: Draw) -> Text:
    chosen = tuple(d.axes(1, 3))
    text = f"jax.nn.standardize(x, {chosen})"
    last = d.shape[-1]
    return f"{text} * numbers({d.seed()}, {last})" if d.chance() else text


def group_normed(d: Draw) -> Text:
    """Normalize groups of channels, which are the second or the last axis."""
    axis = d.pick((1, len(d.shape) - 1))
    channels = d.shape[axis]
    groups = d.pick([n for n in range(1, channels + 1) if channels % n == 0])
    grouped = [*d.shape[:axis], groups, channels // groups, *d.shape[axis + 1 :]]
    axes = tuple(i for i in range(1, len(grouped)) if i != axis)
    return f"jax.nn.standardize(x.reshape({grouped}), {axes}).reshape({list(d.shape)})"


def batch_normed(d: Draw) -> Text:
    """Normalize one axis by parameters for its mean and its variance."""
    axis = d.rng.randrange(len(d.shape))
    shape = [n if i == axis else 1 for i, n in enumerate(d.shape)]
    mean, scale = (f"numbers({d.seed()}, *{shape})" for _ in range(2))
    return f"(x - {mean}) * lax.rsqrt(abs({scale}) + 0.1)"


def rms_normed(d: Draw) -> Text:
    axis = d.rng.randrange(len(d.shape))
    return f"x * lax.rsqrt(jnp.mean(x * x, {axis}, keepdims=True) + 1e-3)"


# --------------------------------------------------------------------------------------- gathers


def sliced(d: Draw) -> Text:
    axis = d.rng.randrange(len(d.shape))
    start, stride = d.rng.randrange(d.shape[axis]), d.pick((1, 2, -1))
    return f"x[({'slice(None), ' * axis}slice({start}, None, {stride}),)]"


def gathered(d: Draw) -> Text:
    axis = d.rng.randrange(len(d.shape))
    indices = [d.rng.randrange(d.shape[axis]) for _ in range(d.rng.randint(1, 4))]
    if d.chance():
        return f"jnp.take(x, np.array({indices}), {axis})"
    return f"x[({'slice(None), ' * axis}np.array({indices}),)]"


def rolled(d: Draw) -> Text:
    at = d.rng.randrange(len(d.shape))
    return d.pick((f"jnp.roll(x, {d.rng.randint(-2, 2)}, {at})", f"jnp.flip(x, {at})"))


WINDOWS: tuple[Callable[[Draw], Text], ...] = (
    *(resized, resized, resized, padded, pooled, pooled, convolved, convolved, sampled),
    *(layer_normed, group_normed, batch_normed, rms_normed, sliced, gathered, rolled),
)
"""Steps whose ONNX operators need an order of axes; repeated rows are drawn more often."""

# ------------------------------------------------------------------------------------- programs


def under_vmap(d: Draw, make: Callable[[Draw], Text]) -> Text:
    """Return the line that applies a step of `make` under `jax.vmap` along one axis."""
    axis = d.rng.randrange(len(d.shape))
    inner = Draw(str(d.rng.random()))
    inner.shape = (*d.shape[:axis], *d.shape[axis + 1 :])
    return f"jax.vmap(lambda x: {make(inner)}, {axis}, {d.rng.randrange(2)})(x)"


def result_shape(shape: Shape, line: Text) -> Shape:
    """Return the shape of a line's value. **Raises** JAX's own error if the line does not fit."""
    program = Program(shape, (line,), OPSETS[0])
    return jax.eval_shape(program, jax.ShapeDtypeStruct(shape, jnp.float32)).shape


def is_usable(shape: Shape) -> bool:
    """Whether a value of this shape has two to five axes, and neither no nor too many elements."""
    return 2 <= len(shape) <= 5 and 0 < math.prod(shape) <= LARGEST


def draw_line(d: Draw, makers: Sequence[Callable[[Draw], Text]]) -> Text:
    """Draw lines until one fits the value. Update the shape of the value and return the line."""
    while True:
        make = d.pick(makers)
        vmapped = make in WINDOWS and len(d.shape) > 2 and d.chance(0.2)
        try:
            line = under_vmap(d, make) if vmapped else make(d)
            shape = result_shape(d.shape, line)
        except (ValueError, TypeError, IndexError, AssertionError, ZeroDivisionError):
            continue
        if is_usable(shape):
            d.shape = shape
            return line


def draw(seed: str, window: Callable[[Draw], Text]) -> Program:
    """Return a program with a window of this kind and perhaps another, between changes of layout.

    Elementwise steps and norms stand before and behind the window.
    """
    d = Draw(seed)
    while not is_usable(d.shape):
        d.shape = tuple(d.pick(SIZES) for _ in range(d.rng.randint(3, 5)))
    shape, lines = d.shape, list[Text]()
    for makers, probability in (
        (ORDERS, 0.7),
        ((layer_normed, *EVERY), 0.7),
        (ORDERS, 0.3),
        ((window,), 1.0),
        (EVERY, 0.4),
        (ORDERS, 0.7),
        (WINDOWS, 0.3),
        (ORDERS, 0.5),
    ):
        lines += [draw_line(d, makers)] if d.chance(probability) else []
    return Program(shape, tuple(lines), d.pick(OPSETS))
