"""The transformer for texts of SigLIP 2, and both of its towers beside each other."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from zoo.models.block import Block
from zoo.models.config import DualConfig
from zoo.models.layers import MakeNorm, Norm, pointwise
from zoo.models.output import Output, Similarities
from zoo.models.preprocessing import Preprocessing
from zoo.models.text_config import TextConfig
from zoo.models.vit import VisionTransformer


class TextTransformer(eqx.Module):
    """Words become tokens, blocks of attention mix them, and the last stands for the text.

        x = token_embed[input_ids] + pos_embed
        x = block(x)                                for every block
        last_hidden_state = norm(x)
        pooler_output = head(last_hidden_state[-1])

    Every token attends to every other, and a text that is shorter is padded to the full length:
    there is no mask, and the last token may be padding.

    SigLIP 2's, with initial parameters:

        model = zoo.create("siglip2_vitb16_224_text", key=jax.random.key(0))
        output = model(input_ids)  # [64] numbers of words; for a batch jax.vmap(model)

    Source: `big_vision/models/proj/image_text/text_transformer.py` of google-research/big_vision
    (Zhai et al., 2023, arXiv:2303.15343; Tschannen et al., 2025, arXiv:2502.14786).
    """

    token_embed: eqx.nn.Embedding
    pos_embed: Float[Array, "tokens dim"]
    blocks: tuple[Block, ...]
    norm: Norm
    head: eqx.nn.Linear
    name: str = eqx.field(static=True)
    preprocessing: Preprocessing | None = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    config: TextConfig | None = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        depth: int,
        block: Callable[..., Block],
        *,
        vocabulary: int,
        tokens: int,
        norm: MakeNorm,
        projection: int,
        name: str = "",
        preprocessing: Preprocessing | None = None,
        labels: tuple[str, ...] = (),
        config: TextConfig | None = None,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `dim`, `depth`: channels of a token, and how many blocks there are.
        - `block`: makes a block; is called as `block(dim, key=key)`.
        - `vocabulary`, `tokens`: how many words there are, and how many of them in a text.
        - `norm`: makes the final norm, over `dim` channels.
        - `projection`: channels of `pooler_output`.
        - `name`, `labels`, `config`: as for `VisionTransformer`.
        - `preprocessing`: what is done to the images that texts are compared with.
        """
        token_key, position_key, head_key, *block_keys = jr.split(key, 3 + depth)
        self.token_embed = eqx.nn.Embedding(vocabulary, dim, key=token_key)
        self.pos_embed = 0.02 * jr.normal(position_key, (tokens, dim))
        self.blocks = tuple(block(dim, key=block_key) for block_key in block_keys)
        self.norm = norm(dim)
        self.head = eqx.nn.Linear(dim, projection, key=head_key)
        self.name, self.preprocessing = name, preprocessing
        self.labels, self.config = labels, config

    @property
    def num_hidden_states(self) -> int:
        """No layers can be asked for."""
        return 0

    def __call__(self, input_ids: Int[Array, " tokens"]) -> Output:
        """Features of one text; `jax.vmap` gives a batch.

        **Arguments:** numbers of words, at most as many as there are positions. A number that no
        word has is taken for the nearest that one has.
        """
        x = jnp.take(self.token_embed.weight, input_ids, axis=0, mode="clip")
        x = x + self.pos_embed[: len(input_ids)]
        for block in self.blocks:
            x = block(x)
        x = pointwise(self.norm, x)
        return Output(x, self.head(x[-1]))


class DualEncoder(eqx.Module):
    """Images and texts become vectors of one space, and every image meets every text there.

        image_embeds = unit_vector(vision(image).pooler_output)
        text_embeds = unit_vector(words(text).pooler_output)
        logits_per_image = exp(logit_scale) image_embeds text_embedsᵀ + logit_bias

    `jax.nn.sigmoid(logits_per_image)` is how likely each text is about each image, whatever the
    others say.

    Source: Zhai et al., 2023, arXiv:2303.15343.
    """

    vision: VisionTransformer
    words: TextTransformer
    logit_scale: Float[Array, " 1"]
    logit_bias: Float[Array, " 1"]
    name: str = eqx.field(static=True)
    preprocessing: Preprocessing | None = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    config: DualConfig | None = eqx.field(static=True)

    def __init__(
        self,
        vision: Callable[..., VisionTransformer],
        words: Callable[..., TextTransformer],
        *,
        name: str = "",
        preprocessing: Preprocessing | None = None,
        labels: tuple[str, ...] = (),
        config: DualConfig | None = None,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `vision`, `words`: make the two towers; are called as `words(key=key)`.
        - `name`, `preprocessing`, `labels`, `config`: as for `VisionTransformer`.
        """
        key1, key2 = jr.split(key)
        self.vision, self.words = vision(key=key1), words(key=key2)
        # What training began with, of the paper.
        self.logit_scale, self.logit_bias = jnp.log(jnp.array([10.0])), jnp.array([-10.0])
        self.name, self.preprocessing = name, preprocessing
        self.labels, self.config = labels, config

    @property
    def stride(self) -> int:
        """Pixels along a side of a patch."""
        return self.vision.stride

    @property
    def num_hidden_states(self) -> int:
        """No layers can be asked for."""
        return 0

    def __call__(
        self, pixel_values: Float[Array, "images 3 H W"], input_ids: Int[Array, "texts tokens"]
    ) -> Similarities:
        """Every image beside every text.

        **Arguments:** preprocessed RGB, and numbers of words.
        """
        image = jax.vmap(lambda each: unit_vector(self.vision(each).pooler_output))(pixel_values)
        text = jax.vmap(lambda each: unit_vector(self.words(each).pooler_output))(input_ids)
        logits = text @ image.T * jnp.exp(self.logit_scale) + self.logit_bias
        return Similarities(logits.T, logits, text, image)


def unit_vector(vector: Float[Array, " dim"] | None) -> Float[Array, " dim"]:
    """A vector at length 1. **Raises** `ValueError` for a tower that gives none."""
    if vector is None:
        raise ValueError("a tower without pooler_output has no vector: give it a pool")
    return vector / jnp.linalg.norm(vector)
