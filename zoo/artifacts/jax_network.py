"""Answer questions about pictures with a model in JAX."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from PIL.Image import Image

from zoo.architectures.base import Network
from zoo.architectures.builder import batched
from zoo.architectures.inputs import Feeds
from zoo.artifacts.answering_network import AnsweringNetwork
from zoo.common.errors import BadRequest
from zoo.images.pictures import to_read_picture
from zoo.tasks.answer import Outputs
from zoo.texts.tokenizer import Tokenizer


def to_answering_network(model: Network, tokenizer: Tokenizer | None = None) -> AnsweringNetwork:
    """Return a network in JAX in the form that answers questions about pictures.

    **Arguments**

    - `model`: a model of `zoo.from_pretrained`.
    - `tokenizer`: the tokenizer of a model that takes texts. It is needed for questions with
      labels.

    **Raises** `BadRequest` for a model without its preprocessing or configuration.
    """
    preprocessing, config = model.preprocessing, model.config
    if preprocessing is None or config is None:
        raise BadRequest("this model does not know its preprocessing: name a model of the zoo.")
    compiled = eqx.filter_jit(batched)

    def feed_pictures(images: Sequence[Image]) -> Feeds:
        """Return the input arrays of RGB images, at the input size for the first image."""
        if config.pictures is None:
            return {}
        size = preprocessing.input_size_for(images[0].height, images[0].width)
        return config.pictures.make([*map(to_read_picture, images)], preprocessing, size)

    def feed_texts(texts: Sequence[str]) -> Feeds:
        """Return the input arrays of texts. **Raises** `BadRequest` without a tokenizer."""
        if config.texts is None or tokenizer is None:
            raise BadRequest(f"{model.name} has no tokenizer here: give it no labels.")
        return config.texts.make(tokenizer, texts)

    def run(feeds: Feeds, names: Sequence[str]) -> Outputs:
        """Return the outputs of these names, or all outputs if no names are given."""
        arrays = (jnp.asarray(feeds[name]) for name in config.input_names)
        outputs = compiled(model, *arrays)
        return {name: np.asarray(outputs[name]) for name in names or outputs}

    kinds = frozenset(network_input.kind for network_input in config.inputs)
    return AnsweringNetwork(
        model.name, config, model.labels, kinds, preprocessing, None, feed_pictures, feed_texts, run
    )
