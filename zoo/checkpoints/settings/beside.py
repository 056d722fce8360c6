"""What `config.json` and `preprocessor_config.json` beside a checkpoint say, whoever wrote them.

They may come from a stranger: every value that is used is checked here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import Field, ValidationError, model_validator

from weights import Checkpoint
from weights.errors import MappingError
from weights.namings.tower_names import TEXTS
from weights.opening import read_at_most
from weights.tensors import LazyTensor
from zoo.architectures.library_settings import Settings
from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.checkpoints.settings.file_names import CONFIG, PROCESSOR, WHOLE_PROCESSOR
from zoo.checkpoints.settings.picture_settings import RESAMPLE
from zoo.fields import Line, Model, Side, Three
from zoo.manifest.read import wrong

OF_LIBRARIES = re.compile(r"(model|pytorch_model)(\.\w+)*")
"""What transformers and timm call a checkpoint, beside which its settings lie."""
LARGEST_SETTINGS = 4 << 20  # bytes of settings; the names of 20,000 classes are 1 MB
FILTER_NAMES = {number: name for name, number in RESAMPLE.items()}

Read = TypeVar("Read", bound=Model)


class Sides(Model):
    """`size` and `crop_size`."""

    height: Side | None = None
    width: Side | None = None
    shortest_edge: Side | None = None
    longest_edge: Side | None = None

    @property
    def both(self) -> tuple[int, int] | None:
        """(height, width), where those are what it says."""
        return (self.height, self.width) if self.height and self.width else None


class WholeProcessor(Model):
    """`processor_config.json`: of pictures and texts."""

    image_processor: Processor | None = None


class Processor(Model):
    """`preprocessor_config.json`."""

    image_processor_type: Line = ""
    do_resize: Literal[True] = True
    size: Sides | Side = Sides()
    crop_size: Sides | Side | None = None
    do_center_crop: bool | None = None
    do_pad: bool | None = None
    crop_pct: Annotated[float, Field(gt=0.1, le=1)] | None = None
    resample: Literal[2, 3]
    do_rescale: bool = True
    rescale_factor: Annotated[float, Field(gt=0)] = 1 / 255
    do_normalize: bool = True
    image_mean: Three | float | None = None
    image_std: Three | float | None = None
    keep_aspect_ratio: bool = False
    ensure_multiple_of: Side = 1

    @model_validator(mode="after")
    def _check_statistics(self) -> Processor:
        if self.do_normalize and (self.image_mean is None or self.image_std is None):
            raise ValueError("image_mean or image_std is missing, and do_normalize asks for both")
        edge, crop = _sides(self.size).shortest_edge, _sides(self.crop_size).both
        if self.do_center_crop and edge is not None and crop is not None and max(crop) > edge:
            raise ValueError("crop_size is larger than the shortest_edge of size, which pads")
        return self

    @property
    def _is_of_convnext(self) -> bool:
        """Whether it is the one that reads `crop_pct`; nameless ones are of long ago."""
        return not self.image_processor_type or self.image_processor_type.startswith("ConvNext")

    @property
    def preprocessing(self) -> Preprocessing | None:
        """The same in the zoo's words; None where there are none for it."""
        size, crop = map(_sides, (self.size, self.crop_size))
        edge = size.shortest_edge
        target = crop.both if self.do_center_crop else size.both
        if self.crop_pct is not None and edge is not None and self._is_of_convnext:
            # Only below 384 pixels does it crop; from there on it stretches.
            target = (edge, edge)
            edge = int(edge / self.crop_pct) if edge < 384 else None
        padded = False
        if self.do_pad and edge is not None and edge == size.longest_edge:
            target, edge, padded = (edge, edge), None, True
        if target is None or (size.both and self.do_center_crop):
            return None
        return Preprocessing(
            mean=_three(self.image_mean if self.do_normalize else None, 0.0),
            std=_three(self.image_std if self.do_normalize else None, 1.0),
            size=target,
            resize=None if size.both else edge,
            rescale=self.rescale_factor if self.do_rescale else 1.0,
            rescale_first=self.image_processor_type.startswith("DINOv3"),
            resample=FILTER_NAMES[self.resample],
            multiple=self.ensure_multiple_of if self.keep_aspect_ratio else None,
            padded=padded,
        )


def _three(value: Three | float | None, usual: float) -> Three:
    """A number for each channel."""
    if isinstance(value, tuple):
        return value
    each = usual if value is None else value
    return each, each, each


def _sides(value: Sides | int | None) -> Sides:
    return Sides(height=value, width=value) if isinstance(value, int) else value or Sides()


def read_settings(checkpoint: Checkpoint) -> tuple[Settings | None, Preprocessing | None]:
    """Settings beside the tensors of transformers or timm, and how they take pictures. **Raises**
    `MappingError` where that is damaged, or is nothing that the zoo does."""
    folder = checkpoint.path if checkpoint.path.is_dir() else checkpoint.path.parent
    if folder != checkpoint.path and not OF_LIBRARIES.fullmatch(checkpoint.path.name):
        return None, None
    settings = _read(folder / CONFIG, Settings)
    processor = _read(folder / PROCESSOR, Processor)
    if processor is None and (whole := _read(folder / WHOLE_PROCESSOR, WholeProcessor)):
        processor = whole.image_processor
    if processor is not None and (how := processor.preprocessing) is None:
        raise MappingError(
            f"{folder / PROCESSOR} resizes and crops as the zoo does not: give one with "
            "`size` of height and width, or of the shortest edge with a `crop_size`."
        )
    if processor is not None:
        return settings, how
    pictures = settings.pretrained_cfg if settings else None
    return settings, pictures.preprocessing if pictures else None


def with_temperature(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint of TIPS with the temperature that its settings have in place of a tensor, as
    those that were published for transformers. **Raises** as `read_settings`."""
    if "temperature" in checkpoint.tensors or not any(
        key.startswith(TEXTS) for key in checkpoint.tensors
    ):
        return checkpoint
    settings, _ = read_settings(checkpoint)
    if settings is None or (value := settings.temperature_init_value) is None:
        return checkpoint
    tensor = LazyTensor((), "float32", lambda: np.array(value, np.float32))
    return replace(checkpoint, tensors={**checkpoint.tensors, "temperature": tensor})


def _read(path: Path, kind: type[Read]) -> Read | None:
    """The settings in a file, None without one."""
    try:
        content = read_at_most(path, LARGEST_SETTINGS + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MappingError(
            f"{path} cannot be read ({error.strerror}): make it readable, or take it away."
        ) from error
    try:
        if len(content) <= LARGEST_SETTINGS:
            return kind.model_validate_json(content)
        trouble = f"it has more than {LARGEST_SETTINGS >> 20} MB"
    except ValidationError as error:
        trouble = wrong(error)
    raise MappingError(f"{path} cannot be used: {trouble}. Mend it, or take it away.")
