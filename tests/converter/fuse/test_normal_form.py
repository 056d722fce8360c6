"""Normal forms mean what the values are that they were read from, infinities and NaN included."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from converter.canonicalize import canonicalize
from converter.frontend.trace import trace
from converter.fuse.match import peeled_view
from converter.fuse.normal_form import Inner, Sum, find_views, normal_form
from converter.ir import dims
from converter.ir.evaluation import evaluate, run_uncompiled
from converter.ir.rewrite import Editor

SIZES = {"B": 3}
SHAPES = ((3, 4), (3, 4), (4,))


def drawn(rng, xs, depth):
    """An expression of arrays that fit [3, 4], in a random order of operations."""
    if depth == 0:
        return jnp.broadcast_to(xs[rng.integers(len(xs))], (xs[0].shape[0], 4))
    one, other = drawn(rng, xs, depth - 1), drawn(rng, xs, rng.integers(depth))
    axis = int(rng.integers(2))
    ways = [
        lambda: one + other,
        lambda: one - other,
        lambda: one * other,
        lambda: one * other,
        lambda: -one,
        lambda: one / 3 if rng.integers(2) else one * 0.5,
        lambda: jnp.square(one) if rng.integers(2) else one**3,
        lambda: jnp.abs(one) * jnp.abs(one),
        lambda: jnp.broadcast_to(jnp.mean(one, axis, keepdims=True), (xs[0].shape[0], 4)),
        lambda: jnp.sum(one * other, axis, keepdims=True) * other,
        lambda: one - jnp.mean(one, axis, keepdims=True),
        lambda: one * jax.lax.rsqrt(jnp.mean(other * other, axis, keepdims=True) + 1e-2),
        lambda: one / jnp.sqrt(jnp.square(other) + 0.5),
        lambda: (one.T * 2).T,
    ]
    return jnp.broadcast_to(ways[rng.integers(len(ways))](), (xs[0].shape[0], 4))


def seen(array, view, lengths):
    """The elements of a view of an array, along axes of these lengths, or of length one."""
    index = [np.array(dims.evaluate_dim(start, SIZES)) for start in view.starts]
    rank = len(view.groups)
    for axis, group in enumerate(view.groups):
        digits = np.arange(lengths[axis]) if group else np.zeros(1, int)
        for own, stride, size in reversed(group):
            digits, digit = divmod(digits, dims.evaluate_dim(size, SIZES))
            if own is not None:
                step = digit * dims.evaluate_dim(stride, SIZES)
                index[own] = index[own] + step.reshape(
                    [-1 if i == axis else 1 for i in range(rank)]
                )
    return array[tuple(np.broadcast_arrays(*index))] if index else array


def number_of(terms, arrays, lengths):
    """A polynomial in numbers."""
    total = 0.0
    for monomial, coefficient in terms.items():
        product = np.float64(coefficient)
        for atom, power in monomial:
            value = atom_value(atom, arrays, lengths)
            product = product * (value**power if power != -1 else 1 / value)
        total = total + product
    return np.asarray(total)


def atom_value(atom, arrays, lengths):
    if isinstance(atom, str):
        return np.float64(SIZES[atom])
    if isinstance(atom, Inner):
        return number_of(dict(atom.terms), arrays, lengths)
    if isinstance(atom, Sum):
        sizes = [dims.evaluate_dim(size, SIZES) for size in atom.sizes]
        inside = number_of({atom.monomial: 1.0}, arrays, [*lengths, *sizes])
        full = np.broadcast_to(inside, [*inside.shape[: len(lengths)], *sizes])
        return full.sum(tuple(range(len(lengths), len(lengths) + len(sizes))))
    return seen(arrays[id(atom.base)], atom, lengths)


def read(seed, dtype, named):
    """A drawn value, its form, and the values of what the form is made of, for inputs."""
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(2, 6))
    state = rng.bit_generator.state

    def fn(*xs):
        own = np.random.default_rng(0)
        own.bit_generator.state = state
        return drawn(own, xs, depth)

    shapes = [("B", 4), ("B", 4), (4,)] if named else SHAPES
    graph = trace(fn, [jax.ShapeDtypeStruct(s, dtype) if not named else (s, dtype) for s in shapes])
    canonicalize(graph)
    form = normal_form(peeled_view(graph.outputs[0]), Editor(graph))
    if form is None:
        return None
    views = [*{view for monomial in form.terms for view in find_views(monomial)} | form.moved]
    graph.outputs = [graph.outputs[0], *(view.base for view in views)]

    def evaluated(inputs):
        with np.errstate(all="ignore"):
            got, *bases = (
                np.asarray(x, np.float64) for x in evaluate(graph, inputs, None, run_uncompiled)
            )
            arrays = {id(view.base): base for view, base in zip(views, bases, strict=True)}
            form_value = np.broadcast_to(number_of(form.terms, arrays, got.shape), got.shape)
            moved = [
                seen(arrays[id(view.base)], view, got.shape)
                for view in form.moved
                if len(view.groups) == got.ndim
            ]
        return got, form_value, moved, len(moved) == len(form.moved)

    return form, evaluated


KINDS = [("float64", False), ("float64", True), ("float32", False), ("float16", False)]
SEEDS = 40
FIRST = [0, *(pytest.param(n, marks=pytest.mark.full) for n in (SEEDS, 2 * SEEDS))]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize(("dtype", "named"), KINDS)
def test_a_form_has_the_value_that_it_was_read_from(dtype, named, first):
    seen_forms = 0
    for seed in range(first, first + SEEDS):
        with jax.enable_x64(dtype == "float64"):
            made = read(seed, dtype, named)
            if made is None:
                continue
            rng = np.random.default_rng(seed + 1)
            inputs = [rng.uniform(-1.5, 1.5, shape).astype(dtype) for shape in SHAPES]
            got, value, _, _ = made[1](inputs)
        # Terms that cancel are as large as the largest of them.
        scale = max(1.0, max((abs(n) for n in made[0].terms.values()), default=1.0))
        tolerance = 2e3 * float(jnp.finfo(dtype).eps) * scale
        finite = np.isfinite(got)
        np.testing.assert_allclose(got[finite], value[finite], rtol=tolerance, atol=tolerance)
        seen_forms += len(made[0].terms) > 1
    assert seen_forms > 3


@pytest.mark.parametrize("first", FIRST)
def test_what_is_not_moved_may_be_infinite(first):
    """Infinities and NaN are in the same places where those that were moved are finite."""
    tried = planted = 0
    for seed, number in itertools.product(
        range(first, first + SEEDS), (math.inf, -math.inf, math.nan)
    ):
        with jax.enable_x64(True):
            made = read(seed, "float64", False)
            if made is None:
                continue
            rng = np.random.default_rng(seed + 2)
            inputs = [rng.uniform(0.5, 1.5, shape) for shape in SHAPES]
            inputs[rng.integers(3)].flat[rng.integers(4)] = number
            got, value, moved, all_seen = made[1](inputs)
        if not all_seen or not all(np.isfinite(array).all() for array in moved):
            continue
        tried += 1
        planted += not np.isfinite(got).all()
        np.testing.assert_array_equal(np.isnan(got), np.isnan(value), err_msg=f"seed {seed}")
        infinite = np.isinf(got)
        np.testing.assert_array_equal(got[infinite], value[infinite], err_msg=f"seed {seed}")
    assert planted > 8, (tried, planted)
