"""The vision transformer of DINOv3."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.entry import ViTConfig
from zoo.layers import Block, PatchEmbedding
from zoo.posemb import AxialRoPE


class ViTOutput(NamedTuple):
    """Features of one image, all after the final norm.

    The rows of `last_hidden_state` are the class token, the registers and the patches by rows;
    `pooler_output` is the first of them.
    """

    last_hidden_state: Float[Array, "tokens dim"]
    pooler_output: Float[Array, " dim"]


class VisionTransformer(eqx.Module):
    """Vision transformer with register tokens and axial rotary positions.

    Mirrors Equimo's `VisionTransformer` in names and semantics. `mask_token` and
    `local_cls_norm` are leaves because the checkpoints have them; inference does not use them.

    Source: `dinov3/models/vision_transformer.py` of facebookresearch/dinov3.
    """

    patch_embed: PatchEmbedding
    cls_token: Float[Array, "1 dim"]
    reg_tokens: Float[Array, "registers dim"]
    mask_token: Float[Array, "1 dim"]
    local_pos_embed: AxialRoPE
    blocks: tuple[Block, ...]
    norm: eqx.nn.LayerNorm
    local_cls_norm: eqx.nn.LayerNorm | None

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        """Draw initial parameters from `key`."""
        patch_key, cls_key, reg_key, *block_keys = jr.split(key, 3 + config.depth)
        dim = config.dim
        self.patch_embed = PatchEmbedding(config, key=patch_key)
        self.cls_token = 0.02 * jr.normal(cls_key, (1, dim))
        self.reg_tokens = 0.02 * jr.normal(reg_key, (config.registers, dim))
        self.mask_token = jnp.zeros((1, dim))
        self.local_pos_embed = AxialRoPE(config.head_dim, config.rope_base)
        self.blocks = tuple(Block(config, key=block_key) for block_key in block_keys)
        self.norm = eqx.nn.LayerNorm(dim, eps=config.norm_eps)
        untied = config.untied_norms
        self.local_cls_norm = eqx.nn.LayerNorm(dim, eps=config.norm_eps) if untied else None

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> ViTOutput:
        """Features of one image; `jax.vmap` gives a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB. Height and width need not be equal; what does not
          fill a patch at the right and bottom edge is dropped.
        """
        x = self.patch_embed(pixel_values)
        dim, height, width = x.shape
        patches = x.reshape(dim, height * width).T
        x = jnp.concatenate([self.cls_token, self.reg_tokens, patches])
        prefix = 1 + self.reg_tokens.shape[0]
        sin, cos = self.local_pos_embed(height, width, prefix)
        sin, cos = sin.astype(x.dtype), cos.astype(x.dtype)
        for block in self.blocks:
            x = block(x, sin, cos)
        x = jax.vmap(self.norm)(x)
        return ViTOutput(x, x[0])


def abstract(config: ViTConfig) -> VisionTransformer:
    """A model whose leaves are `jax.ShapeDtypeStruct`s: no memory, no random numbers."""
    return eqx.filter_eval_shape(lambda key: VisionTransformer(config, key=key), jr.key(0))


def count_parameters(model: VisionTransformer) -> int:
    """How many numbers training adjusts: every array leaf but the rotary periods."""
    leaves = jax.tree.leaves(eqx.filter(model, is_array_or_spec))
    return sum(leaf.size for leaf in leaves) - model.local_pos_embed.periods.size


def is_array_or_spec(leaf: object) -> bool:
    """Whether a leaf is an array, concrete or abstract."""
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)
