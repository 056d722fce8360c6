"""Settings of networks in `config.json`, as other libraries write them, and names of classes.

A file may come from a stranger: every value that is used is checked here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from zoo.common.fields import Line, Model, Side, Three, without_controls
from zoo.images.preprocessing import IMAGENET_PIXELS, Filter, Preprocessing

NUMBER = re.compile(r"\s*[+-]?\d{1,6}\s*", re.ASCII)
LONGEST_NAME = 200


def numbered_names(setting: str, value: object, *, names_first: bool = False) -> dict[int, str]:
    """Return the names of classes by number.

    **Arguments:**

    - `setting`: what the value is called, for messages.
    - `value`: a list of names; a dictionary from numbers to names, or from names to numbers; None.
    - `names_first`: whether names are the keys of a dictionary that could be read both ways, such
      as `{"1": 0, "0": 1}`.

    **Raises** `ValueError` for anything else, and for two names of one class.
    """
    found: dict[int, str] = {}
    for number, name in _pairs(setting, value, names_first):
        text = _name(setting, number, name)
        if found.setdefault(number, text) != text:
            raise ValueError(
                f"`{setting}` has two names for class {number}, {ascii(found[number])[:60]} and "
                f"{ascii(text)[:60]}"
            )
    return found


def _pairs(setting: str, value: object, names_first: bool) -> Iterable[tuple[int, object]]:
    """Numbers and names, in the order in which they are written."""
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
    wrong = next(each for each in keys if not _is_number(each))
    raise ValueError(
        f"`{setting}` has {ascii(wrong)[:60]} where the number of a class should be: write numbers "
        "as keys, and names as values"
    )


def _is_number(value: object) -> bool:
    is_text = isinstance(value, str) and NUMBER.fullmatch(value) is not None
    return is_text or (type(value) is int and abs(value) < 1_000_000)


def _name(setting: str, number: int, name: object) -> str:
    """The name of a class, which is a number in data sets of digits."""
    if isinstance(name, bool) or not isinstance(name, str | int | float):
        raise ValueError(
            f"`{setting}` has {ascii(name)[:60]} as the name of class {number}: write a text"
        )
    text = without_controls(str(name))
    if len(text) > LONGEST_NAME:
        raise ValueError(
            f"`{setting}` has a name of {len(text)} characters for class {number}: write at most "
            f"{LONGEST_NAME}"
        )
    return text


Id2Label = Annotated[dict[int, str], BeforeValidator(partial(numbered_names, "id2label"))]
"""Names of classes as transformers writes them."""

LabelNames = Annotated[dict[int, str], BeforeValidator(partial(numbered_names, "label_names"))]
"""Names of classes as timm writes them: a list, or a dictionary where numbers have gaps."""


MOST_HEADS = 1024

CLASSIFIERS = ("ForImageClassification", "ForImageClassificationWithTeacher")
"""How the names of transformers' classes for classification end."""


class TimmPictures(Model, extra="allow"):
    """`pretrained_cfg`: what timm (1.0.31) does to pictures, and its defaults. What else is in it
    is where weights came from, and names of layers."""

    tag: Line = ""
    input_size: tuple[Literal[3], Side, Side] = (3, 224, 224)
    interpolation: Filter = "bicubic"
    crop_pct: Annotated[float, Field(gt=0.1, le=1)] = 0.875
    crop_mode: Literal["center", "squash"] = "center"
    mean: Three = IMAGENET_PIXELS[0]
    std: Three = IMAGENET_PIXELS[1]

    @model_validator(mode="after")
    def _check_sides(self) -> TimmPictures:
        if self.crop_mode == "center" and self.input_size[1] != self.input_size[2]:
            raise ValueError(
                "crop_mode is center and input_size no square, for which timm resizes by a rule "
                "that the zoo does not know: say squash, or give a square"
            )
        if 0 in self.std:
            raise ValueError("std has a zero")
        return self

    @property
    def preprocessing(self) -> Preprocessing:
        """The same in the zoo's words.

        Source: `transforms_imagenet_eval`, which crops by torchvision's `center_crop`.
        """
        size = self.input_size[1:]
        tall, wide = (math.floor(side / self.crop_pct) for side in size)
        stretched = None if (tall, wide) == size else (tall, wide)
        return Preprocessing(
            self.mean,
            self.std,
            size,
            resize=stretched if self.crop_mode == "squash" else tall,
            resample=self.interpolation,
            crop_rounding="half_even",
        )


class Settings(Model, extra="allow"):
    """`config.json`. transformers names classes in `id2label`, timm in `label_names`."""

    model_type: Line = ""
    problem_type: (
        Literal["single_label_classification", "multi_label_classification", "regression"] | None
    ) = None
    architectures: tuple[Line, ...] | None = None
    num_attention_heads: Annotated[int, Field(ge=1, le=MOST_HEADS)] | None = None
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
    pretrained_cfg: TimmPictures | None = None
    model_args: dict[Line, Any] = Field({})

    def get(self, name: str) -> Any:
        """Return what the file states under a name, with dots before names in parts of it; None
        where it states nothing."""
        first, _, rest = name.partition(".")
        known = first in type(self).model_fields
        is_set = first in self.model_fields_set
        extra = self.model_extra or {}
        value = (getattr(self, first) if is_set else None) if known else extra.get(first)
        if not rest:
            return value
        return value.get(rest) if isinstance(value, Settings) else None

    @property
    def class_name(self) -> str:
        """The class whose network it is, or at least of what type that is."""
        return next(iter(self.architectures or ()), self.model_type or self.architecture)

    @property
    def is_classifier(self) -> bool:
        """Whether the class of transformers is one for classification."""
        return any(name.endswith(CLASSIFIERS) for name in self.architectures or ())

    @property
    def pool(self) -> str:
        """What timm calls the pooling before the classifier; empty where nothing says it."""
        argument = self.model_args.get("global_pool")
        return self.global_pool or (argument if isinstance(argument, str) else "")

    @property
    def trained_on(self) -> tuple[int, int] | tuple[()]:
        """Height and width of the pictures of training, where a list says them."""
        pictures = self.pretrained_cfg.input_size[1:] if self.pretrained_cfg else ()
        stated = (self.model_extra or {}).get("image_size", self.model_args.get("img_size"))
        listed = stated if isinstance(stated, list | tuple) else pictures
        if len(listed) != 2 or not all(type(side) is int and side > 0 for side in listed):
            return ()
        return listed[0], listed[1]

    @property
    def picture_size(self) -> tuple[int, int] | None:
        """Height and width of the pictures that a network is for, as transformers' `image_size`
        states them; None where it does not. That of a backbone is not the whole network's."""
        extra = (self.vision_config or self).model_extra or {}
        stated = extra.get("image_size")
        sides = stated if isinstance(stated, list | tuple) else (stated, stated)
        if len(sides) != 2 or not all(type(side) is int and 0 < side < 1 << 14 for side in sides):
            return None
        return sides[0], sides[1]

    @property
    def repository(self) -> str:
        """Name of the repository that somebody loaded it from, as transformers notes it."""
        name = (self.model_extra or {}).get("_name_or_path")
        return name if isinstance(name, str) else ""

    @property
    def timm_name(self) -> str:
        """Name of timm's network on the hub, with its weights before somebody trained them."""
        tag = self.pretrained_cfg.tag if self.pretrained_cfg else ""
        return f"timm/{self.architecture}.{tag}"
