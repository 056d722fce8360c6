"""Compute and draw maps of a picture: areas of masks and classes, depths, and numbers as colours.

`post_process_semantic_segmentation`, `post_process_instance_segmentation` and
`post_process_panoptic_segmentation` compute the results of the methods of the same names of
transformers' `EomtImageProcessor` (`image_processing_eomt.py`), for one picture without a batch
axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weights.initializers import Float32
from zoo.tasks.answer import Size, fit_size, sigmoid, softmax

if TYPE_CHECKING:
    from PIL.Image import Image

UInt8 = NDArray[np.uint8]

PAPER, INK = (255, 255, 255), (32, 32, 32)
"""The colours of the background and the text of a drawing: red, green, blue."""

RAMP = np.array(
    [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], np.float32
)
"""Five colours of viridis for numbers from small to large. Their order remains visible in grey and
to colour-blind people (Smith and van der Walt, 2015)."""


def principal_components(patches: Float32) -> UInt8:
    """Return the first three principal components of the patches of images as red, green and blue.

    `patches` has the shape `[n, rows, columns, dim]`, the result `[n, rows, columns, 3]`. There
    must be at least three patches and three channels. The components are computed over all images
    together, so that similar patches of two images have the same colour. Each component is scaled
    to 0 … 255.
    """
    rows = patches.reshape(-1, patches.shape[-1])
    centred = rows - rows.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:3]
    # The sign of a principal component is arbitrary. Its largest weight is made positive.
    largest = np.take_along_axis(directions, abs(directions).argmax(1)[:, None], axis=1)
    scores = centred @ (directions * np.sign(largest)).T
    return _scale_to_bytes(scores, axis=0).reshape(*patches.shape[:3], len(directions))


def map_to_colours(values: Float32) -> UInt8:
    """Return a colour of `RAMP` for each number, as `[..., 3]` from 0 to 255.

    The smallest number has the first colour and the largest has the last. Colours between are
    interpolated. If all numbers are equal, they have the first colour.
    """
    level = _scale_to_bytes(values, axis=None).astype(np.float32) / 255 * (len(RAMP) - 1)
    bands = [np.interp(level, range(len(RAMP)), RAMP[:, band]) for band in range(3)]
    return np.stack(bands, axis=-1).round().astype(np.uint8)


def _scale_to_bytes(values: Float32, axis: int | None) -> UInt8:
    """Return the values scaled linearly to 0 … 255.

    With `axis`, the smallest and largest values are computed along this axis. Without it they are
    those of the whole array. Equal values become 0.
    """
    low, high = values.min(axis, keepdims=True), values.max(axis, keepdims=True)
    return (255 * (values - low) / np.maximum(high - low, 1e-12)).round().astype(np.uint8)


Areas = NDArray[np.int64]
"""The number of the segment or class of every pixel, `[height, width]`."""
NO_SEGMENT = -1
"""The number of pixels that are in no segment."""


class Segment(NamedTuple):
    """An area of a picture: its number in the map, its class's index, and its score from 0 to 1."""

    id: int
    label_id: int
    score: float


class Segmentation(NamedTuple):
    """The areas of a picture.

    - `segmentation`: the number of the segment at every pixel, `[height, width]`. -1 means none.
    - `segments_info`: the segments.
    """

    segmentation: Areas
    segments_info: tuple[Segment, ...]


class QueryMasks:
    """The class scores and masks of a network's queries for one picture.

    Masks are resized as by torch's `interpolate(mode="bilinear")`: first to `size`, the (height,
    width) of the network's input, and then to `target`, the (height, width) of the picture. A
    padded picture is in the upper left part of the input.
    """

    def __init__(
        self, outputs: Mapping[str, NDArray[Any]], target: Size, size: Size, padded: bool = True
    ):
        """**Arguments**

        - `outputs`: `class_queries_logits [queries, classes + 1]` and `masks_queries_logits
          [queries, h, w]`.
        - `target`, `size`: the sizes of the picture and of the network's input.
        - `padded`: whether the picture was padded to `size`.
        """
        self.scores = softmax(np.asarray(outputs["class_queries_logits"], np.float32))
        self.masks = np.asarray(outputs["masks_queries_logits"], np.float32)
        self.target, self.size = target, size
        self.unpadded_size = fit_size(target, size) if padded else size

    def input_logits(self, query: int) -> Float32:
        """Return the mask of a query as logits, resized to the network's input without its padding.

        `query` is the index of the query. The result is `[height, width]`.
        """
        resized = resize_bilinear(self.masks[query], self.size)
        return resized[: self.unpadded_size[0], : self.unpadded_size[1]]

    def picture_logits(self, query: int) -> Float32:
        """Return the mask of a query as logits, resized to the picture, `[height, width]`.

        `query` is the index of the query.
        """
        return resize_bilinear(self.input_logits(query), self.target)


def post_process_semantic_segmentation(masks: QueryMasks) -> Areas:
    """Return the index of the class of every pixel, `[height, width]`.

    The score of a class at a pixel is the sum over the queries of the probability of the class
    times the mask. The padding of the input is left out. The function of transformers takes the
    padding for a part of the picture.
    """
    classes = masks.scores[:, :-1]
    total = np.zeros((classes.shape[1], *masks.unpadded_size), np.float32)
    for query, shares in enumerate(classes):
        total += shares[:, None, None] * sigmoid(masks.input_logits(query))
    return _index_of_largest(total, masks.target)


def post_process_instance_segmentation(masks: QueryMasks, threshold: float = 0.8) -> Segmentation:
    """Return a segment for each query whose score is at least `threshold`, from 0 to 1.

    The class of a query is its most probable one, other than "no area". The score is the
    probability of this class times the mean of the query's mask within its area, where the mask is
    above one half. A query with an empty area has no segment.

    Segments are numbered from 0 in the order of the queries. Where segments overlap, that of the
    later query covers the other, which stays in `segments_info` even if it has no pixel left.
    """
    areas = np.full(masks.target, NO_SEGMENT)
    segments: list[Segment] = []
    for query, scores in enumerate(masks.scores[:, :-1]):
        # The mean of a mask is at most 1, so the score cannot reach the threshold.
        if scores.max() < threshold:
            continue
        logits = masks.picture_logits(query)
        covered = logits > 0
        mean_mask = sigmoid(logits)[covered].sum() / np.float32(covered.sum() + 1e-6)
        score = float(scores.max() * mean_mask)
        if covered.any() and score >= threshold:
            areas[covered] = len(segments)
            segments.append(Segment(len(segments), int(scores.argmax()), round(score, 6)))
    return Segmentation(areas, tuple(segments))


def post_process_panoptic_segmentation(
    masks: QueryMasks,
    threshold: float = 0.8,
    mask_threshold: float = 0.5,
    overlap_mask_area_threshold: float = 0.8,
    stuff_classes: Sequence[int] = (),
) -> Segmentation:
    """Return segments that do not overlap, each with the class of its query.

    The score of a query at a pixel is the probability of the query's class times its mask there.
    Only confident queries are compared: their most probable class is not "no area", and its
    probability is above `threshold`. Each pixel belongs to the confident query with the largest
    score. Such a query becomes a segment if the number of pixels that belong to it, divided by the
    number of pixels of its area, is above `overlap_mask_area_threshold`. Its area is where its mask
    is at least `mask_threshold`.

    A segment contains the pixels of its area that belong to the query. Other pixels are in no
    segment. Segments are numbered from 0 in the order of the queries, and their score is the
    probability of the class. All segments of one class of `stuff_classes`, which are class indices,
    are joined with the first of them.
    """
    areas = np.full(masks.target, NO_SEGMENT)
    labels, confidences = masks.scores.argmax(axis=-1), masks.scores.max(axis=-1)
    confident_queries = np.flatnonzero(
        (labels != masks.scores.shape[1] - 1) & (confidences > threshold)
    )
    if not confident_queries.size:
        return Segmentation(areas, ())
    parts = np.stack([sigmoid(masks.picture_logits(int(query))) for query in confident_queries])
    best_position = (confidences[confident_queries, None, None] * parts).argmax(axis=0)
    segments: list[Segment] = []
    stuff: dict[int, int] = {}
    for position, query in enumerate(confident_queries):
        largest, area = best_position == position, parts[position] >= mask_threshold
        visible = largest & area
        if not visible.any() or largest.sum() / area.sum() <= overlap_mask_area_threshold:
            continue
        label = int(labels[query])
        number = stuff.get(label, len(segments))
        areas[visible] = number
        if number == len(segments):
            segments.append(Segment(number, label, round(float(confidences[query]), 6)))
        if label in stuff_classes:
            stuff[label] = number
    return Segmentation(areas, tuple(segments))


def class_map(logits: Float32, target: Size) -> Areas:
    """Return the index of the class with the largest logit at every pixel of a picture.

    `logits [classes, h, w]` are resized to `target`, the (height, width) of the picture.
    """
    return _index_of_largest(np.asarray(logits, np.float32), target)


def _index_of_largest(scores: Float32, target: Size) -> Areas:
    """Return the index of the largest score at every pixel of a picture, `[height, width]`.

    `scores [classes, h, w]` are resized to `target`, the (height, width) of the picture. Only one
    class is resized at a time, to save memory.
    """
    best, areas = np.full(target, -np.inf, np.float32), np.zeros(target, np.int64)
    for number, score in enumerate(scores):
        resized = resize_bilinear(score, target)
        larger = resized > best
        best[larger], areas[larger] = resized[larger], number
    return areas


def resize_bilinear(values: Float32, size: Size) -> Float32:
    """Resize an array `[h, w]` to `size`, its new (height, width), by bilinear interpolation.

    The result is that of torch's `interpolate(mode="bilinear", align_corners=False)`.
    """
    for axis, count in enumerate(size):
        length = values.shape[axis]
        centres = (np.arange(count, dtype=np.float32) + 0.5) * np.float32(length / count) - 0.5
        centres = np.maximum(centres, 0).astype(np.float32)
        low = np.minimum(centres.astype(np.int64), length - 1)
        share = np.expand_dims(centres - low, 1 - axis).astype(np.float32)
        high = np.minimum(low + 1, length - 1)
        values = values.take(low, axis) * (1 - share) + values.take(high, axis) * share
    return values


def draw_areas(areas: Areas) -> Image:
    """Return a picture with a random colour for each number, and black for pixels of -1.

    The colours of the numbers are the same in each call.
    """
    from PIL import Image as pil

    colours = np.random.default_rng(0).integers(48, 256, (int(areas.max()) + 2, 3), np.uint8)
    colours[NO_SEGMENT] = 0
    return pil.fromarray(colours[areas])


def draw_largest(maps: Float32 | None) -> tuple[NDArray[np.uint8], str] | None:
    """Return a picture of the index of the largest of `n` maps at each position, and its caption.

    The indices have the colours of `RAMP`. `maps` has the shape `[1, n, h, w]`. If it is None,
    return None.
    """
    if maps is None:
        return None
    areas = map_to_colours(maps[0].argmax(0).astype(np.float32))
    return areas, "The areas in the photograph of a cat"


def depth_map(predicted: Float32, size: Size) -> Float32:
    """Return the depths `[h, w]` resized by cubic convolution to `size`, the new (height, width).

    Source: `post_process_depth_estimation` of transformers' `DPTImageProcessor`, which calls
    torch's `interpolate(mode="bicubic", align_corners=False)`. This is Keys's convolution with a =
    -3/4, with repeated values beyond the edges and no antialiasing if the map shrinks.
    """
    values = np.asarray(predicted, np.float32)
    for axis, count in enumerate(size):
        values = _resize_cubic(values, axis, count)
    return values


KEYS_A = -0.75
"""The parameter of Keys's convolution in torch. Pillow uses -0.5."""


def _resize_cubic(values: Float32, axis: int, count: int) -> Float32:
    """Resize an array `[h, w]` to `count` values along an axis, by Keys's cubic convolution.

    Return the array itself if it has this length already.
    """
    length = values.shape[axis]
    if length == count:
        return values
    centres = (np.arange(count, dtype=np.float32) + 0.5) * np.float32(length / count) - 0.5
    first = np.floor(centres)
    share = np.expand_dims(centres - first, 1 - axis)
    total = np.zeros((), np.float32)
    for tap in range(-1, 3):
        positions = np.clip(first.astype(np.int64) + tap, 0, length - 1)
        total = total + values.take(positions, axis) * _cubic_weight(np.abs(share - tap))
    return total


def _cubic_weight(x: Float32) -> Float32:
    """Return Keys's cubic convolution kernel at the distances `x`, which are from 0 to 2."""
    inner = ((KEYS_A + 2) * x - (KEYS_A + 3)) * x * x + 1
    outer = ((KEYS_A * x - 5 * KEYS_A) * x + 8 * KEYS_A) * x - 4 * KEYS_A
    return np.where(x <= 1, inner, outer).astype(np.float32)


def draw_depth(depth: Float32) -> Image:
    """Return a picture of depths `[height, width]` in the colours of `RAMP`.

    The smallest depth has the first colour.
    """
    from PIL import Image as pil

    return pil.fromarray(map_to_colours(depth))
