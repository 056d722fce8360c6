"""What networks in channels-last are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.converter.layout.planning import Network

NHWC = ("NHWC", "HWIO", "NHWC")


def function(net: Network, what: str, table: Mapping[str, Callable[..., Any]]) -> Any:
    return table[net.pencil.pick(what, [*table])]


def conv(net: Network, at: int) -> int:
    pencil, (_, height, width, channels) = net.pencil, net.shapes[at]
    groups = pencil.pick("groups", [1, 1, channels, *([2] if channels % 2 == 0 else [])])
    size = pencil.pick("size", ((1, 1), (3, 3), (2, 3)))
    fits = height > 3 and width > 3 and not net.named
    padding = pencil.pick("padding", ("SAME", *(("VALID",) if fits else ()), [(1, 1), (0, 2)]))
    stride = pencil.pick("stride", ((1, 1), (1, 1), (2, 2), (2, 1)))
    spread = (2, 2) if not net.named and pencil.chance("transposed", 0.1) else (1, 1)
    out = groups * pencil.pick("out", (1, 2)) if groups > 1 else pencil.pick("out", (2, 4, 6))
    w = net.weight(*size, channels // groups, out)
    bias = net.weight(out) if pencil.chance("bias", 0.4) else None

    def step(p, x):
        how = {"dimension_numbers": NHWC, "feature_group_count": groups, "lhs_dilation": spread}
        pads = [(1, 1), (0, 2)] if spread == (2, 2) else padding
        y = lax.conv_general_dilated(x, p[w], (1, 1) if spread == (2, 2) else stride, pads, **how)
        return y if bias is None else y + p[bias]

    return net.add(step, at)


def norm(net: Network, at: int) -> int:
    """As Keras, Haiku and Flax write a batch norm at inference, and by hand."""
    channels = net.shapes[at][-1]
    scale, shift, mean, var = (net.weight(channels) for _ in range(4))
    net.params[var] = abs(net.params[var]) + 0.5

    def folded(p, x):
        factor = lax.rsqrt(p[var] + 1e-3) * p[scale]
        return x * factor + (p[shift] - p[mean] * factor)

    def by_hand(p, x):
        return (x - p[mean]) / jnp.sqrt(p[var] + 1e-5) * p[scale] + p[shift]

    return net.add(function(net, "norm", {"folded": folded, "by hand": by_hand}), at)


def other_norm(net: Network, at: int) -> int:
    axes = net.pencil.pick("normed", (-1, (1, 2), 1, (1, 2, 3)))

    def step(p, x):
        centred = x - x.mean(axes, keepdims=True)
        return centred * lax.rsqrt(jnp.square(centred).mean(axes, keepdims=True) + 1e-2)

    return net.add(step, at)


ACTIVATIONS = {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "hard_swish": jax.nn.hard_swish,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "leaky_relu": jax.nn.leaky_relu,
    "abs": jnp.abs,
    "neg": jnp.negative,
    "softplus": jax.nn.softplus,
}


def activation(net: Network, at: int) -> int:
    fn = function(net, "activation", ACTIVATIONS)
    return net.add(lambda p, x: fn(x), at)


def pool(net: Network, at: int) -> int:
    fits = min(net.shapes[at][1:3]) > 3 and not net.named
    padding = net.pencil.pick("padding", ("SAME", *(("VALID",) if fits else ())))
    stride, size = net.pencil.pick("window", ((1, 3), (2, 2), (2, 3)))
    windows = (1, size, size, 1), (1, stride, stride, 1), padding
    pools = {
        "max": lambda p, x: lax.reduce_window(x, -jnp.inf, lax.max, *windows),
        "sum": lambda p, x: lax.reduce_window(x, 0.0, lax.add, *windows) / size,
    }
    return net.add(function(net, "pool", pools), at)


def gate(net: Network, at: int) -> int:
    """Squeeze and excitation."""
    channels = net.shapes[at][-1]
    one, two = net.weight(channels, 2), net.weight(2, channels)
    keep = net.pencil.chance("keepdims", 0.5)

    def step(p, x):
        mean = x.mean((1, 2), keepdims=keep)
        gates = jax.nn.sigmoid(jax.nn.relu(mean @ p[one]) @ p[two])
        return x * (gates if keep else gates[:, None, None])

    return net.add(step, at)


def pad(net: Network, at: int) -> int:
    widths = net.pencil.pick("pad", (((0, 0), (1, 2), (0, 1), (0, 0)), ((0, 0),) * 3 + ((1, 0),)))
    value = net.pencil.pick("value", (0.0, -1.0))
    return net.add(lambda p, x: jnp.pad(x, widths, constant_values=value), at)


def partner(net: Network, at: int, but: int | None = None) -> int:
    """A value of the same shape (but for one axis), or the value itself."""

    def kept(shape: tuple[int, ...]) -> list[int]:
        return [d for axis, d in enumerate(shape) if axis != but]

    found = [i for i, shape in enumerate(net.shapes) if kept(shape) == kept(net.shapes[at])]
    return net.pencil.pick("partner", found)


def combine(net: Network, at: int) -> int:
    fns = {
        "add": jnp.add,
        "sub": jnp.subtract,
        "mul": jnp.multiply,
        "max": jnp.maximum,
        "where": lambda x, y: jnp.where(x > 0.1, x, y),
        "mean": lambda x, y: x + y.mean((1, 2), keepdims=True),
        "highest": lambda x, y: x * y.max(-1, keepdims=True),
    }
    fn = function(net, "combine", fns)
    return net.add(lambda p, x, y: fn(x, y), *net.pencil.order([at, partner(net, at)]))


def concatenate(net: Network, at: int) -> int:
    axis = net.pencil.pick("axis", (3, 3, 3, 1, 2, 0) if not net.named else (3,))
    others = net.pencil.order([at, partner(net, at, axis)])
    return net.add(lambda p, *xs: jnp.concatenate(xs, axis), *others)


def part(net: Network, at: int) -> int:
    sizes = net.shapes[at]
    axis = net.pencil.pick("axis", (1, 2, 3) if not net.named else (3,))
    if sizes[axis] < 2:
        return at
    half = sizes[axis] // 2
    kind = net.pencil.pick("part", ("first", "second", "split", "strided", "reversed"))

    def step(p, x):
        if kind == "split":
            one, other = jnp.split(x, [half], axis)
            return one.sum(axis, keepdims=True) * other
        limits = {"first": (0, half, 1), "second": (half, sizes[axis], 1)}
        start, stop, stride = limits.get(kind, (0, sizes[axis], 2))
        if kind == "reversed":
            return jnp.flip(x, axis)
        return lax.slice_in_dim(x, start, stop, stride, axis)

    return net.add(step, at)


def resize(net: Network, at: int) -> int:
    _, height, width, c = net.shapes[at]
    how = net.pencil.pick("resize", ("nearest", "linear"))

    def step(p, x):
        shape = (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], c)
        return jax.image.resize(x, shape, how)

    return net.add(step, at) if height * width < 400 and not net.named else at


def dense(net: Network, at: int) -> int:
    w = net.weight(net.shapes[at][-1], 4)
    fns = {
        "@": lambda p, x: x @ p[w],
        "einsum": lambda p, x: jnp.einsum("nhwc,co->nhwo", x, p[w]),
        "weights first": lambda p, x: jnp.einsum("co,nhwc->nhwo", p[w], x),
    }
    return net.add(function(net, "dense", fns), at)


def along(net: Network, at: int) -> int:
    """Something that is not the same for every element, along one axis."""
    axis = net.pencil.pick("axis", (-1, 1, 2))
    fns = {
        "softmax": lambda x: jax.nn.softmax(x, axis),
        "log_softmax": lambda x: jax.nn.log_softmax(x, axis),
        "cumsum": lambda x: jnp.cumsum(x, axis) / 8,
        "less": lambda x: x - x.max(axis, keepdims=True),
        "sort": lambda x: x + jnp.sort(x, axis),
        "argmax": lambda x: x * (jnp.argmax(x, axis, keepdims=True) > 0),
    }
    fn = function(net, "along", fns)
    return net.add(lambda p, x: fn(x), at)


def scaled(net: Network, at: int) -> int:
    """By numbers along some axes, the channels among them or not."""
    _, height, width, channels = net.shapes[at]
    shapes = [(channels,), (1, 1, channels), (), (1, 1, 1, channels)]
    shapes += [] if net.named else [(width, 1), (height, 1, 1), (width, channels)]
    name = net.weight(*net.pencil.pick("scale", shapes))
    fns = {"mul": jnp.multiply, "add": jnp.add, "less": jnp.subtract, "from": lambda x, s: s - x}
    fn = function(net, "op", fns)
    return net.add(lambda p, x: fn(x, p[name]), at)


def turned(net: Network, at: int) -> int:
    """The user's own transposes, around something or left."""
    order = net.pencil.pick("order", ((0, 3, 1, 2), (0, 2, 1, 3), (0, 2, 3, 1), (3, 1, 2, 0)))
    back = tuple(order.index(i) for i in range(4))
    fns = {"relu": jax.nn.relu, "flip": lambda x: jnp.flip(x, 1), "nothing": lambda x: x}
    fn = function(net, "inside", fns)
    return net.add(lambda p, x: fn(x.transpose(order)).transpose(back), at)


def smaller(net: Network, at: int) -> int:
    """Beside an operand with fewer axes, which comes in an order of its own."""
    fns = {
        "image": lambda x: x.transpose(3, 1, 2, 0).mean(-1).transpose(1, 2, 0),
        "row": lambda x: x.transpose(3, 2, 0, 1).max((2, 3)).T,
        "turned": lambda x: x.transpose(2, 1, 3, 0).mean(-1).transpose(1, 0, 2),
    }
    fn = function(net, "smaller", fns)
    return net.add(lambda p, x: jnp.sin(x * fn(x)) - fn(x), at)


def flat(net: Network, at: int) -> int:
    """Positions in a row, and back."""
    c = net.shapes[at][-1]

    def step(p, x):
        rows = x.reshape(x.shape[0], -1, c)
        return (rows - rows.mean(1, keepdims=True)).reshape(x.shape)

    return net.add(step, at)


STEPS = (
    *(conv,) * 9,
    *(norm, norm, activation, activation, pool, gate, pad, combine, combine, concatenate, along),
    *(part, resize, dense, along, scaled, turned, flat, other_norm, smaller),
)


def ended(net: Network, at: int) -> int:
    """An output: as it is, in another order, or reduced."""
    shape = net.shapes[at]
    ends: dict[str, Callable[..., Any]] = {
        "as it is": lambda p, x: x,
        "channels first": lambda p, x: x.transpose(0, 3, 1, 2),
        "mean": lambda p, x: x.mean((1, 2)),
        "channels": lambda p, x: x.sum(-1),
        "rows": lambda p, x: x.max(1),
    }
    if not net.named:  # else JAX cannot say whether there is a first place
        ends["place"] = lambda p, x: x.reshape(x.shape[0], -1, shape[-1])[:, 0]
        w = net.weight(int(np.prod(shape[1:])), 3)
        ends["flat"] = lambda p, x: x.reshape(x.shape[0], -1) @ p[w]
    return net.add(ends[net.pencil.pick("end", [*ends])], at)
