"""How a network that finds things is trained on scattered digits: matching, losses, schedule."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from notebooks.training.classifier import Recipe, Rows, fit, initial, normalised
from zoo.architectures.base import Network
from zoo.architectures.entry import ModelInfo
from zoo.architectures.parts.output import Detections
from zoo.common.errors import MissingLibrary
from zoo.data.digits.scattered import CANVAS_SIDE, NO_DIGIT, ScatteredDigits
from zoo.tasks.boxes import Box, post_process_object_detection

RECIPE = Recipe(epochs=16, batch=32, rate=1e-3, decay=1e-4, average=0.998)

RARE = 0.01
"""How likely every class of every query is at first: most find nothing."""

CLASS, DISTANCE, OVERLAP = 2.0, 5.0, 2.0
"""What the parts of the loss weigh."""

Boxes = Float[Array, "boxes 4"]
Costs = Float[Array, "queries boxes"]

Dataset = Mapping[str, Sequence[Mapping[str, Any]]]
"""Annotations of images in COCO's form: `images`, `annotations` and `categories`."""


def train_boxes(
    entry: ModelInfo,
    scattered: ScatteredDigits,
    seed: int,
    recipe: Recipe = RECIPE,
    tell: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[Network, list[float]]:
    """As `classifier.train`, on what is found at every stage: each digit by the query or the place
    that is nearest to finding it, and nothing by the others.

    Source: Carion et al., 2020, arXiv:2005.12872; the loss of classes is Lin et al., 2017,
    arXiv:1708.02002.
    """
    init_key, *keys = jr.split(jr.key(seed), 3)
    images, labels = jnp.asarray(scattered.images), jnp.asarray(scattered.labels)
    boxes = centred(jnp.asarray(scattered.boxes) / CANVAS_SIDE)

    def one(stage: Detections, boxes: Boxes, labels: Int[Array, " boxes"]) -> Float[Array, ""]:
        return loss(stage, boxes, labels)

    def objective(model: Network, rows: Rows, key: PRNGKeyArray) -> Float[Array, ""]:
        pixels = normalised(images[rows], entry.preprocessing)
        stages = jax.vmap(lambda image: model.stages(image))(pixels)
        total = sum(jax.vmap(one)(stage, boxes[rows], labels[rows]).sum() for stage in stages)
        return total / jnp.maximum((labels[rows] != NO_DIGIT).sum(), 1)

    model = first_weights(initial(entry, init_key))
    return fit(model, objective, len(images), keys, recipe, tell)


def measure(model: Network, entry: ModelInfo, scattered: ScatteredDigits, batch: int = 50) -> float:
    """The mean average precision of a network, from 0 to 1."""
    run = eqx.filter_jit(
        lambda model, images: jax.vmap(model)(normalised(images, entry.preprocessing))
    )
    boxes: list[list[Box]] = []
    for first in range(0, len(scattered.images), batch):
        images = jnp.asarray(scattered.images[first : first + batch])
        boxes += boxes_in(run(model, images)._asdict(), images.shape[1:])
    return precision(boxes, scattered)


def boxes_in(outputs: Mapping[str, Any], size: tuple[int, int]) -> list[list[Box]]:
    """All boxes of a batch of images of a size, those of each image by themselves."""
    arrays = {key: np.asarray(outputs[key]) for key in ("logits", "pred_boxes")}
    rows = (
        {key: value[row] for key, value in arrays.items()} for row in range(len(arrays["logits"]))
    )
    return [post_process_object_detection(row, size, threshold=0.0) for row in rows]


def precision(boxes: Sequence[Sequence[Box]], scattered: ScatteredDigits) -> float:
    """The mean average precision of boxes in images, from 0 to 1."""
    found = [as_found(picture, box) for picture, own in enumerate(boxes) for box in own]
    return mean_average_precision(as_coco(scattered), found)


def as_found(picture: int, box: Box) -> dict[str, object]:
    """A box as pycocotools takes it."""
    left, top, right, bottom = box.corners
    where = [left, top, right - left, bottom - top]
    number = box.label_id + 1
    return {"image_id": picture, "category_id": number, "bbox": where, "score": box.score}


def as_coco(scattered: ScatteredDigits) -> Dataset:
    """Return what is on canvases in COCO's form, which has no class of the number 0."""
    annotations = []
    for picture, pair in enumerate(zip(scattered.boxes, scattered.labels, strict=True)):
        for (left, top, right, bottom), label in zip(
            *(each.tolist() for each in pair), strict=True
        ):
            if label != NO_DIGIT:
                width, height = right - left, bottom - top
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": picture,
                        "category_id": label + 1,
                        "bbox": [left, top, width, height],
                        "area": width * height,
                        "iscrowd": 0,
                    }
                )
    height, width = scattered.images.shape[1:]
    images = [
        {"id": number, "file_name": f"{number}.png", "height": height, "width": width}
        for number in range(len(scattered.images))
    ]
    categories = [{"id": number + 1, "name": str(number)} for number in range(10)]
    return {"images": images, "annotations": annotations, "categories": categories}


def mean_average_precision(dataset: Dataset, boxes: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean average precision of boxes, from 0 to 1, as pycocotools computes it.

    It is the mean over classes and over overlaps from 0.5 to 0.95, and 0 if there are no boxes.
    **Raises** `MissingLibrary` without pycocotools.

    Source: Lin et al., 2014, arXiv:1405.0312.
    """
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise MissingLibrary(
            "average precision is computed by pycocotools, which is not installed: `pip install "
            "pycocotools`."
        ) from error
    if not boxes:
        return 0.0
    with redirect_stdout(StringIO()):  # pycocotools prints its progress
        expected = COCO()
        expected.dataset = dict(dataset)
        expected.createIndex()
        evaluation = COCOeval(expected, expected.loadRes([*boxes]), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[0])


def first_weights(model: Network) -> Network:
    """With what training begins with: nothing is likely, and boxes are as they were proposed."""

    def heads(model: Network) -> list[Array]:
        ends = [model.box_head.layers[-1], *(each.boxes.layers[-1] for each in model.proposals)]
        return [leaf for end in ends for leaf in (end.weight, end.bias)]

    def biases(model: Network) -> list[Array]:
        return [model.class_head.bias, *(each.classes.bias for each in model.proposals)]

    model = eqx.tree_at(heads, model, replace_fn=jnp.zeros_like)
    rare = -np.log(1 / RARE - 1)
    model = eqx.tree_at(biases, model, replace_fn=lambda bias: jnp.full_like(bias, rare))
    return eqx.tree_at(
        lambda model: [block.cross.offsets.bias for block in model.blocks],
        model,
        [ring(block.cross) for block in model.blocks],
    )


def ring(cross: eqx.Module) -> Float[Array, " offsets"]:
    """Offsets in a direction for each head, the points of which lie one behind another."""
    points = cross.weights.out_features // cross.heads
    angles = 2 * jnp.pi * jnp.arange(cross.heads) / cross.heads
    directions = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)
    steps = jnp.arange(1, points + 1)
    return (directions[:, None] * steps[None, :, None]).reshape(-1)


def loss(found: Detections, boxes: Boxes, labels: Int[Array, " boxes"]) -> Float[Array, ""]:
    """The loss of one image, a sum over its digits."""
    there = labels != NO_DIGIT
    kinds = jnp.clip(labels, 0)
    on, off = focal(found.logits, 1.0), focal(found.logits, 0.0)
    classes = jnp.where(jnp.isfinite(found.logits), on - off, jnp.inf)[:, kinds]
    distance = jnp.abs(found.pred_boxes[:, None] - boxes).sum(-1)
    overlap = 1 - generalised_overlap(found.pred_boxes[:, None], boxes)
    rows = match(CLASS * classes + DISTANCE * distance + OVERLAP * overlap, there)
    targets = jnp.zeros(found.logits.shape, bool).at[rows, kinds].max(there)
    places = jnp.arange(len(labels))
    of_boxes = DISTANCE * distance[rows, places] + OVERLAP * overlap[rows, places]
    of_classes = CLASS * jnp.where(targets, on, off).sum()
    return of_classes + jnp.where(there, of_boxes, 0).sum()


def focal(
    logits: Float[Array, "queries classes"], target: float
) -> Float[Array, "queries classes"]:
    """How wrong logits are about each class; what is nearly right counts little."""
    sign, weight = (1, 0.25) if target else (-1, 0.75)
    safe = jnp.where(jnp.isfinite(logits), logits, -20.0)
    return -weight * jax.nn.sigmoid(-sign * safe) ** 2 * jax.nn.log_sigmoid(sign * safe)


def match(costs: Costs, there: Bool[Array, " boxes"]) -> Int[Array, " boxes"]:
    """The query of each box that is there: of all pairs the cheapest first, no query twice."""
    costs = jax.lax.stop_gradient(jnp.where(there, costs, jnp.inf))
    rows = jnp.zeros(costs.shape[1], int)
    for _ in range(costs.shape[1]):
        row, column = jnp.unravel_index(jnp.argmin(costs), costs.shape)
        known = jnp.isfinite(costs[row, column])
        rows = jnp.where(known, rows.at[column].set(row), rows)
        blocked = costs.at[row].set(jnp.inf).at[:, column].set(jnp.inf)
        costs = jnp.where(known, blocked, costs)
    return rows


def centred(corners: Float[Array, "*n 4"]) -> Float[Array, "*n 4"]:
    """Centre and size of boxes of which the edges are given."""
    low, high = corners[..., :2], corners[..., 2:]
    return jnp.concatenate([(low + high) / 2, high - low], axis=-1)


def generalised_overlap(a: Float[Array, "*n 4"], b: Float[Array, "*n 4"]) -> Float[Array, "*n"]:
    """Intersection over union, less the share of the smallest box around both that neither has.

    Source: Rezatofighi et al., 2019, arXiv:1902.09630.
    """
    (low, high), (lower, higher) = (
        (x[..., :2] - x[..., 2:] / 2, x[..., :2] + x[..., 2:] / 2) for x in (a, b)
    )
    inside = jnp.prod(jnp.clip(jnp.minimum(high, higher) - jnp.maximum(low, lower), 0), -1)
    around = jnp.prod(jnp.maximum(high, higher) - jnp.minimum(low, lower), -1)
    union = jnp.prod(a[..., 2:], -1) + jnp.prod(b[..., 2:], -1) - inside
    return inside / jnp.maximum(union, 1e-6) - (around - union) / jnp.maximum(around, 1e-6)
