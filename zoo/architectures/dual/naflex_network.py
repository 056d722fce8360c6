"""SigLIP 2 NaFlex: a vision transformer for patches of any aspect ratio, alone and in a dual
encoder."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from zoo.architectures.base import NO_IDENTITY, FeatureRequest, Identity, Network
from zoo.architectures.dual.dual_network import TextTransformer, unit_vector
from zoo.architectures.dual.naflex_config import NaFlexConfig, NaFlexDualConfig
from zoo.architectures.parts.block import AttentionPool, Block, Mlp
from zoo.architectures.parts.layers import ACTIVATIONS, Norm, Size, pointwise
from zoo.architectures.parts.output import Output, Similarities


class PatchProjection(eqx.Module):
    """Linear layer from a patch, given as the vector of its pixels, to a token."""

    proj: eqx.nn.Linear


class FlexiblePositionEmbedding(eqx.Module):
    """A table with a row for each patch of a square grid, interpolated to a grid whose size is an
    input of the network.

    The embedding of a token is a weighted mean of the table's rows. Its weights are those of
    torch's `interpolate(mode="bilinear", antialias=True)` at the token's row and column. No shape
    depends on the size of the grid.

    Source: `Siglip2VisionEmbeddings.resize_positional_embeddings` of transformers.
    """

    weight: Float[Array, "patches dim"]
    grid: int = eqx.field(static=True)

    def __init__(self, dim: int, grid: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of a token.
        - `grid`: the number of patches along a side of the table's grid.
        """
        self.weight, self.grid = 0.02 * jr.normal(key, (grid**2, dim)), grid

    def __call__(
        self, spatial_shapes: Int[Array, " 2"], tokens: Size
    ) -> Float[Array, "tokens dim"]:
        """Return the position embeddings of the tokens of one picture.

        **Arguments:**

        - `spatial_shapes`: the numbers of rows and columns of the picture's patches.
        - `tokens`: the number of tokens, including padding. A token after the last patch gets the
          embedding of the first patch.
        """
        rows, columns = jnp.maximum(spatial_shapes, 1)
        index = jnp.arange(tokens)
        index = jnp.where(index < rows * columns, index, 0)
        down = self.interpolation_weights(index // columns, rows, self.grid)
        across = self.interpolation_weights(index % columns, columns, self.grid)
        shares = (down[:, :, None] * across[:, None, :]).reshape(tokens, len(self.weight))
        return (shares @ self.weight.astype(jnp.float32)).astype(self.weight.dtype)

    @staticmethod
    def interpolation_weights(
        index: Int[Array, " tokens"], count: Int[Array, ""], size: int
    ) -> Float[Array, "tokens size"]:
        """Return the weights of a linear interpolation with antialiasing along one axis. The
        weights of a token sum to 1.

        **Arguments:**

        - `index`: the position of each token on the axis.
        - `count`: the number of positions on the axis.
        - `size`: the number of samples in the table that are interpolated.
        """
        scale = size / count.astype(jnp.float32)
        centre = (index.astype(jnp.float32) + 0.5) * scale - 0.5
        distance = jnp.abs(jnp.arange(size, dtype=jnp.float32) - centre[:, None])
        weights = jnp.maximum(1 - distance / jnp.maximum(scale, 1.0), 0)
        return weights / weights.sum(axis=1, keepdims=True)


class NaFlexTransformer(Network):
    """Vision transformer for pictures of any aspect ratio: patches become tokens, and blocks of
    attention mix all tokens that are not padding.

        x = patch_embed(pixel_values) + positions(spatial_shapes)
        x = block(x, mask)                          for every block
        last_hidden_state = norm(x)
        pooler_output = attn_pool(last_hidden_state, mask)

    Leaves have the names of those of `VisionTransformer`.

    Source: `Siglip2VisionModel` of transformers (Tschannen et al., 2025, arXiv:2502.14786).
    """

    patch_embed: PatchProjection
    global_pos_embed: FlexiblePositionEmbedding
    blocks: tuple[Block, ...]
    norm: Norm
    attn_pool: AttentionPool | None
    patch_size: int = eqx.field(static=True)

    def __init__(
        self, config: NaFlexConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray
    ):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.
        """
        patch_key, position_key, pool_key, *block_keys = jr.split(key, 3 + config.depth)
        dim, norm = config.dim, partial(eqx.nn.LayerNorm, eps=config.norm_eps)
        sizes = dim, config.heads, config.hidden
        feed_forward = partial(Mlp, activation=ACTIVATIONS[config.activation])
        block = partial(Block, *sizes, ffn=feed_forward, norm=norm)
        block = partial(block, qkv_bias=True, qk_norm=None, layer_scale=None)
        pixels = 3 * config.patch**2
        self.patch_embed = PatchProjection(eqx.nn.Linear(pixels, dim, key=patch_key))
        self.global_pos_embed = FlexiblePositionEmbedding(dim, config.grid, key=position_key)
        self.blocks = tuple(block(key=block_key) for block_key in block_keys)
        self.norm = norm(dim)
        pool = partial(AttentionPool, *sizes, ffn=feed_forward, norm=norm, key=pool_key)
        self.attn_pool = pool() if config.pooled else None
        self.patch_size, self.identity = config.patch, identity

    @property
    def stride(self) -> int:
        """Number of pixels along a side of a patch."""
        return self.patch_size

    def __call__(
        self,
        pixel_values: Float[Array, "tokens pixels"],
        pixel_attention_mask: Int[Array, " tokens"],
        spatial_shapes: Int[Array, " 2"],
    ) -> Output:
        """Return the features of one picture. Use `jax.vmap` for a batch.

        **Arguments:**

        - `pixel_values`: the patches by rows. Each is a vector of preprocessed RGB, by rows,
          columns and channels.
        - `pixel_attention_mask`: 1 for patches, and 0 for the padding after them.
        - `spatial_shapes`: the numbers of rows and columns of patches.
        """
        mask = (pixel_attention_mask != 0)[None]
        x = pointwise(self.patch_embed.proj, pixel_values)
        x = x + self.global_pos_embed(spatial_shapes, x.shape[0])
        for block in self.blocks:
            x = block(x, mask=mask)
        x = pointwise(self.norm, x)
        return Output(x, None if self.attn_pool is None else self.attn_pool(x, mask))


class NaFlexDualEncoder(Network):
    """Dual encoder for pictures of any aspect ratio and texts, which computes what `DualEncoder`
    does with `logit_scale` and `logit_bias`."""

    vision: NaFlexTransformer
    words: TextTransformer
    logit_scale: Float[Array, " 1"]
    logit_bias: Float[Array, " 1"]

    def __init__(
        self, config: NaFlexDualConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray
    ):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.
        """
        key1, key2 = jr.split(key)
        self.vision = NaFlexTransformer(config.vision, key=key1)
        self.words = TextTransformer(config.words, key=key2)
        # These are the values at the start of training in the paper.
        self.logit_scale, self.logit_bias = jnp.log(jnp.array([10.0])), jnp.array([-10.0])
        self.identity = identity

    @property
    def stride(self) -> int:
        """Number of pixels along a side of a patch."""
        return self.vision.stride

    def __call__(
        self,
        pixel_values: Float[Array, "images tokens pixels"],
        pixel_attention_mask: Int[Array, "images tokens"],
        spatial_shapes: Int[Array, "images 2"],
        input_ids: Int[Array, "texts text_tokens"],
    ) -> Similarities:
        """Return the similarities of every picture and every text. It takes batches, like
        `DualEncoder`.

        **Arguments:**

        - `pixel_values`, `pixel_attention_mask`, `spatial_shapes`: a batch of the arrays of
          `NaFlexTransformer`.
        - `input_ids`: the token ids of each text.
        """
        pictures = jax.vmap(self.vision)(pixel_values, pixel_attention_mask, spatial_shapes)
        image = jax.vmap(unit_vector)(pictures.pooler_output)
        text = jax.vmap(lambda ids: unit_vector(self.words(ids).pooler_output))(input_ids)
        logits = text @ image.T * jnp.exp(self.logit_scale) + self.logit_bias
        return Similarities(logits.T, logits, text, image)

    def compute_batch(self, request: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Similarities:
        """Return the similarities of every picture of a batch and every text of a batch. `inputs`
        are the arguments of a call; `request` is not used."""
        return self(*inputs)
