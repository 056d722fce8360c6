"""The vision transformer of DINOv2, DINOv3, SigLIP 2, TIPS, CLIP, EUPE and ViT-5; the plain one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.base import UNKNOWN, Identity, Network
from zoo.architectures.parts.block import Block
from zoo.architectures.parts.feed_forward import MakeFeedForward, Mlp, SwiGlu, SwiGluFused
from zoo.architectures.parts.layers import (
    ACTIVATIONS,
    MakeNorm,
    Norm,
    PatchEmbedding,
    Size,
    pointwise,
)
from zoo.architectures.parts.learned_positions import LearnedPositionEmbedding
from zoo.architectures.parts.output import Output, check_layers
from zoo.architectures.parts.pool import (
    AttentionPool,
    Pool,
    class_token,
    mean_of_patches,
    token_and_mean,
)
from zoo.architectures.parts.position_config import RopePeriods
from zoo.architectures.parts.rope import AxialRoPE, GridRoPE, RoPE, Rotation
from zoo.architectures.vit.top_config import TopBlocks
from zoo.architectures.vit.vit_config import ViTConfig


class VisionTransformer(Network):
    """Patches become tokens, blocks of attention mix them, and one of them stands for the image.

        x = [cls_token, reg_tokens, patch_embed(image) + positions]     in CLIP pre_norm(x)
        x = block(x, rotation)                      for every block
        last_hidden_state = norm(x)                 or top_norm(top(norm(x)))
        pooler_output = pool(last_hidden_state)     or attn_pool
        pooler_output = projection(norm(pool(x)))   of CLIP, whose last_hidden_state is x
        logits = head(pooler_output)                or, with `head_tokens`, of [tokens, mean]
        logits = (head(x[0]) + head_dist(x[1])) / 2     of DeiT, whose register has a head

    DINOv3's ViT-S/16, with initial parameters:

        model = build_model(ViTConfig(384, 12, 6, 1536), key=jax.random.key(0))
        output = model(image)  # [3, H, W]; for a batch jax.vmap(model)(images)

    Names of leaves are those of Equimo's `VisionTransformer`: `global_pos_embed` is the learned
    position embedding, `local_pos_embed` the rotary embedding and `reg_tokens` the register tokens;
    `mask_token` and `local_cls_norm`, the class token's own final norm, are there for checkpoints
    alone, and inference does not use them. There is no dropout: what does nothing at inference
    should leave no trace in an exported file.

    Sources: Dosovitskiy et al., 2021, arXiv:2010.11929; `dinov3/models/vision_transformer.py` of
    facebookresearch/dinov3 (Siméoni et al., 2025, arXiv:2508.10104) and its counterpart of
    facebookresearch/dinov2; registers: Darcet et al., 2023, arXiv:2309.16588; for the rest see
    `zoo/architectures/families`.
    """

    patch_embed: PatchEmbedding
    cls_token: Float[Array, "1 dim"] | None
    reg_tokens: Float[Array, "registers dim"] | None
    mask_token: Float[Array, "1 dim"] | None
    global_pos_embed: LearnedPositionEmbedding | None
    local_pos_embed: RoPE | None
    pre_norm: Norm | None
    blocks: tuple[Block, ...]
    norm: Norm
    local_cls_norm: Norm | None
    top: tuple[Block, ...]
    top_norm: Norm | None
    attn_pool: AttentionPool | None
    projection: eqx.nn.Linear | None
    head: eqx.nn.Linear | None
    head_dist: eqx.nn.Linear | None
    pool: Pool | None = eqx.field(static=True)
    pooled_norm: bool = eqx.field(static=True)
    head_tokens: int | None = eqx.field(static=True)

    gives_features: ClassVar[bool] = True

    def __init__(
        self,
        dim: int,
        depth: int,
        block: Callable[..., Block],
        *,
        patch_size: int,
        patch_bias: bool,
        cls_token: bool,
        registers: int,
        mask_token: bool,
        positions: Callable[..., LearnedPositionEmbedding] | None,
        rope: RoPE | None,
        norm: MakeNorm,
        pre_norm: bool,
        pooled_norm: bool,
        untied_norms: bool,
        top: Sequence[Callable[..., Block]],
        top_norm: MakeNorm | None,
        pool: Pool | None,
        attn_pool: Callable[..., AttentionPool] | None,
        projection: int | None,
        classes: int,
        head_tokens: int | None,
        distilled: bool,
        about: Identity = UNKNOWN,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `dim`, `depth`: channels of a token, and how many blocks there are.
        - `block`, `positions`, `attn_pool`: make a block, learned positions, a layer that makes
          `pooler_output` in place of `pool`; are called as `block(dim, key=key)`.
        - `patch_size`, `patch_bias`: pixels along a side of a patch; whether it gets a bias.
        - `cls_token`, `registers`: whether there is a class token, and how many registers.
        - `rope`: makes rotary positions of a grid, for the blocks' attention.
        - `norm`: makes the final norm, over `dim` channels.
        - `pre_norm`, `pooled_norm`, `projection`: as in `ViTConfig`.
        - `mask_token`, `untied_norms`: whether to have the leaves `mask_token`, `local_cls_norm`.
        - `top`, `top_norm`: make the blocks behind the final norm, and the norm behind these.
        - `pool`: makes `pooler_output`: `class_token`, `mean_of_patches`, `token_and_mean`; None
          for none.
        - `classes`: outputs of a linear classifier on top; 0 for none.
        - `head_tokens`: of how many last blocks the classifier takes the class token, with the mean
          of the patches behind them; None for a classifier of `pooler_output`.
        - `distilled`: whether the first register has a classifier too.
        - `about`: what the network knows of itself.
        """
        if (pool in (class_token, token_and_mean) or head_tokens) and not cls_token:
            raise ValueError(
                "pool is class_token, and there is none (cls_token=False): give mean_of_patches, "
                "attention (attn_pool), or None"
            )
        keys = jr.split(key, 6 + depth)
        patch_key, cls_key, reg_key, position_key, pool_key, head_key, *block_keys = keys
        self.patch_embed = PatchEmbedding(dim, patch_size, use_bias=patch_bias, key=patch_key)
        self.cls_token = 0.02 * jr.normal(cls_key, (1, dim)) if cls_token else None
        self.reg_tokens = 0.02 * jr.normal(reg_key, (registers, dim)) if registers else None
        self.mask_token = jnp.zeros((1, dim)) if mask_token else None
        self.global_pos_embed = positions(dim, key=position_key) if positions else None
        self.local_pos_embed = rope
        self.blocks = tuple(block(dim, key=block_key) for block_key in block_keys)
        self.pre_norm = norm(dim) if pre_norm else None
        self.norm = norm(dim)
        self.local_cls_norm = norm(dim) if untied_norms else None
        top_keys = jr.split(jr.fold_in(key, depth), len(top))
        self.top = tuple(make(dim, key=each) for make, each in zip(top, top_keys, strict=True))
        self.top_norm = top_norm(dim) if top_norm else None
        self.attn_pool = attn_pool(dim, key=pool_key) if attn_pool else None
        project = partial(eqx.nn.Linear, dim, use_bias=False, key=jr.fold_in(head_key, 1))
        self.projection = project(projection) if projection else None
        width = dim if head_tokens is None else (head_tokens + 1) * dim
        self.head = eqx.nn.Linear(width, classes, key=head_key) if classes else None
        twin = partial(eqx.nn.Linear, width, classes, key=jr.fold_in(head_key, 2))
        self.head_dist = twin() if distilled else None
        self.head_tokens = head_tokens
        self.pool, self.pooled_norm, self.about = pool, pooled_norm, about

    @property
    def stride(self) -> int:
        """Pixels along a side of what becomes one row of the output: a patch."""
        return self.patch_embed.patch_size

    @property
    def prefix_tokens(self) -> int:
        """Tokens in front of the patches: the class token and the registers."""
        return sum(len(rows) for rows in (self.cls_token, self.reg_tokens) if rows is not None)

    @property
    def num_hidden_states(self) -> int:
        """How many layers there are to ask for: the blocks."""
        return len(self.blocks)

    def __call__(
        self,
        pixel_values: Float[Array, "3 H W"],
        layers: Sequence[int] = (),
        *,
        as_maps: bool = False,
        attentions: bool = False,
    ) -> Output:
        """Features of one image; `jax.vmap` gives a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square; what does not fill a patch at
          the right and bottom edge is dropped.
        - `layers`: blocks, counted from 1, whose normed outputs are wanted as well.
        - `as_maps`: give those as `[dim, height, width]`, patches only.
        - `attentions`: give what these blocks, or the last one, attend to as well.

        **Returns** `prefix_tokens + height * width` rows, and what is made of them.
        """
        check_layers(layers, self.num_hidden_states)
        x, height, width = self.tokens(self.patch_embed(pixel_values))
        rotation = self.rotation(height, width)
        attending = (layers or range(1, len(self.blocks) + 1)[-1:]) if attentions else ()
        weights: dict[int, Float[Array, "heads tokens tokens"]] = {}
        states: list[Float[Array, "tokens dim"]] = []
        normed: dict[int, Float[Array, "tokens dim"]] = {}
        for number, block in enumerate(self.blocks, start=1):
            if number in attending:
                x, weights[number] = block.with_weights(x, rotation)
            else:
                x = block(x, rotation)
            states.append(x)
            if number in layers:
                normed[number] = self.normed(x)
        x = normed[len(self.blocks)] if len(self.blocks) in layers else self.normed(x)
        x = self.topped(x)
        pooled = self.pooled(x)
        hidden = tuple(normed[number] for number in layers)
        if as_maps:
            patches = (rows[self.prefix_tokens :] for rows in hidden)
            hidden = tuple(rows.T.reshape(rows.shape[1], height, width) for rows in patches)
        logits = self.classified(x, pooled, states[:-1])
        attended = tuple(weights[number] for number in attending)
        heads, embeds = self.class_attention(attended), pooled if self.projection else None
        return Output(x, pooled, logits, hidden, attended, heads, image_embeds=embeds)

    def asked(
        self,
        *inputs: Float[Array, "3 H W"],
        layers: Sequence[int],
        as_maps: bool,
        attentions: bool,
    ) -> Output:
        """Features of one image, with layers and attentions."""
        (pixel_values,) = inputs
        return self(pixel_values, layers, as_maps=as_maps, attentions=attentions)

    def rotation(self, height: Size, width: Size, joined: int = 0) -> Rotation | None:
        """How queries and keys of a grid are rotated, once for all blocks; `joined` tokens in front
        of all others are not."""
        rope = self.local_pos_embed
        return None if rope is None else rope(height, width, joined + self.prefix_tokens)

    def class_attention(
        self, attentions: Sequence[Float[Array, "heads tokens tokens"]]
    ) -> tuple[Float[Array, "heads patches"], ...]:
        """How much the class token attends to each patch; nothing if there is no class token."""
        if self.cls_token is None:
            return ()
        return tuple(weights[:, 0, self.prefix_tokens :] for weights in attentions)

    def tokens(
        self, patches: Float[Array, "dim height width"]
    ) -> tuple[Float[Array, "tokens dim"], Size, Size]:
        """Class token, registers and patches with their learned positions; the grid's size."""
        dim, height, width = patches.shape
        x = patches.reshape(dim, height * width).T
        token, registers = self.cls_token, self.reg_tokens
        if self.global_pos_embed is not None:
            positions = self.global_pos_embed(height, width)
            first = self.global_pos_embed.prefix
            x = x + positions[first:]
            token = token + positions[:1] if first and token is not None else token
            registers = (
                registers + positions[1:first] if first > 1 and registers is not None else registers
            )
        prefix = [rows for rows in (token, registers) if rows is not None]
        x = jnp.concatenate([*prefix, x])
        return x if self.pre_norm is None else pointwise(self.pre_norm, x), height, width

    def normed(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Tokens behind the final norm, unless that is of what is pooled of them."""
        return x if self.pooled_norm else pointwise(self.norm, x)

    def topped(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Normed tokens after the blocks on top."""
        for block in self.top:
            x = block(x)
        return x if self.top_norm is None else pointwise(self.top_norm, x)

    def pooled(self, x: Float[Array, "tokens dim"]) -> Float[Array, " width"] | None:
        """One vector for the image."""
        if self.attn_pool is not None:
            return self.attn_pool(x)
        if self.pool is None:
            return None
        pooled = self.pool(x, self.prefix_tokens)
        pooled = self.norm(pooled) if self.pooled_norm else pooled
        return pooled if self.projection is None else self.projection(pooled)

    def classified(
        self,
        x: Float[Array, "tokens dim"],
        pooled: Float[Array, " width"] | None,
        before: Sequence[Float[Array, "tokens dim"]],
    ) -> Float[Array, " classes"] | None:
        """Logits that the classifier makes of the last block's normed tokens, or of what was pooled
        of them; the blocks before gave tokens that have no norm yet."""
        if self.head is None:
            return None
        if self.head_tokens is None:
            if pooled is None or self.head_dist is None:
                return None if pooled is None else self.head(pooled)
            return (self.head(pooled) + self.head_dist(x[1])) / 2
        count = self.head_tokens
        earlier = before[len(before) + 1 - count :]
        tokens = [*(self.norm(state[0]) for state in earlier), x[0]][:count]
        return self.head(jnp.concatenate([*tokens, mean_of_patches(x, self.prefix_tokens)]))


NORMS: Mapping[str, Callable[..., Norm]] = {"layer": eqx.nn.LayerNorm, "rms": eqx.nn.RMSNorm}
POOLS: Mapping[str | None, Pool] = {
    "token": class_token,
    "mean": mean_of_patches,
    "both": token_and_mean,
}


def vit_maker(config: ViTConfig) -> partial[VisionTransformer]:
    """Makes the network of a configuration; is called as `make(key=key)`."""
    norm = partial(NORMS[config.norm], eps=config.norm_eps, use_bias=config.norm_bias)
    # What blocks and attention pooling have in common.
    shared: dict[str, Any] = {
        "heads": config.heads,
        "hidden": config.hidden,
        "ffn": _feed_forward(config),
        "norm": norm,
    }
    block = partial(
        Block,
        **shared,
        qkv_bias=config.qkv_bias,
        qk_norm=norm if config.qk_norm else None,
        layer_scale=config.layer_scale,
    )
    where = config.positions
    return partial(
        VisionTransformer,
        config.dim,
        config.depth,
        block,
        patch_size=config.patch_size,
        patch_bias=config.patch_bias,
        cls_token=config.cls_token,
        registers=config.registers,
        mask_token=config.mask_token,
        positions=partial(LearnedPositionEmbedding, **asdict(where)) if where else None,
        rope=_rope(config),
        norm=norm,
        pre_norm=config.pre_norm,
        pooled_norm=config.pooled_norm,
        untied_norms=config.untied_norms,
        top=(_top_block(config.heads, config.top),) * config.top.depth if config.top else (),
        top_norm=partial(eqx.nn.LayerNorm, eps=config.top.norm_eps) if config.top else None,
        pool=POOLS.get(config.pool),
        attn_pool=partial(AttentionPool, **shared) if config.pool == "attention" else None,
        projection=config.projection,
        classes=config.classes,
        head_tokens=config.head_tokens,
        distilled=config.distilled,
    )


def _top_block(heads: int, config: TopBlocks) -> Callable[..., Block]:
    return partial(
        Block,
        heads=heads,
        hidden=config.hidden,
        ffn=SwiGlu,
        norm=partial(eqx.nn.LayerNorm, eps=config.norm_eps),
        qkv_bias=False,
        qk_norm=None,
        layer_scale=1e-5,
    )


def _feed_forward(config: ViTConfig) -> MakeFeedForward:
    if config.ffn == "mlp":
        return partial(Mlp, activation=ACTIVATIONS[config.activation])
    return SwiGlu if config.ffn == "swiglu" else SwiGluFused


def _rope(config: ViTConfig) -> RoPE | None:
    make = AxialRoPE if isinstance(config.rope, RopePeriods) else GridRoPE
    return make(config.head_dim, **asdict(config.rope)) if config.rope else None
