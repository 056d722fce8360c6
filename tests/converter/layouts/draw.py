"""Functions of one array, drawn: windows between transpositions, reshapes, vmap and residual sums.

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
"""Elements of the largest value."""

Shape = tuple[int, ...]
Text = str


def numbers(seed: int, *shape: int) -> jax.Array:
    """Return fixed weights of a shape."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


NAMES = {
    **{"jax": jax, "jnp": jnp, "lax": lax, "np": np},
    **{"resize": resize, "map_coordinates": map_coordinates, "numbers": numbers},
}


@dataclass(frozen=True)
class Program:
    """The shape of the input, the lines, and the opset to convert them at."""

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

    def chance(self, share: float = 0.5) -> bool:
        return self.rng.random() < share

    def pick(self, options: Sequence[Any]) -> Any:
        return self.rng.choice(options)

    def axes(self, low: int, high: int) -> list[int]:
        """Some of the axes, in order."""
        count = min(self.rng.randint(low, high), len(self.shape))
        return sorted(self.rng.sample(range(len(self.shape)), count))

    def permutation(self) -> list[int]:
        return self.rng.sample(range(len(self.shape)), len(self.shape))

    def seed(self) -> int:
        return self.rng.randint(0, 99)

    def padding(self, most: int) -> list[tuple[int, int]]:
        """Widths at both ends of each axis, of one or two axes other than zero."""
        chosen = self.axes(1, 2)
        return [
            (self.rng.randint(0, most), self.rng.randint(0, most)) if i in chosen else (0, 0)
            for i in range(len(self.shape))
        ]


# ------------------------------------------------------------------------------------ order of axes


def transposed(d: Draw) -> Text:
    return f"x.transpose({d.permutation()})"


def merged(d: Draw) -> Text:
    """Two neighbouring axes as one."""
    at = d.rng.randrange(len(d.shape) - 1)
    return f"x.reshape({[*d.shape[:at], d.shape[at] * d.shape[at + 1], *d.shape[at + 2 :]]})"


def split(d: Draw) -> Text:
    """One axis as two."""
    at = d.rng.randrange(len(d.shape))
    size = d.shape[at]
    part = d.pick([n for n in range(1, size + 1) if size % n == 0])
    return f"x.reshape({[*d.shape[:at], part, size // part, *d.shape[at + 1 :]]})"


ORDERS = (transposed, transposed, transposed, merged, split)

# ---------------------------------------------------------------------------------- every element


def pointwise(d: Draw) -> Text:
    return d.pick(("jnp.tanh(x)", "x * 2 + 1", "jax.nn.relu(x)", "jax.nn.gelu(x)", "-x", "abs(x)"))


def weighted(d: Draw) -> Text:
    """A parameter that is broadcast."""
    shape = [n if d.chance() else 1 for n in d.shape]
    return f"x {d.pick('+*-')} numbers({d.seed()}, *{shape})"


def residual(d: Draw) -> Text:
    """The sum of the value and of what came of it, both from one transposition perhaps."""
    order = d.permutation()
    back = [order.index(i) for i in range(len(order))]
    inner = d.pick(("jnp.tanh(y)", "jax.nn.standardize(y)", "y[..., ::-1]", "y - y.mean(0)"))
    return f"x + (lambda y: {inner})(x.transpose({order})).transpose({back})"


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
    cut = d.rng.randrange(len(config))  # one element less, or one that is padding
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
    """A convolution whose axes have any order, which may be dilated, grouped or transposed."""
    rank = len(d.shape)
    letters = ["N", "C", *"HWD"[: rank - 2]]
    left = "".join(d.rng.sample(letters, rank)) if d.chance() else "N" + "HWD"[: rank - 2] + "C"
    out = left if d.chance(0.7) else "".join(d.rng.sample(letters, rank))
    channels = d.shape[left.index("C")]
    groups = d.pick([n for n in range(1, channels + 1) if channels % n == 0])
    space = [d.rng.randint(1, min(3, d.shape[left.index(c)])) for c in letters[2:]]
    right = "OI" + "".join(letters[2:])
    kernel = (groups * d.rng.randint(1, 2), channels // groups, *space)
    strides, dilation = ([d.rng.randint(1, 2) for _ in space] for _ in range(2))
    spread = [d.rng.randint(1, 2) if d.chance(0.3) else 1 for _ in space]
    padding = d.pick(("'SAME'", str([(d.rng.randint(0, 2), 2) for _ in space])))
    if spread != [1] * len(space):
        padding = str([(d.rng.randint(1, 2), 2) for _ in space])
    return (
        f"lax.conv_general_dilated(x, numbers({d.seed()}, *{kernel}), {strides}, {padding}, "
        f"lhs_dilation={spread}, rhs_dilation={dilation}, feature_group_count={groups}, "
        f"dimension_numbers=({left!r}, {right!r}, {out!r}))"
    )


def sampled(d: Draw) -> Text:
    """Places between elements along the last two axes, of all others."""
    mode, order = d.pick(("constant", "nearest", "wrap")), d.pick((0, 1, 1))
    count = d.rng.randint(1, 5)
    places = f"list(numbers({d.seed()}, 2, {count}) * 3)"
    inner = f"lambda a: map_coordinates(a, {places}, {order}, {mode!r})"
    return f"jax.vmap({inner})(x.reshape(-1, *x.shape[-2:])).reshape(*x.shape[:-2], {count})"


# ---------------------------------------------------------------------------------------- norms


def layer_normed(d: Draw) -> Text:
    chosen = tuple(d.axes(1, 3))
    text = f"jax.nn.standardize(x, {chosen})"
    last = d.shape[-1]
    return f"{text} * numbers({d.seed()}, {last})" if d.chance() else text


def group_normed(d: Draw) -> Text:
    """Norms of groups of channels, which are the second or the last axis."""
    at = d.pick((1, len(d.shape) - 1))
    channels = d.shape[at]
    groups = d.pick([n for n in range(1, channels + 1) if channels % n == 0])
    wide = [*d.shape[:at], groups, channels // groups, *d.shape[at + 1 :]]
    axes = tuple(i for i in range(1, len(wide)) if i != at)
    return f"jax.nn.standardize(x.reshape({wide}), {axes}).reshape({list(d.shape)})"


def batch_normed(d: Draw) -> Text:
    """Norms of channels by parameters, anywhere."""
    at = d.rng.randrange(len(d.shape))
    shape = [n if i == at else 1 for i, n in enumerate(d.shape)]
    mean, scale = (f"numbers({d.seed()}, *{shape})" for _ in range(2))
    return f"(x - {mean}) * lax.rsqrt(abs({scale}) + 0.1)"


def rms_normed(d: Draw) -> Text:
    axis = d.rng.randrange(len(d.shape))
    return f"x * lax.rsqrt(jnp.mean(x * x, {axis}, keepdims=True) + 1e-3)"


# --------------------------------------------------------------------------------------- gathers


def sliced(d: Draw) -> Text:
    at = d.rng.randrange(len(d.shape))
    start, stride = d.rng.randrange(d.shape[at]), d.pick((1, 2, -1))
    return f"x[({'slice(None), ' * at}slice({start}, None, {stride}),)]"


def gathered(d: Draw) -> Text:
    at = d.rng.randrange(len(d.shape))
    places = [d.rng.randrange(d.shape[at]) for _ in range(d.rng.randint(1, 4))]
    if d.chance():
        return f"jnp.take(x, np.array({places}), {at})"
    return f"x[({'slice(None), ' * at}np.array({places}),)]"


def rolled(d: Draw) -> Text:
    at = d.rng.randrange(len(d.shape))
    return d.pick((f"jnp.roll(x, {d.rng.randint(-2, 2)}, {at})", f"jnp.flip(x, {at})"))


WINDOWS: tuple[Callable[[Draw], Text], ...] = (
    *(resized, resized, resized, padded, pooled, pooled, convolved, convolved, sampled),
    *(layer_normed, group_normed, batch_normed, rms_normed, sliced, gathered, rolled),
)
"""What is written as an operator with axes of its own."""

# ------------------------------------------------------------------------------------- programs


def under_vmap(d: Draw, make: Callable[[Draw], Text]) -> Text:
    """A step of the entries of one axis."""
    at = d.rng.randrange(len(d.shape))
    inner = Draw(str(d.rng.random()))
    inner.shape = (*d.shape[:at], *d.shape[at + 1 :])
    return f"jax.vmap(lambda x: {make(inner)}, {at}, {d.rng.randrange(2)})(x)"


def result_shape(shape: Shape, line: Text) -> Shape:
    """The shape of a line's value. **Raises** what JAX does where the line does not fit."""
    program = Program(shape, (line,), OPSETS[0])
    return jax.eval_shape(program, jax.ShapeDtypeStruct(shape, jnp.float32)).shape


def is_usable(shape: Shape) -> bool:
    return 2 <= len(shape) <= 5 and 0 < math.prod(shape) <= LARGEST


def step(d: Draw, makers: Sequence[Callable[[Draw], Text]]) -> Text:
    """A line that fits the value, of which most do."""
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
    """Return a window of a kind, and perhaps another one, between changes of the order of axes.

    What treats all elements alike and norms stand before and behind it.
    """
    d = Draw(seed)
    while not is_usable(d.shape):
        d.shape = tuple(d.pick(SIZES) for _ in range(d.rng.randint(3, 5)))
    shape, lines = d.shape, list[Text]()
    for makers, share in (
        (ORDERS, 0.7),
        ((layer_normed, *EVERY), 0.7),
        (ORDERS, 0.3),
        ((window,), 1.0),
        (EVERY, 0.4),
        (ORDERS, 0.7),
        (WINDOWS, 0.3),
        (ORDERS, 0.5),
    ):
        lines += [step(d, makers)] if d.chance(share) else []
    return Program(shape, tuple(lines), d.pick(OPSETS))
