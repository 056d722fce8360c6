"""`zoo.preprocess`: pictures as a model takes them, by the model's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.common.errors import BadRequest
from zoo.images.pictures import Pictures, pictures
from zoo.images.pixel_values import pixel_values
from zoo.registry.lookup import info

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from zoo.architectures.base import Network


def preprocess(
    name_or_model: str | Network, images: Pictures, *, size: tuple[int, int] | None = None
) -> Float[Array, "batch 3 height width"]:
    """`pixel_values` for a model: pictures resized, cropped, rescaled and normalised.

    Equals transformers' image processor of the model: to rounding where that resizes
    floating-point values (DINOv3), exactly where it resizes 8-bit ones as Pillow does.

    **Arguments:**

    - `name_or_model`: a model's name or alias, or a model of `zoo.from_pretrained`.
    - `images`: a PIL image, the path of a picture, an array `[height, width, 3]` of RGB values in
      uint8, or a sequence of these, or an array `[batch, height, width, 3]`.
    - `size`: (height, width) of the result, in pixels; the model's own by default.

    **Returns:** float32 `[batch, 3, height, width]`, also for a single picture.

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
    return jnp.asarray(pixel_values(pictures(images), how, size or how.size))
