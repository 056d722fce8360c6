"""What a user's program brings along: primitives, dtypes from pickles, checks."""

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
    """A primitive with what JAX wants of one, which has no rule here."""
    made = Primitive(name)
    made.def_impl(impl)
    made.def_abstract_eval(lambda x, **how: jax.core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(made, mlir.lower_fun(impl, multiple_results=False))

    def batched(args: Any, axes: Any, **how: Any) -> Any:
        return made.bind(*args, **how), axes[0]

    batching.primitive_batchers[made] = batched
    return made


PRIMITIVES = {
    "relu": _primitive("relu", lambda x: 3 * x + 1),
    "copy": _primitive("copy", lambda x: jnp.where(x > 1, x, 2 * x)),
    "softplus": _primitive("softplus", lambda x: x * x - x),
    "name": _primitive("name", lambda x, accuracy, unroll: accuracy * x + unroll),
}
"""By names that operations of others have."""


def applied(name: str, x: Any, **how: Any) -> Any:
    return PRIMITIVES[name].bind(x, **how)


def unpickled(dtype: str) -> np.dtype[Any]:
    """A dtype that equals numpy's own and is another object."""
    found: np.dtype[Any] = pickle.loads(pickle.dumps(np.dtype(dtype)))
    return found.newbyteorder("=")


def checked(x: Any) -> Any:
    """An array behind a check that it passes."""
    never = jnp.any(x != x) & jnp.all(x == x)
    return eqx.error_if(x, never, "this is not true of any array")
