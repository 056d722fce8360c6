"""What networks in channels-last are made of."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.converter.layout.planning import Network

NHWC = ("NHWC", "HWIO", "NHWC")


def conv(net: Network, at: int) -> int:
    pencil, (_, height, width, channels) = net.pencil, net.shapes[at]
    groups = pencil.pick("groups", [1, 1, channels, *([2] if channels % 2 == 0 else [])])
    size = pencil.pick("size", ((1, 1), (3, 3), (2, 3)))
    fits = height > 3 and width > 3 and not net.named
    padding = pencil.pick("padding", ("SAME", *(("VALID",) if fits else ()), [(1, 1), (0, 2)]))
    stride = pencil.pick("stride", ((1, 1), (1, 1), (2, 2), (2, 1)))
    spread = (1, 1)
    if not net.named and pencil.chance("transposed", 0.1):
        spread, stride, padding = (2, 2), (1, 1), [(1, 1), (0, 2)]
    out = groups * pencil.pick("out", (1, 2)) if groups > 1 else pencil.pick("out", (2, 4, 6))
    w = net.weight(*size, channels // groups, out)
    bias = net.weight(out) if pencil.chance("bias", 0.4) else None

    def step(p, x):
        how = {"dimension_numbers": NHWC, "feature_group_count": groups, "lhs_dilation": spread}
        y = lax.conv_general_dilated(x, p[w], stride, padding, **how)
        return y if bias is None else y + p[bias]

    return net.add(step, at)


def norm(net: Network, at: int) -> int:
    """As Keras, Haiku and Flax write a batch norm at inference, and by hand."""
    channels = net.shapes[at][-1]
    scale, shift, mean, var = (net.weight(channels) for _ in range(4))
    net.params[var] = abs(net.params[var]) + 0.5
    folded = net.pencil.chance("folded", 0.5)

    def step(p, x):
        if not folded:
            return (x - p[mean]) / jnp.sqrt(p[var] + 1e-5) * p[scale] + p[shift]
        factor = lax.rsqrt(p[var] + 1e-3) * p[scale]
        return x * factor + (p[shift] - p[mean] * factor)

    return net.add(step, at)


ACTIVATIONS = {
    "relu": jax.nn.relu,
    "hard_swish": jax.nn.hard_swish,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "leaky_relu": jax.nn.leaky_relu,
    "neg": jnp.negative,
}


def activation(net: Network, at: int) -> int:
    return net.mapped("activation", ACTIVATIONS, at)


def pool(net: Network, at: int) -> int:
    fits = min(net.shapes[at][1:3]) > 3 and not net.named
    padding = net.pencil.pick("padding", ("SAME", *(("VALID",) if fits else ())))
    stride, size = net.pencil.pick("window", ((1, 3), (2, 2), (2, 3)))
    windows = (1, size, size, 1), (1, stride, stride, 1), padding
    pools = {
        "max": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, *windows),
        "sum": lambda x: lax.reduce_window(x, 0.0, lax.add, *windows) / size,
    }
    return net.mapped("pool", pools, at)


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


def partner(net: Network, at: int, but: int | None = None) -> list[int]:
    """A value and one of the same shape (but for one axis), or itself, in some order."""

    def kept(shape: tuple[int, ...]) -> list[int]:
        return [d for axis, d in enumerate(shape) if axis != but]

    found = [i for i, shape in enumerate(net.shapes) if kept(shape) == kept(net.shapes[at])]
    return net.pencil.order([at, net.pencil.pick("partner", found)])


COMBINED = {
    "add": jnp.add,
    "mul": jnp.multiply,
    "where": lambda x, y: jnp.where(x > 0.1, x, y),
    "mean": lambda x, y: x + y.mean((1, 2), keepdims=True),
    "highest": lambda x, y: x * y.max(-1, keepdims=True),
}


def combine(net: Network, at: int) -> int:
    return net.mapped("combine", COMBINED, *partner(net, at))


def concatenate(net: Network, at: int) -> int:
    axis = net.pencil.pick("axis", (3, 3, 3, 1, 2, 0) if not net.named else (3,))
    return net.add(lambda p, *xs: jnp.concatenate(xs, axis), *partner(net, at, axis))


def part(net: Network, at: int) -> int:
    sizes = net.shapes[at]
    axis = net.pencil.pick("axis", (1, 2, 3) if not net.named else (3,))
    if sizes[axis] < 2:
        return at
    half = sizes[axis] // 2

    def split(x):
        one, other = jnp.split(x, [half], axis)
        return one.sum(axis, keepdims=True) * other

    parts = {
        "first": lambda x: lax.slice_in_dim(x, 0, half, 1, axis),
        "strided": lambda x: lax.slice_in_dim(x, 1, sizes[axis], 2, axis),
        "reversed": lambda x: jnp.flip(x, axis),
        "split": split,
    }
    return net.mapped("part", parts, at)


def resize(net: Network, at: int) -> int:
    _, height, width, c = net.shapes[at]
    how = net.pencil.pick("resize", ("nearest", "linear"))

    def step(p, x):
        return jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], c), how)

    return net.add(step, at) if height * width < 400 and not net.named else at


def weighted(net: Network, at: int) -> int:
    """A product with a matrix, or numbers along some axes, the channels among them or not."""
    _, height, width, channels = net.shapes[at]
    w = net.weight(channels, 4)
    shapes = [(channels,), (1, 1, channels), ()]
    shapes += [] if net.named else [(width, 1), (height, 1, 1), (width, channels)]
    s = net.weight(*net.pencil.pick("scale", shapes))
    steps = {
        "@": lambda p, x: x @ p[w],
        "weights first": lambda p, x: jnp.einsum("co,nhwc->nhwo", p[w], x),
        "mul": lambda p, x: x * p[s],
        "less": lambda p, x: x - p[s],
        "from": lambda p, x: p[s] - x,
    }
    return net.add(steps[net.pencil.pick("weighted", [*steps])], at)


def standardized(x: Any, axes: Any) -> Any:
    centred = x - x.mean(axes, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(axes, keepdims=True) + 1e-2)


ALONG = {
    "softmax": jax.nn.softmax,
    "cumsum": lambda x, axis: jnp.cumsum(x, axis) / 8,
    "less": lambda x, axis: x - x.max(axis, keepdims=True),
    "sort": lambda x, axis: x + jnp.sort(x, axis),
    "argmax": lambda x, axis: x * (jnp.argmax(x, axis, keepdims=True) > 0),
    "norm": standardized,
    "norm of both": lambda x, axis: standardized(x, (1, 2)),
}


def along(net: Network, at: int) -> int:
    """Something that is not the same for every element, along one axis."""
    axis = net.pencil.pick("axis", (-1, 1, 2))
    fn = ALONG[net.pencil.pick("along", [*ALONG])]
    return net.add(lambda p, x: fn(x, axis), at)


def turned(net: Network, at: int) -> int:
    """The user's own transposes, around something or left."""
    order = net.pencil.pick("order", ((0, 3, 1, 2), (0, 2, 1, 3), (0, 2, 3, 1), (3, 1, 2, 0)))
    back = tuple(order.index(i) for i in range(4))
    inside = {
        "relu": lambda x: jax.nn.relu(x.transpose(order)).transpose(back),
        "flip": lambda x: jnp.flip(x.transpose(order), 1).transpose(back),
        "nothing": lambda x: x.transpose(order).transpose(back),
    }
    return net.mapped("inside", inside, at)


def rows(x: Any) -> Any:
    """Positions in a row, and back."""
    flat = x.reshape(x.shape[0], -1, x.shape[-1])
    return (flat - flat.mean(1, keepdims=True)).reshape(x.shape)


OTHERS = {
    "rows": rows,
    "pad": lambda x: jnp.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)), constant_values=-1.0),
    "pad channels": lambda x: jnp.pad(x, ((0, 0),) * 3 + ((1, 0),)),
    # Beside an operand with fewer axes, which comes in an order of its own.
    "image": lambda x: x - x.transpose(3, 1, 2, 0).mean(-1).transpose(1, 2, 0),
    "row": lambda x: jnp.sin(x * x.transpose(3, 2, 0, 1).max((2, 3)).T),
}


def other(net: Network, at: int) -> int:
    return net.mapped("other", OTHERS, at)


STEPS = (
    *(conv,) * 9,
    *(norm, norm, activation, activation, pool, gate, combine, combine, concatenate),
    *(part, resize, weighted, weighted, along, along, turned, other, other),
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
