"""Random scales and shifts behind a convolution, and what only looks like them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.converter.fuse.drawing import Pencil

ORDERS = {
    "NHWC": ("NHWC", "HWIO", "NHWC"),
    "NCHW": ("NCHW", "OIHW", "NCHW"),
    "to the front": ("NHWC", "HWIO", "NCHW"),
    "in the middle": ("NHWC", "HWIO", "HCNW"),
}

SOURCES = ("param", "param", "param", "constant", "made of two", "the same", "weight")
"""Where a number comes from that is known when the file is saved, and may be another then: ``the
same`` is a parameter that is used already, ``weight`` the convolution's own."""

FOLDED = {
    "mul": lambda y, s: y * s,
    "mul turned": lambda y, s: s * y,
    "add": lambda y, s: y + s,
    "add turned": lambda y, s: s + y,
    "sub": lambda y, s: y - s,
    "div": lambda y, s: y / s,
}
KEPT = {
    "sub turned": lambda y, s: s - y,
    "div turned": lambda y, s: s / (jnp.square(y) + 1),
    "max": lambda y, s: jnp.maximum(y, s),
    "square": lambda y, s: y * y + s,
}
"""What is no scale or shift, or none that is looked for."""


@dataclass
class Affine:
    """``fn(params, *inputs)``.

    ``folded`` says whether all of it has to go into the convolution; what only may is not asked.
    """

    pencil: Pencil
    fn: Callable[..., Any]
    params: dict[str, np.ndarray]
    inputs: list[np.ndarray]
    folded: bool

    def bound(self, params: dict[str, np.ndarray]) -> Callable[..., Any]:
        """The function with values for its parameters."""
        return partial(self.fn, params)

    def text(self) -> str:
        """What was chosen."""
        return self.pencil.text()

    def others(self) -> dict[str, np.ndarray]:
        """Other values for the parameters."""
        return {name: _numbers(self.pencil, p.shape) for name, p in self.params.items()}


def _numbers(pencil: Pencil, shape: tuple[int, ...]) -> np.ndarray:
    """Far from zero, so that dividing by them is harmless."""
    rng = pencil.rng
    numbers = rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)
    return np.asarray(numbers, np.float32)


def affine(seed: int) -> Affine:
    """A convolution with one to four scales and shifts."""
    pencil = Pencil(np.random.default_rng(seed))
    params: dict[str, np.ndarray] = {}
    inputs: list[np.ndarray] = []
    convolve, axis, out = _convolution(pencil, params, inputs)
    near = False
    steps = []
    for _ in range(int(pencil.rng.integers(1, 5))):
        kind = pencil.pick("miss", ("op", "axes", "source")) if pencil.chance("near", 0.1) else ""
        near |= bool(kind)
        table = KEPT if kind == "op" else FOLDED
        op = table[pencil.pick("op", [*table])]
        shape = _shape(pencil, axis, out, kind == "axes")
        source = "input" if kind == "source" else pencil.pick("source", SOURCES)
        steps.append((op, _number(pencil, shape, source, params, inputs)))
    twice = pencil.chance("read twice", 0.1)

    def fn(p, *xs):
        y = first = convolve(p, xs)
        for op, number in steps:
            y = op(y, number(p, xs))
        return (y, first) if twice else y

    lanes = pencil.chance("lanes", 0.25)
    simple = len(steps) == 1 and "grouped transposed" not in pencil.notes
    folded = simple and not (near or twice or lanes)
    return Affine(pencil, _lanes(fn, inputs) if lanes else fn, params, inputs, folded)


def _convolution(
    pencil: Pencil, params: dict[str, np.ndarray], inputs: list[np.ndarray]
) -> tuple[Callable[..., Any], int, tuple[int, ...]]:
    """A convolution, the axis of its channels and the shape of its result."""
    order = pencil.pick("order", [*ORDERS])
    kind = pencil.pick(
        "kind", ("plain", "grouped", "depthwise", "transposed", "grouped transposed")
    )
    image, kernel, result = ORDERS[order]
    groups = {"plain": 1, "transposed": 1, "depthwise": 4}.get(kind, 2)
    sizes = {"N": 2, "C": 4, "H": 5, "W": 7, "O": 12, "I": 4 // groups}
    spread = (2, 2) if kind.endswith("transposed") else (1, 1)
    inputs.append(_numbers(pencil, tuple(sizes[a] for a in image)))
    params["w"] = _numbers(pencil, tuple({**sizes, "H": 3, "W": 2}[a] for a in kernel))
    pencil.notes.append(kind)

    def convolve(p, xs):
        return lax.conv_general_dilated(
            *(xs[0], p["w"], (1, 1), [(1, 1), (0, 2)], spread),
            dimension_numbers=ORDERS[order],
            feature_group_count=groups,
        )

    shape = jax.eval_shape(lambda p, x: convolve(p, [x]), params, inputs[0]).shape
    return convolve, result.index("C"), shape


def _shape(pencil: Pencil, axis: int, out: tuple[int, ...], miss: bool) -> tuple[int, ...]:
    """Of what differs along the channels at most, or of a near miss."""
    if not miss:
        if pencil.chance("scalar", 0.2):
            return ()
        wide = tuple(d if i == axis else 1 for i, d in enumerate(out))
        return wide[axis:] if pencil.chance("short", 0.5) else wide
    others = [i for i in range(len(out)) if i != axis]
    kept = {pencil.pick("along", others), *([axis] if pencil.chance("with channels", 0.5) else [])}
    return tuple(d if i in kept else 1 for i, d in enumerate(out))


def _number(
    pencil: Pencil,
    shape: tuple[int, ...],
    source: str,
    params: dict[str, np.ndarray],
    inputs: list[np.ndarray],
) -> Callable[..., Any]:
    """A function of parameters and inputs."""
    if source == "constant":
        constant = _numbers(pencil, shape)
        return lambda p, xs: constant
    if source == "weight":
        return lambda p, xs: jnp.abs(p["w"]).max() + 1
    if source == "input":
        place = len(inputs)
        inputs.append(_numbers(pencil, shape))
        return lambda p, xs: xs[place]
    same = [name for name, value in params.items() if value.shape == shape]
    if source == "the same" and same:
        used = pencil.pick("same", same)
        return lambda p, xs: p[used]
    one, other = (f"p{len(params) + i}" for i in range(2))
    params[one] = _numbers(pencil, shape)
    if source != "made of two":
        return lambda p, xs: p[one]
    params[other] = _numbers(pencil, shape)
    return lambda p, xs: p[one] * lax.rsqrt(jnp.square(p[other]) + 1e-3)


def _lanes(fn: Callable[..., Any], inputs: list[np.ndarray]) -> Callable[..., Any]:
    """The function over lanes of its first input, which the convolution takes in its batch."""
    inputs[0] = np.stack([inputs[0], inputs[0] * 0.5, -inputs[0]])

    def lanes(p, *xs):
        return jax.vmap(lambda x: fn(p, x, *xs[1:]))(xs[0])

    return lanes
