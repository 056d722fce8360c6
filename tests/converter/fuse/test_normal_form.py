"""Normal forms of drawn expressions are evaluated and compared with the expressions themselves.

Infinities and NaN in the inputs must appear in the same elements of both.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from converter.canonicalize import canonicalize
from converter.frontend.trace import trace
from converter.fuse.factors import read_factors
from converter.fuse.match import peeled_view
from converter.fuse.normal_form import normal_form
from converter.fuse.polynomials import Inner, Sum, find_views
from converter.ir import dims
from converter.ir.evaluation import evaluate, run_eagerly
from converter.ir.rewrite import Editor

SIZES = {"B": 3}
SHAPES = ((3, 4), (3, 4), (4,))


def draw_expression(rng, xs, depth):
    """Return a random expression of the arrays `xs`, of this depth and of the shape [B, 4]."""
    if depth == 0:
        return jnp.broadcast_to(xs[rng.integers(len(xs))], (xs[0].shape[0], 4))
    left, right = draw_expression(rng, xs, depth - 1), draw_expression(rng, xs, rng.integers(depth))
    axis = int(rng.integers(2))
    expressions = [
        lambda: left + right,
        lambda: left - right,
        lambda: left * right,
        lambda: left * right,
        lambda: -left,
        lambda: left / 3 if rng.integers(2) else left * 0.5,
        lambda: jnp.square(left) if rng.integers(2) else left**3,
        lambda: jnp.abs(left) * jnp.abs(left),
        lambda: jnp.broadcast_to(jnp.mean(left, axis, keepdims=True), (xs[0].shape[0], 4)),
        lambda: jnp.sum(left * right, axis, keepdims=True) * right,
        lambda: left - jnp.mean(left, axis, keepdims=True),
        lambda: left * jax.lax.rsqrt(jnp.mean(right * right, axis, keepdims=True) + 1e-2),
        lambda: left / jnp.sqrt(jnp.square(right) + 0.5),
        lambda: (left.T * 2).T,
        lambda: (left * right)[:, ::-1] * right,
        lambda: (left + right)[:, 1:2] - left,
    ]
    return jnp.broadcast_to(expressions[rng.integers(len(expressions))](), (xs[0].shape[0], 4))


def view_elements(array, view, lengths):
    """Return the elements of a view of an array, for axes of these lengths; unused axes get one."""
    index = [np.array(dims.evaluate_dim(start, SIZES)) for start in view.starts]
    rank = len(view.groups)
    for axis, group in enumerate(view.groups):
        digits = np.arange(lengths[axis]) if group else np.zeros(1, int)
        for base_axis, stride, size in reversed(group):
            digits, digit = divmod(digits, dims.evaluate_dim(size, SIZES))
            if base_axis is not None:
                step = digit * dims.evaluate_dim(stride, SIZES)
                index[base_axis] = index[base_axis] + step.reshape(
                    [-1 if i == axis else 1 for i in range(rank)]
                )
    return array[tuple(np.broadcast_arrays(*index))] if index else array


def polynomial_value(terms, arrays, lengths):
    """Return the value of a polynomial; `terms` maps monomials to coefficients."""
    total = 0.0
    for monomial, coefficient in terms.items():
        product = np.float64(coefficient)
        for atom, power in monomial:
            value = atom_value(atom, arrays, lengths)
            product = product * (value**power if power != -1 else 1 / value)
        total = total + product
    return np.asarray(total)


def atom_value(atom, arrays, lengths):
    """Return the value of a size, a nested polynomial, a sum or a view; `arrays` is by `id`."""
    if isinstance(atom, str):
        return np.float64(SIZES[atom])
    if isinstance(atom, Inner):
        return polynomial_value(dict(atom.terms), arrays, lengths)
    if isinstance(atom, Sum):
        sizes = [dims.evaluate_dim(size, SIZES) for size in atom.sizes]
        summands = polynomial_value({atom.monomial: 1.0}, arrays, [*lengths, *sizes])
        broadcast = np.broadcast_to(summands, [*summands.shape[: len(lengths)], *sizes])
        return broadcast.sum(tuple(range(len(lengths), len(lengths) + len(sizes))))
    return view_elements(arrays[id(atom.base)], atom, lengths)


def draw_form(seed, dtype, named, reach="axes"):
    """Draw an expression and read its normal form with this reach (`look_through`).

    Return None if the expression has no form, otherwise the form and a function. For inputs, this
    function returns the value of the expression, the value of the form, the values of the moved
    views that could be evaluated, and whether these are all of them.
    """
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(2, 6))
    state = rng.bit_generator.state

    def fn(*xs):
        expression_rng = np.random.default_rng(0)
        expression_rng.bit_generator.state = state
        return draw_expression(expression_rng, xs, depth)

    shapes = [("B", 4), ("B", 4), (4,)] if named else SHAPES
    graph = trace(fn, [jax.ShapeDtypeStruct(s, dtype) if not named else (s, dtype) for s in shapes])
    canonicalize(graph)
    form = normal_form(peeled_view(graph.outputs[0]), Editor(graph), reach=reach)
    if form is None:
        return None
    views = [*{view for monomial in form.terms for view in find_views(monomial)} | form.moved]
    graph.outputs = [graph.outputs[0], *(view.base for view in views)]

    def evaluate_both(inputs):
        with np.errstate(all="ignore"):
            actual, *bases = (
                np.asarray(x, np.float64) for x in evaluate(graph, inputs, None, run_eagerly)
            )
            arrays = {id(view.base): base for view, base in zip(views, bases, strict=True)}
            form_value = np.broadcast_to(
                polynomial_value(form.terms, arrays, actual.shape), actual.shape
            )
            moved = [
                view_elements(arrays[id(view.base)], view, actual.shape)
                for view in form.moved
                if len(view.groups) == actual.ndim
            ]
        return actual, form_value, moved, len(moved) == len(form.moved)

    return form, evaluate_both


KINDS = [
    ("float64", False, "axes"),
    ("float64", True, "axes"),
    ("float64", False, "parts"),
    ("float32", False, "axes"),
    ("float16", False, "axes"),
]
SEEDS = 40
FIRST = [0, *(pytest.param(n, marks=pytest.mark.full) for n in (SEEDS, 2 * SEEDS))]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize(("dtype", "named", "reach"), KINDS)
def test_form_has_the_value_of_its_expression(dtype, named, reach, first):
    form_count = 0
    for seed in range(first, first + SEEDS):
        with jax.enable_x64(dtype == "float64"):
            drawn = draw_form(seed, dtype, named, reach)
            if drawn is None:
                continue
            rng = np.random.default_rng(seed + 1)
            inputs = [rng.uniform(-1.5, 1.5, shape).astype(dtype) for shape in SHAPES]
            actual, value, _, _ = drawn[1](inputs)
        # Rounding of terms that cancel is relative to the largest of them.
        scale = max(1.0, max((abs(n) for n in drawn[0].terms.values()), default=1.0))
        tolerance = 2e3 * float(jnp.finfo(dtype).eps) * scale
        finite = np.isfinite(actual)
        np.testing.assert_allclose(actual[finite], value[finite], rtol=tolerance, atol=tolerance)
        form_count += len(drawn[0].terms) > 1
    assert form_count > 3


def evaluate_drawn(first, specials, plant):
    """Yield the seed and the evaluations of drawn expressions on inputs with infinities or NaN.

    `plant` writes one of `specials` into an input, with a generator of random numbers.
    """
    for seed, special in itertools.product(range(first, first + SEEDS), specials):
        with jax.enable_x64(True):
            drawn = draw_form(seed, "float64", False)
            if drawn is None:
                continue
            rng = np.random.default_rng(seed + 2)
            inputs = [rng.uniform(0.5, 1.5, shape) for shape in SHAPES]
            plant(inputs[rng.integers(3)], special, rng)
            yield seed, *drawn[1](inputs)


@pytest.mark.parametrize("first", FIRST)
def test_infinities_and_nan_are_in_the_same_elements(first):
    """Infinities and NaN are in the same elements of both if all moved values are finite."""

    def plant(array, special, rng):
        array.flat[rng.integers(4)] = special

    trials = planted = 0
    for seed, actual, value, moved, all_seen in evaluate_drawn(
        first, (math.inf, -math.inf, math.nan), plant
    ):
        if not all_seen or not all(np.isfinite(array).all() for array in moved):
            continue
        trials += 1
        planted += not np.isfinite(actual).all()
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(value), err_msg=f"seed {seed}")
        infinite = np.isinf(actual)
        np.testing.assert_array_equal(actual[infinite], value[infinite], err_msg=f"seed {seed}")
    assert planted > 8, (trials, planted)


@pytest.mark.parametrize("first", FIRST)
def test_infinities_are_not_lost(first):
    """Where the expression is not finite, the polynomial is not finite either."""

    def plant(array, special, _):
        array[:] = special

    planted = 0
    for seed, actual, value, _, _ in evaluate_drawn(first, (math.inf, math.nan), plant):
        planted += not np.isfinite(actual).all()
        assert not np.isfinite(value[~np.isfinite(actual)]).any(), f"seed {seed}"
    assert planted > 8


@pytest.mark.parametrize(
    "lose",
    [
        lambda x, y: x + y - y,
        lambda x, y: x * y / y,
        lambda x, y: (x + y) * 2 - 2 * y,
        lambda x, y: jnp.sum(x * y[:1, :1]) / y[:1, :1],
        lambda x, y: x / (y * y) * jnp.square(y),
        lambda x, y: x + 0 * (y * x),
        lambda x, y: x[:, :3] + x[:, :3].T - x[:, :3].T,
        lambda x, y: x[:, ::2] + y[:, :2] - y[:, :2],
    ],
)
def test_values_that_cancel_have_no_normal_form(lose):
    graph = trace(lose, [jax.ShapeDtypeStruct((3, 4), np.float32)] * 2)
    canonicalize(graph)
    assert normal_form(peeled_view(graph.outputs[0]), Editor(graph)) is None


def draw_product(rng, xs, depth):
    """Return a random product of the arrays `xs`, in which values divide themselves too."""
    if depth == 0:
        return xs[rng.integers(len(xs))]
    left, right = draw_product(rng, xs, depth - 1), draw_product(rng, xs, rng.integers(depth))
    products = [
        lambda: left * right,
        lambda: left / right,
        lambda: -left * 4,
        lambda: 0.5 / left,
        lambda: left**-1,
        lambda: (left + right) * right,
        lambda: jnp.broadcast_to(left.max(-1, keepdims=True), left.shape) * right,
    ]
    return products[rng.integers(len(products))]()


def test_factors_have_the_value_of_their_product():
    """Zeros, infinities and NaN are in the same elements too."""
    specials, divided = [0.0, math.inf, -math.inf, math.nan], 0
    for seed in range(SEEDS):
        with jax.enable_x64(True):
            graph = trace(
                lambda *xs, seed=seed: draw_product(np.random.default_rng(seed), xs, 5),
                [jax.ShapeDtypeStruct((3, 4), "float64")] * 3,
            )
            canonicalize(graph)
            parts = read_factors(peeled_view(graph.outputs[0]), Editor(graph))
            views = [*parts.factors, *parts.divisors]
            graph.outputs = [graph.outputs[0], *(view.base for view in views)]
            rng = np.random.default_rng(seed + 3)
            inputs = [rng.uniform(0.5, 1.5, (3, 4)) for _ in range(3)]
            for array in inputs:
                array.flat[rng.integers(12)] = specials[rng.integers(4)]
            with np.errstate(all="ignore"):
                actual, *bases = evaluate(graph, inputs, None, run_eagerly)
                value = np.full((3, 4), parts.coefficient)
                for number, (view, base) in enumerate(zip(views, bases, strict=True)):
                    elements = view_elements(np.asarray(base), view, (3, 4))
                    is_factor = number < len(parts.factors)
                    value = value * elements if is_factor else value / elements
        np.testing.assert_allclose(value, actual, rtol=1e-12, err_msg=f"seed {seed}")
        divided += bool(parts.divisors)
    assert divided > 3
