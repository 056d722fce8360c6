"""Layout operations, which become few ONNX nodes, and products of transposed operands."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.conformance import DEFAULT, Case

ROWS, HEADS, WIDTH = 5, 3, 4
ALL, NAMED = ("B", ROWS, 3 * HEADS * WIDTH), ("B", 6, 8)
NONE = dict.fromkeys(("Split", "Slice", "Gather", "Reshape", "Transpose"), 0)

# ------------------------------------------------------------------- parts that are turned alike


def heads(x):
    """[batch, rows, heads * width] -> [batch, heads, rows, width]."""
    return x.reshape(x.shape[0], ROWS, HEADS, WIDTH).transpose(0, 2, 1, 3)


def split_first(x):
    return [jnp.sin(heads(part)) for part in jnp.split(x, 3, axis=-1)]


def split_heads(x):
    parts = x.reshape(x.shape[0], ROWS, 3, HEADS, WIDTH).transpose(0, 2, 1, 3, 4)
    return [jnp.sin(parts[:, i].transpose(0, 2, 1, 3)) for i in (2, 0, 1)]


def other_order(x):
    q, k, v = jnp.split(x, 3, axis=-1)
    return jnp.sin(heads(q)), jnp.sin(heads(k).swapaxes(2, 3)), jnp.sin(heads(v))


def read_twice(x):
    q, k, v = jnp.split(x, 3, axis=-1)
    return jnp.sin(heads(q)), jnp.sin(heads(k)), jnp.sin(heads(v)) + v.sum()


def flat_again(x):
    parts = x.reshape(x.shape[0], ROWS, 3, HEADS, WIDTH).transpose(0, 2, 1, 3, 4)
    return [jnp.sin(parts[:, i].reshape(-1, ROWS, HEADS * WIDTH)) for i in range(3)]


PARTS = {
    split_first: {"Reshape": 1, "Transpose": 1, "Gather": 3},
    split_heads: {"Reshape": 1, "Transpose": 1, "Gather": 3},
    other_order: {"Reshape": 1, "Transpose": 2, "Gather": 3},
    read_twice: {"Split": 1, "Reshape": 3, "Transpose": 3},
    flat_again: {"Split": 1},
}
# Constant indices of axes with named sizes.
INDEXED = [
    Case("to the end", lambda x: x[:, 1:, ::2], ops={"Slice": 1}),
    Case("to the last", lambda x: x[:, :-1], ops={"Slice": 1}),
    Case("the last", lambda x: x[:, -1], ops={"Gather": 1}),
    Case("two numbers", lambda x: x[:, 1, 2], ops={"Reshape": 1, "Slice": 1}),
    Case("every other", lambda x: x[:, jnp.array([1, 3, 5])], ops={"Slice": 1}),
    Case("one twice", lambda x: x[:, jnp.array([1, 1])], ops={"Gather": 1}),
    Case("backwards", lambda x: x[:, jnp.array([3, 1])], ops={"Gather": 1}),
    Case("from both ends", lambda x: x[:, jnp.array([5, -1])], ops={"Gather": 1}),
]

# ------------------------------------------------------------------------------ turned products

W = np.random.default_rng(0).standard_normal((5, 2), np.float32)
SEVENTHS = np.arange(1, 16, dtype=np.float32).reshape(3, 5) / 7
VECTORS = [
    Case("matrix vector", lambda a, v: a @ v, ((4, 5), (5,))),
    Case("vector batch", lambda v, a: jnp.einsum("b,cab->ca", v, a), ((3,), (2, 5, 3))),
    Case("sum", lambda a, v: jnp.einsum("cab,a->cb", a + a[:1], v), ((2, 5, 3), (5,))),
    Case("three", lambda x, v: jnp.einsum("a,ba,a->b", x, SEVENTHS, v), ((5,), (5,))),
]
PRODUCTS = [
    Case("scaled", lambda x, y: (jnp.transpose(x, (1, 0, 2)) * 2) @ y, ((4, 3, 5), (5, 2))),
    Case("from the left", lambda x, y: x @ (jnp.transpose(y, (1, 2, 0)) * 2), ((5,), (4, 3, 5))),
    Case("four axes", lambda x, y: x @ jnp.transpose(y, (1, 2, 0)), ((2, 3, 4, 5), (6, 3, 5))),
    Case("by a weight", lambda x: jnp.transpose(x, (1, 0, 2)) @ W.astype(x.dtype), ((4, 3, 5),)),
    Case(
        "shifted",
        lambda x: (jnp.transpose(x, (1, 0, 2)) + 1) * 2 @ W.astype(x.dtype),
        ((4, 3, 5),),
    ),
]


def turned_and_converted(dtype, order, axes):
    """Return a case that transposes, converts to float32 and multiplies, as networks do with pixels
    and tokens."""
    w = np.arange(10, dtype=np.float32).reshape((1,) * (axes - 2) + (5, 2)) if axes > 1 else W[:, 0]
    x = (np.arange(60) % 7).reshape(4, 3, 5).transpose(np.argsort(order)).astype(dtype)

    def fn(x):
        return jnp.transpose(x, order).astype(np.float32) @ w

    tags = DEFAULT if (axes, order) == (2, (1, 0, 2)) else frozenset()
    return Case(f"{order} of {np.dtype(dtype)}, {axes}", fn, [x], tags=tags)


def turned_in_a_loop(x, carry):
    """Multiply transposed rows in a loop. Names in the loop's body have to be unique in the whole
    file."""

    def step(c, row):
        transposed = jnp.transpose(row, (1, 0, 2)).astype(np.float32)
        return c + (transposed @ W).sum(), transposed @ W

    return jax.lax.scan(step, carry, x)


TRANSPOSED = [
    *(turned_and_converted(dtype, order, axes) for dtype in (np.int32, np.bool_, np.float16)
      for order in ((1, 0, 2), (1, 2, 0), (2, 0, 1)) for axes in (1, 2, 4)),
    Case("turned in a loop", turned_in_a_loop,
         [np.arange(120, dtype=np.int32).reshape(2, 4, 3, 5), np.ones((), np.float32)],
         tags=DEFAULT),
    # Heads and images are transposed like this. Their products stay as they are written.
    Case("the first axis in its place",
         lambda x: jnp.transpose(x, (0, 2, 1)).astype(np.float32) @ W, [((4, 5, 3), np.float16)],
         ops={"Transpose": 1, "Cast": 1, "MatMul": 1}, tags=DEFAULT),
]  # fmt: skip

# ------------------------------------------------------------------- axes that are split and cut


def unroll(x):
    """Unroll tokens as Hiera and SAM 2 do: one 2x2 block after the other, three levels deep."""
    batch, side, channels = x.shape[0], 56, x.shape[-1]
    blocks = 1
    for _ in range(3):
        x = x.reshape(batch * blocks, side // 2, 2, side // 2, 2, channels)
        x = x.transpose(0, 2, 4, 1, 3, 5).reshape(batch * blocks * 4, -1, channels)
        blocks, side = 4 * blocks, side // 2
    return x.reshape(batch, -1, channels) * 2


# The stride of a merged slice would be a named size, so the slice stays on its axis.
EVERY_NTH = {
    "first of rows": lambda x: x.reshape(6, -1)[:, :1],
    "last of rows": lambda x: x.reshape(6, -1)[:, -1].reshape(2, 3).T,
    "first of resized": lambda x: jax.image.resize(
        x.reshape(2, 3, -1), (2, 5, x.shape[0] // 6), "cubic"
    )[..., :1],
}
SPLIT = [
    *(Case(f"unrolled, {b}", unroll, ((b, 56, 56, 3),), tags=DEFAULT) for b in (2, "B")),
    *(Case(name, fn, (("6*N",),), tags=DEFAULT) for name, fn in EVERY_NTH.items()),
]


def of_halves(case: Case) -> Case:
    """Return the case with inputs of float16."""
    specs = [(shape, np.float16) for shape in case.specs]
    return Case(f"{case.name}, float16", case.fn, specs, tags=DEFAULT)


PROGRAMS = [
    *(Case(f.__name__, f, (ALL,), ops={**NONE, **n}, tags=DEFAULT) for f, n in PARTS.items()),
    *(Case(c.name, c.fn, (NAMED,), ops={**NONE, **c.ops}, tags=DEFAULT) for c in INDEXED),
    *(*VECTORS, *PRODUCTS, *map(of_halves, PRODUCTS), *TRANSPOSED, *SPLIT),
]
