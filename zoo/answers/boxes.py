"""From the outputs of queries to boxes of things in a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.answers.answer import Corners
from zoo.answers.fed import Fed, Size, size_inside
from zoo.answers.scores import sigmoid

if TYPE_CHECKING:
    from PIL.Image import Image

THRESHOLD = 0.5
"""How sure a network has to be of a thing, unless told otherwise."""


class Box(NamedTuple):
    """A thing in a picture: its class, how sure the network is of it, and where it is."""

    label_id: int
    score: float
    corners: Corners


def post_process_object_detection(
    outputs: Mapping[str, NDArray[Any]],
    target: Size,
    fed: Fed | None = None,
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
        Box(int(place % classes), float(flat[place]), _corners(corners[place // classes]))
        for place in best
    ]


def shown(target: Size, fed: Fed | None) -> tuple[float, float]:
    """(height, width) of what a network was given, in pixels of the picture: more than the picture
    where that was padded."""
    if fed is None or not fed.padded:
        return target
    inside = size_inside(target, fed.size)
    return target[0] * fed.size[0] / inside[0], target[1] * fed.size[1] / inside[1]


def _corners(edges: NDArray[np.float32]) -> Corners:
    left, top, right, bottom = (float(edge) for edge in edges)
    return left, top, right, bottom


def draw_boxes(picture: Image, boxes: Sequence[Box], names: Sequence[str]) -> Image:
    """A picture with boxes, a colour for each class, and what is in them; the surest on top."""
    from PIL import ImageDraw, ImageFont

    drawn = picture.convert("RGB")
    if drawn is picture:
        drawn = picture.copy()
    pen = ImageDraw.Draw(drawn)
    line = max(1, round(min(drawn.size) / 150))
    height = max(8, min(drawn.size) / 30)
    font = ImageFont.load_default(height)
    for box in reversed(boxes):
        colour = colour_of(box.label_id)
        left, top, right, bottom = box.corners
        if not (left < right and top < bottom):  # no number, or nothing between its edges
            continue
        pen.rectangle(box.corners, outline=colour, width=line)
        caption = f"{names[box.label_id]} {box.score:.2f}"
        place = (max(left, 0), max(top - height - 2 * line, 0))
        pen.rectangle(pen.textbbox(place, caption, font=font), fill=colour)
        pen.text(place, caption, fill=(0, 0, 0), font=font)
    return drawn


def colour_of(number: int) -> tuple[int, int, int]:
    """A bright colour for a class; neighbours' are far apart."""
    from colorsys import hsv_to_rgb

    red, green, blue = hsv_to_rgb(number * 0.618034 % 1, 0.75, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)
