"""Between a model's tree and names: paths of its leaves, and values put in their places."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from weights.initializers import Float32, Shape

# JAX is imported inside the functions: it takes half a second, which `zoo list` and every error
# message would have to wait for.
Model = TypeVar("Model")


def array_leaves(model: object) -> dict[str, Any]:
    """Path (`blocks.0.attn.qkv.weight`) to every leaf that is an array, concrete or abstract."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {_name(path): leaf for path, leaf in leaves if _is_array(leaf)}


def leaf_shapes(model: object) -> dict[str, Shape]:
    """Path to shape of every array leaf."""
    return {path: leaf.shape for path, leaf in array_leaves(model).items()}


def leaf_values(model: object) -> dict[str, Float32]:
    """Path to value of every array leaf of a model with concrete leaves of float32."""
    return {path: np.asarray(leaf) for path, leaf in array_leaves(model).items()}


def bind(model: Model, values: Mapping[str, ArrayLike]) -> Model:
    """The same model with the leaf at each path replaced by the value of that name, as it is."""
    import jax
    import jax.numpy as jnp

    def place(path: tuple[Any, ...], leaf: Any) -> Any:
        if not _is_array(leaf):
            return leaf
        name = _name(path)
        value = jnp.asarray(values[name])
        if value.shape == leaf.shape:
            return value
        raise ValueError(f"{name} has shape {leaf.shape} in the model, {value.shape} in the values")

    return jax.tree_util.tree_map_with_path(place, model)


def _name(path: tuple[Any, ...]) -> str:
    import jax

    return jax.tree_util.keystr(path, simple=True, separator=".")


def _is_array(leaf: object) -> bool:
    import jax

    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)
