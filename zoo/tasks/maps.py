"""Compute and draw maps of a picture: areas of masks and classes, depths, and colours of numbers.

The functions `post_process_semantic_segmentation`, `post_process_instance_segmentation` and
`post_process_panoptic_segmentation` compute what the methods of the same names of transformers'
`EomtImageProcessor` do (`image_processing_eomt.py`), for one picture without a batch axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weights.initializers import Float32
from zoo.tasks.answer import Size, sigmoid, size_inside, softmax

if TYPE_CHECKING:
    from PIL.Image import Image

UInt8 = NDArray[np.uint8]

PAPER, INK = (255, 255, 255), (32, 32, 32)
"""The colours of the background and the text of a drawing: red, green, blue."""

RAMP = np.array(
    [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], np.float32
)
"""From small to large: five colours of viridis, which stay in order in grey and for the colour
blind (Smith and van der Walt, 2015)."""


def components(patches: Float32) -> UInt8:
    """The first three principal components of all patches as red, green and blue.

    **Arguments:** [n, rows, columns, dim]. The components are those of all images together, so that
    what is alike in two of them has one colour. **Returns** [n, rows, columns, 3].
    """
    rows = patches.reshape(-1, patches.shape[-1])
    centred = rows - rows.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:3]
    # The sign of a component is left open: its largest weight is made positive.
    largest = np.take_along_axis(directions, abs(directions).argmax(1)[:, None], axis=1)
    scores = centred @ (directions * np.sign(largest)).T
    return _spread(scores, axis=0).reshape(*patches.shape[:3], len(directions))


def ramp(values: Float32) -> UInt8:
    """Colours from the smallest to the largest value: [..., 3]."""
    level = _spread(values, axis=None).astype(np.float32) / 255 * (len(RAMP) - 1)
    bands = [np.interp(level, range(len(RAMP)), RAMP[:, band]) for band in range(3)]
    return np.stack(bands, axis=-1).round().astype(np.uint8)


def _spread(values: Float32, axis: int | None) -> UInt8:
    """From 0 to 255."""
    low, high = values.min(axis, keepdims=True), values.max(axis, keepdims=True)
    return (255 * (values - low) / np.maximum(high - low, 1e-12)).round().astype(np.uint8)


Areas = NDArray[np.int64]
NOWHERE = -1
"""The number of pixels that are in no segment."""


class Segment(NamedTuple):
    """An area: its number in the map, its class, and how sure the network is of it, from 0 to 1."""

    id: int
    label_id: int
    score: float


class Segmentation(NamedTuple):
    """Segment of every pixel `[height, width]`, or -1, and what is known of each."""

    segmentation: Areas
    segments_info: tuple[Segment, ...]


class QueryMasks:
    """The outputs for one picture, and from which size to which their masks are brought.

    Masks are resized as torch's `interpolate(mode="bilinear")` does: first to `size`, (height,
    width) of the network's input, of which a padded picture has the upper left part, and then to
    `target`, that of the picture.
    """

    def __init__(
        self, outputs: Mapping[str, NDArray[Any]], target: Size, size: Size, padded: bool = True
    ):
        """**Arguments:** `class_queries_logits [queries, classes + 1]` and `masks_queries_logits
        [queries, h, w]`; the rest as above."""
        self.scores = softmax(np.asarray(outputs["class_queries_logits"], np.float32))
        self.masks = np.asarray(outputs["masks_queries_logits"], np.float32)
        self.target, self.size = target, size
        self.shown = size_inside(target, size) if padded else size

    def at_size(self, query: int) -> Float32:
        """Logits of a mask at the size of the input, without what is padded."""
        resized = resize_bilinear(self.masks[query], self.size)
        return resized[: self.shown[0], : self.shown[1]]

    def at_target(self, query: int) -> Float32:
        """Logits of a mask at the size of the picture."""
        return resize_bilinear(self.at_size(query), self.target)


def post_process_semantic_segmentation(masks: QueryMasks) -> Areas:
    """The class of every pixel `[height, width]`.

    transformers takes padding for a part of the picture here; this leaves it out, as its two other
    functions do.
    """
    classes = masks.scores[:, :-1]
    total = np.zeros((classes.shape[1], *masks.shown), np.float32)
    for query, shares in enumerate(classes):
        total += shares[:, None, None] * sigmoid(masks.at_size(query))
    return _largest(total, masks.target)


def post_process_instance_segmentation(masks: QueryMasks, threshold: float = 0.8) -> Segmentation:
    """One segment for each query whose class, times the mean of its mask where that is, is as sure
    as `threshold`; of two in one place the later is seen."""
    areas = np.full(masks.target, NOWHERE)
    segments: list[Segment] = []
    for query, scores in enumerate(masks.scores[:, :-1]):
        # The mean of a mask is 1 at most.
        if scores.max() < threshold:
            continue
        logits = masks.at_target(query)
        inside = logits > 0
        sure = sigmoid(logits)[inside].sum() / np.float32(inside.sum() + 1e-6)
        score = float(scores.max() * sure)
        if inside.any() and score >= threshold:
            areas[inside] = len(segments)
            segments.append(Segment(len(segments), int(scores.argmax()), round(score, 6)))
    return Segmentation(areas, tuple(segments))


def post_process_panoptic_segmentation(
    masks: QueryMasks,
    threshold: float = 0.8,
    mask_threshold: float = 0.5,
    overlap_mask_area_threshold: float = 0.8,
    stuff_classes: Sequence[int] = (),
) -> Segmentation:
    """Segments that share no pixel: each pixel is in that of the query that is surest of it.

    Only queries with a class surer than `threshold` count, and of these only those that keep more
    of what they are surer of than `mask_threshold` than `overlap_mask_area_threshold`. All segments
    of one of `stuff_classes` are one.
    """
    areas = np.full(masks.target, NOWHERE)
    labels, sure = masks.scores.argmax(axis=-1), masks.scores.max(axis=-1)
    kept = np.flatnonzero((labels != masks.scores.shape[1] - 1) & (sure > threshold))
    if not kept.size:
        return Segmentation(areas, ())
    parts = np.stack([sigmoid(masks.at_target(int(query))) for query in kept])
    surest = (sure[kept, None, None] * parts).argmax(axis=0)
    segments: list[Segment] = []
    stuff: dict[int, int] = {}
    for place, query in enumerate(kept):
        own, whole = surest == place, parts[place] >= mask_threshold
        seen = own & whole
        if not seen.any() or own.sum() / whole.sum() <= overlap_mask_area_threshold:
            continue
        label = int(labels[query])
        number = stuff.get(label, len(segments))
        areas[seen] = number
        if number == len(segments):
            segments.append(Segment(number, label, round(float(sure[query]), 6)))
        if label in stuff_classes:
            stuff[label] = number
    return Segmentation(areas, tuple(segments))


def class_map(logits: Float32, target: Size) -> Areas:
    """The class of every pixel of a picture, from `logits [classes, h, w]` of its patches."""
    return _largest(np.asarray(logits, np.float32), target)


def _largest(scores: Float32, target: Size) -> Areas:
    """Which of `[classes, h, w]` is largest at another size; one is resized at a time."""
    best, areas = np.full(target, -np.inf, np.float32), np.zeros(target, np.int64)
    for number, score in enumerate(scores):
        resized = resize_bilinear(score, target)
        more = resized > best
        best[more], areas[more] = resized[more], number
    return areas


def resize_bilinear(values: Float32, size: Size) -> Float32:
    """`[h, w]` to another size as torch's `interpolate(mode="bilinear", align_corners=False)`."""
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
    """A colour for each number, black where there is none."""
    from PIL import Image as pil

    colours = np.random.default_rng(0).integers(48, 256, (int(areas.max()) + 2, 3), np.uint8)
    colours[NOWHERE] = 0
    return pil.fromarray(colours[areas])


def drawn_maps(maps: Float32 | None) -> tuple[NDArray[np.uint8], str] | None:
    """Picture of which of `[1, n, h, w]` is largest where, and what that shows; None of nothing."""
    if maps is None:
        return None
    areas = ramp(maps[0].argmax(0).astype(np.float32))
    return areas, "What is where in the photograph of a cat"


def depth_map(predicted: Float32, size: Size) -> Float32:
    """Depths `[h, w]` resized to `[height, width]` by cubic convolution.

    Source: `post_process_depth_estimation` of transformers' `DPTImageProcessor`, which calls
    torch's `interpolate(mode="bicubic", align_corners=False)`: Keys's convolution with a = -3/4,
    the values at the edge repeated, and no antialiasing where it shrinks.
    """
    values = np.asarray(predicted, np.float32)
    for axis, count in enumerate(size):
        values = _convolved(values, axis, count)
    return values


A = -0.75
"""Keys's parameter, as torch has it; Pillow has -0.5."""


def _convolved(values: Float32, axis: int, count: int) -> Float32:
    """Resize `[h, w]` to `count` values along an axis."""
    length = values.shape[axis]
    if length == count:
        return values
    centres = (np.arange(count, dtype=np.float32) + 0.5) * np.float32(length / count) - 0.5
    first = np.floor(centres)
    share = np.expand_dims(centres - first, 1 - axis)
    total = np.zeros((), np.float32)
    for tap in range(-1, 3):
        positions = np.clip(first.astype(np.int64) + tap, 0, length - 1)
        total = total + values.take(positions, axis) * _weight(np.abs(share - tap))
    return total


def _weight(x: Float32) -> Float32:
    """Keys's cubic convolution at a distance of at most 2."""
    near = ((A + 2) * x - (A + 3)) * x * x + 1
    far = ((A * x - 5 * A) * x + 8 * A) * x - 4 * A
    return np.where(x <= 1, near, far).astype(np.float32)


def draw_depth(depth: Float32) -> Image:
    """Colours from the smallest to the largest depth."""
    from PIL import Image as pil

    return pil.fromarray(ramp(depth))
