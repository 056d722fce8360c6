"""From the patches of several blocks to one map."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.detection.detection_config import DetectionConfig
from zoo.architectures.parts.layers import pointwise

Map = Float[Array, "channels height width"]
Other = Float[Array, "channels2 height width"]


class NormedConv(eqx.Module):
    """`silu(norm(conv(x)))`, which keeps rows and columns; the norm is over the channels."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm

    def __init__(self, inputs: int, outputs: int, kernel: int, eps: float, *, key: PRNGKeyArray):
        """**Arguments:** channels before and behind it, pixels along a side of the kernel, and the
        norm's epsilon."""
        self.conv = eqx.nn.Conv2d(
            inputs, outputs, kernel, padding=kernel // 2, use_bias=False, key=key
        )
        self.norm = eqx.nn.LayerNorm(outputs, eps=eps)

    def __call__(self, x: Map) -> Other:
        return jax.nn.silu(channel_norm(self.norm, self.conv(x)))


def channel_norm(norm: eqx.nn.LayerNorm, x: Map) -> Map:
    """A norm of the channels of every pixel."""
    return pointwise(norm, x.transpose(1, 2, 0)).transpose(2, 0, 1)


class Projector(eqx.Module):
    """A map of fewer channels, by a bottleneck of which every step is kept (C2f).

        parts = two halves of conv1(x)
        parts += [conv(conv(last of parts))]        for every bottleneck
        result = norm(conv2(parts))

    Source: `MultiScaleProjector` of roboflow/rf-detr, of one scale; `RfDetrScaleProjector` of
    transformers.
    """

    conv1: NormedConv
    conv2: NormedConv
    bottlenecks: tuple[tuple[NormedConv, NormedConv], ...]
    norm: eqx.nn.LayerNorm

    def __init__(self, config: DetectionConfig, *, key: PRNGKeyArray):
        """**Arguments:** the sizes."""
        key1, key2, *keys = jr.split(key, 2 + 2 * config.bottlenecks)
        narrow, dim = config.narrow, config.decoder.dim
        make = partial(NormedConv, eps=config.projector_eps)
        self.conv1 = make(config.dim * len(config.layers), 2 * narrow, 1, key=key1)
        self.conv2 = make((2 + config.bottlenecks) * narrow, dim, 1, key=key2)
        self.bottlenecks = tuple(
            (make(narrow, narrow, 3, key=one), make(narrow, narrow, 3, key=other))
            for one, other in zip(keys[::2], keys[1::2], strict=True)
        )
        self.norm = eqx.nn.LayerNorm(dim, eps=1e-6)

    def __call__(self, x: Map) -> Float[Array, "height width outputs"]:
        parts = jnp.split(self.conv1(x), 2)
        for first, second in self.bottlenecks:
            parts.append(second(first(parts[-1])))
        return pointwise(self.norm, self.conv2(jnp.concatenate(parts)).transpose(1, 2, 0))
