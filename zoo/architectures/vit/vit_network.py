"""Vision transformer of DINOv2, DINOv3, SigLIP 2, TIPS, CLIP, EUPE, ViT-5, and plain ViT."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.base import NO_IDENTITY, FeatureNetwork, FeatureRequest, Identity, Network
from zoo.architectures.parts.attention import AxialRoPE, GridRoPE, RoPE, Rotation
from zoo.architectures.parts.block import (
    AttentionPool,
    Block,
    MakeFeedForward,
    Mlp,
    Pool,
    SwiGlu,
    SwiGluFused,
    class_token,
    mean_of_patches,
    token_and_mean,
)
from zoo.architectures.parts.layer_options import RopePeriods
from zoo.architectures.parts.layers import (
    ACTIVATIONS,
    Norm,
    PatchEmbedding,
    Size,
    pointwise,
)
from zoo.architectures.parts.learned_positions import LearnedPositionEmbedding
from zoo.architectures.parts.output import Output, check_layers
from zoo.architectures.vit.vit_config import HeadBlocks, ViTConfig


class VisionTransformer(FeatureNetwork):
    """Vision transformer: patches become tokens, blocks of attention mix them, and pooling makes
    one vector for the picture.

        x = [cls_token, reg_tokens, patch_embed(image) + positions]     in CLIP pre_norm(x)
        x = block(x, rotation)                      for every block
        last_hidden_state = norm(x)                 or head_norm(head_blocks(norm(x)))
        pooler_output = pool(last_hidden_state)     or attn_pool
        pooler_output = projection(norm(pool(x)))   in CLIP, whose last_hidden_state is x
        logits = head(pooler_output)                or, with `head_tokens`, of [tokens, mean]
        logits = (head(x[0]) + head_dist(x[1])) / 2     in DeiT, whose register has a head

    DINOv3's ViT-S/16, with initial parameters:

        model = build_model(ViTConfig(384, 12, 6, 1536), key=jax.random.key(0))
        output = model(image)  # [3, H, W]; for a batch jax.vmap(model)(images)

    Leaves have the names of Equimo's `VisionTransformer`: `global_pos_embed` is the learned
    position embedding, `local_pos_embed` the rotary embedding, and `reg_tokens` the registers.
    `mask_token` and `local_cls_norm`, a second final norm for the class token, exist for
    checkpoints only; inference does not use them. There is no dropout, because it has no effect at
    inference and would only add nodes to an exported file.

    Sources: Dosovitskiy et al., 2021, arXiv:2010.11929; `dinov3/models/vision_transformer.py` of
    facebookresearch/dinov3 (Siméoni et al., 2025, arXiv:2508.10104) and the same file of
    facebookresearch/dinov2; registers: Darcet et al., 2023, arXiv:2309.16588; for the others see
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
    head_blocks: tuple[Block, ...]
    head_norm: Norm | None
    attn_pool: AttentionPool | None
    projection: eqx.nn.Linear | None
    head: eqx.nn.Linear | None
    head_dist: eqx.nn.Linear | None
    pool: Pool | None = eqx.field(static=True)
    pooled_norm: bool = eqx.field(static=True)
    head_tokens: int | None = eqx.field(static=True)

    def __init__(self, config: ViTConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.

        **Raises** `ValueError` if the network pools or classifies a class token that it does not
        have.
        """
        if (config.pool in ("token", "both") or config.head_tokens) and not config.cls_token:
            raise ValueError(
                "the network pools or classifies the class token, but has none (cls_token=False): "
                'set pool to "mean", "attention" or None, and head_tokens to None'
            )
        dim, blocks, positions = config.dim, config.head_blocks, config.positions
        keys = jr.split(key, 6 + config.depth)
        patch_key, cls_key, reg_key, position_key, pool_key, head_key, *block_keys = keys
        norm = partial(NORMS[config.norm], eps=config.norm_eps, use_bias=config.norm_bias)
        sizes, feed = (dim, config.heads, config.hidden), _make_feed_forward(config)
        block = partial(
            Block,
            *sizes,
            ffn=feed,
            norm=norm,
            qkv_bias=config.qkv_bias,
            qk_norm=norm if config.qk_norm else None,
            layer_scale=config.layer_scale,
        )
        embed = partial(PatchEmbedding, dim, config.patch_size, key=patch_key)
        self.patch_embed = embed(use_bias=config.patch_bias)
        self.cls_token = 0.02 * jr.normal(cls_key, (1, dim)) if config.cls_token else None
        rows = (config.registers, dim)
        self.reg_tokens = 0.02 * jr.normal(reg_key, rows) if config.registers else None
        self.mask_token = jnp.zeros((1, dim)) if config.mask_token else None
        embed_positions = partial(LearnedPositionEmbedding, dim, key=position_key)
        self.global_pos_embed = embed_positions(**asdict(positions)) if positions else None
        self.local_pos_embed = _make_rope(config)
        self.blocks = tuple(block(key=block_key) for block_key in block_keys)
        self.pre_norm = norm(dim) if config.pre_norm else None
        self.norm = norm(dim)
        self.local_cls_norm = norm(dim) if config.untied_norms else None
        head_keys = jr.split(jr.fold_in(key, config.depth), blocks.depth) if blocks else ()
        self.head_blocks = tuple(
            _make_head_block(config, blocks, head_key) for head_key in head_keys if blocks
        )
        self.head_norm = eqx.nn.LayerNorm(dim, eps=blocks.norm_eps) if blocks else None
        attend = partial(AttentionPool, *sizes, ffn=feed, norm=norm, key=pool_key)
        self.attn_pool = attend() if config.pool == "attention" else None
        project = partial(eqx.nn.Linear, dim, use_bias=False, key=jr.fold_in(head_key, 1))
        self.projection = project(config.projection) if config.projection else None
        width = dim if config.head_tokens is None else (config.head_tokens + 1) * dim
        head = partial(eqx.nn.Linear, width, config.classes)
        self.head = head(key=head_key) if config.classes else None
        self.head_dist = head(key=jr.fold_in(head_key, 2)) if config.distilled else None
        self.head_tokens, self.pool = config.head_tokens, POOLS.get(config.pool)
        self.pooled_norm, self.identity = config.pooled_norm, identity

    @property
    def stride(self) -> int:
        """Number of pixels along a side of a patch. One row of the output belongs to one patch."""
        return self.patch_embed.patch_size

    @property
    def prefix_tokens(self) -> int:
        """Number of tokens before the patches: the class token, if there is one, and the
        registers."""
        return sum(len(rows) for rows in (self.cls_token, self.reg_tokens) if rows is not None)

    def __call__(
        self,
        pixel_values: Float[Array, "3 H W"],
        layers: Sequence[int] = (),
        *,
        as_maps: bool = False,
        attentions: bool = False,
    ) -> Output:
        """Return the features of one picture. Use `jax.vmap` for a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square. Pixels at the right and bottom
          edge that do not fill a patch are ignored.
        - `layers`: numbers of blocks, counted from 1, whose tokens are returned as `hidden_states`
          in this order, after the final norm. They have no norm in a network that applies it to
          the pooled vector instead.
        - `as_maps`: whether `hidden_states` are maps `[dim, height, width]` of the patches.
          Otherwise they are rows of all tokens.
        - `attentions`: whether the attention weights are returned of the blocks in `layers`, or of
          the last block if `layers` is empty.

        **Returns** an `Output` whose `last_hidden_state` has `prefix_tokens + height * width` rows,
        with the vectors that are computed from them. Vectors that the network does not compute are
        None.

        **Raises** `ValueError` for a block that does not exist.
        """
        check_layers(layers, self.num_hidden_states)
        x, height, width = self.embed_tokens(self.patch_embed(pixel_values))
        rotation = self.make_rotation(height, width)
        attention_layers = (layers or range(1, len(self.blocks) + 1)[-1:]) if attentions else ()
        weights: dict[int, Float[Array, "heads tokens tokens"]] = {}
        states: list[Float[Array, "tokens dim"]] = []
        normed: dict[int, Float[Array, "tokens dim"]] = {}
        for number, block in enumerate(self.blocks, start=1):
            if number in attention_layers:
                x, weights[number] = block.with_weights(x, rotation)
            else:
                x = block(x, rotation)
            states.append(x)
            if number in layers:
                normed[number] = self.apply_final_norm(x)
        x = normed[len(self.blocks)] if len(self.blocks) in layers else self.apply_final_norm(x)
        x = self.apply_head_blocks(x)
        pooled = self.pool_tokens(x)
        hidden = tuple(normed[number] for number in layers)
        if as_maps:
            patches = (rows[self.prefix_tokens :] for rows in hidden)
            hidden = tuple(rows.T.reshape(rows.shape[1], height, width) for rows in patches)
        logits = self.classify(x, pooled, states[:-1])
        attended = tuple(weights[number] for number in attention_layers)
        heads, embeds = self.select_class_attention(attended), pooled if self.projection else None
        return Output(x, pooled, logits, hidden, attended, heads, image_embeds=embeds)

    def compute(self, request: FeatureRequest, *inputs: Float[Array, "3 H W"]) -> Output:
        """Return the features of one picture, with the states of the requested layers and, if
        requested, their attention weights."""
        (pixel_values,) = inputs
        return self(
            pixel_values, request.layers, as_maps=request.as_maps, attentions=request.attentions
        )

    def make_rotation(self, height: Size, width: Size, extra_tokens: int = 0) -> Rotation | None:
        """Return the rotation of queries and keys, which all blocks use; None if the network has no
        rotary positions.

        **Arguments:**

        - `height`, `width`: the numbers of patches along each side.
        - `extra_tokens`: the number of tokens that another network has put before all tokens. They
          are not rotated.
        """
        rope = self.local_pos_embed
        return None if rope is None else rope(height, width, extra_tokens + self.prefix_tokens)

    def select_class_attention(
        self, attentions: Sequence[Float[Array, "heads tokens tokens"]]
    ) -> tuple[Float[Array, "heads patches"], ...]:
        """Return the attention weights of the class token (query) for each patch (key), for each
        entry of `attentions`. Return an empty tuple if the network has no class token."""
        if self.cls_token is None:
            return ()
        return tuple(weights[:, 0, self.prefix_tokens :] for weights in attentions)

    def embed_tokens(
        self, patches: Float[Array, "dim height width"]
    ) -> tuple[Float[Array, "tokens dim"], Size, Size]:
        """Return the tokens before the first block, and the height and width of the grid of
        patches. `patches` is the result of `patch_embed`.

        The tokens are the class token, the registers, and the patches by rows, with their learned
        positions. CLIP's norm before the blocks is applied to them.
        """
        dim, height, width = patches.shape
        x = patches.reshape(dim, height * width).T
        token, registers = self.cls_token, self.reg_tokens
        if self.global_pos_embed is not None:
            positions = self.global_pos_embed(height, width)
            prefix_rows = self.global_pos_embed.prefix
            x = x + positions[prefix_rows:]
            start = 0 if token is None else 1
            token = token + positions[:1] if prefix_rows and token is not None else token
            if registers is not None and prefix_rows > start:
                registers = registers + positions[start:prefix_rows]
        prefix = [rows for rows in (token, registers) if rows is not None]
        x = jnp.concatenate([*prefix, x])
        return x if self.pre_norm is None else pointwise(self.pre_norm, x), height, width

    def apply_final_norm(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Return the tokens after the final norm; unchanged in a network that applies this norm to
        the pooled vector instead."""
        return x if self.pooled_norm else pointwise(self.norm, x)

    def apply_head_blocks(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Return the tokens after the additional blocks and their norm; unchanged if the network
        does not have such blocks."""
        for block in self.head_blocks:
            x = block(x)
        return x if self.head_norm is None else pointwise(self.head_norm, x)

    def pool_tokens(self, x: Float[Array, "tokens dim"]) -> Float[Array, " width"] | None:
        """Return one vector for the picture, after the projection if there is one; None if the
        network does not pool.

        `x` are the tokens of `last_hidden_state`. Attention with a learned query reads only the
        patches. A network with `pooled_norm` applies the final norm to the vector.
        """
        if self.attn_pool is not None:
            pooled = self.attn_pool(x[self.prefix_tokens :] if self.prefix_tokens else x)
        elif self.pool is not None:
            pooled = self.pool(x, self.prefix_tokens)
        else:
            return None
        pooled = self.norm(pooled) if self.pooled_norm else pooled
        return pooled if self.projection is None else self.projection(pooled)

    def classify(
        self,
        x: Float[Array, "tokens dim"],
        pooled: Float[Array, " width"] | None,
        previous: Sequence[Float[Array, "tokens dim"]],
    ) -> Float[Array, " classes"] | None:
        """Return the logits of the classifier; None if the network has no classifier, or no vector
        for it. With a distillation token, they are the mean of the logits of both classifiers.

        **Arguments:**

        - `x`: the tokens of `last_hidden_state`.
        - `pooled`: the pooled vector; None if the network does not pool.
        - `previous`: the tokens of each block before the last one, without the final norm.
        """
        if self.head is None:
            return None
        if self.head_tokens is None:
            if pooled is None or self.head_dist is None:
                return None if pooled is None else self.head(pooled)
            return (self.head(pooled) + self.head_dist(x[1])) / 2
        count = self.head_tokens
        last_states = previous[len(previous) + 1 - count :]
        tokens = [*(self.norm(state[0]) for state in last_states), x[0]][:count]
        return self.head(jnp.concatenate([*tokens, mean_of_patches(x, self.prefix_tokens)]))


NORMS: Mapping[str, Callable[..., Norm]] = {"layer": eqx.nn.LayerNorm, "rms": eqx.nn.RMSNorm}
POOLS: Mapping[str | None, Pool] = {
    "token": class_token,
    "mean": mean_of_patches,
    "both": token_and_mean,
}


def _make_head_block(config: ViTConfig, blocks: HeadBlocks, key: PRNGKeyArray) -> Block:
    """Return one of the additional blocks after the final norm."""
    return Block(
        *(config.dim, config.heads, blocks.hidden),
        ffn=SwiGlu,
        norm=partial(eqx.nn.LayerNorm, eps=blocks.norm_eps),
        qkv_bias=False,
        qk_norm=None,
        layer_scale=1e-5,
        key=key,
    )


def _make_feed_forward(config: ViTConfig) -> MakeFeedForward:
    """Return the function that builds the feed-forward network of a block, by the kind in
    `config.ffn`."""
    if config.ffn == "mlp":
        return partial(Mlp, activation=ACTIVATIONS[config.activation])
    return SwiGlu if config.ffn == "swiglu" else SwiGluFused


def _make_rope(config: ViTConfig) -> RoPE | None:
    """Return the layer of rotary positions; None if the network has none."""
    make = AxialRoPE if isinstance(config.rope, RopePeriods) else GridRoPE
    return make(config.head_dim, **asdict(config.rope)) if config.rope else None


class BackboneNetwork(Network):
    """Base class of networks that read the features of a vision transformer, the backbone, and
    return no tokens."""

    backbone: eqx.AbstractVar[VisionTransformer]

    @property
    def stride(self) -> int:
        """Number of pixels along a side of a patch."""
        return self.backbone.stride
