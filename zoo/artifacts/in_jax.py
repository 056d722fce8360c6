"""A model in JAX, as a network that can be asked about pictures."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from PIL.Image import Image

from zoo.architectures.base import Network
from zoo.architectures.builder import batched
from zoo.architectures.inputs import Feeds
from zoo.artifacts.ask import AskedNetwork
from zoo.common.errors import BadRequest
from zoo.images.pictures import reduced_picture
from zoo.tasks.answer import Outputs
from zoo.texts.tokenizer import Tokenizer


def network_in_jax(model: Network, tokenizer: Tokenizer | None = None) -> AskedNetwork:
    """Return a model of `zoo.from_pretrained` as a network that can be asked about pictures.

    **Arguments:** `tokenizer` is that of a model that takes texts; it is needed for labels.

    **Raises** `BadRequest` for a model that does not know its preprocessing.
    """
    how, config = model.preprocessing, model.config
    if how is None or config is None:
        raise BadRequest("this model does not know its preprocessing: name a model of the zoo.")
    compiled = eqx.filter_jit(batched)

    def feed(images: Sequence[Image]) -> Feeds:
        if config.pictures is None:
            return {}
        size = how.fitted(images[0].height, images[0].width)
        return config.pictures.make([*map(reduced_picture, images)], how, size)

    def feed_texts(texts: Sequence[str]) -> Feeds:
        if config.texts is None or tokenizer is None:
            raise BadRequest(f"{model.name} has no tokenizer here: give it no labels.")
        return config.texts.make(tokenizer, texts)

    def run(feeds: Feeds, names: Sequence[str]) -> Outputs:
        arrays = (jnp.asarray(feeds[name]) for name in config.takes)
        outputs = compiled(model, *arrays)
        return {name: np.asarray(outputs[name]) for name in names or outputs}

    kinds = frozenset(each.kind for each in config.inputs)
    return AskedNetwork(model.name, config, model.labels, kinds, how, None, feed, feed_texts, run)
