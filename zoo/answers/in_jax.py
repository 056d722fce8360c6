"""A model in JAX, asked about pictures one at a time."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from PIL.Image import Image

from zoo.answers.answer import Answered, Fed, answer
from zoo.errors import BadRequest
from zoo.images.pixel_values import pixel_values
from zoo.models.builder import Model, batched
from zoo.models.dual import DualEncoder
from zoo.models.text import TextTransformer


def answers_of(model: Model, images: Sequence[Image]) -> list[Answered]:
    """What a model of `zoo.from_pretrained` says of RGB images. **Raises** `BadRequest` for one
    that does not know its preprocessing."""
    if (how := model.preprocessing) is None:
        raise BadRequest("this model does not know its preprocessing: name a model of the zoo.")
    if isinstance(model, TextTransformer | DualEncoder):
        raise BadRequest("this model takes texts: build it, and ask what `zoo.load` gives.")
    run, found = eqx.filter_jit(batched), []
    for image in images:
        fed = Fed(how.fitted(image.height, image.width), how.padded)
        pixels = pixel_values([image], how, fed.size)
        made = run(model, jnp.asarray(pixels))
        named = {name: np.asarray(value[0]) for name, value in made.items()}
        found.append(answer(named, model.labels, (image.height, image.width), fed))
    return found
