"""Attention to a few points of a map: multi-scale deformable attention on one scale."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from zoo.architectures.parts.layers import Size, pointwise

Map = Float[Array, "channels height width"]
Places = Float[Array, "queries points 2"]
Boxes = Float[Array, "queries 4"]
"""Centre (x, y) and size (width, height), as shares of a picture's width and height."""


PROPOSED = 0.05
"""Width and height of the box that every place of the largest map proposes, as shares of the
picture's."""
EDGE = 0.01
"""A place this near to the picture's edge proposes nothing."""


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


def map_boxes(height: Size, width: Size, level: int = 0) -> Boxes:
    """The box that every place of a map begins with, by rows; on each further level twice as
    large."""
    columns = (jnp.arange(width, dtype=jnp.float32) + 0.5) / width
    rows = (jnp.arange(height, dtype=jnp.float32) + 0.5) / height
    y, x = (each.reshape(-1) for each in jnp.meshgrid(rows, columns, indexing="ij"))
    side = jnp.full_like(x, PROPOSED * 2**level)
    return jnp.stack([x, y, side, side], axis=-1)


def may_propose(boxes: Boxes) -> Bool[Array, " places"]:
    """Whether places are not too near to the picture's edge."""
    return ((boxes > EDGE) & (boxes < 1 - EDGE)).all(axis=-1)


class PointAttention(eqx.Module):
    """Attention to points of maps, which every query chooses with their weights."""

    offsets: eqx.nn.Linear
    weights: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def chosen(
        self, x: Float[Array, "queries dim"]
    ) -> tuple[Float[Array, "queries heads points"], Float[Array, "queries heads points 2"]]:
        """Weights, which sum to one, and offsets of the points of every head."""
        weights = pointwise(self.weights, x).reshape(len(x), self.heads, -1)
        weights = jax.nn.softmax(weights.astype(jnp.float32), axis=-1).astype(x.dtype)
        offsets = pointwise(self.offsets, x).reshape(*weights.shape, 2)
        return weights, offsets.astype(jnp.float32)  # half precision is off by a pixel


class SampledAttention(PointAttention):
    """`output(Σ weights · value(map) at points)`: every query chooses the points and the weights.

    The points of a head are at `centre + offsets / points · size / 2` of the query's box, and their
    weights sum to one.

    Source: Zhu et al., 2021, arXiv:2010.04159; `MultiScaleDeformableAttention` of transformers.
    """

    value: eqx.nn.Linear
    proj: eqx.nn.Linear

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
        values = pointwise(self.value, source).reshape(height, width, self.heads, dim // self.heads)
        weights, offsets = self.chosen(x)
        centre, size = boxes[:, None, None, :2], boxes[:, None, None, 2:]
        places = centre + offsets / weights.shape[-1] * size * 0.5
        sampled = jax.vmap(sample)(values.transpose(2, 3, 0, 1), places.transpose(1, 0, 2, 3))
        mixed = jnp.einsum("hcqp,qhp->qhc", sampled.astype(x.dtype), weights)
        return pointwise(self.proj, mixed.reshape(len(x), dim))
