"""The GELU in its two forms.

Layers keep an activation in a static field, by which JAX compares models: give a function of a
module, such as these or `jax.nn.silu`, and no lambda or `partial`, which equal only themselves.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
from jaxtyping import Array, Float

Activation: TypeAlias = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]


def gelu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`x · Φ(x)`, where Φ is the normal distribution's (Hendrycks, 2016, arXiv:1606.08415)."""
    return jax.nn.gelu(x, approximate=False)


def gelu_tanh(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Its approximation `x / 2 · (1 + tanh(√(2 / π) · (x + 0.044715 x³)))`, of the same paper."""
    return jax.nn.gelu(x, approximate=True)
