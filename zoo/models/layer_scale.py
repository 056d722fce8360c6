"""A factor for each channel, which lets deep networks start as shallow ones."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class LayerScale(eqx.Module):
    """`x · gamma`, channel by channel.

    Source: Touvron et al., 2021, arXiv:2103.17239.
    """

    gamma: Float[Array, " dim"]

    def __init__(self, dim: int, init: float):
        """**Arguments:**

        - `dim`: channels.
        - `init`: what every factor is in the beginning, usually small.
        """
        self.gamma = jnp.full((dim,), init)

    def __call__(self, x: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        """**Returns** `x` with its last axis scaled."""
        return x * self.gamma
