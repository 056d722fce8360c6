"""Read and write the settings of transformers' image processors (5.23), with the defaults of each
class.

The files are not trusted: every value that is used is checked here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, Strict, model_validator

from zoo.common.fields import Line, Model, Side, ThreeFactors
from zoo.images.preprocessing import (
    CENTRED_PIXELS,
    IMAGENET_PIXELS,
    OPENAI_PIXELS,
    CropRounding,
    Filter,
    Preprocessing,
)

RESAMPLE: Mapping[Filter, int] = {"bilinear": 2, "bicubic": 3}
"""Pillow's number of each filter."""

FILTER_NAMES = {number: name for name, number in RESAMPLE.items()}
"""Name of the filter for each of Pillow's numbers."""


class Sides(Model, extra="forbid"):
    """Value of the settings `size`, `crop_size` or `pad_size`: some sides of a picture in
    pixels."""

    height: Side | None = None
    width: Side | None = None
    shortest_edge: Side | None = None
    longest_edge: Side | None = None

    @property
    def both(self) -> Size | None:
        """(height, width), or None if the setting does not state exactly these two."""
        is_complete = self.height and self.width and not (self.shortest_edge or self.longest_edge)
        return (self.height or 0, self.width or 0) if is_complete else None

    @property
    def edge(self) -> int | None:
        """Length of the shorter edge, or None if the setting does not state exactly this."""
        return None if self.height or self.width or self.longest_edge else self.shortest_edge


Size = tuple[int, int]  # (height, width)
ChannelStatistic = Annotated[ThreeFactors, Strict(False)] | float | None
SizeSetting = Sides | Side | Annotated[tuple[Side, Side], Strict(False)] | None


class TargetAndResize(NamedTuple):
    """Sizes in preprocessing, in pixels.

    Arguments:
        target: (height, width) of the result.
        resize: size to which pictures are resized before they are cropped to `target`: (height,
            width), or the length of the shorter edge. None if there is no crop.
    """

    target: Size
    resize: int | Size | None


@dataclass(frozen=True)
class ProcessorKind:
    """A class of image processors of transformers, with its defaults.

    Arguments:
        name: name of the class without `ImageProcessor`.
        defaults: values of the settings that a file does not state.
        uses_crop_pct: whether the class follows `crop_pct`.
        rounds_to_multiple: whether the class follows `ensure_multiple_of`.
        pads_to_square: whether `do_pad` pads pictures to the square of `size`.
        rescale_first: whether pictures are rescaled to floating-point values before they are
            resized.
        counts_patches: whether pictures keep their aspect ratio and get the largest size with at
            most `max_num_patches` patches.
        ignored: names of settings that the class does not use.
        difference: a sentence about what the zoo computes differently, or empty if nothing.
    """

    name: str
    defaults: Mapping[str, Any]
    uses_crop_pct: bool = False
    rounds_to_multiple: bool = False
    pads_to_square: bool = False
    rescale_first: bool = False
    counts_patches: bool = False
    ignored: tuple[str, ...] = ()
    difference: str = ""


BILINEAR, BICUBIC = RESAMPLE["bilinear"], RESAMPLE["bicubic"]


Defaults = dict[str, Any]
"""Settings of an image processor by name."""


def _normalized(pixels: tuple[ThreeFactors, ThreeFactors], resample: int) -> Defaults:
    """Return default settings for normalization and resampling.

    `pixels` are the mean and the standard deviation of the channels. `resample` is Pillow's number
    of a filter.
    """
    return {"image_mean": pixels[0], "image_std": pixels[1], "resample": resample}


def _square(side: int) -> Defaults:
    """Return the default setting of `size` for a square of this side."""
    return {"size": {"height": side, "width": side}}


def _edge_sizes(**edges: int) -> Defaults:
    """Return the default setting of `size` for a class that reads a single number as the length of
    the shorter edge.

    `edges` are the fields of `size`, such as `shortest_edge=224`.
    """
    return {"size": edges, "default_to_square": False}


CROPPED: Defaults = {"do_center_crop": True, "crop_size": {"height": 224, "width": 224}}
"""Default settings for a crop of 224 x 224 pixels from the centre."""

PROCESSOR_KINDS = (
    ProcessorKind("ViT", _normalized(CENTRED_PIXELS, BILINEAR) | _square(224)),
    ProcessorKind(
        "CLIP", _normalized(OPENAI_PIXELS, BICUBIC) | _edge_sizes(shortest_edge=224) | CROPPED
    ),
    ProcessorKind(
        "Bit", _normalized(OPENAI_PIXELS, BICUBIC) | _edge_sizes(shortest_edge=224) | CROPPED
    ),
    ProcessorKind("DeiT", _normalized(CENTRED_PIXELS, BICUBIC) | _square(256) | CROPPED),
    ProcessorKind(
        "Siglip", _normalized(CENTRED_PIXELS, BICUBIC) | _edge_sizes(height=224, width=224)
    ),
    ProcessorKind(
        "Siglip2",
        _normalized(CENTRED_PIXELS, BILINEAR) | {"patch_size": 16, "max_num_patches": 256},
        counts_patches=True,
        ignored=("size", "default_to_square", "do_center_crop", "crop_size", "do_pad", "pad_size"),
    ),
    ProcessorKind(
        "ConvNext",
        _normalized(CENTRED_PIXELS, BICUBIC)
        | _edge_sizes(shortest_edge=384)
        | {"crop_pct": 224 / 256},
        uses_crop_pct=True,
    ),
    ProcessorKind(
        "DPT",
        _normalized(CENTRED_PIXELS, BICUBIC) | _square(384),
        rounds_to_multiple=True,
        ignored=("do_center_crop",),
    ),
    ProcessorKind(
        "DINOv3ViT",
        _normalized(IMAGENET_PIXELS, BILINEAR) | _square(224),
        rescale_first=True,
        ignored=("do_pad",),
    ),
    ProcessorKind(
        "Eomt",
        _normalized(IMAGENET_PIXELS, BILINEAR) | _edge_sizes(shortest_edge=640, longest_edge=640),
        pads_to_square=True,
        ignored=("do_center_crop", "pad_size"),
    ),
    ProcessorKind(
        "RfDetr",
        _normalized(IMAGENET_PIXELS, BILINEAR)
        | _edge_sizes(shortest_edge=800, longest_edge=1333)
        | {"do_pad": True},
        ignored=("do_center_crop", "default_to_square"),
        difference="resizes without antialiasing, and the zoo with it, as the original code does",
    ),
    ProcessorKind("Tipsv2", {"resample": BILINEAR, "do_normalize": False} | _square(448)),
)
"""The classes of image processors whose files are read."""

UNNAMED_KIND = ProcessorKind("", {}, uses_crop_pct=True)
"""Kind of an old file that names no class. It has no defaults, so that the file has to state every
setting that is used."""

NO_EFFECT_ON_PIXELS = frozenset(
    (
        # Settings of loading and calling a processor, and names.
        *("data_format", "input_data_format", "device", "return_tensors", "disable_grouping"),
        *("image_seq_length", "processor_class", "auto_map", "tokenizer_class"),
        "do_convert_rgb",  # pictures are read as RGB
        "size_divisor",  # read with do_pad only, which is refused for the classes that have it
        # Settings of annotations, which only training has.
        *("do_reduce_labels", "reduce_labels", "do_convert_annotations", "format", "ignore_index"),
        *("return_segmentation_masks", "num_labels"),
    )
)
"""Settings that do not change `pixel_values`."""


class Processor(Model, extra="allow"):
    """Contents of `preprocessor_config.json`, checked and completed by the defaults of its
    class."""

    image_processor_type: Line = ""
    feature_extractor_type: Line = ""
    do_resize: Literal[True] = True
    size: SizeSetting = None
    default_to_square: bool | None = True
    crop_size: SizeSetting = None
    do_center_crop: bool | None = False
    do_pad: bool | None = False
    pad_size: SizeSetting = None
    do_split_image: Literal[False] | None = False
    crop_pct: Annotated[float, Field(gt=0.1, le=1)] | None = None
    resample: Literal[2, 3]
    do_rescale: bool | None = True
    rescale_factor: Annotated[float, Field(gt=0)] | None = 1 / 255
    do_normalize: bool | None = True
    image_mean: ChannelStatistic = None
    image_std: ChannelStatistic = None
    keep_aspect_ratio: bool | None = False
    ensure_multiple_of: Side | None = 1
    patch_size: Annotated[int, Field(ge=1, le=64)] | None = None
    max_num_patches: Annotated[int, Field(ge=1, le=4096)] | None = None
    crop_rounding: CropRounding = "floor"  # a setting of the zoo, which transformers ignores

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, settings: Any) -> Any:
        """Return the settings without those that the class ignores, and with its defaults for those
        that are missing.

        A setting that is null stays null. A value that is not an object is returned as it is, for
        pydantic to refuse.
        """
        if not isinstance(settings, dict):
            return settings
        kind = _find_kind(
            settings.get("image_processor_type") or settings.get("feature_extractor_type")
        )
        used = {name: value for name, value in settings.items() if name not in kind.ignored}
        return {**kind.defaults, **used}

    @model_validator(mode="after")
    def _check(self) -> Processor:
        """Check that the settings agree with each other, and that the zoo can preprocess as they
        say.

        **Raises** `ValueError` otherwise, which pydantic reports.
        """
        if self.do_normalize and (self.image_mean is None or self.image_std is None):
            raise ValueError("image_mean or image_std is missing, and do_normalize asks for both")
        if self.do_normalize and 0 in _per_channel(self.image_std, 1.0):
            raise ValueError("image_std has a zero")
        if self.do_rescale and self.rescale_factor is None:
            raise ValueError("rescale_factor is null, and do_rescale asks for it")
        target, _ = self._target_and_resize()
        padded_size = _to_sides(self.pad_size, True).both
        if self.do_pad and not self.kind.pads_to_square and padded_size not in (None, target):
            raise ValueError("do_pad enlarges pictures to pad_size, which the zoo does not")
        return self

    @property
    def kind(self) -> ProcessorKind:
        """Class of image processors that the file names, or `UNNAMED_KIND` if it names none."""
        return _find_kind(self.image_processor_type or self.feature_extractor_type)

    @property
    def unknown_settings(self) -> tuple[str, ...]:
        """Names of the settings that had no effect, because neither the zoo nor the class follows
        them."""
        patches = {"patch_size", "max_num_patches"} & self.model_fields_set
        unused = {} if self.kind.counts_patches else dict.fromkeys(sorted(patches))
        names = {**(self.model_extra or {}), **unused}
        return tuple(name for name in names if name not in NO_EFFECT_ON_PIXELS)

    @property
    def preprocessing(self) -> Preprocessing:
        """The preprocessing that the settings describe, in the form of the zoo."""
        target, resize = self._target_and_resize()
        return Preprocessing(
            mean=_per_channel(self.image_mean if self.do_normalize else None, 0.0),
            std=_per_channel(self.image_std if self.do_normalize else None, 1.0),
            size=target,
            resize=resize,
            rescale=(self.do_rescale and self.rescale_factor) or 1.0,
            rescale_first=self.kind.rescale_first and bool(self.do_rescale),
            resample=FILTER_NAMES[self.resample],
            multiple=self._multiple,
            padded=self.kind.counts_patches or (bool(self.do_pad) and self.kind.pads_to_square),
            crop_rounding=self.crop_rounding,
        )

    @property
    def _multiple(self) -> int | None:
        """Number that divides the sides of all pictures, in pixels. None if all pictures get the
        same size."""
        if self.kind.counts_patches:
            return self.patch_size
        return (self.ensure_multiple_of or 1) if self._keeps_proportions else None

    def _size_of_patches(self) -> Size:
        """Return the (height, width) with exactly `max_num_patches` patches that is nearest to a
        square.

        **Raises** `ValueError` if one of the two settings of patches is null.
        """
        if self.patch_size is None or self.max_num_patches is None:
            raise ValueError("patch_size or max_num_patches is null: give both")
        count, side = self.max_num_patches, self.patch_size
        rows = next(n for n in range(math.isqrt(count), 0, -1) if count % n == 0)
        return rows * side, count // rows * side

    @property
    def _keeps_proportions(self) -> bool:
        """Whether pictures keep their proportions. Their sides are then multiples of a number, and
        not fixed."""
        return bool(self.keep_aspect_ratio) and self.kind.rounds_to_multiple

    def _target_and_resize(self) -> TargetAndResize:
        """Return the size of the result, and the size to which pictures are resized before a crop.

        **Raises** `ValueError` for a way of resizing and cropping that the zoo does not have.
        """
        if self.kind.counts_patches:
            return TargetAndResize(self._size_of_patches(), None)
        size = _to_sides(self.size, bool(self.default_to_square))
        if self.do_pad and self.kind.rounds_to_multiple:
            raise ValueError("do_pad enlarges pictures to multiples, which the zoo does not")
        if self.do_pad and self.kind.pads_to_square:
            square = size.shortest_edge or 0
            if square and square == size.longest_edge:
                return TargetAndResize((square, square), None)
        elif self.crop_pct is not None and self.kind.uses_crop_pct and size.edge:
            return self._resize_by_crop_pct(size.edge, self.crop_pct)
        resize = self._round_to_multiple(size.both) if size.both else size.edge
        if self.do_center_crop and not self._keeps_proportions and resize:
            return self._crop_from_centre(resize)
        if isinstance(resize, tuple) and not self.do_center_crop:
            return TargetAndResize(resize, None)
        raise ValueError(
            "it resizes and crops as the zoo does not: give one with `size` of height and width, "
            "or of the shortest edge with a `crop_size`"
        )

    def _resize_by_crop_pct(self, edge: int, crop_pct: float) -> TargetAndResize:
        """Return the sizes for a class that follows `crop_pct`, such as ConvNeXt's.

        `edge` is the side of the result. Below 384 pixels, pictures are resized to a shorter edge
        of `edge / crop_pct` and cropped. From 384 pixels on they are resized to a square, and
        cropped only if `do_center_crop` is true. **Raises** `ValueError` if a crop from the centre
        has another size.
        """
        if edge >= 384:
            return (
                self._crop_from_centre((edge, edge))
                if self.do_center_crop
                else TargetAndResize((edge, edge), None)
            )
        if self.do_center_crop and _to_sides(self.crop_size, True).both != (edge, edge):
            raise ValueError("crop_pct and do_center_crop both crop: leave do_center_crop out")
        return TargetAndResize((edge, edge), int(edge / crop_pct))

    def _crop_from_centre(self, resize: int | Size) -> TargetAndResize:
        """Return the sizes for a crop of `crop_size` from the centre of pictures that are resized
        to `resize`.

        **Raises** `ValueError` if `crop_size` is missing or larger than the resized pictures.
        """
        height, width = resize if isinstance(resize, tuple) else (resize, resize)
        crop = _to_sides(self.crop_size, True).both
        if crop is None:
            raise ValueError("do_center_crop is true, and crop_size is not of height and width")
        if crop[0] > height or crop[1] > width:
            raise ValueError(
                "crop_size is larger than the size that pictures are resized to, which pads them"
            )
        return TargetAndResize(crop, None if resize == crop else resize)

    def _round_to_multiple(self, size: Size) -> Size:
        """Return a size whose sides are the nearest multiples of `ensure_multiple_of`.

        It is returned as it is if the class does not follow that setting, or if pictures keep their
        proportions.
        """
        step = self.ensure_multiple_of or 1
        if self.keep_aspect_ratio or not self.kind.rounds_to_multiple:
            return size
        return round(size[0] / step) * step, round(size[1] / step) * step


class CombinedProcessor(Model, extra="allow"):
    """Contents of `processor_config.json`, the settings for pictures and texts together."""

    image_processor: Processor | None = None

    @property
    def unknown_settings(self) -> tuple[str, ...]:
        """Names of the settings outside `image_processor` that had no effect."""
        return tuple(name for name in self.model_extra or {} if name not in NO_EFFECT_ON_PIXELS)


def _find_kind(name: object) -> ProcessorKind:
    """Return the class of image processors called `name`, as a file states it, or `UNNAMED_KIND` if
    it states none.

    **Raises** `ValueError` for a class that the zoo does not know.
    """
    if not name:
        return UNNAMED_KIND
    text = name if isinstance(name, str) else ascii(name)
    for kind in PROCESSOR_KINDS:
        if text.partition("ImageProcessor")[0].partition("FeatureExtractor")[0] == kind.name:
            return kind
    names = ", ".join(kind.name for kind in PROCESSOR_KINDS)
    raise ValueError(
        f"image_processor_type is {ascii(text)[1:-1][:60]}, and the zoo knows those of {names}"
    )


def _to_sides(value: SizeSetting, is_square: bool) -> Sides:
    """Return a size setting as an object with named sides. None gives an object without sides.

    `is_square` is whether a single number means both sides. Otherwise it is the length of the
    shorter edge.
    """
    if isinstance(value, tuple):
        return Sides(height=value[0], width=value[1])
    if isinstance(value, int):
        return Sides(height=value, width=value) if is_square else Sides(shortest_edge=value)
    return value or Sides()


def _per_channel(value: ChannelStatistic, default: float) -> ThreeFactors:
    """Return a number for each of the three channels. A single number applies to all channels, and
    None stands for `default`."""
    if isinstance(value, tuple):
        return value
    number = default if value is None else value
    return number, number, number


def transformers_processor(preprocessing: Preprocessing) -> dict[str, Any]:
    """Return the contents of `preprocessor_config.json` with which transformers preprocesses
    pictures in this way.

    The class of image processors is chosen so that it can do all that `preprocessing` says.
    """
    size: dict[str, Any] = {"height": preprocessing.size[0], "width": preprocessing.size[1]}
    settings: dict[str, Any] = {
        "do_resize": True,
        "size": size,
        "resample": RESAMPLE[preprocessing.resample],
        "do_rescale": True,
        "rescale_factor": preprocessing.rescale,
        "do_normalize": True,
        "image_mean": list(preprocessing.mean),
        "image_std": list(preprocessing.std),
    }
    if preprocessing.rescale_first:
        return {"image_processor_type": "DINOv3ViTImageProcessorFast"} | settings
    if preprocessing.padded and preprocessing.multiple is not None:
        max_patches = preprocessing.size[0] * preprocessing.size[1] // preprocessing.multiple**2
        del settings["size"]
        patches = {"patch_size": preprocessing.multiple, "max_num_patches": max_patches}
        return {"image_processor_type": "Siglip2ImageProcessor"} | settings | patches
    if preprocessing.padded:
        edge = max(preprocessing.size)
        square = {"size": {"shortest_edge": edge, "longest_edge": edge}, "do_pad": True}
        return {"image_processor_type": "EomtImageProcessor"} | settings | square
    if preprocessing.multiple is not None:
        proportional = {"keep_aspect_ratio": True, "ensure_multiple_of": preprocessing.multiple}
        return {"image_processor_type": "DPTImageProcessor"} | settings | proportional
    if preprocessing.resize is None:
        return {"image_processor_type": "SiglipImageProcessor"} | settings
    crop: dict[str, Any] = {"do_center_crop": True, "crop_size": size}
    if preprocessing.crop_rounding != "floor":
        crop["crop_rounding"] = preprocessing.crop_rounding
    if isinstance(preprocessing.resize, tuple):
        resize = {"size": {"height": preprocessing.resize[0], "width": preprocessing.resize[1]}}
        return {"image_processor_type": "DeiTImageProcessor"} | settings | crop | resize
    resize = {"size": {"shortest_edge": preprocessing.resize}}
    return {"image_processor_type": "BitImageProcessor"} | settings | crop | resize
