"""Name the array leaves of a model by their paths, and replace their values."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from weights.initializers import Float32, Shape

# JAX is imported inside the functions because the import takes half a second. `zoo list` and error
# messages do not need it.
Model = TypeVar("Model")


def array_leaves(model: object) -> dict[str, Any]:
    """Return the array leaves of a model by path, such as `blocks.0.attn.qkv.weight`. They may also
    be `jax.ShapeDtypeStruct`s."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {_path_name(path): leaf for path, leaf in leaves if _is_array(leaf)}


def leaf_shapes(model: object) -> dict[str, Shape]:
    """Return the shape of each array leaf by path."""
    return {path: leaf.shape for path, leaf in array_leaves(model).items()}


def leaf_values(model: object) -> dict[str, Float32]:
    """Return each array leaf of a model as a numpy array, by path. The model must contain arrays,
    not `jax.ShapeDtypeStruct`s. Dtypes are unchanged."""
    return {path: np.asarray(leaf) for path, leaf in array_leaves(model).items()}


def bind(model: Model, values: Mapping[str, ArrayLike]) -> Model:
    """Return a copy of the model in which each array leaf is the value of its path.

    Dtypes are those of the values. Values of other paths are ignored. **Raises** `ValueError` if a
    shape differs, and `KeyError` if a path has no value.
    """
    import jax
    import jax.numpy as jnp

    def replace_leaf(path: tuple[Any, ...], leaf: Any) -> Any:
        if not _is_array(leaf):
            return leaf
        name = _path_name(path)
        value = jnp.asarray(values[name])
        if value.shape == leaf.shape:
            return value
        raise ValueError(f"{name} has shape {leaf.shape} in the model, {value.shape} in the values")

    return jax.tree_util.tree_map_with_path(replace_leaf, model)


def _path_name(path: tuple[Any, ...]) -> str:
    """Return a path of JAX in a tree as text, with dots between its parts."""
    import jax

    return jax.tree_util.keystr(path, simple=True, separator=".")


def _is_array(leaf: object) -> bool:
    """Return True if a leaf is an array, or a `jax.ShapeDtypeStruct`."""
    import jax

    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)
