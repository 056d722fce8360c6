"""A model in JAX, asked about pictures one at a time."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from PIL.Image import Image

from weights.parameters import parameter
from zoo.architectures.base import Network
from zoo.architectures.builder import batched
from zoo.architectures.kinds import architecture_of
from zoo.common.errors import BadRequest
from zoo.images.pixel_values import pixel_values
from zoo.tasks.answer import (
    AskedPicture,
    InputSize,
    PictureAnswer,
    Question,
    in_sentences,
    likeliest_first,
)
from zoo.texts.tokenizer import Tokenizer


def answers_of(
    model: Network, images: Sequence[Image], threshold: float | None = None
) -> list[PictureAnswer]:
    """Answers of a model of `zoo.from_pretrained` about RGB images; of things in boxes, those that
    it is surer of than `threshold`. **Raises** `BadRequest` for a model that does not know its
    preprocessing."""
    if (how := model.preprocessing) is None:
        raise BadRequest("this model does not know its preprocessing: name a model of the zoo.")
    config = model.config
    if config is None or config.words is not None:
        raise BadRequest(
            "this model takes texts: with both towers, name what may be in pictures with "
            f"{parameter('labels')}; with one, build it, and ask the `text` of what `zoo.load` "
            "gives."
        )
    run, answers = eqx.filter_jit(batched), []
    for image in images:
        fed = InputSize(how.fitted(image.height, image.width), how.padded)
        pixels = pixel_values([image], how, fed.size)
        made = run(model, jnp.asarray(pixels))
        named = {name: np.asarray(value[0]) for name, value in made.items()}
        asked = AskedPicture(model.labels, (image.height, image.width), fed, image)
        answers.append(config.task.answer(named, asked, Question(threshold=threshold)))
    return answers


def answers_in_words(
    model: Network, tokenizer: Tokenizer, images: Sequence[Image], labels: Sequence[str]
) -> list[PictureAnswer]:
    """How likely each label is about each RGB image. **Raises** `BadRequest` for a model that does
    not compare images with texts."""
    how, config = model.preprocessing, model.config
    if config is None or how is None or not architecture_of(config).towers:
        raise BadRequest(
            f"{parameter('labels')} is for a model with towers for pictures and for texts, and "
            "this is none: `zoo list '*_dual'` names them."
        )
    encoded = tokenizer.encoded(in_sentences(labels))
    texts = [jnp.asarray(encoded[name], jnp.int32) for name in config.takes if name in encoded]
    pixels = jnp.asarray(pixel_values(images, how, how.size))
    logits = np.asarray(eqx.filter_jit(batched)(model, pixels, *texts)["logits_per_image"])
    return [
        PictureAnswer("classes", tuple(likeliest_first(row, labels, config.scores)))
        for row in logits
    ]
