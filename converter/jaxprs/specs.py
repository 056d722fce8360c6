"""What a conversion is given: the shapes of inputs, and the names of what a function holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import export

from converter.errors import SpecError

Spec = Any  # a shape, (shape, dtype), an array or a jax.ShapeDtypeStruct


def is_array_like(leaf: Any) -> bool:
    """A concrete or abstract array (PRNG keys stay static)."""
    return isinstance(leaf, (jax.Array, np.ndarray, jax.ShapeDtypeStruct)) and not is_key(leaf)


def is_key(array: Any) -> bool:
    return bool(jax.numpy.issubdtype(array.dtype, jax.dtypes.extended))


def structs(specs: Sequence[Spec]) -> list[jax.ShapeDtypeStruct]:
    if not isinstance(specs, (list, tuple)) or any(isinstance(s, (int, str)) for s in specs):
        raise SpecError(
            f"specs must be a list with one entry per input, received {specs!r}; "
            f"for one input write [{specs!r}]"
        )
    scope = export.SymbolicScope()
    return [_struct(spec, scope) for spec in specs]


def _struct(spec: Spec, scope: export.SymbolicScope) -> jax.ShapeDtypeStruct:
    dtype: Any = np.float32
    if isinstance(spec, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)):
        return jax.ShapeDtypeStruct(spec.shape, spec.dtype)
    if isinstance(spec, (list, tuple)) and len(spec) == 2 and isinstance(spec[0], (list, tuple)):
        spec, dtype = spec
    if not isinstance(spec, (list, tuple)):
        raise SpecError(
            f"an input spec must be a shape, a (shape, dtype) pair, an array or a "
            f"jax.ShapeDtypeStruct, received {spec!r}"
        )
    text = ",".join(str(d) for d in spec)
    try:
        shape = export.symbolic_shape(text, scope=scope) if text else ()
    except ValueError as error:
        raise SpecError(f"shape {tuple(spec)!r} cannot be read: {error}") from error
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def input_names(fn: Callable[..., Any], count: int, skip_params: bool) -> list[str]:
    """The function's own argument names where they can be told, else ``input_<i>``."""
    fallback = [f"input_{i}" for i in range(count)]
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return fallback
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    names = positional[1:] if skip_params and len(positional) > count else positional
    return names[:count] if len(names) >= count else fallback


def output_names(tree: Any) -> list[str]:
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [
        name if name and not name[0].isdigit() else f"output_{i}"
        for i, name in enumerate(path_name(path) for path, _ in paths)
    ]


def path_name(path: Any) -> str:
    name = jax.tree_util.keystr(path, simple=True, separator=".")
    # eqx.filter_vmap and eqx.filter_jit keep what they wrap in a field of that name
    while name.startswith("_fun."):
        name = name.removeprefix("_fun.")
    return name


def array_leaves(tree: Any) -> list[tuple[Any, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(path, leaf) for path, leaf in leaves if is_array_like(leaf)]


def array_slots(tree: Any) -> tuple[list[tuple[str, Any]], Callable[[Sequence[Any]], Any]]:
    """(path, leaf) of every array in a pytree, and what gives the pytree with others there."""
    leaves, treedef = jax.tree_util.tree_flatten_with_path(tree)
    slots = [i for i, (_, leaf) in enumerate(leaves) if is_array_like(leaf)]

    def fill(arrays: Sequence[Any]) -> Any:
        filled = [leaf for _, leaf in leaves]
        for slot, array in zip(slots, arrays, strict=True):
            filled[slot] = array
        return jax.tree_util.tree_unflatten(treedef, filled)

    return [(path_name(leaves[i][0]) or "param", leaves[i][1]) for i in slots], fill


def closed_over(fn: Callable[..., Any]) -> list[tuple[str, Any]]:
    """(path, array) of the modules that a plain function wraps or closes over.

    Only names come from here: ``jax.vmap(model)`` and ``lambda x: model(x)`` give the parameters
    their paths in ``model``.
    """
    inner = inspect.unwrap(fn)
    found = array_leaves(inner)
    if found or not inspect.isfunction(inner):
        return [(path_name(path), leaf) for path, leaf in found]
    variables = inspect.getclosurevars(inner)
    scopes: dict[str, Any] = {**variables.globals, **variables.nonlocals}
    named = {name: leaves for name, tree in scopes.items() if (leaves := array_leaves(tree))}
    trees = sum(any(path for path, _ in leaves) for leaves in named.values())
    result: list[tuple[str, Any]] = []
    for name, leaves in named.items():
        for path, leaf in leaves:
            parts = [name] if trees > 1 or not path else []
            parts += [path_name(path)] if path else []
            result.append((".".join(parts), leaf))
    return result
