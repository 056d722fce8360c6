"""Layers that networks share: activations, norms, patch embedding.

Layers keep an activation in a static field, by which JAX compares models: give a function of a
module, such as these or `jax.nn.silu`, and no lambda or `partial`, which equal only themselves.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

Size: TypeAlias = Any
"""Patches along a side: a number, or a symbolic dimension of `jax.export`, which has no public
type. Layers that take one allow both, which is how one exported file serves images of any size."""

Norm: TypeAlias = eqx.nn.LayerNorm | eqx.nn.RMSNorm
"""Normalises one vector; `pointwise(norm, x)` does so with every token."""

MakeNorm: TypeAlias = Callable[[int], Norm]
"""Makes a norm over so many channels: `eqx.nn.LayerNorm`, `partial(eqx.nn.RMSNorm, eps=1e-6)`."""

Activation: TypeAlias = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]


def pointwise(
    layer: Callable[[Float[Array, " dim"]], Float[Array, " dim2"]], x: Float[Array, "*points dim"]
) -> Float[Array, "*points dim2"]:
    """A layer applied to every token or pixel alone, along the last axis."""

    # `jax.vmap(layer)` would do, but JAX names what it traces, and prints a module for its name.
    def apply(vector: Array) -> Array:
        return layer(vector)

    for _ in x.shape[:-1]:
        apply = jax.vmap(apply)
    return apply(x)


def gelu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`x · Φ(x)`, where Φ is the normal distribution's (Hendrycks, 2016, arXiv:1606.08415)."""
    return jax.nn.gelu(x, approximate=False)


def gelu_tanh(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Its approximation `x / 2 · (1 + tanh(√(2 / π) · (x + 0.044715 x³)))`, of the same paper."""
    return jax.nn.gelu(x, approximate=True)


def quick_gelu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Its approximation `x · sigmoid(1.702 x)`, of the same paper."""
    return x * jax.nn.sigmoid(1.702 * x)


def relu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """`max(x, 0)`."""
    return jax.nn.relu(x)


ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "relu": relu,
}
"""By the names that configurations use."""


class LayerScale(eqx.Module):
    """`x · gamma`, channel by channel, which lets deep networks start as shallow ones.

    Source: Touvron et al., 2021, arXiv:2103.17239.
    """

    gamma: Float[Array, " dim"]

    def __init__(self, dim: int, layer_scale: float):
        """**Arguments:** channels, and what every factor is at first, usually small."""
        self.gamma = jnp.full((dim,), layer_scale)

    def __call__(self, x: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        return x * self.gamma


class PatchEmbedding(eqx.Module):
    """Cuts an image into square patches and projects each to a token: `y = W · patch + b`.

    That is a convolution whose stride is its kernel's size.

    Source: Dosovitskiy et al., 2021, arXiv:2010.11929.
    """

    proj: eqx.nn.Conv2d

    def __init__(
        self,
        dim: int,
        patch_size: int,
        *,
        in_channels: int = 3,
        use_bias: bool = True,
        key: PRNGKeyArray,
    ):
        """**Arguments:** channels of a token, pixels along a side of a patch; the image's channels,
        and whether there is a bias.

        `key` draws the initial parameters, here and in all other layers.
        """
        self.proj = eqx.nn.Conv2d(
            in_channels, dim, patch_size, stride=patch_size, use_bias=use_bias, key=key
        )

    @property
    def patch_size(self) -> int:
        """Pixels along a side of a patch."""
        return self.proj.stride[0]

    def __call__(self, image: Float[Array, "in_channels H W"]) -> Float[Array, "dim height width"]:
        """**Returns** tokens on their grid: `height = H // patch_size`, `width = W // patch_size`.

        What does not fill a patch at the right and bottom edge is dropped.
        """
        return self.proj(image)


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
