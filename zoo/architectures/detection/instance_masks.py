"""Which pixels of an image each thing in it covers."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.detection.detection_config import InstanceConfig
from zoo.architectures.detection.projector import Map, channel_norm
from zoo.architectures.parts.block import Mlp
from zoo.architectures.parts.layers import Size, gelu, pointwise


class MapBlock(eqx.Module):
    """`x + gelu(linear(norm(conv(x))))`, of which the convolution takes each channel alone."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    linear: eqx.nn.Linear

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of the map."""
        key1, key2 = jr.split(key)
        self.conv = eqx.nn.Conv2d(dim, dim, 3, padding=1, groups=dim, key=key1)
        self.norm = eqx.nn.LayerNorm(dim, eps=1e-6)
        self.linear = eqx.nn.Linear(dim, dim, key=key2)

    def __call__(self, x: Map) -> Map:
        y = channel_norm(self.norm, self.conv(x)).transpose(1, 2, 0)
        return x + gelu(pointwise(self.linear, y)).transpose(2, 0, 1)


class InstanceHead(eqx.Module):
    """Masks of queries: products of what is made of these and of the pixels of the map.

        pixels = proj(block(resized map))                    all blocks
        queries = query_proj(queries + mlp(norm(queries)))
        masks = queries · pixels + bias

    In training there are masks behind every block, of the queries behind that block of the decoder;
    inference has the last.

    Source: `SegmentationHead` of roboflow/rf-detr; `RfDetrForInstanceSegmentation` of transformers.
    """

    blocks: tuple[MapBlock, ...]
    proj: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    mlp: Mlp
    query_proj: eqx.nn.Linear
    bias: Float[Array, " 1"]

    def __init__(self, dim: int, config: InstanceConfig, *, key: PRNGKeyArray):
        """**Arguments:** channels of the map and of queries, and the sizes of the head."""
        proj_key, mlp_key, query_key, *keys = jr.split(key, 3 + config.blocks)
        self.blocks = tuple(MapBlock(dim, key=each) for each in keys)
        self.proj = eqx.nn.Conv2d(dim, dim, 1, key=proj_key)
        self.norm = eqx.nn.LayerNorm(dim)
        self.mlp = Mlp(dim, config.hidden, activation=gelu, key=mlp_key)
        self.query_proj = eqx.nn.Linear(dim, dim, key=query_key)
        self.bias = jnp.zeros(1)

    def __call__(
        self,
        queries: Float[Array, "queries dim"],
        source: Float[Array, "height width dim"],
        size: Sequence[Size],
    ) -> Float[Array, "queries rows columns"]:
        """Logits of masks. **Arguments:** the queries, the map, and (rows, columns) of a mask."""
        x = source.transpose(2, 0, 1)
        x = jax.image.resize(x, (x.shape[0], *size), "bilinear", antialias=False)
        for block in self.blocks:
            x = block(x)
        queries = queries + self.mlp(pointwise(self.norm, queries))
        queries = pointwise(self.query_proj, queries)
        return jnp.einsum("qc,chw->qhw", queries, self.proj(x)) + self.bias
