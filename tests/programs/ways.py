"""Apply JAX's transformations to programs. A way is a function from one case to another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import STRUCTURE, Case, Spec, inputs, spec_of

LANES = 3

Way = Callable[[Case], Case]

WRAPS = ("vmap0", "vmap1", "vmap-1", "nested", "jit", "scan")


def wrapped(case: Case, transformation: str) -> Case:
    """Return the case under a JAX transformation, whose inputs get a lane axis.

    The expected operators stay for cases with the tag `STRUCTURE` only.
    """
    lane_axes = {"vmap0": (0,), "vmap1": (1,), "vmap-1": (-1,), "nested": (-1, 0), "scan": (0,)}
    specs: Sequence[Spec] = case.specs
    for axis in lane_axes.get(transformation, ()):
        specs = [_grown(spec, axis) for spec in specs]
    functions: dict[str, Callable[..., Any]] = {
        "vmap0": jax.vmap(case.fn),
        "vmap1": jax.vmap(case.fn, in_axes=1),
        "vmap-1": jax.vmap(case.fn, in_axes=-1, out_axes=-1),
        "nested": jax.vmap(jax.vmap(case.fn, in_axes=-1)),
        "jit": jax.jit(lambda *xs: jax.jit(lambda *ys: case.fn(*ys))(*xs)),
        "scan": lambda *xs: lax.map(lambda ys: case.fn(*ys), xs),
    }
    ops = case.ops if STRUCTURE in case.tags else {}
    return replace(
        case,
        name=f"{case.name}-{transformation}",
        fn=functions[transformation],
        specs=specs,
        ops=ops,
    )


def _grown(spec: Spec, axis: int) -> Spec:
    if isinstance(spec, np.ndarray):
        lanes = [np.roll(spec, i) for i in range(LANES)]
        return np.stack(lanes, min(axis, spec.ndim) if axis >= 0 else axis)
    shape, dtype = spec_of(spec)
    position = axis % (len(shape) + 1)
    grown = (*shape[:position], LANES, *shape[position:])
    return grown if spec == shape else (grown, dtype)


def _wrapped(*ways: str) -> Way:
    return lambda case: reduce(wrapped, ways, case)


def _of_one(position: int) -> Way:
    """Return a way that gives a batch axis to the operand at ``position`` only."""

    def way(case: Case) -> Case:
        arrays, axes = inputs(case.specs), [None] * len(case.specs)
        arrays[position], axes[position] = (
            np.stack([np.roll(arrays[position], i) for i in range(3)]),
            0,
        )
        return replace(case, fn=jax.vmap(case.fn, in_axes=axes), specs=arrays, ops={})

    return way


def total(tree: Any) -> Any:
    """Return a scalar to which every element of the outputs contributes with another weight."""
    ys = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    if not ys:
        raise TypeError("nothing to differentiate")
    real_parts = [part for y in ys for part in ((y.real, y.imag) if jnp.iscomplexobj(y) else (y,))]
    return sum((jnp.cos(jnp.arange(float(y.size))).reshape(y.shape) * y).sum() for y in real_parts)


def _jvp(case: Case) -> Case:
    def jvp(*xs: Any) -> Any:
        tangents = tuple(jnp.cos(x) if eqx.is_inexact_array(x) else None for x in xs)
        return eqx.filter_jvp(case.fn, xs, tangents)

    # The derivative uses intermediate values of the program, so its near miss has another reason.
    return replace(case, fn=jvp, ops={}, said="")


def _vmap_of_grad(case: Case) -> Case:
    def grad(*xs: Any) -> Any:
        slopes = eqx.filter_grad(lambda inputs: total(case.fn(*inputs)))(xs)
        if not jax.tree.leaves(slopes):
            raise TypeError("nothing to differentiate")
        return slopes

    return wrapped(replace(case, fn=grad, ops={}, said=""), "vmap-1")


def _vmap_of_cond(case: Case) -> Case:
    def either(flag: Any, *xs: Any) -> Any:
        return lax.cond(flag, case.fn, lambda *ys: jax.tree.map(jnp.zeros_like, case.fn(*ys)), *xs)

    either_case = replace(case, fn=either, specs=[np.array(True), *case.specs], ops={})
    return wrapped(either_case, "vmap0")


def _open_batch(case: Case) -> Case:
    mapped = wrapped(case, "vmap0")
    shapes = [(spec.shape, spec.dtype) for spec in inputs(mapped.specs)]
    return replace(mapped, specs=[(("B", *shape[1:]), dtype) for shape, dtype in shapes])


WAYS: Mapping[str, Way] = {
    "vmap 1": _wrapped("vmap1"),
    "vmap last": _wrapped("vmap-1"),
    "nested vmap": _wrapped("vmap0", "vmap-1"),
    "vmap of the first": _of_one(0),
    "vmap of the last": _of_one(-1),
    "jvp": _jvp,
    "vmap of grad": _vmap_of_grad,
    "vmap in scan": _wrapped("vmap-1", "scan"),
    "vmap of cond": _vmap_of_cond,
    "jit and checkpoint": lambda case: replace(case, fn=jax.jit(jax.checkpoint(case.fn)), ops={}),
    "open batch": _open_batch,
}
