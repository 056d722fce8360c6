"""From pixels to tokens."""

from typing import Any, TypeAlias

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

Size: TypeAlias = Any
"""Patches along a side: a number, or a symbolic dimension of `jax.export`, which has no public
type. Layers that take one allow both, which is how one exported file serves images of any size."""


class PatchEmbedding(eqx.Module):
    """Cuts an image into square patches and projects each to a token: `y = W · patch + b`.

    That is a convolution whose stride is its kernel's size.

    Source: Dosovitskiy et al., 2021, arXiv:2010.11929.
    """

    proj: eqx.nn.Conv2d

    def __init__(self, dim: int, patch_size: int, *, channels: int = 3, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: channels of a token.
        - `patch_size`: pixels along a side of a patch.
        - `channels`: of the image.
        - `key`: draws the initial parameters.
        """
        self.proj = eqx.nn.Conv2d(channels, dim, patch_size, stride=patch_size, key=key)

    @property
    def patch_size(self) -> int:
        """Pixels along a side of a patch."""
        return self.proj.stride[0]

    def __call__(self, image: Float[Array, "channels H W"]) -> Float[Array, "dim height width"]:
        """**Returns** tokens on their grid: `height = H // patch_size`, `width = W // patch_size`.

        What does not fill a patch at the right and bottom edge is dropped.
        """
        return self.proj(image)
