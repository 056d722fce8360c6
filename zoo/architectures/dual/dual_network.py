"""Dual encoder: a network for images beside one for texts."""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from zoo.architectures.base import UNKNOWN, Asked, Identity, Network
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.parts.output import Similarities
from zoo.architectures.text.text_network import TextTransformer
from zoo.architectures.vit.vit_network import VisionTransformer


class DualEncoder(Network):
    """Images and texts become vectors of one space, and every image meets every text there.

        image_embeds = unit_vector(vision(image).pooler_output)
        text_embeds = unit_vector(words(text).pooler_output)
        logits_per_image = exp(logit_scale) image_embeds text_embedsᵀ + logit_bias      SigLIP 2
        logits_per_image = exp(logit_scale) image_embeds text_embedsᵀ           CLIP, dino.txt
        logits_per_image = image_embeds text_embedsᵀ / temperature                      TIPS

    With a bias `jax.nn.sigmoid(logits_per_image)` is how likely each text is about each image,
    whatever the others say. Without one the texts compete: `jax.nn.softmax(logits_per_image)`.

    Sources: Zhai et al., 2023, arXiv:2303.15343; Radford et al., 2021, arXiv:2103.00020.
    """

    vision: VisionTransformer
    words: TextTransformer
    logit_scale: Float[Array, " 1"] | None
    logit_bias: Float[Array, " 1"] | None
    temperature: Float[Array, ""] | None

    def __init__(self, config: DualConfig, *, about: Identity = UNKNOWN, key: PRNGKeyArray):
        """**Arguments:** the sizes, and what the network knows of itself."""
        key1, key2 = jr.split(key)
        self.vision = VisionTransformer(config.vision, key=key1)
        self.words = TextTransformer(config.words, key=key2)
        # What training began with, of the papers.
        scale = jnp.log(jnp.array([10.0 if config.bias else 1 / 0.07]))
        self.logit_scale = None if config.temperature else scale
        self.logit_bias = jnp.array([-10.0]) if config.bias else None
        self.temperature = jnp.array(0.07) if config.temperature else None
        self.about = about

    @property
    def stride(self) -> int:
        """Pixels along a side of a patch."""
        return self.vision.stride

    def __call__(
        self,
        pixel_values: Float[Array, "images 3 H W"],
        input_ids: Int[Array, "texts tokens"],
        attention_mask: Int[Array, "texts tokens"] | None = None,
    ) -> Similarities:
        """Every image beside every text.

        **Arguments:** preprocessed RGB, numbers of words, and which of these are no padding.
        """
        texts = (input_ids,) if attention_mask is None else (input_ids, attention_mask)
        image = jax.vmap(lambda each: unit_vector(self.vision(each).pooler_output))(pixel_values)
        text = jax.vmap(lambda *each: unit_vector(self.words(*each).pooler_output))(*texts)
        logits = self.logits(text @ image.T)
        return Similarities(logits.T, logits, text, image)

    def batched(self, asked: Asked, *inputs: Shaped[Array, "..."]) -> Similarities:
        """Every image of a batch meets every text of one."""
        return self(*inputs)

    def logits(self, cosines: Float[Array, "texts images"]) -> Float[Array, "texts images"]:
        """Logits of which a sigmoid or a softmax makes probabilities."""
        if self.temperature is not None:
            cosines = cosines / self.temperature
        if self.logit_scale is not None:
            cosines = cosines * jnp.exp(self.logit_scale)
        return cosines if self.logit_bias is None else cosines + self.logit_bias


def unit_vector(vector: Float[Array, " dim"] | None) -> Float[Array, " dim"]:
    """A vector at length 1. **Raises** `ValueError` for a tower that gives none."""
    if vector is None:
        raise ValueError("a tower without pooler_output has no vector: give it a pool")
    return vector / jnp.linalg.norm(vector)
