"""transformers' image processors (5.23): read, with what each does where its file does not say, and
written.

Files may come from a stranger: every value that is used is checked here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, Strict, model_validator

from zoo.common.fields import Line, Model, Side, Three
from zoo.images.preprocessing import (
    CENTRED_PIXELS,
    IMAGENET_PIXELS,
    OPENAI_PIXELS,
    CropRounding,
    Filter,
    Preprocessing,
)

RESAMPLE: Mapping[Filter, int] = {"bilinear": 2, "bicubic": 3}
"""What Pillow calls the filters."""

FILTER_NAMES = {number: name for name, number in RESAMPLE.items()}


class Sides(Model, extra="forbid"):
    """`size`, `crop_size` and `pad_size`."""

    height: Side | None = None
    width: Side | None = None
    shortest_edge: Side | None = None
    longest_edge: Side | None = None

    @property
    def both(self) -> Size | None:
        """(height, width), where those are what it says."""
        stated = self.height and self.width and not (self.shortest_edge or self.longest_edge)
        return (self.height or 0, self.width or 0) if stated else None

    @property
    def edge(self) -> int | None:
        """The shorter edge, where that alone is what it says."""
        return None if self.height or self.width or self.longest_edge else self.shortest_edge


Size = tuple[int, int]  # (height, width)
Statistic = Annotated[Three, Strict(False)] | float | None
Stated = Sides | Side | Annotated[tuple[Side, Side], Strict(False)] | None


class ScaledAndCropped(NamedTuple):
    """The size of the result, and what pictures are resized to before a crop of that."""

    target: Size
    resize: int | Size | None


@dataclass(frozen=True)
class ProcessorKind:
    """A class of transformers without its `ImageProcessor`, and its defaults.

    `crops_share` is whether `crop_pct` is followed, `rounds` whether `ensure_multiple_of` is,
    `pads_to_square` whether `do_pad` means the square of `size`, and `rescale_first` whether
    floating-point values are resized. With `counts_patches` pictures keep their aspect ratio and
    become as many patches as there may be. `ignored` settings change nothing. `differs` says what
    the zoo does otherwise, in words.
    """

    name: str
    defaults: Mapping[str, Any]
    crops_share: bool = False
    rounds: bool = False
    pads_to_square: bool = False
    rescale_first: bool = False
    counts_patches: bool = False
    ignored: tuple[str, ...] = ()
    differs: str = ""


BILINEAR, BICUBIC = RESAMPLE["bilinear"], RESAMPLE["bicubic"]


Defaults = dict[str, Any]


def _normed(pixels: tuple[Three, Three], resample: int) -> Defaults:
    return {"image_mean": pixels[0], "image_std": pixels[1], "resample": resample}


def _square(side: int) -> Defaults:
    return {"size": {"height": side, "width": side}}


def _edges(**edges: int) -> Defaults:
    """Where one number for `size` is the shorter edge, too."""
    return {"size": edges, "default_to_square": False}


CROPPED: Defaults = {"do_center_crop": True, "crop_size": {"height": 224, "width": 224}}

PROCESSOR_KINDS = (
    ProcessorKind("ViT", _normed(CENTRED_PIXELS, BILINEAR) | _square(224)),
    ProcessorKind("CLIP", _normed(OPENAI_PIXELS, BICUBIC) | _edges(shortest_edge=224) | CROPPED),
    ProcessorKind("Bit", _normed(OPENAI_PIXELS, BICUBIC) | _edges(shortest_edge=224) | CROPPED),
    ProcessorKind("DeiT", _normed(CENTRED_PIXELS, BICUBIC) | _square(256) | CROPPED),
    ProcessorKind("Siglip", _normed(CENTRED_PIXELS, BICUBIC) | _edges(height=224, width=224)),
    ProcessorKind(
        "Siglip2",
        _normed(CENTRED_PIXELS, BILINEAR) | {"patch_size": 16, "max_num_patches": 256},
        counts_patches=True,
        ignored=("size", "default_to_square", "do_center_crop", "crop_size", "do_pad", "pad_size"),
    ),
    ProcessorKind(
        "ConvNext",
        _normed(CENTRED_PIXELS, BICUBIC) | _edges(shortest_edge=384) | {"crop_pct": 224 / 256},
        crops_share=True,
    ),
    ProcessorKind(
        "DPT",
        _normed(CENTRED_PIXELS, BICUBIC) | _square(384),
        rounds=True,
        ignored=("do_center_crop",),
    ),
    ProcessorKind(
        "DINOv3ViT",
        _normed(IMAGENET_PIXELS, BILINEAR) | _square(224),
        rescale_first=True,
        ignored=("do_pad",),
    ),
    ProcessorKind(
        "Eomt",
        _normed(IMAGENET_PIXELS, BILINEAR) | _edges(shortest_edge=640, longest_edge=640),
        pads_to_square=True,
        ignored=("do_center_crop", "pad_size"),
    ),
    ProcessorKind(
        "RfDetr",
        _normed(IMAGENET_PIXELS, BILINEAR)
        | _edges(shortest_edge=800, longest_edge=1333)
        | {"do_pad": True},
        ignored=("do_center_crop", "default_to_square"),
        differs="resizes without antialiasing, and the zoo with it, as the original code does",
    ),
    ProcessorKind("Tipsv2", {"resample": BILINEAR, "do_normalize": False} | _square(448)),
)
"""The classes whose files are read."""

NAMELESS = ProcessorKind("", {}, crops_share=True)
"""What files of long ago have no class of: all that matters has to be in them."""

NO_EFFECT_ON_PIXELS = frozenset(
    (
        # How one is called and loaded, and names.
        *("data_format", "input_data_format", "device", "return_tensors", "disable_grouping"),
        *("image_seq_length", "processor_class", "auto_map", "tokenizer_class"),
        "do_convert_rgb",  # pictures are read as RGB
        "size_divisor",  # asked with do_pad alone, which is refused where there is one
        # Of annotations, which training has.
        *("do_reduce_labels", "reduce_labels", "do_convert_annotations", "format", "ignore_index"),
        *("return_segmentation_masks", "num_labels"),
    )
)
"""Settings that change nothing about `pixel_values`."""


class Processor(Model, extra="allow"):
    """`preprocessor_config.json`, with the defaults of its class."""

    image_processor_type: Line = ""
    feature_extractor_type: Line = ""
    do_resize: Literal[True] = True
    size: Stated = None
    default_to_square: bool | None = True
    crop_size: Stated = None
    do_center_crop: bool | None = False
    do_pad: bool | None = False
    pad_size: Stated = None
    do_split_image: Literal[False] | None = False
    crop_pct: Annotated[float, Field(gt=0.1, le=1)] | None = None
    resample: Literal[2, 3]
    do_rescale: bool | None = True
    rescale_factor: Annotated[float, Field(gt=0)] | None = 1 / 255
    do_normalize: bool | None = True
    image_mean: Statistic = None
    image_std: Statistic = None
    keep_aspect_ratio: bool | None = False
    ensure_multiple_of: Side | None = 1
    patch_size: Annotated[int, Field(ge=1, le=64)] | None = None
    max_num_patches: Annotated[int, Field(ge=1, le=4096)] | None = None
    crop_rounding: CropRounding = "floor"  # the zoo's own, which transformers passes over

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, stated: Any) -> Any:
        """With what it has where nothing is said: a setting that is null is said to be so."""
        if not isinstance(stated, dict):
            return stated
        kind = _kind(stated.get("image_processor_type") or stated.get("feature_extractor_type"))
        read = {name: each for name, each in stated.items() if name not in kind.ignored}
        return {**kind.defaults, **read}

    @model_validator(mode="after")
    def _check(self) -> Processor:
        if self.do_normalize and (self.image_mean is None or self.image_std is None):
            raise ValueError("image_mean or image_std is missing, and do_normalize asks for both")
        if self.do_normalize and 0 in _three(self.image_std, 1.0):
            raise ValueError("image_std has a zero")
        if self.do_rescale and self.rescale_factor is None:
            raise ValueError("rescale_factor is null, and do_rescale asks for it")
        target, _ = self._scaled()
        padded = _sides(self.pad_size, True).both
        if self.do_pad and not self.kind.pads_to_square and padded not in (None, target):
            raise ValueError("do_pad enlarges pictures to pad_size, which the zoo does not")
        return self

    @property
    def kind(self) -> ProcessorKind:
        """The class that it is of."""
        return _kind(self.image_processor_type or self.feature_extractor_type)

    @property
    def unheard_of(self) -> tuple[str, ...]:
        """The settings that the zoo does not know."""
        patches = {"patch_size", "max_num_patches"} & self.model_fields_set
        extra = {} if self.kind.counts_patches else dict.fromkeys(sorted(patches))
        names = {**(self.model_extra or {}), **extra}
        return tuple(name for name in names if name not in NO_EFFECT_ON_PIXELS)

    @property
    def preprocessing(self) -> Preprocessing:
        """The same in the zoo's words."""
        target, edge = self._scaled()
        return Preprocessing(
            mean=_three(self.image_mean if self.do_normalize else None, 0.0),
            std=_three(self.image_std if self.do_normalize else None, 1.0),
            size=target,
            resize=edge,
            rescale=(self.do_rescale and self.rescale_factor) or 1.0,
            rescale_first=self.kind.rescale_first and bool(self.do_rescale),
            resample=FILTER_NAMES[self.resample],
            multiple=self._multiple,
            padded=self.kind.counts_patches or (bool(self.do_pad) and self.kind.pads_to_square),
            crop_rounding=self.crop_rounding,
        )

    @property
    def _multiple(self) -> int | None:
        """The number of pixels of which sides are multiples, where the aspect ratio is kept."""
        if self.kind.counts_patches:
            return self.patch_size
        return (self.ensure_multiple_of or 1) if self._is_free else None

    def _patches(self) -> Size:
        """The size of as many patches, of those that are nearest to a square.

        **Raises** `ValueError` where either number is null.
        """
        if self.patch_size is None or self.max_num_patches is None:
            raise ValueError("patch_size or max_num_patches is null: give both")
        count, side = self.max_num_patches, self.patch_size
        rows = next(n for n in range(math.isqrt(count), 0, -1) if count % n == 0)
        return rows * side, count // rows * side

    @property
    def _is_free(self) -> bool:
        """Whether the sides are free."""
        return bool(self.keep_aspect_ratio) and self.kind.rounds

    def _scaled(self) -> ScaledAndCropped:
        """**Raises** `ValueError` where pictures are resized and cropped as the zoo does not."""
        if self.kind.counts_patches:
            return ScaledAndCropped(self._patches(), None)
        size = _sides(self.size, bool(self.default_to_square))
        if self.do_pad and self.kind.rounds:
            raise ValueError("do_pad enlarges pictures to multiples, which the zoo does not")
        if self.do_pad and self.kind.pads_to_square:
            square = size.shortest_edge or 0
            if square and square == size.longest_edge:
                return ScaledAndCropped((square, square), None)
        elif self.crop_pct is not None and self.kind.crops_share and size.edge:
            return self._share(size.edge, self.crop_pct)
        scaled = self._rounded(size.both) if size.both else size.edge
        if self.do_center_crop and not self._is_free and scaled:
            return self._cropped(scaled)
        if isinstance(scaled, tuple) and not self.do_center_crop:
            return ScaledAndCropped(scaled, None)
        raise ValueError(
            "it resizes and crops as the zoo does not: give one with `size` of height and width, "
            "or of the shortest edge with a `crop_size`"
        )

    def _share(self, edge: int, share: float) -> ScaledAndCropped:
        """Of ConvNeXt's: it crops below 384 pixels alone, from there on it stretches."""
        if edge >= 384:
            return (
                self._cropped((edge, edge))
                if self.do_center_crop
                else ScaledAndCropped((edge, edge), None)
            )
        if self.do_center_crop and _sides(self.crop_size, True).both != (edge, edge):
            raise ValueError("crop_pct and do_center_crop both crop: leave do_center_crop out")
        return ScaledAndCropped((edge, edge), int(edge / share))

    def _cropped(self, scaled: int | Size) -> ScaledAndCropped:
        """With the crop from the centre of what was resized, if that is no larger."""
        tall, wide = scaled if isinstance(scaled, tuple) else (scaled, scaled)
        crop = _sides(self.crop_size, True).both
        if crop is None:
            raise ValueError("do_center_crop is true, and crop_size is not of height and width")
        if crop[0] > tall or crop[1] > wide:
            raise ValueError(
                "crop_size is larger than the size that pictures are resized to, which pads them"
            )
        return ScaledAndCropped(crop, None if scaled == crop else scaled)

    def _rounded(self, size: Size) -> Size:
        step = self.ensure_multiple_of or 1
        if self.keep_aspect_ratio or not self.kind.rounds:
            return size
        return round(size[0] / step) * step, round(size[1] / step) * step


class WholeProcessor(Model, extra="allow"):
    """`processor_config.json`: of pictures and texts."""

    image_processor: Processor | None = None

    @property
    def unheard_of(self) -> tuple[str, ...]:
        """The settings that the zoo does not know."""
        return tuple(name for name in self.model_extra or {} if name not in NO_EFFECT_ON_PIXELS)


def _kind(name: object) -> ProcessorKind:
    """The class of a name. **Raises** `ValueError` for one that does what is not known."""
    if not name:
        return NAMELESS
    text = name if isinstance(name, str) else ascii(name)
    for each in PROCESSOR_KINDS:
        if text.partition("ImageProcessor")[0].partition("FeatureExtractor")[0] == each.name:
            return each
    known = ", ".join(each.name for each in PROCESSOR_KINDS)
    raise ValueError(
        f"image_processor_type is {ascii(text)[1:-1][:60]}, and the zoo knows those of {known}"
    )


def _sides(value: Stated, is_square: bool) -> Sides:
    if isinstance(value, tuple):
        return Sides(height=value[0], width=value[1])
    if isinstance(value, int):
        return Sides(height=value, width=value) if is_square else Sides(shortest_edge=value)
    return value or Sides()


def _three(value: Statistic, usual: float) -> Three:
    """A number for each channel."""
    if isinstance(value, tuple):
        return value
    each = usual if value is None else value
    return each, each, each


def transformers_processor(how: Preprocessing) -> dict[str, Any]:
    """`preprocessor_config.json` of the image processor that works as `how` says."""
    size: dict[str, Any] = {"height": how.size[0], "width": how.size[1]}
    settings: dict[str, Any] = {
        "do_resize": True,
        "size": size,
        "resample": RESAMPLE[how.resample],
        "do_rescale": True,
        "rescale_factor": how.rescale,
        "do_normalize": True,
        "image_mean": list(how.mean),
        "image_std": list(how.std),
    }
    if how.rescale_first:
        return {"image_processor_type": "DINOv3ViTImageProcessorFast"} | settings
    if how.padded and how.multiple is not None:
        most = how.size[0] * how.size[1] // how.multiple**2
        del settings["size"]
        patches = {"patch_size": how.multiple, "max_num_patches": most}
        return {"image_processor_type": "Siglip2ImageProcessor"} | settings | patches
    if how.padded:
        edge = max(how.size)
        square = {"size": {"shortest_edge": edge, "longest_edge": edge}, "do_pad": True}
        return {"image_processor_type": "EomtImageProcessor"} | settings | square
    if how.multiple is not None:
        free = {"keep_aspect_ratio": True, "ensure_multiple_of": how.multiple}
        return {"image_processor_type": "DPTImageProcessor"} | settings | free
    if how.resize is None:
        return {"image_processor_type": "SiglipImageProcessor"} | settings
    cropped: dict[str, Any] = {"do_center_crop": True, "crop_size": size}
    if how.crop_rounding != "floor":
        cropped["crop_rounding"] = how.crop_rounding
    if isinstance(how.resize, tuple):
        stretched = {"size": {"height": how.resize[0], "width": how.resize[1]}}
        return {"image_processor_type": "DeiTImageProcessor"} | settings | cropped | stretched
    shorter = {"size": {"shortest_edge": how.resize}}
    return {"image_processor_type": "BitImageProcessor"} | settings | cropped | shorter
