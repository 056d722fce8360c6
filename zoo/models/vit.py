"""The vision transformer of DINOv2, DINOv3, SigLIP2, TIPS, EUPE and ViT-5, and the plain one."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.models.config import ViTConfig
from zoo.models.layers import AttentionPool, Block, Norm, PatchEmbedding, Rotation, norm
from zoo.models.output import Output
from zoo.models.positions import LearnedPosEmbed, RoPE, Size, rotary


class VisionTransformer(eqx.Module):
    """Vision transformer: learned or rotary positions, registers, a pooling head, a classifier.

    Mirrors Equimo's `VisionTransformer` in names and semantics. `mask_token` and
    `local_cls_norm` are leaves because the checkpoints have them; inference does not use them.

    Sources: `dinov3/models/vision_transformer.py` of facebookresearch/dinov3 and its
    counterpart of facebookresearch/dinov2; for the rest see `zoo/registry/families`.
    """

    patch_embed: PatchEmbedding
    cls_token: Float[Array, "1 dim"] | None
    reg_tokens: Float[Array, "registers dim"] | None
    mask_token: Float[Array, "1 dim"] | None
    global_pos_embed: LearnedPosEmbed | None
    local_pos_embed: RoPE | None
    blocks: tuple[Block, ...]
    norm: Norm
    local_cls_norm: Norm | None
    attn_pool: AttentionPool | None
    head: eqx.nn.Linear | None
    config: ViTConfig = eqx.field(static=True)

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        """Draw initial parameters from `key`."""
        keys = jr.split(key, 6 + config.depth)
        patch_key, cls_key, reg_key, position_key, pool_key, head_key, *block_keys = keys
        dim, registers, positions = config.dim, config.registers, config.positions
        self.patch_embed = PatchEmbedding(config, key=patch_key)
        self.cls_token = 0.02 * jr.normal(cls_key, (1, dim)) if config.cls_token else None
        self.reg_tokens = 0.02 * jr.normal(reg_key, (registers, dim)) if registers else None
        self.mask_token = jnp.zeros((1, dim)) if config.mask_token else None
        learned = None if positions is None else LearnedPosEmbed(positions, dim, key=position_key)
        self.global_pos_embed = learned
        turns = config.rotary
        self.local_pos_embed = None if turns is None else rotary(turns, config.head_dim)
        self.blocks = tuple(Block(config, key=block_key) for block_key in block_keys)
        self.norm = norm(config, dim)
        self.local_cls_norm = norm(config, dim) if config.untied_norms else None
        pools = config.pool == "attention"
        self.attn_pool = AttentionPool(config, key=pool_key) if pools else None
        classes = config.classes
        self.head = eqx.nn.Linear(dim, classes, key=head_key) if classes else None
        self.config = config

    def __call__(
        self,
        pixel_values: Float[Array, "3 H W"],
        layers: Sequence[int] = (),
        *,
        as_maps: bool = False,
    ) -> Output:
        """Features of one image; `jax.vmap` gives a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB. Height and width need not be equal; what does not
          fill a patch at the right and bottom edge is dropped.
        - `layers`: blocks, counted from 1, whose outputs are wanted as well, after the final
          norm.
        - `as_maps`: give those as `[dim, height, width]`, patches only.
        """
        x, height, width = self.tokens(self.patch_embed(pixel_values))
        rotation = self.rotation(height, width)
        wanted: dict[int, Array] = {}
        for number, block in enumerate(self.blocks, start=1):
            x = block(x, rotation)
            if number in layers:
                wanted[number] = jax.vmap(self.norm)(x)
        x = wanted[len(self.blocks)] if len(self.blocks) in layers else jax.vmap(self.norm)(x)
        pooled = self.pool(x)
        hidden = tuple(wanted[number] for number in layers)
        if as_maps:
            hidden = tuple(self.as_map(tokens, height, width) for tokens in hidden)
        logits = None if self.head is None or pooled is None else self.head(pooled)
        return Output(x, pooled, logits, hidden)

    def tokens(
        self, patches: Float[Array, "dim height width"]
    ) -> tuple[Float[Array, "tokens dim"], Size, Size]:
        """Class token, registers and patches with their learned positions; the grid's size."""
        dim, height, width = patches.shape
        x = patches.reshape(dim, height * width).T
        token = self.cls_token
        if self.global_pos_embed is not None:
            positions = self.global_pos_embed(height, width)
            first = self.global_pos_embed.prefix
            x = x + positions[first:]
            token = token + positions[:1] if first and token is not None else token
        prefix = [rows for rows in (token, self.reg_tokens) if rows is not None]
        return jnp.concatenate([*prefix, x]), height, width

    def rotation(self, height: Size, width: Size) -> Rotation | None:
        """How queries and keys of a grid are rotated, computed once for all blocks."""
        if self.local_pos_embed is None:
            return None
        sin, cos = self.local_pos_embed(height, width, self.config.prefix)
        return Rotation(sin, cos, self.local_pos_embed.rotate)

    def pool(self, x: Float[Array, "tokens dim"]) -> Float[Array, " dim"] | None:
        """One vector for the image."""
        if self.attn_pool is not None:
            return self.attn_pool(x)
        if self.config.pool == "mean":
            return x[self.config.prefix :].mean(axis=0)
        return x[0] if self.config.pool == "token" else None

    def as_map(
        self, x: Float[Array, "tokens dim"], height: Size, width: Size
    ) -> Float[Array, "dim height width"]:
        """The patches on their grid."""
        return x[self.config.prefix :].T.reshape(x.shape[-1], height, width)
