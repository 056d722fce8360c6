"""Input and configurations of SigLIP 2 NaFlex, whose pictures may have any aspect ratio (Tschannen
et al., 2025, arXiv:2502.14786). This module is plain data without JAX."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zoo.architectures.common_config import NoFeaturesConfig
from zoo.architectures.config_fields import (
    MAX_DEPTH,
    Shapes,
    config_class,
    detail,
    length,
    read_channels_between,
    setting,
    size,
    write_only,
)
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.inputs import Feeds, InputArray, PictureInput, Size
from zoo.architectures.parts.layer_options import ACTIVATION_KEY, POSITIONS, Activation
from zoo.architectures.vit.vit_sizes import PATCHES, describe_missing_heads
from zoo.images.pictures import ReadPicture
from zoo.images.pixel_values import decoded_pixel_values
from zoo.images.preprocessing import Preprocessing
from zoo.tasks.answer import Scores
from zoo.tasks.feature_task import FEATURES, TURNS_INTO_VECTORS
from zoo.tasks.task import OutputDescription, Task


@dataclass(frozen=True)
class PatchesInput(PictureInput):
    """A picture of any aspect ratio as patches by rows, a mask of the patches that are not padding,
    and the grid (rows, columns).

    All pictures of a batch are padded to the same number of patches. Where a size (height, width)
    is given, only the number of patches that fit into it matters, and not its aspect ratio.

    Source: `image_processing_siglip2.py` of transformers.
    """

    @property
    def arrays(self) -> tuple[InputArray, ...]:
        """The patches, each as a vector of its pixels by rows, columns and channels; the mask,
        which is 1 for patches and 0 for padding; the number of rows and columns."""
        return (
            InputArray("pixel_values", "float32", ("tokens", 3 * self.stride**2)),
            InputArray("pixel_attention_mask", "int32", ("tokens",)),
            InputArray("spatial_shapes", "int64", (2,)),
        )

    @property
    def open_sides(self) -> Mapping[str, str]:
        """The number of patches, including padding."""
        return {"tokens": "tokens"}

    def fixed_sides(self, size: Size) -> Mapping[str, int]:
        """Return the number of patches, with padding, in a file for pictures of this size (height,
        width)."""
        return {"tokens": max(1, size[0] * size[1] // self.stride**2)}

    def describe_sizes(self, size: Size | None) -> str:
        """Return a text about the numbers of patches that a file takes. `size` is the fixed
        (height, width) of the file; None if any number is taken."""
        stride = self.stride
        if size is None:
            return f"any number of patches of {stride} x {stride} pixels, of any aspect ratio"
        return (
            f"at most {self.fixed_sides(size)['tokens']} patches of {stride} x {stride} pixels, "
            "of any aspect ratio"
        )

    def resized(self, sides: Size, preprocessing: Preprocessing, size: Size) -> Size:
        """Return the (height, width) to which a picture is resized.

        It consists of complete patches, and has nearly the aspect ratio of the picture and the
        largest number of patches that fits. The factor is found by bisection, as in
        `get_image_size_for_max_num_patches` of transformers.

        **Arguments:**

        - `sides`: the (height, width) of the picture.
        - `preprocessing`: not used.
        - `size`: the (height, width) whose number of patches is the largest allowed.
        """
        max_patches, smallest_factor, largest_factor = (
            self.fixed_sides(size)["tokens"],
            MIN_STEP / 10,
            100.0,
        )
        while largest_factor - smallest_factor >= MIN_STEP:
            factor = (smallest_factor + largest_factor) / 2
            if math.prod(self._grid(sides, factor)) <= max_patches:
                smallest_factor = factor
            else:
                largest_factor = factor
        rows, columns = self._grid(sides, smallest_factor)
        return rows * self.stride, columns * self.stride

    def _grid(self, sides: Size, factor: float) -> Size:
        """Return the (rows, columns) of patches of a picture with these sides (height, width) after
        it is resized by a factor. Both are rounded up, and at least 1."""
        rows, columns = (max(1, math.ceil(side * factor / self.stride)) for side in sides)
        return rows, columns

    def make(
        self, pictures: Sequence[ReadPicture], preprocessing: Preprocessing, size: Size
    ) -> Feeds:
        """Return the network's arrays for some pictures. They are padded to the number of patches
        that fit into `size` (height, width)."""
        maximum = self.fixed_sides(size)["tokens"]
        arrays = [self._make_one(picture, preprocessing, size, maximum) for picture in pictures]
        return {name: np.stack([feeds[name] for feeds in arrays]) for name in self.names}

    def _make_one(
        self, picture: ReadPicture, preprocessing: Preprocessing, size: Size, maximum: int
    ) -> Feeds:
        """Return the network's arrays for one picture, without a batch axis. It is preprocessed,
        resized so that its patches fit into `size` (height, width), and padded with zeros to
        `maximum` patches."""
        target, patch = self.resized(picture.original_size, preprocessing, size), self.stride
        values = decoded_pixel_values(
            picture, replace(preprocessing, padded=False, multiple=None), target
        )
        rows, columns = (side // patch for side in target)
        patches = values.reshape(3, rows, patch, columns, patch).transpose(1, 3, 2, 4, 0)
        padding = (0, maximum - rows * columns)
        arrays: tuple[NDArray[Any], ...] = (
            np.pad(patches.reshape(rows * columns, -1), (padding, (0, 0))),
            np.pad(np.ones(rows * columns, np.int32), padding),
            np.array((rows, columns), np.int64),
        )
        return dict(zip(self.names, arrays, strict=True))


MIN_STEP = 1e-5
"""Difference of factors at which the bisection of sizes ends."""


def _grid_side(config: NaFlexConfig, shapes: Shapes) -> int:
    """Return the side of the square grid of learned positions in a checkpoint; 0 if their number is
    not a square."""
    rows = length(shapes, POSITIONS)
    return math.isqrt(rows) if math.isqrt(rows) ** 2 == rows else 0


def _patch_side(config: NaFlexConfig, shapes: Shapes) -> int:
    """Return the side of a patch from the shape of its kernel, `[dim, 3 * patch * patch]`.

    Return 0 for a kernel of another shape, for example of pictures that do not have three channels.
    """
    shape = shapes(PATCHES) or (0, 0)
    side = math.isqrt(shape[-1] // 3)
    return side if len(shape) == 2 and shape[-1] == 3 * side**2 else 0


def _has_pool(config: NaFlexConfig, shapes: Shapes) -> bool:
    """Return True if a checkpoint has the learned query that computes `pooler_output`."""
    return shapes("attn_pool.latent") is not None


def _read_hidden(config: NaFlexConfig, shapes: Shapes) -> int:
    """Return the number of channels between the layers of the feed-forward network; 0 if the
    checkpoint has no such network."""
    return read_channels_between(shapes, "fc1", "fc2", 1)


@config_class
class NaFlexConfig(NoFeaturesConfig):
    """Configuration of a vision transformer for pictures of any aspect ratio, whose patches it
    takes. The defaults are those of SigLIP 2 NaFlex.

    - `dim`, `depth`, `heads`, `hidden`: channels of a token, blocks, heads, and channels inside the
      feed-forward network.
    - `patch`: the number of pixels along a side of a patch.
    - `grid`: the number of patches along a side of the square grid on which positions were learned.
    - `pooled`: whether attention with a learned query computes `pooler_output` from the tokens.
    """

    dim: int = size(PATCHES, hf="hidden_size")
    depth: int = size("blocks.{}.prenorm.weight", hf="num_hidden_layers", maximum=MAX_DEPTH)
    heads: int = setting(
        hf="num_attention_heads", describe_missing=describe_missing_heads, neutral=1
    )
    hidden: int = size(_read_hidden, hf="intermediate_size")
    patch: int = size(_patch_side, default=16, hf="patch_size")
    grid: int = size(_grid_side, default=16, hf=write_only("num_patches", lambda grid: grid**2))
    pooled: bool = detail(default=True, leaf=_has_pool, hf=write_only("vision_use_head"))
    activation: Activation = detail(default="gelu_tanh", hf=ACTIVATION_KEY)
    norm_eps: float = detail(default=1e-6, hf="layer_norm_eps")

    settings_sections: ClassVar[tuple[str, ...]] = ("vision_config",)
    classes: ClassVar[int] = 0
    scores: ClassVar[Scores] = "softmax"

    @property
    def stride(self) -> int:
        """Number of pixels along a side of a patch."""
        return self.patch

    @property
    def width(self) -> int:
        """Number of channels of `pooler_output`."""
        return self.dim

    @property
    def native_size(self) -> tuple[int, int]:
        """(height, width) of the square picture for which positions are used as they were
        learned."""
        return self.grid * self.patch, self.grid * self.patch

    @property
    def is_consistent(self) -> bool:
        """Whether the number of channels is a multiple of the number of heads."""
        return self.dim % self.heads == 0

    @property
    def pictures(self) -> PictureInput:
        """The input for pictures: patches, their mask, and the grid."""
        return PatchesInput(self.stride)

    @property
    def task(self) -> Task:
        """The task: features of pictures. No drawing is made, because that would need the grid,
        which is not an output."""
        outputs = {
            "last_hidden_state": OutputDescription(
                f"[batch_size, tokens, {self.dim}]",
                f"a vector for each patch of {self.stride} x {self.stride} pixels, after the final "
                "norm, by rows; those of padding have no meaning",
            ),
            "pooler_output": OutputDescription(
                f"[batch_size, {self.width}]", "a vector for the whole picture: {pooler}"
            ),
        }
        return Task(name=FEATURES, purpose=TURNS_INTO_VECTORS, outputs=outputs)

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        return (
            f"{self.depth} blocks of width {self.dim}, {self.heads} heads, mlp {self.hidden}, "
            f"patches of {self.patch} of any aspect ratio"
        )


@config_class
class NaFlexDualConfig(DualConfig):
    """Configuration of a dual encoder whose network for pictures takes any aspect ratio. The fields
    are those of `DualConfig`."""

    vision: NaFlexConfig  # type: ignore[assignment]

    @property
    def is_consistent(self) -> bool:
        """Whether the network for pictures has a pooled vector, and it has as many channels as the
        vector of a text."""
        return super().is_consistent and self.vision.pooled
