"""How well frozen features tell classes apart: by their nearest neighbours, and by a linear layer.

The vote of neighbours is DINO's (Caron et al., 2021): cosine similarity of `pooler_output`, the 20
nearest, each with the weight exp(similarity / 0.07). The linear layer is a ridge regression to the
classes, which has no settings to be found; layers that are trained as papers do it are better by
some percent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoo.architectures.entry import ModelInfo
from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.architectures.reported import Task
from zoo.images.pictures import pictures
from zoo.images.pixel_values import Float32, pixel_values
from zoo.report.labelled import LabelledTask, class_order
from zoo.runtime import Session

TEMPERATURE = 0.07
IMAGES_AT_ONCE = 8
"""Images that a file gets at once."""

COMPARED_AT_ONCE = 512
"""Images that are compared with all others at once."""

RIDGE = 1e-3
"""Of the mean variance of a feature, which is added to each."""

POOLED = "pooler_output"

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Seen:
    """What a file makes of images: unit vectors [images, dim], and [images, classes] if any."""

    vectors: Float32
    logits: Float32 | None


def vectors_of(live: Session) -> str | None:
    """The output whose vectors stand for images; None of a file that has none."""
    names = [output.name for output in live.get_outputs()]
    return next((name for name in (POOLED, "last_hidden_state") if name in names), None)


def scores(
    live: Session, task: LabelledTask, entry: ModelInfo, sentences: Float32 | None = None
) -> dict[Task, float]:
    """Percent of a task's images that get their own class, in each way that the file allows.

    `sentences` are unit vectors of a sentence about each class, if the model takes texts.
    """
    if vectors_of(live) is None:
        return {}
    how, told = entry.preprocessing, task.told
    known = see(live, [str(path) for path in task.known.paths], how)
    asked = known
    if task.asked is not None:
        asked = see(live, [str(path) for path in task.asked.paths], how)
    labels, right = task.known.labels, (task.asked or task.known).labels
    both = (known.vectors, labels, asked.vectors)
    found: dict[Task, Labels] = {
        "k-NN": vote(*both, told.nearest, told.leave_one_out),
        "linear": regress(*both, told.leave_one_out),
    }
    if sentences is not None and vectors_of(live) == POOLED:
        found["zero-shot"] = (asked.vectors @ sentences.T).argmax(axis=1)
    order = class_order(task.classes, entry.class_names)
    if asked.logits is not None and order is not None:
        found["classifier"] = np.argsort(order)[asked.logits.argmax(axis=1)]
    return {name: 100 * float((given == right).mean()) for name, given in found.items()}


def see(live: Session, paths: Sequence[str], how: Preprocessing) -> Seen:
    """Vectors of `pooler_output`, or of the tokens' mean without one; and `logits`."""
    wanted = [vectors_of(live) or ""]
    wanted += [output.name for output in live.get_outputs() if output.name == "logits"]
    rows, logits = [], []
    for start in range(0, len(paths), IMAGES_AT_ONCE):
        pixels = pixel_values(pictures(list(paths[start : start + IMAGES_AT_ONCE])), how, how.size)
        values, *more = live.run(wanted, {"pixel_values": pixels})
        values = np.asarray(values, np.float32)
        rows.append(values.mean(axis=1) if values.ndim == 3 else values)
        logits += more
    found = np.concatenate(rows)
    unit = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
    return Seen(unit, np.concatenate(logits) if logits else None)


def vote(
    known: Float32, labels: Labels, asked: Float32, nearest: int, leave_out: bool = False
) -> Labels:
    """The class that each asked vector's nearest known ones vote for.

    With `leave_out` both are the same vectors, and none has a vote about itself.
    """
    found = []
    for start in range(0, len(asked), COMPARED_AT_ONCE):
        likeness = asked[start : start + COMPARED_AT_ONCE] @ known.T
        rows = np.arange(len(likeness))
        if leave_out:
            likeness[rows, start + rows] = -np.inf
        best = np.argpartition(-likeness, nearest - 1, axis=1)[:, :nearest]
        weight = np.exp(np.take_along_axis(likeness, best, axis=1) / TEMPERATURE)
        votes = np.zeros((len(likeness), int(labels.max()) + 1))
        np.add.at(votes, (rows[:, None], labels[best]), weight)
        found.append(votes.argmax(axis=1))
    return np.concatenate(found)


def regress(known: Float32, labels: Labels, asked: Float32, leave_out: bool = False) -> Labels:
    """The class whose indicator a ridge regression on the known vectors makes largest.

    With `leave_out` both are the same vectors, and each is asked of the regression on the others:
    that differs from the regression on all by the vector's own leverage.
    """
    middle = known.mean(axis=0, dtype=np.float64)
    rows = known - middle
    wanted = np.eye(int(labels.max()) + 1)[labels]
    covariance = rows.T @ rows
    ridge = RIDGE * np.trace(covariance) / len(covariance)
    inverse = np.linalg.inv(covariance + max(ridge, 1e-12) * np.eye(len(covariance)))
    shares = wanted.mean(axis=0)
    found = (asked - middle) @ (inverse @ (rows.T @ (wanted - shares))) + shares
    if leave_out:
        leverage = ((rows @ inverse) * rows).sum(axis=1) + 1 / len(rows)
        found = found - leverage[:, None] * wanted
    labels_found: Labels = found.argmax(axis=1)
    return labels_found
