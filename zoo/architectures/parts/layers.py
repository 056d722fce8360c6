"""Layers that networks share: activations, norms, patch embedding.

Layers keep an activation in a static field, by which JAX compares models. Use a function of a
module, such as these or `jax.nn.silu`. A lambda or `partial` equals only itself.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

Size: TypeAlias = Any
"""Number of patches along a side: an integer, or a symbolic dimension of `jax.export`, which has no
public type. Layers that take a size allow both, so that one exported file takes pictures of any
size."""

Norm: TypeAlias = eqx.nn.LayerNorm | eqx.nn.RMSNorm
"""Norm of one vector. `pointwise(norm, x)` applies it to every token."""

MakeNorm: TypeAlias = Callable[[int], Norm]
"""Function that returns a norm over a number of channels, such as `eqx.nn.LayerNorm` or
`partial(eqx.nn.RMSNorm, eps=1e-6)`."""

Activation: TypeAlias = Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]


def pointwise(
    layer: Callable[[Float[Array, " dim"]], Float[Array, " dim2"]], x: Float[Array, "*points dim"]
) -> Float[Array, "*points dim2"]:
    """Apply a layer for vectors to every vector along the last axis of `x`, for example to every
    token or pixel."""

    # JAX names traced functions, and the name of a module would be its printed form.
    def apply(vector: Array) -> Array:
        return layer(vector)

    for _ in x.shape[:-1]:
        apply = jax.vmap(apply)
    return apply(x)


def gelu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return `x · Φ(x)`, where Φ is the cumulative distribution function of the normal
    distribution.

    Source: Hendrycks, 2016, arXiv:1606.08415.
    """
    return jax.nn.gelu(x, approximate=False)


def gelu_tanh(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the approximation `x / 2 · (1 + tanh(√(2 / π) · (x + 0.044715 x³)))` of GELU.

    Source: Hendrycks, 2016, arXiv:1606.08415.
    """
    return jax.nn.gelu(x, approximate=True)


def quick_gelu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the approximation `x · sigmoid(1.702 x)` of GELU.

    Source: Hendrycks, 2016, arXiv:1606.08415.
    """
    return x * jax.nn.sigmoid(1.702 * x)


def relu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return `max(x, 0)`."""
    return jax.nn.relu(x)


ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "relu": relu,
}
"""Activations by their names in configurations."""


class LayerScale(eqx.Module):
    """Scale of each channel, `x · gamma`. Small initial scales make deep networks start like
    shallow ones.

    Source: Touvron et al., 2021, arXiv:2103.17239.
    """

    gamma: Float[Array, " dim"]

    def __init__(self, dim: int, layer_scale: float):
        """**Arguments:**

        - `dim`: the number of channels.
        - `layer_scale`: the initial value of every scale, usually small.
        """
        self.gamma = jnp.full((dim,), layer_scale)

    def __call__(self, x: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        """Return `x · gamma`, where channels are the last axis."""
        return x * self.gamma


class PatchEmbedding(eqx.Module):
    """Projection of the square patches of a picture to tokens: `y = W · patch + b`.

    It is a convolution whose stride is the size of its kernel.

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
        """**Arguments:**

        - `dim`: the number of channels of a token.
        - `patch_size`: the number of pixels along a side of a patch.
        - `in_channels`: the number of channels of the picture.
        - `use_bias`: whether there is a bias.
        - `key`: draws the initial parameters, here and in all other layers.
        """
        self.proj = eqx.nn.Conv2d(
            in_channels, dim, patch_size, stride=patch_size, use_bias=use_bias, key=key
        )

    @property
    def patch_size(self) -> int:
        """Number of pixels along a side of a patch."""
        return self.proj.stride[0]

    def __call__(self, image: Float[Array, "in_channels H W"]) -> Float[Array, "dim height width"]:
        """Return the tokens on their grid, with `height = H // patch_size` and `width = W //
        patch_size`.

        Pixels at the right and bottom edge that do not fill a patch are ignored.
        """
        return self.proj(image)


class BatchNorm(eqx.Module):
    """Batch norm with the statistics of training: `(x - mean) / √(var + 1e-5) · weight + bias`.

    The statistics `mean` and `var` are leaves, which a call does not update.

    Source: Ioffe and Szegedy, 2015, arXiv:1502.03167.
    """

    weight: Float[Array, " dim"]
    bias: Float[Array, " dim"]
    mean: Float[Array, " dim"]
    var: Float[Array, " dim"]

    def __init__(self, dim: int):
        """**Arguments:**

        - `dim`: the number of channels.
        """
        self.weight, self.bias = jnp.ones(dim), jnp.zeros(dim)
        self.mean, self.var = jnp.zeros(dim), jnp.ones(dim)

    def __call__(self, x: Float[Array, "*points dim"]) -> Float[Array, "*points dim"]:
        """Return the normalised values, where channels are the last axis."""
        scale = self.weight * lax.rsqrt(self.var + 1e-5)
        return x * scale + (self.bias - self.mean * scale)
