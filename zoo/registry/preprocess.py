"""`zoo.preprocess`: pictures as a model takes them, by the model's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.architectures.inputs import PictureInput
from zoo.common.errors import BadRequest
from zoo.images.pictures import Pictures, pictures, reduced_picture
from zoo.registry.lookup import info

if TYPE_CHECKING:
    from jaxtyping import Array

    from zoo.architectures.base import Network

USUAL = PictureInput(stride=1)
"""The input of models that take texts alone: the pictures that these are compared with."""


def preprocess(
    name_or_model: str | Network, images: Pictures, *, size: tuple[int, int] | None = None
) -> Array | tuple[Array, ...]:
    """`pixel_values` for a model: pictures resized, cropped, rescaled and normalised.

    Equals transformers' image processor of the model: to rounding where that resizes
    floating-point values (DINOv3), exactly where it resizes 8-bit ones as Pillow does.

    **Arguments:**

    - `name_or_model`: a model's name or alias, or a model of `zoo.from_pretrained`.
    - `images`: a PIL image, the path of a picture, an array `[height, width, 3]` of RGB values in
      uint8, or a sequence of these, or an array `[batch, height, width, 3]`.
    - `size`: (height, width) of the result, in pixels; the model's own by default.

    **Returns:** float32 `[batch, 3, height, width]`, also for a single picture. For a network that
    takes several arrays of a picture, a tuple of them in the network's order.

    **Raises** `UnknownModel`, or `BadRequest` for something that is no picture.

    >>> model = zoo.from_pretrained("dinov3_vits16")
    >>> features = jax.vmap(model)(zoo.preprocess(model, ["cat.png", "dog.png"]))
    """
    import jax.numpy as jnp

    model = info(name_or_model) if isinstance(name_or_model, str) else name_or_model
    if (how := model.preprocessing) is None:
        raise BadRequest(
            "this model was built by hand and does not know its preprocessing: give the name of "
            "the model whose pictures it takes."
        )
    taken = (model.config and model.config.pictures) or USUAL
    feeds = taken.make([*map(reduced_picture, pictures(images))], how, size or how.size)
    arrays = tuple(map(jnp.asarray, feeds.values()))
    return arrays[0] if len(arrays) == 1 else arrays
