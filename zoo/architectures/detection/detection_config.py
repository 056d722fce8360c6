"""Configurations of detection transformers, RF-DETR and DEIMv2. This module is plain data without
JAX."""

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
"""Leaves of RF-DETR: the classifier of queries, and the layer that computes the weights of points
of all heads."""


def _read_heads(config: DecoderConfig, shapes: Shapes) -> int:
    """Return the number of attention heads of a decoder of the checkpoint's width, at least 1.

    No leaf determines the number. Each head is assumed to have as many channels as in `config`.
    """
    return length(shapes, CLASS_HEAD, 1) * config.heads // config.dim or 1


def _read_sampling_heads(config: DecoderConfig, shapes: Shapes) -> int:
    """Return the number of sampling heads of a decoder of the checkpoint's width, at least 1.

    No leaf determines the number. Each head is assumed to have as many channels as in `config`.
    """
    return length(shapes, CLASS_HEAD, 1) * config.sampling_heads // config.dim or 1


def _read_points(config: DecoderConfig, shapes: Shapes) -> int:
    """Return the number of points of each sampling head; 0 if the leaf is missing.

    The leaf has the product of points and heads. The number of heads is that of
    `_read_sampling_heads`.
    """
    product = length(shapes, WEIGHTS)
    return min(product, max(1, product // _read_sampling_heads(config, shapes)))


@config_class
class DecoderConfig(Configuration):
    """Configuration of the transformer that reads a map at points.

    - `dim`, `depth`: channels of a query, and number of blocks.
    - `heads`: heads of the attention among queries.
    - `sampling_heads`, `points`: heads of the attention to the map, and points of each head.
    - `hidden`: channels inside the feed-forward network.
    """

    dim: int = size(CLASS_HEAD, axis=1, hf="d_model")
    depth: int = size("blocks.{}.norm1.weight", maximum=MAX_DEPTH, hf="decoder_layers")
    heads: int = setting(leaf=_read_heads, hf="decoder_self_attention_heads")
    sampling_heads: int = setting(leaf=_read_sampling_heads, hf="decoder_cross_attention_heads")
    points: int = size(_read_points, hf="decoder_n_points")
    hidden: int = size("blocks.0.mlp.fc1.weight", hf="decoder_ffn_dim")

    @property
    def is_consistent(self) -> bool:
        """Whether the number of channels is a multiple of the numbers of heads, and of 4."""
        # The position of a box has four numbers, each with `dim / 2` channels of sines and cosines.
        heads_fit = self.dim % self.heads == self.dim % self.sampling_heads == 0
        return heads_fit and self.dim % 4 == 0


@config_class
class InstanceConfig(Configuration):
    """Configuration of the head that predicts masks.

    - `blocks`: blocks that process the map.
    - `hidden`: channels inside the feed-forward network of queries.
    - `stride`: pixels of the picture along a side of a mask's pixel.
    """

    blocks: int = size("instance_head.blocks.{}.norm.weight", maximum=MAX_DEPTH)
    hidden: int = size("instance_head.mlp.fc1.weight", hf="intermediate_size")
    stride: int = setting(default=4, hf=Key("mask_downsample_ratio", library_default=4))


def _read_queries(config: DetectionConfig, shapes: Shapes) -> int:
    """Return the number of queries of one group. The leaf has the queries of all groups, which are
    counted by their heads."""
    groups = count_numbered_leaves(shapes, "proposals.{}.norm.weight")
    return length(shapes, "query_feat") // max(1, groups)


@config_class
class DetectionConfig(OnBackbone):
    """Configuration of RF-DETR.

    - `decoder`: the transformer of queries, which reads the map at points.
    - `layers`: numbers of the backbone's blocks, counted from 1, whose normalised patches are read.
    - `windows`: the picture is split into `windows` x `windows` windows.
    - `queries`: the number of queries. Each detects one object, or none.
    - `classes`: the number of classes.
    - `groups`: the number of groups of queries and of their heads in training. Inference uses the
      first group.
    - `bottlenecks`, `narrow`, `projector_eps`: the number of bottlenecks of the projector, their
      channels, and the epsilon of its norms.
    - `instances`: the head for masks; None for a network without masks.
    - `windowed`: blocks, counted from 0, that attend within windows. All other blocks attend to the
      full picture. With None, a block attends to the full picture if it comes directly after one of
      `layers`, and within windows otherwise.
    """

    decoder: DecoderConfig
    layers: tuple[int, ...] = setting(
        hf=Key("backbone_config.out_indices", read=parse_nonempty_integers), maximum=MAX_DEPTH
    )
    windows: int = setting(hf="backbone_config.num_windows")
    queries: int = size(_read_queries, hf="num_queries")
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
        """The task: objects in boxes, with masks if there is a head for them."""
        stride = self.instances.stride if self.instances else None
        return box_task(self.queries, self.classes, stride)

    @property
    def windowed_blocks(self) -> tuple[int, ...]:
        """Blocks, counted from 0, that attend within windows. If `windowed` is None, blocks after
        the last of `layers` are left out, because the network does not use them."""
        if self.windowed is not None:
            return self.windowed
        return tuple(block for block in range(max(self.layers)) if block not in self.layers)

    @property
    def stride(self) -> int:
        """Number of pixels of which a picture's sides must be multiples: one patch in each
        window."""
        return self.backbone.stride * self.windows

    @property
    def native_size(self) -> tuple[int, int] | None:
        """(height, width) of the pictures that learned positions were trained on; None if there are
        none, or if the height is not a multiple of the stride."""
        native_size = self.backbone.native_size
        windows_fit = native_size is not None and native_size[0] % self.stride == 0
        return native_size if windows_fit else None

    @property
    def is_consistent(self) -> bool:
        """Whether at least one block is read, and all blocks in `layers` exist."""
        return 0 < max(self.layers, default=0) <= self.depth

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        return (
            f"{self.backbone.description}, {self.windows} x {self.windows} windows; "
            f"{self.queries} queries in {self.decoder.depth} blocks of width {self.decoder.dim}"
            f"{', with masks' if self.instances else ''}{describe_classes(self.classes)}"
        )


LEVELS, STRIDE = 3, 32
"""Number of maps, and side, in pixels of the picture, of the square that one pixel of the smallest
map covers. This is two patches of the backbone. A pixel of the next map covers one patch, and a
pixel of the largest map half a patch along each side."""


QUALITY = "quality.0.layers.0.weight"
"""Leaf of the layer of DEIMv2 that rates boxes by the probabilities of their likeliest bins."""

BOTTLENECK = "pyramid.joins.0.branch1.bottlenecks.{}.conv1.conv.weight"
"""Leaf of each bottleneck in the first branch of DEIMv2."""


@config_class
class PyramidConfig(Configuration):
    """Configuration of the layers that exchange information between the maps.

    - `depth`, `heads`, `hidden`: the number of transformer blocks of the smallest map, of their
      heads, and of the channels inside their feed-forward networks.
    - `narrow`, `bottlenecks`: the number of channels and of bottlenecks of each branch of a join
      layer.
    """

    depth: int = size(
        "pyramid.blocks.{}.norm1.weight", minimum=0, maximum=MAX_DEPTH, hf="encoder_layers"
    )
    heads: int = setting(hf=Key("encoder_attention_heads", library_default=8))
    hidden: int = size("pyramid.blocks.0.mlp.fc1.weight", hf="encoder_ffn_dim")
    narrow: int = size(BOTTLENECK.format(0))
    bottlenecks: int = size(BOTTLENECK, minimum=0, maximum=MAX_DEPTH)


def _read_finder_heads(config: FinderConfig, shapes: Shapes) -> int:
    """Return a number of heads that fits a checkpoint; 0 if the leaf is missing.

    The leaf has the product of heads and points, so the number of points is taken from `config`.
    The result is a multiple of the configuration's heads, or the product if that is smaller.
    """
    product = length(shapes, WEIGHTS)
    return min(product, config.heads * max(1, product // (config.heads * sum(config.points))))


def _parse_points(value: Any) -> tuple[int, ...]:
    """Return the number of points on each map, from a setting that is one number for all maps or a
    list of numbers. **Raises** `TypeError` for any other value."""
    return (value,) * LEVELS if type(value) is int else parse_integers(value)


@config_class
class FinderConfig(Configuration):
    """Configuration of the transformer of queries.

    - `depth`: number of blocks.
    - `heads`, `points`: heads, and points of each head on each map.
    - `hidden`: channels between the layers of the feed-forward network.
    - `bins`: one less than the number of bins of the distribution of each edge of a box.
    - `top_k`, `quality`: number of largest probabilities of each edge that rate the box, and
      channels of the layer that does this.
    """

    depth: int = size("blocks.{}.norm1.weight", maximum=MAX_DEPTH, hf="decoder_layers")
    heads: int = setting(
        leaf=_read_finder_heads, hf=Key("decoder_attention_heads", library_default=8)
    )
    # The settings have the channels of both parts of the gated layer together.
    hidden: int = size("blocks.0.mlp.w1.weight", hf=Key("decoder_ffn_dim", write=lambda n: 2 * n))
    points: tuple[int, ...] = setting(
        default=(3, 6, 3),
        hf=Key("decoder_n_points", read=_parse_points, library_default=_parse_points(4)),
    )
    bins: int = size(
        "box_heads.0.layers.2.weight", divisor=4, subtract=1, default=32, hf="max_num_bins"
    )
    top_k: int = size(QUALITY, axis=1, divisor=4, subtract=1, default=4, hf="top_prob_values")
    quality: int = size(QUALITY, default=64, hf="lqe_hidden_dim")

    @property
    def is_consistent(self) -> bool:
        """Whether `bins` is even, so that one of the `bins + 1` bins is in the middle, above 2, and
        at least `top_k`."""
        return self.bins % 2 == 0 and max(2, self.top_k - 1) < self.bins


def _parse_placed(value: Any) -> bool:
    """Return False, the value of `DeimConfig.placed` if settings state a (height, width) of
    pictures: the positions of pixels are then not added. **Raises** `TypeError` if the setting is
    not a list of integers, and `ValueError` if it does not have two."""
    if len(parse_integers(value)) != 2:
        raise ValueError
    return False


@config_class
class DeimConfig(OnBackbone):
    """Configuration of DEIMv2, which detects objects on maps of three sizes.

    - `width`: channels of all maps and queries.
    - `planes`: channels of the adapter, which adds details of the picture.
    - `layers`: blocks of the backbone, counted from 1, whose patches are read.
    - `pyramid`, `finder`: the layers that join the maps, and the transformer of queries.
    - `queries`: number of queries. Each detects one object, or none.
    - `classes`: number of classes.
    - `normed`: whether the patches of all `layers` are normalised; otherwise only those of the last
      block are.
    - `placed`: whether the positions of pixels are added in the smallest map.
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
            _parse_placed,
            lambda placed: None if placed else [640, 640],
            library_default=True,
        ),
    )

    crops: ClassVar[bool] = False
    scores: ClassVar[Scores] = "sigmoid"

    @property
    def task(self) -> Task:
        """The task: objects in boxes."""
        return box_task(self.queries, self.classes)

    @property
    def stride(self) -> int:
        """Number of pixels of which a picture's sides must be multiples: the side of the square
        that one pixel of the smallest map covers."""
        return STRIDE

    @property
    def is_consistent(self) -> bool:
        """Whether `layers` and the finder's `points` have exactly three entries, the backbone has
        the blocks in `layers`, the width is a multiple of 4 and of the numbers of heads, and a
        patch has half of the stride as its side."""
        pyramid, finder = self.pyramid, self.finder
        layers_exist = max(self.layers, default=0) <= self.depth
        levels_fit = len(self.layers) == len(finder.points) == LEVELS
        # Positions have sines and cosines of two axes.
        heads_fit = self.width % 4 == self.width % finder.heads == self.width % pyramid.heads == 0
        return layers_exist and levels_fit and heads_fit and 2 * self.backbone.stride == STRIDE

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        return (
            f"{self.backbone.description}; maps of width {self.width}, {self.queries} queries in "
            f"{self.finder.depth} blocks{describe_classes(self.classes)}"
        )
