"""From the outputs of queries to boxes of things in a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.tasks.answer import Corners, InputSize, Outputs, Size, sigmoid, size_inside
from zoo.tasks.maps import NOWHERE, Areas, resize_bilinear

if TYPE_CHECKING:
    from PIL.Image import Image

THRESHOLD = 0.5
"""How sure a network has to be of a thing, unless told otherwise."""


class Box(NamedTuple):
    """A thing in a picture: its class, how sure the network is of it, where it is, and the query
    that found it."""

    label_id: int
    score: float
    corners: Corners
    query: int = 0


def post_process_object_detection(
    outputs: Mapping[str, NDArray[Any]],
    target: Size,
    fed: InputSize | None = None,
    threshold: float = THRESHOLD,
) -> list[Box]:
    """Things surer than `threshold`, the surest first: at most as many as there are queries.

    The largest scores of all queries and classes are taken: a query may find two things, and none
    is left out for being near another.

    **Arguments:** `logits [queries, classes]` and `pred_boxes [queries, 4]` for one picture;
    (height, width) of that, and what the network got of it, where it was padded.

    Source: `RfDetrImageProcessor` of transformers.
    """
    scores = sigmoid(np.asarray(outputs["logits"], np.float32))
    boxes = np.asarray(outputs["pred_boxes"], np.float32)
    queries, classes = scores.shape
    flat = scores.reshape(-1)
    best = np.argsort(-flat, kind="stable")[:queries]
    best = best[flat[best] > threshold]
    height, width = shown(target, fed)
    centre, half = boxes[:, :2], boxes[:, 2:] / 2
    sides = np.array([width, height] * 2, np.float32)
    corners = np.concatenate([centre - half, centre + half], axis=-1) * sides
    return [
        Box(int(place % classes), float(flat[place]), _corners(corners[query]), int(query))
        for place, query in zip(best, best // classes, strict=True)
    ]


def as_answered(got: Outputs, wanted: Outputs) -> tuple[Outputs, Outputs]:
    """Both batches of outputs as what they say of things, in the order of the second.

    Rounding puts queries that are sure of nothing in another order, or others in their place, which
    is no error. Each query stands where the one does that found the most similar thing; there are
    scores in place of logits, and boxes and masks are weighted with the best of them.

    **Arguments:** outputs `[batch, queries, ...]` by name. Without `logits` or `pred_boxes` they
    stay as they are.
    """
    if not {"logits", "pred_boxes"} <= got.keys() & wanted.keys():
        return got, wanted
    return _weighted(got, _places(got, wanted)), _weighted(wanted, None)


def _places(got: Outputs, wanted: Outputs) -> NDArray[np.int64]:
    """Which query `[batch, queries]` of the first stands for each of the second: the most similar
    pairs first."""
    places = np.zeros(wanted["logits"].shape[:2], np.int64)
    for row in range(len(places)):
        one, other = (_positions(each, row) for each in (got, wanted))
        apart = np.abs(one[:, None] - other).sum(axis=-1)
        for _ in range(len(apart)):
            query, place = np.unravel_index(np.argmin(apart), apart.shape)
            places[row, place] = query
            apart[query], apart[:, place] = np.inf, np.inf
    return places


def _positions(outputs: Outputs, row: int) -> NDArray[np.float32]:
    """Scores and boxes of the queries of a picture."""
    scores = sigmoid(np.asarray(outputs["logits"][row], np.float32))
    return np.concatenate([scores, np.asarray(outputs["pred_boxes"][row], np.float32)], axis=-1)


def _weighted(outputs: Outputs, places: NDArray[np.int64] | None) -> dict[str, NDArray[Any]]:
    """Scores, and boxes and masks times the best of them, with their queries at other places."""
    found = {name: np.asarray(value, np.float32) for name, value in outputs.items()}
    if places is not None:
        rows = np.arange(len(places))[:, None]
        found = {name: value[rows, places] for name, value in found.items()}
    scores = sigmoid(found["logits"])
    best = scores.max(axis=-1)
    weighted = {"logits": scores, "pred_boxes": found["pred_boxes"] * best[..., None]}
    if (masks := found.get("pred_masks")) is not None:
        weighted["pred_masks"] = sigmoid(masks) * best[..., None, None]
    return {name: weighted.get(name, value) for name, value in found.items()}


def instance_areas(
    outputs: Mapping[str, NDArray[Any]],
    boxes: Sequence[Box],
    target: Size,
    fed: InputSize | None = None,
) -> Areas | None:
    """The thing that every pixel `[height, width]` is of, by its place among boxes: of several the
    surest, -1 where there is none; None where outputs say nothing of pixels.

    **Arguments:** `pred_masks [queries, rows, columns]` for one picture, the boxes of it, and as
    above.

    Source: `post_process_instance_segmentation` of transformers' `RfDetrImageProcessor`.
    """
    if (masks := outputs.get("pred_masks")) is None:
        return None
    areas = np.full(target, NOWHERE)
    size = tuple(map(round, shown(target, fed)))
    for number, box in reversed([*enumerate(boxes)]):
        mask = np.asarray(masks[box.query], np.float32)
        inside = resize_bilinear(mask, (size[0], size[1])) > 0
        areas[inside[: target[0], : target[1]]] = number
    return areas


def shown(target: Size, fed: InputSize | None) -> tuple[float, float]:
    """(height, width) of what a network was given, in pixels of the picture: more than the picture
    where that was padded."""
    if fed is None or not fed.padded:
        return target
    inside = size_inside(target, fed.size)
    return target[0] * fed.size[0] / inside[0], target[1] * fed.size[1] / inside[1]


def _corners(edges: NDArray[np.float32]) -> Corners:
    left, top, right, bottom = (float(edge) for edge in edges)
    return left, top, right, bottom


def draw_boxes(
    picture: Image, boxes: Sequence[Box], names: Sequence[str], areas: Areas | None = None
) -> Image:
    """A picture with boxes, a colour for each class, and what is in them; the surest on top. The
    pixels of things are half of that colour where `areas` say which they are."""
    from PIL import ImageDraw

    from zoo.common.fonts import font

    drawn = _tinted(picture.convert("RGB"), boxes, areas)
    pen = ImageDraw.Draw(drawn)
    line = max(1, round(min(drawn.size) / 150))
    height = max(8, min(drawn.size) / 30)
    letters = font(height)
    for box in reversed(boxes):
        colour = colour_of(box.label_id)
        left, top, right, bottom = box.corners
        if not (left < right and top < bottom):  # no number, or nothing between its edges
            continue
        pen.rectangle(box.corners, outline=colour, width=line)
        caption = f"{names[box.label_id]} {box.score:.2f}"
        place = (max(left, 0), max(top - height - 2 * line, 0))
        pen.rectangle(pen.textbbox(place, caption, font=letters), fill=colour)
        pen.text(place, caption, fill=(0, 0, 0), font=letters)
    return drawn


def _tinted(picture: Image, boxes: Sequence[Box], areas: Areas | None) -> Image:
    """A copy of a picture, the things on it in their colours."""
    from PIL import Image as pil

    pixels = np.array(picture)
    for number, box in enumerate(boxes if areas is not None else ()):
        inside = areas == number
        pixels[inside] = (pixels[inside].astype(int) + colour_of(box.label_id)) // 2
    return pil.fromarray(pixels)


def colour_of(number: int) -> tuple[int, int, int]:
    """A bright colour for a class; neighbours' are far apart."""
    from colorsys import hsv_to_rgb

    red, green, blue = hsv_to_rgb(number * 0.618034 % 1, 0.75, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)
