"""Input and hyperparameters of SigLIP 2 NaFlex, whose pictures have any aspect ratio: plain data
without JAX (Tschannen et al., 2025, arXiv:2502.14786)."""

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
    """A picture as patches by rows, a mask of those that are no padding, and (rows, columns).

    A size (height, width) stands for the number of patches that it has, whatever the aspect ratio.

    Source: `image_processing_siglip2.py` of transformers.
    """

    @property
    def arrays(self) -> tuple[InputArray, ...]:
        """Patches, each by rows, columns and channels; the mask; rows and columns."""
        return (
            InputArray("pixel_values", "float32", ("tokens", 3 * self.stride**2)),
            InputArray("pixel_attention_mask", "int32", ("tokens",)),
            InputArray("spatial_shapes", "int64", (2,)),
        )

    @property
    def open_sides(self) -> Mapping[str, str]:
        """The number of patches, with padding."""
        return {"tokens": "tokens"}

    def sides(self, size: Size) -> Mapping[str, int]:
        """Return the number of patches."""
        return {"tokens": max(1, size[0] * size[1] // self.stride**2)}

    def describe_sizes(self, size: Size | None) -> str:
        """Return words about the number of patches."""
        stride = self.stride
        if size is None:
            return f"any number of patches of {stride} x {stride} pixels, of any aspect ratio"
        return (
            f"at most {self.sides(size)['tokens']} patches of {stride} x {stride} pixels, of any "
            "aspect ratio"
        )

    def resized(self, sides: Size, preprocessing: Preprocessing, size: Size) -> Size:
        """Return the largest (height, width) of whole patches, at most as many as fit, found by
        bisection of the factor as in `get_image_size_for_max_num_patches` of transformers."""
        maximum, minimum, greatest = self.sides(size)["tokens"], LEAST_STEP / 10, 100.0
        while greatest - minimum >= LEAST_STEP:
            factor = (minimum + greatest) / 2
            if math.prod(self._grid(sides, factor)) <= maximum:
                minimum = factor
            else:
                greatest = factor
        rows, columns = self._grid(sides, minimum)
        return rows * self.stride, columns * self.stride

    def _grid(self, sides: Size, factor: float) -> Size:
        """Return the rows and columns of patches of a picture that is resized by a factor."""
        rows, columns = (max(1, math.ceil(side * factor / self.stride)) for side in sides)
        return rows, columns

    def make(
        self, pictures: Sequence[ReadPicture], preprocessing: Preprocessing, size: Size
    ) -> Feeds:
        """Return the arrays for some pictures, padded to the number of patches of a size."""
        maximum = self.sides(size)["tokens"]
        arrays = [self._one(each, preprocessing, size, maximum) for each in pictures]
        return {name: np.stack([each[name] for each in arrays]) for name in self.names}

    def _one(
        self, picture: ReadPicture, preprocessing: Preprocessing, size: Size, maximum: int
    ) -> Feeds:
        target, patch = self.resized(picture.sides, preprocessing, size), self.stride
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


LEAST_STEP = 1e-5
"""The difference of factors at which the bisection of sizes ends."""


def _grid_side(usual: NaFlexConfig, shapes: Shapes) -> int:
    """Return the side of a square grid with the rows of learned positions; 0 where it is none."""
    rows = length(shapes, POSITIONS)
    return math.isqrt(rows) if math.isqrt(rows) ** 2 == rows else 0


def _patch_side(usual: NaFlexConfig, shapes: Shapes) -> int:
    """Return the side of a patch from its kernel `[dim, 3 * patch * patch]`.

    It is 0 for a kernel of another form, as of pictures with other than three channels.
    """
    shape = shapes(PATCHES) or (0, 0)
    side = math.isqrt(shape[-1] // 3)
    return side if len(shape) == 2 and shape[-1] == 3 * side**2 else 0


def _has_pool(usual: NaFlexConfig, shapes: Shapes) -> bool:
    """Return whether there is a learned query that makes `pooler_output`."""
    return shapes("attn_pool.latent") is not None


def _read_hidden(usual: NaFlexConfig, shapes: Shapes) -> int:
    """Return the channels between both layers of the feed-forward network; 0 without one."""
    return read_channels_between(shapes, "fc1", "fc2", 1)


@config_class
class NaFlexConfig(NoFeaturesConfig):
    """Hyperparameters of a vision transformer for patches of any aspect ratio.

    Positions are learned on a square of `grid` patches along a side. With `pooled`, attention with
    a learned query makes `pooler_output` of the tokens.
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

    settings_in: ClassVar[tuple[str, ...]] = ("vision_config",)
    classes: ClassVar[int] = 0
    scores: ClassVar[Scores] = "softmax"

    @property
    def stride(self) -> int:
        """Pixels along a side of a patch."""
        return self.patch

    @property
    def width(self) -> int:
        """Channels of `pooler_output`."""
        return self.dim

    @property
    def native(self) -> tuple[int, int]:
        """(height, width) of a square picture that has the positions as they were learned."""
        return self.grid * self.patch, self.grid * self.patch

    @property
    def is_consistent(self) -> bool:
        """Whether the heads share the channels."""
        return self.dim % self.heads == 0

    @property
    def pictures(self) -> PictureInput:
        """Patches, their mask, and the grid."""
        return PatchesInput(self.stride)

    @property
    def task(self) -> Task:
        """Features. A drawing would need the grid, which is no output."""
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
    def text(self) -> str:
        """The architecture in a line."""
        return (
            f"{self.depth} blocks of width {self.dim}, {self.heads} heads, mlp {self.hidden}, "
            f"patches of {self.patch} of any aspect ratio"
        )


@config_class
class NaFlexDualConfig(DualConfig):
    """Hyperparameters of such a network beside one for texts, in one space of vectors."""

    vision: NaFlexConfig  # type: ignore[assignment]

    @property
    def is_consistent(self) -> bool:
        """Whether pictures have vectors, of as many channels as those of texts."""
        return super().is_consistent and self.vision.pooled
