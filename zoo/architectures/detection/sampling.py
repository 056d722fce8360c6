"""Attention to a few points of a map: multi-scale deformable attention on one scale."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.parts.layers import pointwise

Map = Float[Array, "channels height width"]
Places = Float[Array, "queries points 2"]
Boxes = Float[Array, "queries 4"]
"""Centre (x, y) and size (width, height), as shares of a picture's width and height."""


def sample(x: Map, places: Places) -> Float[Array, "channels queries points"]:
    """The map between its pixels, bilinearly; zero outside of it.

    Becomes one `GridSample` in ONNX.

    **Arguments:** the map, and places (x, y) in it: from 0 to 1, from edge to edge.
    """
    x, (height, width) = x.astype(jnp.float32), x.shape[1:]
    rows = places[..., 1] * height - 0.5
    columns = places[..., 0] * width - 0.5

    def one(channel: Float[Array, "height width"]) -> Float[Array, "queries points"]:
        return map_coordinates(channel, [rows, columns], order=1, mode="constant", cval=0.0)

    return jax.vmap(one)(x)


class SampledAttention(eqx.Module):
    """`output(Σ weights · value(map) at points)`: every query chooses the points and the weights.

    The points of a head are at `centre + offsets / points · size / 2` of the query's box, and their
    weights sum to one.

    Source: Zhu et al., 2021, arXiv:2010.04159; `MultiScaleDeformableAttention` of transformers.
    """

    offsets: eqx.nn.Linear
    weights: eqx.nn.Linear
    value: eqx.nn.Linear
    proj: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def __init__(self, dim: int, heads: int, points: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of queries and of the map; heads, and points of each."""
        keys = jr.split(key, 4)
        self.offsets = eqx.nn.Linear(dim, heads * points * 2, key=keys[0])
        self.weights = eqx.nn.Linear(dim, heads * points, key=keys[1])
        self.value = eqx.nn.Linear(dim, dim, key=keys[2])
        self.proj = eqx.nn.Linear(dim, dim, key=keys[3])
        self.heads = heads

    def __call__(
        self, x: Float[Array, "queries dim"], boxes: Boxes, source: Float[Array, "height width dim"]
    ) -> Float[Array, "queries dim"]:
        """**Arguments:** the queries with their positions, their boxes, and the map."""
        height, width, dim = source.shape
        count = len(x)
        values = pointwise(self.value, source).reshape(height, width, self.heads, dim // self.heads)
        weights = pointwise(self.weights, x).reshape(count, self.heads, -1)
        weights = jax.nn.softmax(weights.astype(jnp.float32), axis=-1).astype(x.dtype)
        points = weights.shape[-1]
        offsets = pointwise(self.offsets, x).reshape(count, self.heads, points, 2)
        offsets = offsets.astype(jnp.float32)  # half precision is off by a pixel
        centre, size = boxes[:, None, None, :2], boxes[:, None, None, 2:]
        places = centre + offsets / points * size * 0.5
        sampled = jax.vmap(sample)(values.transpose(2, 3, 0, 1), places.transpose(1, 0, 2, 3))
        mixed = jnp.einsum("hcqp,qhp->qhc", sampled.astype(x.dtype), weights)
        return pointwise(self.proj, mixed.reshape(count, dim))
