"""Compute features of images, patch by patch, with a model in JAX or with an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zoo.architectures.inputs import PIXELS
from zoo.artifacts.described_file import DescribedFile
from zoo.artifacts.read import entry_of_manifest
from zoo.common import runtime
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.images.pixel_values import Float32, Size, pixel_values
from zoo.images.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

    from zoo.architectures.base import Network


@dataclass(frozen=True)
class Features:
    """Features of the patches of images of one size.

    - `pixels`: the preprocessed images as RGB, `[n, height, width, 3]`.
    - `patches`: the features, `[n, rows, columns, dim]`.
    - `attention`: the attention of the class token to each patch in the last block, as the mean
      over the heads, `[n, rows, columns]`; None if it is not available.
    - `note`: a warning for readers of a figure, or an empty string.

    **Raises** `BadFile` if the features are not finite.
    """

    pixels: NDArray[np.uint8]
    patches: Float32
    attention: Float32 | None
    note: str = ""

    def __post_init__(self) -> None:
        """Check that all features are finite. **Raises** `BadFile`."""
        if not np.isfinite(self.patches).all():
            raise BadFile(
                "the features of these pictures are not finite and cannot be drawn: use another "
                "file or other weights."
            )

    @property
    def grid(self) -> Size:
        """The numbers of rows and columns of patches."""
        rows, columns = self.patches.shape[1:3]
        return rows, columns


MIN_PATCHES = 28
"""The least number of patches along a side at which a figure shows enough detail."""


def legible_size(size: Size, stride: int) -> Size:
    """Return the (height, width) at which the patches of a model show enough detail.

    This is `size`, the size of the model, or twice that size if a side has fewer than
    `MIN_PATCHES` patches. Larger images would differ too much from those that the model was
    trained with. `stride` is the side of a patch in pixels.
    """
    height, width = size
    return size if min(size) >= MIN_PATCHES * stride else (2 * height, 2 * width)


def compute_model_features(
    model: Network, images: Sequence[Image], size: Size | None, note: str = ""
) -> Features:
    """Compute the features of images with a model in JAX.

    `size` is the (height, width) of the network's input. None means `legible_size` of the model's
    own size. `note` is a warning for readers of a figure.

    **Raises** `BadRequest` for a model without preprocessing, a model that returns answers in place
    of features, or a model that takes other inputs than `pixel_values`.
    """
    import jax.numpy as jnp

    from zoo.architectures.builder import batched

    if not model.gives_features:
        raise BadRequest(
            f"{model.name} gives answers and no features that can be drawn: use another model."
        )
    if model.preprocessing is None:
        raise BadRequest("this model has no preprocessing: use a model of the zoo.")
    if model.config is not None and not model.config.takes_only_pixels:
        raise BadRequest(
            f"{model.name} takes pictures in another form than `pixel_values`, for which no map of "
            "features can be drawn: use another model."
        )
    preprocessing = model.preprocessing
    values = pixel_values(
        images, preprocessing, size or legible_size(preprocessing.size, model.stride)
    )
    names = ("last_hidden_state", "class_attention")
    outputs = batched(model, jnp.asarray(values), outputs=names)
    tokens, heads = np.asarray(outputs["last_hidden_state"]), outputs.get("class_attention")
    attention = None if heads is None else np.asarray(heads.mean(axis=1))
    return _features(values, tokens, preprocessing, model.stride, attention, note)


def compute_file_features(file: Path, images: Sequence[Image], size: Size | None) -> Features:
    """Compute the features of images with an ONNX file in ONNX Runtime.

    `size` is the (height, width) of the network's input. None means the size in the manifest or, if
    that is open, `legible_size` of the model's own size. The result has no attention.

    **Raises** `BadFile` for a file that has no manifest or does not run, and `BadRequest` for a
    file that preprocesses images itself, takes other inputs than `pixel_values`, or does not output
    the features of patches at this size.
    """
    from zoo.artifacts.read import read_nearby_manifest
    from zoo.export.timing.rounds import open_idle_session

    manifest = read_nearby_manifest(file)
    if manifest is None:
        raise BadFile(
            f"{file} has no manifest, which defines the preprocessing: put its .manifest.json file "
            "into the same folder."
        )
    if manifest.input != "float32":
        raise BadRequest(f"{file} takes {manifest.input} images: name a file that takes float32.")
    if not entry_of_manifest(manifest).config.takes_only_pixels:
        raise BadRequest(
            f"{file} takes texts, or pictures in another form than `pixel_values`: name a file "
            "that takes only `pixel_values`."
        )
    preprocessing = manifest.preprocessing.settings
    stride = entry_of_manifest(manifest).config.stride
    try:
        opened_session = open_idle_session(file, threads=0)
    except runtime.ERRORS as error:
        raise BadFile(f"{file} does not load: {first_line(error)}") from error
    label = manifest.find_variant_name(file.name)
    variant = None if label is None else manifest.variants[label]
    described = DescribedFile(file, manifest, variant, opened_session)
    values = pixel_values(
        images, preprocessing, size or manifest.size or legible_size(preprocessing.size, stride)
    )
    name = "last_hidden_state"  # the features that are drawn
    tokens = described.run_network([name], {PIXELS.name: values})[name]
    note = "" if manifest.weights.seed is None else random_note(manifest.weights.seed)
    return _features(values, tokens.astype(np.float32), preprocessing, stride, None, note)


def random_note(seed: int) -> str:
    """Return the warning that features were computed with random weights of this seed."""
    return f"Random weights (seed {seed}): nothing shown here was learned."


def _features(
    values: Float32,
    tokens: Float32,
    preprocessing: Preprocessing,
    stride: int,
    attention: Float32 | None,
    note: str,
) -> Features:
    """Return features by patch, from the tokens of a network and its input.

    **Arguments**

    - `values`: the input `pixel_values`, from which the images are computed.
    - `tokens`: the output `[n, tokens, dim]`, whose last tokens are the patches.
    - `stride`: the side of a patch in pixels.
    - `attention`: the attention to each patch `[n, patches]`, or None.

    **Raises** `BadRequest` if there are fewer tokens than patches.
    """
    rows, columns = (side // stride for side in values.shape[2:])
    if not 0 < rows * columns <= tokens.shape[1]:
        height, width = values.shape[2:]
        raise BadRequest(
            f"pictures of {height} x {width} pixels have {rows} x {columns} patches of "
            f"{stride} x {stride}, but the output has {tokens.shape[1]} tokens: choose another "
            "size, or a file with its own manifest."
        )
    patches = tokens[:, tokens.shape[1] - rows * columns :]
    colours = values.transpose(0, 2, 3, 1) * np.array(preprocessing.std) + np.array(
        preprocessing.mean
    )
    pixels = np.clip(255 * colours, 0, 255).round().astype(np.uint8)
    if attention is not None:
        attention = attention.reshape(-1, rows, columns)
    return Features(pixels, patches.reshape(len(values), rows, columns, -1), attention, note)
