"""`zoo.preprocess`: turn pictures into the input of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.architectures.inputs import PictureInput
from zoo.common.errors import BadRequest
from zoo.images.pictures import Pictures, pictures, to_read_picture
from zoo.registry.lookup import info

if TYPE_CHECKING:
    from jaxtyping import Array

    from zoo.architectures.base import Network

DEFAULT_INPUT = PictureInput(stride=1)
"""Description of the pictures for models that take texts alone. Their vectors are compared with
those of pictures."""


def preprocess(
    name_or_model: str | Network, images: Pictures, *, size: tuple[int, int] | None = None
) -> Array | tuple[Array, ...]:
    """Return `pixel_values` for a model: pictures resized, cropped, rescaled and normalized.

    The values equal those of transformers' image processor of the model. They are equal to rounding
    if the processor resizes floating-point values (DINOv3), and exactly equal if it resizes 8-bit
    values as Pillow does.

    **Arguments:**

    - `name_or_model`: a model's name or alias, or a model of `zoo.from_pretrained`.
    - `images`: a PIL image, the path of a picture, an array `[height, width, 3]` of RGB values in
      uint8, a list or tuple of these, or an array `[batch, height, width, 3]`.
    - `size`: (height, width) of the result in pixels; by default the model's own size.

    **Returns:** float32 `[batch, 3, height, width]`, also for a single picture. For a network that
    takes several arrays of a picture, a tuple of them in the network's order.

    **Raises** `UnknownModel`, or `BadRequest` for a file that is no picture, an invalid size, or a
    model that was built by hand and has no preprocessing.

    >>> model = zoo.from_pretrained("dinov3_vits16")
    >>> features = jax.vmap(model)(zoo.preprocess(model, ["cat.png", "dog.png"]))
    """
    import jax.numpy as jnp

    model = info(name_or_model) if isinstance(name_or_model, str) else name_or_model
    if (preprocessing := model.preprocessing) is None:
        raise BadRequest(
            "this model was built by hand and has no preprocessing: give the name of a model with "
            "the same preprocessing."
        )
    picture_input = (model.config and model.config.pictures) or DEFAULT_INPUT
    feeds = picture_input.make(
        [*map(to_read_picture, pictures(images))], preprocessing, size or preprocessing.size
    )
    arrays = tuple(map(jnp.asarray, feeds.values()))
    return arrays[0] if len(arrays) == 1 else arrays
