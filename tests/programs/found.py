"""Programs that were once converted wrongly, in their smallest form."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, SAMPLES, Case


def of_weights(name, fn, specs, shapes, **options):
    """Return a case whose function takes drawn weights and inputs."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    return Case(name, fn, specs, params=weights, **options)


def rotary(x, cos, sin):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def rotated(x):
    angles = jnp.arange(2)[:, None] * 10.0 ** -(jnp.arange(2) / 2)
    return rotary(x, jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype))


ANGLES = np.outer(np.arange(16.0), 10000.0 ** -(np.arange(4) / 4)).astype(np.float32)


def rotated_at(x, positions):
    """Rotate by rows of tables that contain each column twice."""
    cos, sin = (jnp.tile(f(ANGLES), 2)[positions][:, None] for f in (np.cos, np.sin))
    first, second = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-second, first], -1) * sin


def windows(start, operation, *window, **options):
    return lambda x: lax.reduce_window(x, start, operation, *window, **options)


def slope(fn):
    return lambda x: jax.grad(lambda y: jnp.sum(jnp.sin(fn(y))))(x)


def branch(index):
    """Return a function that crashes ONNX Runtime's optimiser if an `If` with a constant condition
    is inside another."""

    def fn(x):
        def repeated(a):
            step = jax.scipy.stats.norm.cdf
            return lax.scan(lambda c, _: (step(c), None), a, x)[0] * 0.5

        return lax.switch(index, [jnp.sin, jnp.cos, repeated], x[0])

    return fn


def branch_of_a_comparison(x):
    """Return a function whose outer index is 1 for every input, and whose inner one is not."""

    def scaled(y):
        first = jnp.nonzero(y, size=1, fill_value=3)[0][0]
        return lax.switch(first, [jnp.abs, lambda z: z * 7, jnp.zeros_like], y)

    index = lax.cond(jnp.int32(x[0] == 0) < 5, lambda: 1, lambda: 3)
    return lax.switch(index, [lambda y: y, scaled, lambda y: y * 2], x)


def a_part_too(weights, x):
    ranges = jnp.ptp(weights[0], axis=(1, 2), keepdims=True)
    return ranges, jnp.split(ranges, [1], axis=2)[1]


def chosen_branch(weights, x):
    return branch(jnp.int32(weights[0][0] * 0) + 2)(x)


def turned_output(x, w, b):
    """Return an output that ONNX Runtime's optimiser would lose."""
    output = jnp.concatenate([jnp.abs(x).T] * 2)
    return output, output @ w.T + b


def products_of_one(x):
    """Return a loop whose step consists of two inverse casts. ONNX Runtime loses its result."""
    return lax.while_loop(lambda s: jnp.sum(s) < -50, lambda s: jnp.cumprod(s, 1), x)


def standardize(x, epsilon=1e-5):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + epsilon)


def channels_out_first(x, w):
    return lax.conv_general_dilated(x, w, (1,), [(0, 0)], dimension_numbers=("NCH", "HIO", "CHN"))


def transposed_convolution(x, w):
    return lax.conv_transpose(x, w, (2, 2), "SAME")


def dilated_maximum(x):
    start = jnp.asarray(-jnp.inf, x.dtype)  # an array, so that only XLA knows that it is neutral
    return lax.reduce_window(x, start, lax.max, (2, 1), (2, 1), "VALID", window_dilation=(2, 1))


def windows_of_its_own(x):
    def combine(a, b):
        return a * b + a - a

    return lax.reduce_window(x, jnp.ones((), x.dtype), combine, (3, 1), (2, 1), "VALID")


def rms(x):
    return x / jnp.sqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-5)


def wide_product(x, y):
    return lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)


dilated_sum = windows(0.0, lax.add, (3,), (1,), "VALID", window_dilation=(2,))
padded_minimum = windows(jnp.inf, lax.min, (2, 1), (1, 1), ((1, 0), (0, 1)))
strided_minimum = windows(jnp.inf, lax.min, (3, 1), (2, 1), ((0, 1), (0, 0)))
padded_maximum = windows(-jnp.inf, lax.max, (1, 3, 2), (1, 2, 1), ((0, 0), (4, 0), (1, 6)))
padded_sum = windows(0.0, lax.add, (3, 2), (2, 1), ((1, 0), (1, 1)))
one_by_one = windows(0.0, lax.add, (1, 1), (1, 2), "VALID")
F64 = "float64"

SIGNS = [
    Case("sign of zero", lambda x: (1 / jnp.log1p(x * 0), 1 / jnp.cbrt(x * 0))),
    Case(
        "binomial of certainty",
        lambda k, p: jax.random.binomial(jax.random.wrap_key_data(k), 5.0, p),
        [np.array([3, 9], np.uint32), np.array([0, 1, 0.5], np.float32)],
    ),
]
PROGRAMS = [
    *(replace(case, tags=DEFAULT) for case in SIGNS),
    of_weights("program of which parts are used", a_part_too, [(1,)], [(1, 2, 1)]),
    of_weights(
        "program that another uses", lambda w, x: (w[0], jnp.pad(w[0], (1, 0))), [(1,)], [(3,)]
    ),
    of_weights("rotated parameter", lambda w, x: rotary(w[0], w[1], x), [(1, 1)], [(1, 2), (1, 2)]),
    of_weights("lost in a sort", lambda w, x: lax.sort((x, w[0]), num_keys=1)[0], [(0,)], [(0,)]),
    of_weights("of an empty map", lambda w, x: lax.map(lambda a: w[0], x), [(0, 1)], [(1, 1)]),
    of_weights("argmax", lambda w, x: jnp.argmax(w[0], 1), [(1,)], [(3, 3)], tags={SAMPLES}),
    of_weights("strict argmax", lambda w, x: jnp.argmax(w[0], 1), [(1,)], [(3, 3)], strict=True),
    of_weights(
        "strict gelu", lambda w, x: jax.nn.gelu(w[0], False) * x, [(3,)], [(3,)], strict=True
    ),
    of_weights("of all lanes", lambda w, x: w[0].at[x].multiply(-1.5), [((1,), "int32")], [(3, 2)]),
    Case("standardized", lambda x, y: jax.nn.standardize(x) * y, [(1, 0), (0,)], tags={SAMPLES}),
    Case("norm of nothing", lambda x: standardize(x) * x + x, [(2, 0)], tags={SAMPLES}),
    Case(
        "repeated never", lambda x: jnp.repeat(x, 0, axis=-2), [((2, 1, 1), "bool")], tags={SAMPLES}
    ),
    Case("linear to nothing", lambda x, w, b: x @ w.T + b, [(1,), (0, 1), (0,)], tags={SAMPLES}),
    Case("update", lambda x, u: lax.dynamic_update_slice(x, u, (0, 0, 0)), [(1, 1, 2), (1, 0, 1)]),
    Case(
        "attention of no queries",
        lambda q, k, v, b: jax.nn.softmax(q @ k.T / 2**0.5 + b) @ v,
        [(0, 2), (2, 2), (2, 1), (0, 2)],
    ),
    Case(
        "part of a vmapped product",
        lambda x, y: jax.vmap(jax.vmap(lambda a: jnp.dot(a[:, 0:0, 0], y)))(x),
        [(1, 2, 2, 1, 1), (0, 1)],
    ),
    Case("selected", lambda x, y: jnp.select([y > 1, x < 0], [x, x], 0), [("B", 0, 1)] * 2),
    Case("convolution of nothing", transposed_convolution, [(1, 0, 2, 2), (1, 1, 2, 1)]),
    Case(
        "scan over what may be empty",
        lambda x: lax.scan(lambda c, a: (c + a, c * a), x[0], x[1:], reverse=True),
        [("B", 2)],
        tags={SAMPLES},
    ),
    Case("slope of cummin", slope(lambda x: lax.cummin(x, axis=1, reverse=True)), [("B", 2)]),
    Case("half of a small size", lambda x: x[: x.shape[0] // 2].reshape(1, -1, 2), [("B", 2)]),
    Case("summed", lambda x: jax.value_and_grad(lambda y: jnp.sum(y))(x), [("B", 0, 1)]),
    Case("applied", lambda x: x.at[1:, ::-1].apply(jnp.sin), [(3, 2)]),
    Case("float to uint16", lambda x: x.astype("uint16"), [(4,)], tags={SAMPLES}),
    Case("float to int8", lambda x: x.astype("int8"), [(4,)]),
    Case("float to uint64", lambda x: x.astype("uint64"), [(4,)], x64=True),
    Case("tail of the normal distribution", lambda x: jax.scipy.special.ndtr(x - 4), [(9,)]),
    Case("zeros of either sign", lambda x: lax.top_k(x, 2), [(3, 6)], strict=True, tags={SAMPLES}),
    Case("signs lost in a function", lambda x: lax.top_k(jnp.sin(x), 2), [(3, 6)], strict=True),
    Case("product that wraps", lambda x: jnp.prod(x, axis=0), [((3, 4), "int32")]),
    Case("narrow product that wraps", lambda x: jnp.prod(x, axis=0), [((3, 4), "int16")]),
    Case("product over a named axis", lambda x: jnp.prod(x, axis=0), [(("B", 3), "int32")]),
    Case("sum that wraps", lambda x: jnp.sum(x), [((3, 4), "int64")], x64=True, tags={SAMPLES}),
    Case("minimum of padding", padded_minimum, [(1, 1)]),
    Case("exact gelu far below zero", lambda x: jax.nn.gelu(x * 4, False), [(9,)], strict=True),
    Case(
        "epsilon of float64",
        lambda x: standardize(x, 1e-3),
        [((3, 2), F64)],
        x64=True,
        tags={SAMPLES},
    ),
    Case("reduced over one", lambda x: lax.reduce(x, jnp.ones(()), lax.min, (0,)), [(1, 3)]),
    Case(
        "scale of float64",
        lambda x, y: jax.nn.softmax(x @ y.T * 0.3, -1) @ (y / 0.7),
        [((2, 3), F64), ((5, 3), F64)],
        x64=True,
    ),
    Case("dot of float64", lambda x, y: (x @ y) / 1.7, [((1,), F64), ((1, 1), F64)], x64=True),
    Case("root mean square of nothing", lambda x: rms(jnp.diff(x)), [("B", "B")]),
    Case("variance of nothing", lambda x: standardize(jnp.diff(x), 1e-3), [("B", "B")]),
    Case("small epsilon of float64", lambda x: rms(x * 1e-3), [((2, 3), F64)], x64=True),
    Case("rounded after a product", wide_product, [((3, 4), F64), ((4, 2), F64)], x64=True),
    Case(
        "sums far apart",
        lambda x: lax.cumlogsumexp(jnp.stack([x * 40, x * 0])),
        [(9,)],
        tags={SAMPLES},
    ),
    Case("sign of zero in windows of one", lambda x: jnp.arctan2(one_by_one(x), -1.0), [(3, 4)]),
    Case("silu far from zero", lambda x: jax.nn.silu(x * 40) * x, [(9,)]),
    Case("channels out first", channels_out_first, [(2, 2, 1), (1, 2, 1)]),
    Case("strict sigmoid", lambda x: jax.nn.sigmoid(lax.lgamma(abs(x) + 0.5)), [(3,)], strict=True),
    Case(
        "shift of 64 bits",
        lax.shift_right_logical,
        [((3,), "uint64")] * 2,
        x64=True,
        tags={SAMPLES},
    ),
    Case("gradient of a minimum that fits nowhere", slope(strided_minimum), [(1, 1)]),
    Case("gradient of a minimum", slope(strided_minimum), [(6, 3)]),
    Case("gradient of a maximum of much padding", slope(padded_maximum), [(2, 5, 4)]),
    Case("dilated maximum", dilated_maximum, [("3*B", 3)]),
    Case("windows that fit", windows_of_its_own, [("3*B", 3)]),
    Case("strict gradient of a sum", slope(padded_sum), [("B", 2)], strict=True),
    Case(
        "derivative of a comparison",
        lambda x, y: jax.jvp(lambda a: (jnp.sin(a), a > y), (x,), (x,))[1][0],
        [(3,), (3,)],
    ),
    Case("maximum of shorts", lambda x: x.at[:].max(1), [((3,), "int16")]),
    Case("subtracted", lambda x, w: x.at[1].subtract(w), [((3,), "uint32"), ((), "uint32")]),
    Case(
        "subtracted where indices meet",
        lambda x, w: x.at[jnp.array([1, 1])].subtract(w),
        [((3,), "uint64"), ((2,), "uint64")],
        x64=True,
    ),
    of_weights("scaled weight of ones", lambda w, x: w[0] / (abs(x) + 1) * 0.5, [()], [(1, 1, 1)]),
    Case("dilated sum that may not fit", dilated_sum, [("B",)], strict=True),
    Case("branch chosen by a number", branch(2), [(5, 6)]),
    Case("branch chosen by a comparison", branch_of_a_comparison, [(6,)]),
    of_weights("branch chosen by a parameter", chosen_branch, [(5, 6)], [(3,)], tags={SAMPLES}),
    Case("turned output", turned_output, [(2, 4), (5, 2), (5,)], tags={SAMPLES}),
    Case("rotated float64", rotated, [((2, 4), F64)], x64=True),
    Case(
        "rotated at places",
        rotated_at,
        [(2, 3, 5, 8), np.arange(10).reshape(2, 5) * 3 % 16],
        opsets=(23,),
        ops={"RotaryEmbedding": 1, "Gather": 2},
        tags=DEFAULT,
    ),
    Case("sine of bfloat16", lambda x: jnp.sin(x), [((5,), "bfloat16")], opsets=(21,)),
    Case(
        "products of one in a loop",
        products_of_one,
        [((1, 1), "int8")],
        opsets=(23,),
        tags={SAMPLES},
    ),
]
