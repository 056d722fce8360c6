"""Batch normalisation as inference does it."""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


class BatchNorm(eqx.Module):
    """`(x - mean) / √(var + ε) · weight + bias`, with the statistics of training.

    Source: Ioffe and Szegedy, 2015, arXiv:1502.03167.
    """

    weight: Float[Array, " dim"]
    bias: Float[Array, " dim"]
    mean: Float[Array, " dim"]
    var: Float[Array, " dim"]

    def __init__(self, dim: int):
        """**Arguments:** channels."""
        self.weight, self.bias = jnp.ones(dim), jnp.zeros(dim)
        self.mean, self.var = jnp.zeros(dim), jnp.ones(dim)

    def __call__(self, x: Float[Array, "*points dim"]) -> Float[Array, "*points dim"]:
        scale = self.weight * lax.rsqrt(self.var + 1e-5)
        return x * scale + (self.bias - self.mean * scale)
