"""Train a detection network on scattered digits: matching, losses and schedule."""

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

from notebooks.training.classifier import Recipe, Rows, fit, make_initial_model, normalize_images
from zoo.architectures.base import Network
from zoo.architectures.entry import ModelInfo
from zoo.architectures.parts.output import Detections
from zoo.common.errors import MissingLibrary
from zoo.data.digits.scattered import CANVAS_SIDE, NO_DIGIT, ScatteredDigits
from zoo.tasks.boxes import Box, post_process_object_detection

RECIPE = Recipe(epochs=16, batch=32, rate=1e-3, decay=1e-4, average=0.998)

INITIAL_PROBABILITY = 0.01
"""Initial probability of each class of each query. Most queries detect nothing."""

CLASS_WEIGHT, DISTANCE_WEIGHT, OVERLAP_WEIGHT = 2.0, 5.0, 2.0
"""Weights of the parts of the loss."""

Boxes = Float[Array, "boxes 4"]
Costs = Float[Array, "queries boxes"]

Dataset = Mapping[str, Sequence[Mapping[str, Any]]]
"""Annotations of images in COCO's format: `images`, `annotations` and `categories`."""


def train_boxes(
    entry: ModelInfo,
    scattered: ScatteredDigits,
    seed: int,
    recipe: Recipe = RECIPE,
    tell: Callable[[int, float], None] = lambda step, detection_loss: None,
) -> tuple[Network, list[float]]:
    """Return a trained model and the loss of each step, as `classifier.train` does.

    The loss covers every stage of the network. Each digit is assigned to the query or position that
    detects it best. The others should detect nothing.

    Source: Carion et al., 2020, arXiv:2005.12872; the loss of classes is Lin et al., 2017,
    arXiv:1708.02002.
    """
    init_key, *keys = jr.split(jr.key(seed), 3)
    images, labels = jnp.asarray(scattered.images), jnp.asarray(scattered.labels)
    boxes = to_centre_and_size(jnp.asarray(scattered.boxes) / CANVAS_SIDE)

    def stage_loss(
        stage: Detections, boxes: Boxes, labels: Int[Array, " boxes"]
    ) -> Float[Array, ""]:
        return detection_loss(stage, boxes, labels)

    def objective(model: Network, rows: Rows, key: PRNGKeyArray) -> Float[Array, ""]:
        pixels = normalize_images(images[rows], entry.preprocessing)
        stages = jax.vmap(lambda image: model.detect_by_stage(image))(pixels)
        total = sum(
            jax.vmap(stage_loss)(stage, boxes[rows], labels[rows]).sum() for stage in stages
        )
        return total / jnp.maximum((labels[rows] != NO_DIGIT).sum(), 1)

    model = initialize_heads(make_initial_model(entry, init_key))
    return fit(model, objective, len(images), keys, recipe, tell)


def measure(model: Network, entry: ModelInfo, scattered: ScatteredDigits, batch: int = 50) -> float:
    """Return the mean average precision of a network, from 0 to 1."""
    run = eqx.filter_jit(
        lambda model, images: jax.vmap(model)(normalize_images(images, entry.preprocessing))
    )
    boxes: list[list[Box]] = []
    for first in range(0, len(scattered.images), batch):
        images = jnp.asarray(scattered.images[first : first + batch])
        boxes += boxes_in(run(model, images)._asdict(), images.shape[1:])
    return precision(boxes, scattered)


def boxes_in(outputs: Mapping[str, Any], size: tuple[int, int]) -> list[list[Box]]:
    """Return all boxes of a batch of images of one size, a list for each image."""
    arrays = {key: np.asarray(outputs[key]) for key in ("logits", "pred_boxes")}
    rows = (
        {key: value[row] for key, value in arrays.items()} for row in range(len(arrays["logits"]))
    )
    return [post_process_object_detection(row, size, threshold=0.0) for row in rows]


def precision(boxes: Sequence[Sequence[Box]], scattered: ScatteredDigits) -> float:
    """Return the mean average precision of boxes in images, from 0 to 1."""
    coco_boxes = [
        to_coco_box(picture, box)
        for picture, picture_boxes in enumerate(boxes)
        for box in picture_boxes
    ]
    return mean_average_precision(to_coco_dataset(scattered), coco_boxes)


def to_coco_box(picture: int, box: Box) -> dict[str, object]:
    """Return a box in the format of pycocotools."""
    left, top, right, bottom = box.corners
    corner_and_size = [left, top, right - left, bottom - top]
    category = box.label_id + 1
    return {
        "image_id": picture,
        "category_id": category,
        "bbox": corner_and_size,
        "score": box.score,
    }


def to_coco_dataset(scattered: ScatteredDigits) -> Dataset:
    """Return the digits on canvases in COCO's format, whose categories begin at 1."""
    annotations = []
    for picture, pair in enumerate(zip(scattered.boxes, scattered.labels, strict=True)):
        for (left, top, right, bottom), label in zip(
            *(values.tolist() for values in pair), strict=True
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


def initialize_heads(model: Network) -> Network:
    """Return the model with initial weights for training: all classes are improbable, and boxes
    equal the proposals."""

    def box_parameters(model: Network) -> list[Array]:
        layers = [
            model.box_head.layers[-1],
            *(proposal.boxes.layers[-1] for proposal in model.proposals),
        ]
        return [leaf for layer in layers for leaf in (layer.weight, layer.bias)]

    def class_biases(model: Network) -> list[Array]:
        return [model.class_head.bias, *(proposal.classes.bias for proposal in model.proposals)]

    model = eqx.tree_at(box_parameters, model, replace_fn=jnp.zeros_like)
    logit = -np.log(1 / INITIAL_PROBABILITY - 1)
    model = eqx.tree_at(class_biases, model, replace_fn=lambda bias: jnp.full_like(bias, logit))
    return eqx.tree_at(
        lambda model: [block.cross.offsets.bias for block in model.blocks],
        model,
        [ring_offsets(block.cross) for block in model.blocks],
    )


def ring_offsets(cross: eqx.Module) -> Float[Array, " offsets"]:
    """Return offsets in a different direction for each head. The points of a head lie on a line."""
    points = cross.weights.out_features // cross.heads
    angles = 2 * jnp.pi * jnp.arange(cross.heads) / cross.heads
    directions = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)
    steps = jnp.arange(1, points + 1)
    return (directions[:, None] * steps[None, :, None]).reshape(-1)


def detection_loss(
    outputs: Detections, boxes: Boxes, labels: Int[Array, " boxes"]
) -> Float[Array, ""]:
    """Return the loss of one image, a sum over its digits."""
    is_digit = labels != NO_DIGIT
    classes = jnp.clip(labels, 0)
    positive, negative = focal_loss(outputs.logits, 1.0), focal_loss(outputs.logits, 0.0)
    class_costs = jnp.where(jnp.isfinite(outputs.logits), positive - negative, jnp.inf)[:, classes]
    distance = jnp.abs(outputs.pred_boxes[:, None] - boxes).sum(-1)
    overlap = 1 - generalised_overlap(outputs.pred_boxes[:, None], boxes)
    rows = match_queries(
        CLASS_WEIGHT * class_costs + DISTANCE_WEIGHT * distance + OVERLAP_WEIGHT * overlap, is_digit
    )
    targets = jnp.zeros(outputs.logits.shape, bool).at[rows, classes].max(is_digit)
    columns = jnp.arange(len(labels))
    box_loss = DISTANCE_WEIGHT * distance[rows, columns] + OVERLAP_WEIGHT * overlap[rows, columns]
    class_loss = CLASS_WEIGHT * jnp.where(targets, positive, negative).sum()
    return class_loss + jnp.where(is_digit, box_loss, 0).sum()


def focal_loss(
    logits: Float[Array, "queries classes"], target: float
) -> Float[Array, "queries classes"]:
    """Return the focal loss of each logit. Logits that are nearly right count little."""
    sign, weight = (1, 0.25) if target else (-1, 0.75)
    safe = jnp.where(jnp.isfinite(logits), logits, -20.0)
    return -weight * jax.nn.sigmoid(-sign * safe) ** 2 * jax.nn.log_sigmoid(sign * safe)


def match_queries(costs: Costs, is_digit: Bool[Array, " boxes"]) -> Int[Array, " boxes"]:
    """Return the query of each digit. The cheapest pair is matched first, and no query is used
    twice."""
    costs = jax.lax.stop_gradient(jnp.where(is_digit, costs, jnp.inf))
    rows = jnp.zeros(costs.shape[1], int)
    for _ in range(costs.shape[1]):
        row, column = jnp.unravel_index(jnp.argmin(costs), costs.shape)
        is_finite = jnp.isfinite(costs[row, column])
        rows = jnp.where(is_finite, rows.at[column].set(row), rows)
        blocked = costs.at[row].set(jnp.inf).at[:, column].set(jnp.inf)
        costs = jnp.where(is_finite, blocked, costs)
    return rows


def to_centre_and_size(corners: Float[Array, "*n 4"]) -> Float[Array, "*n 4"]:
    """Return the centre and size of boxes from their corners."""
    low, high = corners[..., :2], corners[..., 2:]
    return jnp.concatenate([(low + high) / 2, high - low], axis=-1)


def generalised_overlap(a: Float[Array, "*n 4"], b: Float[Array, "*n 4"]) -> Float[Array, "*n"]:
    """Return the intersection over union, minus the share of the smallest enclosing box that is in
    neither.

    Source: Rezatofighi et al., 2019, arXiv:1902.09630.
    """
    (low, high), (lower, higher) = (
        (x[..., :2] - x[..., 2:] / 2, x[..., :2] + x[..., 2:] / 2) for x in (a, b)
    )
    inside = jnp.prod(jnp.clip(jnp.minimum(high, higher) - jnp.maximum(low, lower), 0), -1)
    around = jnp.prod(jnp.maximum(high, higher) - jnp.minimum(low, lower), -1)
    union = jnp.prod(a[..., 2:], -1) + jnp.prod(b[..., 2:], -1) - inside
    return inside / jnp.maximum(union, 1e-6) - (around - union) / jnp.maximum(around, 1e-6)
