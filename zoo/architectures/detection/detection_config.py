"""Hyperparameters of detection transformers, RF-DETR and DEIMv2: plain data without JAX."""

from __future__ import annotations

from typing import Any, ClassVar

from zoo.architectures.common_config import describe_classes
from zoo.architectures.config_fields import (
    MAX_DEPTH,
    Configuration,
    Key,
    Shapes,
    config_class,
    count_numbered_leaves,
    detail,
    length,
    parse_integers,
    parse_nonempty_integers,
    setting,
    size,
)
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.tasks.answer import Scores
from zoo.tasks.box_task import box_task
from zoo.tasks.task import Task

CLASS_HEAD, WEIGHTS = "class_head.weight", "blocks.0.cross.weights.weight"
"""Leaves of RF-DETR: the classifier of queries, and what weighs the points of all heads."""


def _heads(usual: DecoderConfig, shapes: Shapes) -> int:
    """Return the heads of as many channels as usual, which no leaf determines."""
    return length(shapes, CLASS_HEAD, 1) * usual.heads // usual.dim or 1


def _sampling_heads(usual: DecoderConfig, shapes: Shapes) -> int:
    """Return the heads of as many channels as usual, which no leaf determines."""
    return length(shapes, CLASS_HEAD, 1) * usual.sampling_heads // usual.dim or 1


def _points(usual: DecoderConfig, shapes: Shapes) -> int:
    """Return the points of each head: a leaf has the product of both; 0 without the leaf."""
    product = length(shapes, WEIGHTS)
    return min(product, max(1, product // _sampling_heads(usual, shapes)))


@config_class
class DecoderConfig(Configuration):
    """Hyperparameters of the transformer that reads a map at points.

    `dim` are the channels of a query, `heads` those of attention among queries. Every query looks
    at the map at `points` points for each of `sampling_heads` heads, and `hidden` is the width of
    the feed-forward network.
    """

    dim: int = size(CLASS_HEAD, axis=1, hf="d_model")
    depth: int = size("blocks.{}.norm1.weight", maximum=MAX_DEPTH, hf="decoder_layers")
    heads: int = setting(leaf=_heads, hf="decoder_self_attention_heads")
    sampling_heads: int = setting(leaf=_sampling_heads, hf="decoder_cross_attention_heads")
    points: int = size(_points, hf="decoder_n_points")
    hidden: int = size("blocks.0.mlp.fc1.weight", hf="decoder_ffn_dim")

    @property
    def is_consistent(self) -> bool:
        """Whether the heads share the channels, and the sines of boxes fit."""
        # The position of a box has four numbers of `dim / 2` channels, in sines and cosines.
        divides = self.dim % self.heads == self.dim % self.sampling_heads == 0
        return divides and self.dim % 4 == 0


@config_class
class InstanceConfig(Configuration):
    """Hyperparameters of what finds the pixels of things: blocks that a map goes through, and the
    width of the feed-forward network of queries. A pixel of a mask has `stride` pixels of the
    picture along a side."""

    blocks: int = size("instance_head.blocks.{}.norm.weight", maximum=MAX_DEPTH)
    hidden: int = size("instance_head.mlp.fc1.weight", hf="intermediate_size")
    stride: int = setting(default=4, hf=Key("mask_downsample_ratio", library_default=4))


def _queries(usual: DetectionConfig, shapes: Shapes) -> int:
    """Return the queries of one group: a leaf has those of all."""
    groups = count_numbered_leaves(shapes, "proposals.{}.norm.weight")
    return length(shapes, "query_feat") // max(1, groups)


@config_class
class DetectionConfig(OnBackbone):
    """Hyperparameters of a detection transformer: RF-DETR's.

    The backbone attends within `windows` x `windows` windows of a picture, and to all of it in the
    blocks that follow `layers`, whose normed patches are what is read: blocks counted from 1. With
    `windowed`, blocks counted from 0, these attend within windows and all others to all. The
    projector makes one map of these, by `bottlenecks` of `narrow` channels and norms of
    `projector_eps`. There are `queries`, of which each finds a thing of one of `classes` or
    nothing. In training there are `groups` of queries and of their heads; only the first is used
    afterwards. With `instances` there is a mask of each thing too.
    """

    decoder: DecoderConfig
    layers: tuple[int, ...] = setting(
        hf=Key("backbone_config.out_indices", read=parse_nonempty_integers), maximum=MAX_DEPTH
    )
    windows: int = setting(hf="backbone_config.num_windows")
    queries: int = size(_queries, hf="num_queries")
    classes: int = detail(leaf=CLASS_HEAD, minimum=1)
    groups: int = size("proposals.{}.norm.weight", default=13, hf="group_detr")
    bottlenecks: int = size(
        "projector.bottlenecks.{}.0.conv.weight",
        default=3,
        hf="c2f_num_blocks",
        minimum=0,
        maximum=MAX_DEPTH,
    )
    narrow: int = size("projector.conv1.conv.weight", divisor=2, default=128)
    projector_eps: float = detail(default=1e-6, hf=Key("layer_norm_eps", library_default=1e-5))
    instances: InstanceConfig | None = None
    windowed: tuple[int, ...] | None = setting(
        default=None,
        hf=Key("backbone_config.window_block_indexes", read=parse_integers),
        minimum=0,
        maximum=MAX_DEPTH - 1,
    )

    crops: ClassVar[bool] = False
    scores: ClassVar[Scores] = "sigmoid"

    @property
    def task(self) -> Task:
        """Things in boxes, with their pixels if there are `instances`."""
        stride = self.instances.stride if self.instances else None
        return box_task(self.queries, self.classes, stride)

    @property
    def windowed_blocks(self) -> tuple[int, ...]:
        """Blocks that attend within windows, counted from 0, of those that are read."""
        if self.windowed is not None:
            return self.windowed
        return tuple(block for block in range(max(self.layers)) if block not in self.layers)

    @property
    def stride(self) -> int:
        """Pixels of which a picture's sides are multiples: those of a patch in each window."""
        return self.backbone.stride * self.windows

    @property
    def native(self) -> tuple[int, int] | None:
        """(height, width) of the images that learned positions were trained on, if windows fit."""
        native = self.backbone.native
        fits = native is not None and native[0] % self.stride == 0
        return native if fits else None

    @property
    def is_consistent(self) -> bool:
        """Whether the blocks that are read are there."""
        return 0 < max(self.layers, default=0) <= self.depth

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return (
            f"{self.backbone.text}, {self.windows} x {self.windows} windows; "
            f"{self.queries} queries in {self.decoder.depth} blocks of width {self.decoder.dim}"
            f"{', with masks' if self.instances else ''}{describe_classes(self.classes)}"
        )


LEVELS, STRIDE = 3, 32
"""Maps that are read, and pixels of a picture along a side of one of the smallest map: two patches
of the backbone, as many as one of the next and a half of the largest have."""


QUALITY = "quality.0.layers.0.weight"
"""The layer of DEIMv2 that tells of the likeliest bins how good a box is."""

BOTTLENECK = "pyramid.joins.0.branch1.bottlenecks.{}.conv1.conv.weight"
"""A leaf of each bottleneck of DEIMv2's first branch."""


@config_class
class PyramidConfig(Configuration):
    """Hyperparameters of what joins the maps: `depth` transformer blocks of `heads` and `hidden`
    channels for the smallest, then `bottlenecks` of `narrow` channels for each."""

    depth: int = size(
        "pyramid.blocks.{}.norm1.weight", minimum=0, maximum=MAX_DEPTH, hf="encoder_layers"
    )
    heads: int = setting(hf=Key("encoder_attention_heads", library_default=8))
    hidden: int = size("pyramid.blocks.0.mlp.fc1.weight", hf="encoder_ffn_dim")
    narrow: int = size(BOTTLENECK.format(0))
    bottlenecks: int = size(BOTTLENECK, minimum=0, maximum=MAX_DEPTH)


def _finder_heads(usual: FinderConfig, shapes: Shapes) -> int:
    """Return a multiple of the usual heads, of as many points as usual, that suits the leaf that
    has the product of both; 0 without the leaf."""
    product = length(shapes, WEIGHTS)
    return min(product, usual.heads * max(1, product // (usual.heads * sum(usual.points))))


def _points_of_levels(stated: Any) -> tuple[int, ...]:
    """Return the points of each map, which may be stated as one number for all."""
    return (stated,) * LEVELS if type(stated) is int else parse_integers(stated)


@config_class
class FinderConfig(Configuration):
    """Hyperparameters of the transformer of queries.

    Every query looks at each map at so many `points` for each of `heads`; `hidden` is the width
    between the layers of the feed-forward network. Each edge of a box is a distribution over
    `bins`, whose `top_k` probabilities tell how good the box is, by a layer of `quality` channels.
    """

    depth: int = size("blocks.{}.norm1.weight", maximum=MAX_DEPTH, hf="decoder_layers")
    heads: int = setting(leaf=_finder_heads, hf=Key("decoder_attention_heads", library_default=8))
    # Of the two parts of a gate, which are one layer in the settings.
    hidden: int = size("blocks.0.mlp.w1.weight", hf=Key("decoder_ffn_dim", write=lambda n: 2 * n))
    points: tuple[int, ...] = setting(
        default=(3, 6, 3),
        hf=Key("decoder_n_points", read=_points_of_levels, library_default=_points_of_levels(4)),
    )
    bins: int = size(
        "box_heads.0.layers.2.weight", divisor=4, subtract=1, default=32, hf="max_num_bins"
    )
    top_k: int = size(QUALITY, axis=1, divisor=4, subtract=1, default=4, hf="top_prob_values")
    quality: int = size(QUALITY, default=64, hf="lqe_hidden_dim")

    @property
    def is_consistent(self) -> bool:
        """Whether there is an even number of bins, with one more in the middle."""
        return self.bins % 2 == 0 and max(2, self.top_k - 1) < self.bins


def _no_size(stated: Any) -> bool:
    """Return False where pictures of one size are stated, of which positions are computed once.
    **Raises** `ValueError` where that is none."""
    if len(parse_integers(stated)) != 2:
        raise ValueError
    return False


@config_class
class DeimConfig(OnBackbone):
    """Hyperparameters of a network that finds things on maps of three sizes: DEIMv2's.

    The patches behind `layers` of the backbone, counted from 1, are normed, or those of the last
    alone where they are not `normed`. Beside them there are the details of an adapter of `planes`
    channels. All maps and queries have `width` channels. With `placed` the smallest map is told
    where its pixels are. There are `queries`, of which each finds a thing of one of `classes` or
    nothing.
    """

    width: int = size("proposal_classes.weight", axis=1, hf="d_model")
    planes: int = size("adapter.stem.conv.weight", hf="spatial_tuning_adapter_inplanes")
    layers: tuple[int, ...] = setting(
        hf=Key("backbone_config.out_indices", read=parse_nonempty_integers), maximum=MAX_DEPTH
    )
    pyramid: PyramidConfig
    finder: FinderConfig
    queries: int = setting(hf=Key("num_queries", library_default=300))
    classes: int = detail(leaf="proposal_classes.weight", minimum=1)
    normed: bool = detail(
        default=True, hf=Key("backbone_config.apply_layernorm", library_default=True)
    )
    placed: bool = detail(
        default=True,
        hf=Key(
            "eval_size",
            _no_size,
            lambda placed: None if placed else [640, 640],
            library_default=True,
        ),
    )

    crops: ClassVar[bool] = False
    scores: ClassVar[Scores] = "sigmoid"

    @property
    def task(self) -> Task:
        """Things in boxes."""
        return box_task(self.queries, self.classes)

    @property
    def stride(self) -> int:
        """Pixels of which a picture's sides are multiples: those of a pixel of the smallest map."""
        return STRIDE

    @property
    def is_consistent(self) -> bool:
        """Whether three maps are read of blocks that are there, and heads share the channels."""
        pyramid, finder = self.pyramid, self.finder
        read = max(self.layers, default=0) <= self.depth
        shaped = len(self.layers) == len(finder.points) == LEVELS
        # Sines and cosines of two axes.
        split = self.width % 4 == self.width % finder.heads == self.width % pyramid.heads == 0
        return read and shaped and split and 2 * self.backbone.stride == STRIDE

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return (
            f"{self.backbone.text}; maps of width {self.width}, {self.queries} queries in "
            f"{self.finder.depth} blocks{describe_classes(self.classes)}"
        )
