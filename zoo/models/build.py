"""From a configuration to a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.models.config import Config, ConvNeXtConfig
from zoo.models.convnext import ConvNeXt
from zoo.models.output import Output
from zoo.models.positions import AxialRoPE, GridRoPE
from zoo.models.vit import VisionTransformer

Model: TypeAlias = VisionTransformer | ConvNeXt


def build(config: Config, *, key: PRNGKeyArray) -> Model:
    """A model with initial parameters drawn from `key`."""
    if isinstance(config, ConvNeXtConfig):
        return ConvNeXt(config, key=key)
    return VisionTransformer(config, key=key)


@cache
def abstract(config: Config) -> Model:
    """A model whose leaves are `jax.ShapeDtypeStruct`s: no memory, no random numbers."""
    return eqx.filter_eval_shape(lambda key: build(config, key=key), jr.key(0))


def batched(
    model: Model,
    pixel_values: Float[Array, "batch 3 H W"],
    layers: Sequence[int] = (),
    as_maps: bool = False,
) -> Output:
    """The function that an exported file computes."""
    return jax.vmap(lambda image: model(image, layers, as_maps=as_maps))(pixel_values)


def count_parameters(model: Model) -> int:
    """How many numbers training adjusts: every array leaf but the rotary periods."""
    trained = eqx.filter(model, is_array_or_spec)
    trained = jax.tree.map(
        lambda part: None if isinstance(part, AxialRoPE | GridRoPE) else part,
        trained,
        is_leaf=lambda part: isinstance(part, AxialRoPE | GridRoPE),
    )
    return sum(leaf.size for leaf in jax.tree.leaves(trained))


def is_array_or_spec(leaf: object) -> bool:
    """Whether a leaf is an array, concrete or abstract."""
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)
