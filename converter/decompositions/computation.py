"""Apply a function of scalars to whole arrays.

A caller of JAX passes such a function to a reduction or scatter.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from converter.decompositions.registered import decomposition

Arrays: TypeAlias = tuple[jax.Array, ...]
Combine: TypeAlias = Callable[[Sequence[jax.Array], Sequence[jax.Array]], Arrays]
"""Function that combines two tuples of arrays of one shape, element by element, to one tuple."""


def single_operation(jaxpr: Any) -> str | None:
    """Return the name of the primitive if a jaxpr only applies one to its two inputs, such as "add"
    for ``lambda x, y: x + y``.

    The order of the two inputs is ignored. Return None for any other jaxpr.
    """
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    (eqn,) = jaxpr.eqns
    # A literal is no variable and cannot be hashed.
    variables = {v for v in eqn.invars if not isinstance(v, jex.Literal)}
    is_whole = variables == set(jaxpr.invars) and eqn.outvars == jaxpr.outvars
    return str(eqn.primitive.name) if is_whole else None


def vectorized_combination(jaxpr: Any, consts: Sequence[Any]) -> Combine:
    """Return a function of two tuples of arrays that applies a jaxpr to each pair of elements.

    All arrays have one shape. The function returns a tuple of arrays of this shape.

    Arguments:
        jaxpr: a jaxpr of two tuples of scalars, one after the other, with a tuple of scalars as
            result.
        consts: the constants of the jaxpr.
    """
    scalars = jex.jaxpr_as_fun(jex.ClosedJaxpr(jaxpr, consts))

    def combine(xs: Sequence[jax.Array], ys: Sequence[jax.Array]) -> Arrays:
        fn = scalars
        for _ in range(xs[0].ndim):
            fn = jax.vmap(fn)
        return tuple(fn(*xs, *ys))

    return combine


@decomposition("reduce", ignores=("computation",), of_complex=True)
def reduce(*operands: jax.Array, jaxpr: Any, dimensions: tuple[int, ...]) -> Arrays:
    """Reduce arrays along some axes by a computation on scalars, which has to be associative.

    Neighbours are combined until one is left, which is combined with the initial value. As in XLA,
    the result is the initial value if there are no entries, and the initial value is not used if
    there is a single entry. If a reduced axis has a named size, the entries are instead combined
    with the initial value one after the other.

    Arguments:
        operands: the arrays, followed by as many initial values.
        jaxpr: the computation, of as many pairs of scalars as there are arrays.
        dimensions: the axes to reduce.
    """
    count = len(operands) // 2
    combine = vectorized_combination(jaxpr.jaxpr, jaxpr.consts)
    xs = tuple(reduced_axes_last(x, dimensions) for x in operands[:count])
    first = tuple(jnp.broadcast_to(v, xs[0].shape[:-1]) for v in operands[count:])
    size = xs[0].shape[-1]
    if not isinstance(size, int):
        sequence = tuple(jnp.moveaxis(x, -1, 0) for x in xs)
        return lax.scan(lambda state, entry: (combine(state, entry), None), first, sequence)[0]
    if size == 1:
        return tuple(x[..., 0] for x in xs)
    if not size:
        return first
    return combine(first, [x[..., 0] for x in combine_neighbours(combine, xs)])


def combine_neighbours(combine: Combine, xs: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """Return the arrays reduced to size one along the last axis, by combining neighbours
    repeatedly.

    The order of the entries is kept. An empty last axis stays empty.
    """
    while (size := xs[0].shape[-1]) > 1:
        even, odd = (
            tuple(lax.slice_in_dim(x, i, size // 2 * 2, 2, -1) for x in xs) for i in (0, 1)
        )
        odd_ones = [x[..., size // 2 * 2 :] for x in xs]
        joined = zip(combine(even, odd), odd_ones, strict=True)
        xs = tuple(jnp.concatenate(pair, -1) for pair in joined)
    return xs


def reduced_axes_last(x: jax.Array, dimensions: tuple[int, ...]) -> jax.Array:
    """Return ``x`` with the axes ``dimensions`` merged into one last axis, after all others in
    order."""
    kept_axes = [i for i in range(x.ndim) if i not in dimensions]
    sizes = [x.shape[i] for i in dimensions]
    transposed = jnp.transpose(x, (*kept_axes, *dimensions))
    return transposed.reshape(*(x.shape[i] for i in kept_axes), math.prod(sizes))


def scatter_apply(
    fn: Callable[[jax.Array], jax.Array],
    x: jax.Array,
    indices: jax.Array,
    shape: Sequence[int],
    *,
    dimension_numbers: lax.ScatterDimensionNumbers,
    mode: Any,
    unique: bool,
) -> jax.Array:
    """Return ``x`` with a function applied to the elements in the windows of a scatter.

    If several windows cover an element, the function is applied to it several times, as in JAX.

    Arguments:
        fn: a function from a scalar to a scalar.
        indices: the index vector of each window, on the last axis.
        shape: the shape of the scatter's updates.
        dimension_numbers: how ``indices`` and ``shape`` correspond to axes of ``x``, as in
            ``lax.scatter``.
        mode: what happens to windows that are out of bounds, as in ``lax.scatter``.
        unique: true if no windows overlap.
    """
    for _ in range(x.ndim):
        fn = jax.vmap(fn)
    zeros, ones = jnp.zeros(x.shape, jnp.int32), jnp.ones(shape, jnp.int32)
    counts = lax.scatter_add(zeros, indices, ones, dimension_numbers, mode=mode)
    if unique or math.prod(indices.shape[:-1]) == 1:
        return jnp.where(counts > 0, fn(x), x)

    def apply_once(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        remaining, y = state
        return remaining - 1, jnp.where(remaining > 0, fn(y), y)

    return lax.while_loop(lambda state: jnp.any(state[0] > 0), apply_once, (counts, x))[1]
