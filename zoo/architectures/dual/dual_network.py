"""Transformer for texts, and dual encoder of pictures and texts.

The transformer is that of SigLIP 2, TIPS, CLIP and dino.txt.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from zoo.architectures.base import NO_IDENTITY, FeatureRequest, Identity, Network
from zoo.architectures.dual.dual_config import DualConfig, TextConfig, TextPool
from zoo.architectures.parts.attention import Mask
from zoo.architectures.parts.block import Block, Mlp
from zoo.architectures.parts.layers import ACTIVATIONS, Norm, Size, pointwise
from zoo.architectures.parts.output import Output, Similarities
from zoo.architectures.vit.vit_network import VisionTransformer


class TextTransformer(Network):
    """Transformer for texts: token ids become vectors, blocks of attention mix them, and pooling
    makes one vector for the text.

        x = token_embed[input_ids] + pos_embed      or √dim token_embed[input_ids] + sinusoids
        x = block(x, mask)                          for every block
        last_hidden_state = norm(x)
        pooler_output = head(pool(last_hidden_state))

    Shorter texts are padded to the full length. SigLIP 2 has no mask, and pools the last token,
    which may be padding. TIPS masks padding. In CLIP and dino.txt, a token attends only to itself
    and the tokens before it, so that padding, which follows the text, has no effect.

    SigLIP 2's, with initial parameters:

        model = zoo.create("siglip2_vitb16_224_text", key=jax.random.key(0))
        output = model(input_ids)  # [64] token ids; for a batch jax.vmap(model)

    Sources: `big_vision/models/proj/image_text/text_transformer.py` of google-research/big_vision
    (Zhai et al., 2023, arXiv:2303.15343; Tschannen et al., 2025, arXiv:2502.14786);
    `pytorch/text_encoder.py` of google-deepmind/tips (Maninis et al., 2024, arXiv:2410.16512);
    `dinov3/eval/text/text_transformer.py` and `text_tower.py` of facebookresearch/dinov3 (Jose et
    al., 2024, arXiv:2412.16334).
    """

    token_embed: eqx.nn.Embedding
    pos_embed: Float[Array, "tokens dim"] | None
    blocks: tuple[Block, ...]
    norm: Norm
    head: eqx.nn.Linear | None
    causal: bool = eqx.field(static=True)
    pool: TextPool = eqx.field(static=True)
    end: int | None = eqx.field(static=True)

    def __init__(self, config: TextConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network. Its preprocessing is that of the pictures that
          texts are compared with.
        - `key`: draws the initial parameters.
        """
        token_key, position_key, head_key, *block_keys = jr.split(key, 3 + config.depth)
        dim, norm = config.dim, partial(eqx.nn.LayerNorm, eps=config.norm_eps)
        block = partial(
            Block,
            *(dim, config.heads, config.hidden),
            ffn=partial(Mlp, activation=ACTIVATIONS[config.activation]),
            norm=norm,
            qkv_bias=config.qkv_bias,
            qk_norm=None,
            layer_scale=None,
        )
        learned = config.positions == "learned"
        head = partial(eqx.nn.Linear, dim, use_bias=config.head_bias, key=head_key)
        self.token_embed = eqx.nn.Embedding(config.vocabulary, dim, key=token_key)
        self.pos_embed = 0.02 * jr.normal(position_key, (config.tokens, dim)) if learned else None
        self.blocks = tuple(block(key=block_key) for block_key in block_keys)
        self.norm = norm(dim)
        self.head = None if config.projection is None else head(config.projection)
        self.causal, self.pool, self.end = config.causal, config.pool, config.end
        self.identity = identity

    def __call__(
        self, input_ids: Int[Array, " tokens"], attention_mask: Int[Array, " tokens"] | None = None
    ) -> Output:
        """Return the features of one text. Use `jax.vmap` for a batch.

        **Arguments:**

        - `input_ids`: the ids of the tokens, at most as many as there are positions. An id outside
          the vocabulary is replaced by the nearest one in it.
        - `attention_mask`: 1 for tokens of the text, 0 for padding; None if padding is not masked.

        **Returns** an `Output` with the tokens and the vector of the text. CLIP's vector is
        returned a second time as `text_embeds`.
        """
        x = self.embed_tokens(input_ids)
        is_text = None if attention_mask is None else attention_mask != 0
        mask = self.make_mask(input_ids.shape[0], is_text)
        for block in self.blocks:
            x = block(x, mask=mask)
        x = pointwise(self.norm, x)
        pooled = self.pool_tokens(x, input_ids, is_text)
        pooled = pooled if self.head is None else self.head(pooled)
        return Output(x, pooled, text_embeds=pooled if self.pool == "end" else None)

    def embed_tokens(self, input_ids: Int[Array, " tokens"]) -> Float[Array, "tokens dim"]:
        """Return the embeddings of tokens, plus those of their positions.

        With learned positions, they are added to the embeddings of the tokens. Without them, the
        embeddings of the tokens are multiplied by `dim**0.5`, and sinusoids are added. An id
        outside the vocabulary is replaced by the nearest one in it.
        """
        x = jnp.take(self.token_embed.weight, input_ids, axis=0, mode="clip")
        if self.pos_embed is not None:
            return x + self.select_positions(x.shape[0])
        tokens, dim = x.shape
        return x * dim**0.5 + jnp.asarray(compute_sinusoids(tokens, dim), x.dtype)

    def select_positions(self, tokens: Size) -> Float[Array, "tokens dim"]:
        """Return the embeddings of the first `tokens` positions.

        If there are fewer positions, an integer gets all of them. For a symbolic number, which
        cannot be compared with the length of the table, the last position is repeated.
        """
        assert self.pos_embed is not None
        if isinstance(tokens, int):
            return self.pos_embed[:tokens]
        return jnp.take(self.pos_embed, jnp.arange(tokens), axis=0, mode="clip")

    def make_mask(self, tokens: Size, is_text: Bool[Array, " tokens"] | None) -> Mask | None:
        """Return the mask of attention, which is True where the token of the row may attend to that
        of the column.

        Its shape is `[tokens, tokens]`, or `[1, tokens]` if it is the same for all tokens. Return
        None if all tokens attend to all.

        **Arguments:**

        - `tokens`: the number of tokens.
        - `is_text`: True for tokens of the text, False for padding; None if padding is not masked.
        """
        if self.causal:
            triangle = np.tri if isinstance(tokens, int) else jnp.tri
            previous = jnp.asarray(triangle(tokens, dtype=bool))
            return previous if is_text is None else previous & is_text
        return None if is_text is None else is_text[None]

    def pool_tokens(
        self,
        x: Float[Array, "tokens dim"],
        input_ids: Int[Array, " tokens"],
        is_text: Bool[Array, " tokens"] | None,
    ) -> Float[Array, " dim"]:
        """Return the vector of the text before the projection.

        By `pool`, it is the last token, the first token with the id `end` or else with the greatest
        id, or the mean of the tokens that are not padding. If no token has the id `end`, it is the
        first token. The mean of no tokens is a vector of zeros.

        **Arguments:**

        - `x`: the tokens after the final norm.
        - `input_ids`: the token ids, among which the end of the text is searched.
        - `is_text`: True for tokens of the text and False for padding; None if padding is not
          masked. Only the mean uses it.
        """
        if self.pool == "last":
            return x[-1]
        if self.pool in ("greatest", "end"):
            return x[jnp.argmax(input_ids if self.end is None else input_ids == self.end)]
        if is_text is None:
            return x.mean(axis=0)
        weights = is_text.astype(x.dtype)
        return weights @ x / jnp.maximum(weights.sum(), 1)


def compute_sinusoids(tokens: int, dim: int) -> Float[np.ndarray, "tokens dim"]:
    """Return the embeddings of the positions 0, 1, …: sines followed by cosines, with periods from
    2π to 20,000π tokens.

    They are computed in float32, as in TIPS: `sin(position · 10000^(-i / (dim / 2 - 1)))`.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.5.
    """
    half = dim // 2
    step = np.float32(np.log(10000.0) / (half - 1))
    rates = np.exp(-step * np.arange(half, dtype=np.float32))
    angles = np.arange(tokens, dtype=np.float32)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


class DualEncoder(Network):
    """Dual encoder: pictures and texts become vectors of one space, and every picture is compared
    with every text.

        image_embeds = unit_vector(vision(image).pooler_output)
        text_embeds = unit_vector(words(text).pooler_output)
        logits_per_image = exp(logit_scale) image_embeds text_embedsᵀ + logit_bias      SigLIP 2
        logits_per_image = exp(logit_scale) image_embeds text_embedsᵀ           CLIP, dino.txt
        logits_per_image = image_embeds text_embedsᵀ / temperature                      TIPS

    With a bias, `jax.nn.sigmoid(logits_per_image)` is the probability that a text describes a
    picture, independently of the other texts. Without a bias, the texts exclude each other: use
    `jax.nn.softmax(logits_per_image)`.

    Sources: Zhai et al., 2023, arXiv:2303.15343; Radford et al., 2021, arXiv:2103.00020.
    """

    vision: VisionTransformer
    words: TextTransformer
    logit_scale: Float[Array, " 1"] | None
    logit_bias: Float[Array, " 1"] | None
    temperature: Float[Array, ""] | None

    def __init__(self, config: DualConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.
        """
        key1, key2 = jr.split(key)
        self.vision = VisionTransformer(config.vision, key=key1)
        self.words = TextTransformer(config.words, key=key2)
        # These are the values at the start of training in the papers.
        scale = jnp.log(jnp.array([10.0 if config.bias else 1 / 0.07]))
        self.logit_scale = None if config.temperature else scale
        self.logit_bias = jnp.array([-10.0]) if config.bias else None
        self.temperature = jnp.array(0.07) if config.temperature else None
        self.identity = identity

    @property
    def stride(self) -> int:
        """Number of pixels along a side of a patch."""
        return self.vision.stride

    def __call__(
        self,
        pixel_values: Float[Array, "images 3 H W"],
        input_ids: Int[Array, "texts tokens"],
        attention_mask: Int[Array, "texts tokens"] | None = None,
    ) -> Similarities:
        """Return the similarities of every picture and every text. Unlike other networks, a dual
        encoder takes batches.

        **Arguments:**

        - `pixel_values`: preprocessed RGB pictures.
        - `input_ids`: the token ids of each text.
        - `attention_mask`: 1 for tokens of the text, 0 for padding; None without a mask.
        """
        texts = (input_ids,) if attention_mask is None else (input_ids, attention_mask)
        image = jax.vmap(lambda pixels: unit_vector(self.vision(pixels).pooler_output))(
            pixel_values
        )
        text = jax.vmap(lambda *arrays: unit_vector(self.words(*arrays).pooler_output))(*texts)
        logits = self.logits(text @ image.T)
        return Similarities(logits.T, logits, text, image)

    def compute_batch(self, request: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Similarities:
        """Return the similarities of every picture of a batch and every text of a batch. `inputs`
        are the arguments of a call; `request` is not used."""
        return self(*inputs)

    def logits(self, cosines: Float[Array, "texts images"]) -> Float[Array, "texts images"]:
        """Return the logits for these cosines, by the network's scale or temperature, and its bias
        if there is one."""
        if self.temperature is not None:
            cosines = cosines / self.temperature
        if self.logit_scale is not None:
            cosines = cosines * jnp.exp(self.logit_scale)
        return cosines if self.logit_bias is None else cosines + self.logit_bias


def unit_vector(vector: Float[Array, " dim"] | None) -> Float[Array, " dim"]:
    """Return the vector scaled to length 1; NaN for a vector of zeros.

    **Raises** `ValueError` for None, the result of a network that does not pool.
    """
    if vector is None:
        raise ValueError(
            "the network has no pooler_output to compare: set `pool` in its configuration"
        )
    return vector / jnp.linalg.norm(vector)
