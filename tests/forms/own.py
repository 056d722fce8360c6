"""Functions that random programs call: custom primitives, dtypes from pickles, and checks of
arrays."""

import pickle
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir


def _primitive(name: str, impl: Callable[..., Any]) -> Primitive:
    """Return a primitive with an implementation, but without a conversion rule."""
    primitive = Primitive(name)
    primitive.def_impl(impl)
    primitive.def_abstract_eval(lambda x, **params: jax.core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(primitive, mlir.lower_fun(impl, multiple_results=False))

    def batched(args: Any, axes: Any, **params: Any) -> Any:
        return primitive.bind(*args, **params), axes[0]

    batching.primitive_batchers[primitive] = batched
    return primitive


PRIMITIVES = {
    "relu": _primitive("relu", lambda x: 3 * x + 1),
    "copy": _primitive("copy", lambda x: jnp.where(x > 1, x, 2 * x)),
    "softplus": _primitive("softplus", lambda x: x * x - x),
    "name": _primitive("name", lambda x, accuracy, unroll: accuracy * x + unroll),
}
"""Custom primitives that have the names of other libraries' operations."""


def applied(name: str, x: Any, **params: Any) -> Any:
    """Apply a custom primitive."""
    return PRIMITIVES[name].bind(x, **params)


def unpickled(dtype: str) -> np.dtype[Any]:
    """Return a dtype that equals numpy's dtype but is another object."""
    loaded: np.dtype[Any] = pickle.loads(pickle.dumps(np.dtype(dtype)))
    return loaded.newbyteorder("=")


def checked(x: Any) -> Any:
    """Return an array that passes a check of Equinox."""
    never = jnp.any(x != x) & jnp.all(x == x)
    return eqx.error_if(x, never, "this is not true of any array")
