"""Settings of networks in `config.json`, as other libraries write them, and names of classes.

A file may come from an untrusted source, so every value that is used is checked here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from zoo.common.fields import Line, Model, Side, ThreeFactors, without_controls
from zoo.images.preprocessing import IMAGENET_PIXELS, Filter, Preprocessing

NUMBER = re.compile(r"\s*[+-]?\d{1,6}\s*", re.ASCII)
MAX_NAME_LENGTH = 200


def numbered_names(setting: str, value: object, *, names_first: bool = False) -> dict[int, str]:
    """Return the names of classes by number; empty for None.

    **Arguments:**

    - `setting`: the name of the setting, for messages.
    - `value`: a list of names in the order of the numbers 0, 1, …, a dictionary from numbers to
      names or from names to numbers, or None.
    - `names_first`: whether a dictionary that could be read both ways, such as `{"1": 0, "0": 1}`,
      has names as keys.

    **Raises** `ValueError` for any other value, if a class has two different names, and if a name
    is neither text nor a number or has more than 200 characters.
    """
    names: dict[int, str] = {}
    for number, name in _numbers_and_names(setting, value, names_first):
        text = _check_name(setting, number, name)
        if names.setdefault(number, text) != text:
            raise ValueError(
                f"`{setting}` has two names for class {number}, {ascii(names[number])[:60]} and "
                f"{ascii(text)[:60]}"
            )
    return names


def _numbers_and_names(
    setting: str, value: object, names_first: bool
) -> Iterable[tuple[int, object]]:
    """Return pairs of a class number and a name, in the order in which the setting has them; no
    pairs for None. Names are not checked.

    The arguments are those of `numbered_names`. **Raises** `ValueError` if the value has none of
    the forms that are described there.
    """
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return enumerate(value)
    if not isinstance(value, Mapping):
        raise ValueError(
            f"`{setting}` is {ascii(value)[:60]}: write the name of each class by its number"
        )
    keys, values = [*value.keys()], [*value.values()]
    forms = [(keys, values), (values, keys)]
    for numbers, names in reversed(forms) if names_first else forms:
        if all(map(_is_number, numbers)):
            return [(int(number), name) for number, name in zip(numbers, names, strict=True)]
    wrong = next(key for key in keys if not _is_number(key))
    raise ValueError(
        f"`{setting}` has {ascii(wrong)[:60]} where the number of a class should be: write numbers "
        "as keys, and names as values"
    )


def _is_number(value: object) -> bool:
    """Return True if a value is an integer of at most 6 digits, or a text with such an integer."""
    is_text = isinstance(value, str) and NUMBER.fullmatch(value) is not None
    return is_text or (type(value) is int and abs(value) < 1_000_000)


def _check_name(setting: str, number: int, name: object) -> str:
    """Return the name of class `number` as text without control characters. A number as name
    becomes text, because data sets of digits have such names.

    **Raises** `ValueError`, which names the setting, for values of other types and for names above
    200 characters.
    """
    if isinstance(name, bool) or not isinstance(name, str | int | float):
        raise ValueError(
            f"`{setting}` has {ascii(name)[:60]} as the name of class {number}: write a text"
        )
    text = without_controls(str(name))
    if len(text) > MAX_NAME_LENGTH:
        raise ValueError(
            f"`{setting}` has a name of {len(text)} characters for class {number}: write at most "
            f"{MAX_NAME_LENGTH}"
        )
    return text


Id2Label = Annotated[dict[int, str], BeforeValidator(partial(numbered_names, "id2label"))]
"""Names of classes in transformers' format."""

LabelNames = Annotated[dict[int, str], BeforeValidator(partial(numbered_names, "label_names"))]
"""Names of classes in timm's format: a list, or a dictionary if some numbers have no name."""


MAX_HEADS = 1024

CLASSIFIERS = ("ForImageClassification", "ForImageClassificationWithTeacher")
"""Endings of the names of transformers' classes for classification."""


class TimmPreprocessing(Model, extra="allow"):
    """`pretrained_cfg` of timm (1.0.31): the preprocessing of pictures, with timm's defaults.

    Other entries of `pretrained_cfg` describe the origin of the weights and the names of layers.
    They are kept but not checked.
    """

    tag: Line = ""
    input_size: tuple[Literal[3], Side, Side] = (3, 224, 224)
    interpolation: Filter = "bicubic"
    crop_pct: Annotated[float, Field(gt=0.1, le=1)] = 0.875
    crop_mode: Literal["center", "squash"] = "center"
    mean: ThreeFactors = IMAGENET_PIXELS[0]
    std: ThreeFactors = IMAGENET_PIXELS[1]

    @model_validator(mode="after")
    def _check_sides(self) -> TimmPreprocessing:
        """Raise `ValueError` if pictures that are not square are cropped at the centre, or if `std`
        contains a zero."""
        if self.crop_mode == "center" and self.input_size[1] != self.input_size[2]:
            raise ValueError(
                "crop_mode is center and input_size is not square, for which the zoo does not "
                "support timm's resizing: set crop_mode to squash, or give a square input_size"
            )
        if 0 in self.std:
            raise ValueError("std contains a zero")
        return self

    @property
    def preprocessing(self) -> Preprocessing:
        """Preprocessing in the zoo's terms.

        Pictures are resized to the sides of `input_size` divided by `crop_pct`, rounded down, and
        then cropped. With `crop_mode="center"` the shorter edge gets this length. With "squash"
        both sides get their own.

        Source: `transforms_imagenet_eval`, which crops by torchvision's `center_crop`.
        """
        size = self.input_size[1:]
        height, width = (math.floor(side / self.crop_pct) for side in size)
        stretched = None if (height, width) == size else (height, width)
        return Preprocessing(
            self.mean,
            self.std,
            size,
            resize=stretched if self.crop_mode == "squash" else height,
            resample=self.interpolation,
            crop_rounding="half_even",
        )


class Settings(Model, extra="allow"):
    """Contents of `config.json`. transformers names classes in `id2label`, timm in
    `label_names`."""

    model_type: Line = ""
    problem_type: (
        Literal["single_label_classification", "multi_label_classification", "regression"] | None
    ) = None
    architectures: tuple[Line, ...] | None = None
    num_attention_heads: Annotated[int, Field(ge=1, le=MAX_HEADS)] | None = None
    hidden_act: Line | None = None
    layer_norm_eps: Annotated[float, Field(gt=0, lt=1)] | None = None
    id2label: Id2Label = Field({})
    eos_token_id: int | tuple[int, ...] | None = None
    vision_config: Settings | None = None
    text_config: Settings | None = None
    backbone_config: Settings | None = None
    out_indices: tuple[Annotated[int, Field(ge=1, le=512)], ...] = ()
    depth_estimation_type: Literal["relative", "metric"] = "relative"
    max_depth: Annotated[float, Field(gt=0, le=1e6)] | None = None
    temperature_init_value: Annotated[float, Field(gt=0, le=1e6)] | None = None
    architecture: Line = ""
    label_names: LabelNames = Field({})
    global_pool: Line = ""
    pretrained_cfg: TimmPreprocessing | None = None
    model_args: dict[Line, Any] = Field({})

    def get(self, name: str) -> Any:
        """Return the value of a setting; None if the file does not state it, even if the field has
        a default.

        Dots separate the names of nested settings, such as `vision_config.hidden_size`.
        """
        first, _, remainder = name.partition(".")
        is_field = first in type(self).model_fields
        is_set = first in self.model_fields_set
        extra = self.model_extra or {}
        value = (getattr(self, first) if is_set else None) if is_field else extra.get(first)
        if not remainder:
            return value
        return value.get(remainder) if isinstance(value, Settings) else None

    @property
    def class_name(self) -> str:
        """Name of the network's class in transformers (the first of `architectures`), or else its
        model type, or else timm's architecture; empty if the file states none of them."""
        return next(iter(self.architectures or ()), self.model_type or self.architecture)

    @property
    def is_classifier(self) -> bool:
        """Whether a class of transformers in `architectures` is one for image classification."""
        return any(name.endswith(CLASSIFIERS) for name in self.architectures or ())

    @property
    def pool(self) -> str:
        """timm's name of the pooling before the classifier; empty if no setting states it."""
        argument = self.model_args.get("global_pool")
        return self.global_pool or (argument if isinstance(argument, str) else "")

    @property
    def trained_on(self) -> tuple[int, int] | tuple[()]:
        """(height, width) of the pictures of training: the list in `image_size`, or else in timm's
        argument `img_size`. If that is no list, it is `input_size` of `pretrained_cfg`. Empty if
        the value that is used does not consist of two positive integers."""
        pictures = self.pretrained_cfg.input_size[1:] if self.pretrained_cfg else ()
        image_size = (self.model_extra or {}).get("image_size", self.model_args.get("img_size"))
        sides = image_size if isinstance(image_size, list | tuple) else pictures
        if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
            return ()
        return sides[0], sides[1]

    @property
    def picture_size(self) -> tuple[int, int] | None:
        """(height, width) of the pictures that a network takes, from transformers' `image_size` in
        `vision_config`, or at the top level if there is no such section. One number is the side of
        a square picture. None if it is not stated or not valid.

        The size in `backbone_config` is not used, because it may differ from that of the full
        network.
        """
        extra = (self.vision_config or self).model_extra or {}
        image_size = extra.get("image_size")
        sides = image_size if isinstance(image_size, list | tuple) else (image_size, image_size)
        if len(sides) != 2 or not all(type(side) is int and 0 < side < 1 << 14 for side in sides):
            return None
        return sides[0], sides[1]

    @property
    def repository(self) -> str:
        """Name of the repository, or path of the folder, that the network was loaded from, as
        transformers records it in `_name_or_path`; empty if the file does not state it."""
        name = (self.model_extra or {}).get("_name_or_path")
        return name if isinstance(name, str) else ""

    @property
    def timm_name(self) -> str:
        """`timm/ARCHITECTURE.TAG`: the name on the hub of the published weights of timm from which
        training started. A part that the file does not state is empty."""
        tag = self.pretrained_cfg.tag if self.pretrained_cfg else ""
        return f"timm/{self.architecture}.{tag}"
