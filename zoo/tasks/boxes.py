"""Compute boxes of objects in a picture from the outputs of a detector's queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.tasks.answer import Corners, InputSize, Outputs, Size, fit_size, sigmoid
from zoo.tasks.maps import NO_SEGMENT, Areas, resize_bilinear

if TYPE_CHECKING:
    from PIL.Image import Image

THRESHOLD = 0.5
"""The score that a box must exceed by default."""


class Box(NamedTuple):
    """An object in a picture: the index of its class, its score, its box, and its query's index."""

    label_id: int
    score: float
    corners: Corners
    query: int = 0


def post_process_object_detection(
    outputs: Mapping[str, NDArray[Any]],
    target: Size,
    input_size: InputSize | None = None,
    threshold: float = THRESHOLD,
) -> list[Box]:
    """Return the boxes with scores above `threshold`, best first.

    A score is the sigmoid of a logit. The largest scores of all queries and classes are taken, at
    most as many as there are queries. A query may find two objects, and no box is dropped because
    it overlaps another. Edges are in pixels of the picture and may lie outside of it.

    **Arguments**

    - `outputs`: `logits [queries, classes]` and `pred_boxes [queries, 4]` of one picture.
    - `target`: the (height, width) of the picture.
    - `input_size`: the size of the network's input, needed if the picture was padded.
    - `threshold`: the score that a box must exceed, from 0 to 1.

    Source: `RfDetrImageProcessor` of transformers.
    """
    scores = sigmoid(np.asarray(outputs["logits"], np.float32))
    boxes = np.asarray(outputs["pred_boxes"], np.float32)
    queries, classes = scores.shape
    flat = scores.reshape(-1)
    best = np.argsort(-flat, kind="stable")[:queries]
    best = best[flat[best] > threshold]
    height, width = extent_in_pixels(target, input_size)
    centre, half = boxes[:, :2], boxes[:, 2:] / 2
    sides = np.array([width, height] * 2, np.float32)
    corners = np.concatenate([centre - half, centre + half], axis=-1) * sides
    return [
        Box(int(index % classes), float(flat[index]), _corners(corners[query]), int(query))
        for index, query in zip(best, best // classes, strict=True)
    ]


def align_detections(actual: Outputs, expected: Outputs) -> tuple[Outputs, Outputs]:
    """Return two batches of a detector's outputs in a form in which their numbers can be compared.

    Rounding can reorder queries with low scores or replace them by others, which is no error. Each
    query of `expected` is therefore paired with the most similar query of `actual`, and the queries
    of `actual` are put in the order of `expected`. In both results, `logits` contains scores in
    place of logits, and boxes and masks are multiplied by the best score of their query.

    Both arguments are arrays `[batch, queries, ...]` by output name. They are returned unchanged if
    either lacks `logits` or `pred_boxes`.
    """
    if not {"logits", "pred_boxes"} <= actual.keys() & expected.keys():
        return actual, expected
    return _weight_by_score(actual, _match_queries(actual, expected)), _weight_by_score(
        expected, None
    )


def _match_queries(actual: Outputs, expected: Outputs) -> NDArray[np.int64]:
    """Return for each query of `expected` the index of the paired query of `actual`.

    The result has the shape `[batch, queries]`. Pairs are chosen greedily: at each step the two
    unpaired queries whose scores and boxes differ least.
    """
    indices = np.zeros(expected["logits"].shape[:2], np.int64)
    for row in range(len(indices)):
        actual_rows, expected_rows = (
            _scores_and_boxes(outputs, row) for outputs in (actual, expected)
        )
        distances = np.abs(actual_rows[:, None] - expected_rows).sum(axis=-1)
        for _ in range(len(distances)):
            query, position = np.unravel_index(np.argmin(distances), distances.shape)
            indices[row, position] = query
            distances[query], distances[:, position] = np.inf, np.inf
    return indices


def _scores_and_boxes(outputs: Outputs, row: int) -> NDArray[np.float32]:
    """Return the class scores and the box of each query, as `[queries, classes + 4]`.

    `row` is the index of the picture in the batch.
    """
    scores = sigmoid(np.asarray(outputs["logits"][row], np.float32))
    return np.concatenate([scores, np.asarray(outputs["pred_boxes"][row], np.float32)], axis=-1)


def _weight_by_score(
    outputs: Outputs, indices: NDArray[np.int64] | None
) -> dict[str, NDArray[Any]]:
    """Return scores in place of logits, and boxes and masks times the best score of their query.

    Masks become probabilities first. Other outputs are only converted to float32.

    **Arguments**

    - `outputs`: arrays `[batch, queries, ...]` by name.
    - `indices`: the new order of the queries, `[batch, queries]`. None keeps their order.
    """
    arrays = {name: np.asarray(value, np.float32) for name, value in outputs.items()}
    if indices is not None:
        rows = np.arange(len(indices))[:, None]
        arrays = {name: value[rows, indices] for name, value in arrays.items()}
    scores = sigmoid(arrays["logits"])
    best = scores.max(axis=-1)
    weighted = {"logits": scores, "pred_boxes": arrays["pred_boxes"] * best[..., None]}
    if (masks := arrays.get("pred_masks")) is not None:
        weighted["pred_masks"] = sigmoid(masks) * best[..., None, None]
    return {name: weighted.get(name, value) for name, value in arrays.items()}


def instance_areas(
    outputs: Mapping[str, NDArray[Any]],
    boxes: Sequence[Box],
    target: Size,
    input_size: InputSize | None = None,
) -> Areas | None:
    """Return the position in `boxes` of the object that covers each pixel, `[height, width]`.

    An object covers the pixels at which its resized mask is positive. Where objects overlap, the
    object with the best score is taken. Pixels without an object are -1. Return None if the outputs
    contain no masks.

    **Arguments**

    - `outputs`: `pred_masks [queries, rows, columns]` of one picture, as logits.
    - `boxes`: the boxes of the picture, best first.
    - `target`: the (height, width) of the picture.
    - `input_size`: the size of the network's input, needed if the picture was padded.

    Source: `post_process_instance_segmentation` of transformers' `RfDetrImageProcessor`.
    """
    if (masks := outputs.get("pred_masks")) is None:
        return None
    areas = np.full(target, NO_SEGMENT)
    size = tuple(map(round, extent_in_pixels(target, input_size)))
    for number, box in reversed([*enumerate(boxes)]):
        mask = np.asarray(masks[box.query], np.float32)
        covered = resize_bilinear(mask, (size[0], size[1])) > 0
        areas[covered[: target[0], : target[1]]] = number
    return areas


def extent_in_pixels(target: Size, input_size: InputSize | None) -> tuple[float, float]:
    """Return the (height, width) of a network's whole input, measured in pixels of the picture.

    This is `target`, the size of the picture, unless the picture was padded. With padding it is
    larger. None for `input_size` means that there was no padding.
    """
    if input_size is None or not input_size.padded:
        return target
    unpadded_size = fit_size(target, input_size.size)
    return target[0] * input_size.size[0] / unpadded_size[0], target[1] * input_size.size[
        1
    ] / unpadded_size[1]


def _corners(edges: NDArray[np.float32]) -> Corners:
    """Return the four edges of a box as Python floats."""
    left, top, right, bottom = (float(edge) for edge in edges)
    return left, top, right, bottom


def draw_boxes(
    picture: Image, boxes: Sequence[Box], names: Sequence[str], areas: Areas | None = None
) -> Image:
    """Return a copy of a picture with boxes, class names and scores drawn on it.

    Each class has its own colour. The best box is drawn last, on top of the others. Empty boxes and
    boxes with NaN are left out.

    **Arguments**

    - `boxes`: the boxes of the picture, best first.
    - `names`: the names of the classes, by index.
    - `areas`: the result of `instance_areas`. With it, the pixels of objects are tinted with the
      colours of their classes.
    """
    from PIL import ImageDraw

    from zoo.common.fonts import font

    drawing = _tint_objects(picture.convert("RGB"), boxes, areas)
    pen = ImageDraw.Draw(drawing)
    line = max(1, round(min(drawing.size) / 150))
    height = max(8, min(drawing.size) / 30)
    letters = font(height)
    for box in reversed(boxes):
        colour = colour_of(box.label_id)
        left, top, right, bottom = box.corners
        if not (left < right and top < bottom):  # NaN, or an empty box
            continue
        pen.rectangle(box.corners, outline=colour, width=line)
        caption = f"{names[box.label_id]} {box.score:.2f}"
        corner = (max(left, 0), max(top - height - 2 * line, 0))
        pen.rectangle(pen.textbbox(corner, caption, font=letters), fill=colour)
        pen.text(corner, caption, fill=(0, 0, 0), font=letters)
    return drawing


def _tint_objects(picture: Image, boxes: Sequence[Box], areas: Areas | None) -> Image:
    """Return a copy of a picture in which an object's pixels are mixed with its class's colour.

    `areas` has the position in `boxes` of the object at each pixel. If it is None, the copy is
    unchanged.
    """
    from PIL import Image as pil

    pixels = np.array(picture)
    for number, box in enumerate(boxes if areas is not None else ()):
        covered = areas == number
        pixels[covered] = (pixels[covered].astype(int) + colour_of(box.label_id)) // 2
    return pil.fromarray(pixels)


def colour_of(number: int) -> tuple[int, int, int]:
    """Return a bright colour for a class index, as red, green and blue from 0 to 255.

    Successive indices have clearly different hues.
    """
    from colorsys import hsv_to_rgb

    red, green, blue = hsv_to_rgb(number * 0.618034 % 1, 0.75, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)
