"""How well features tell classes apart: each image gets the class of its nearest neighbours.

The vote is DINO's (Caron et al., 2021): cosine similarity of `pooler_output`, the 20 nearest, each
with the weight exp(similarity / 0.07).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoo.errors import BadRequest
from zoo.images.pictures import pictures
from zoo.images.pixel_values import Float32, pixel_values
from zoo.models.preprocessing import Preprocessing
from zoo.report.content import Neighbours
from zoo.runtime import Session

NEAREST = 20
TEMPERATURE = 0.07
BATCH = 8
"""Images that a file gets at once."""

ROWS = 512
"""Images that are compared with all others at once."""


@dataclass(frozen=True)
class Labelled:
    """Paths of images, and for each the number of its class."""

    paths: Sequence[Path]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """Images whose class is known and images whose class is asked; None if those are the same."""

    known: Labelled
    asked: Labelled | None
    told: Neighbours


def read_task(folder: Path) -> Task:
    """The images of `FOLDER/CLASS`, or of `FOLDER/train/CLASS` and `FOLDER/val/CLASS`.

    **Raises** `BadRequest` where a folder has fewer than two classes.
    """
    parts = [folder / "train", folder / "val"]
    split = all(part.is_dir() for part in parts)
    places = parts if split else [folder]
    found = [images_by_class(place) for place in places]
    classes = sorted({name for each in found for name in each})
    if len(classes) < 2:
        raise BadRequest(
            f"--images {folder} has {len(classes)} folders with images: give a folder for each of "
            "two or more classes, or `train` and `val` with such folders in them."
        )
    known, *asked = (labelled(each, classes) for each in found)
    told = Neighbours(
        folder=folder.absolute().name,
        known=len(known.paths),
        asked=len((asked or [known])[0].paths),
        classes=len(classes),
        nearest=min(NEAREST, len(known.paths) - (not split)),
        leave_one_out=not split,
    )
    return Task(known, asked[0] if split else None, told)


def images_by_class(folder: Path) -> dict[str, list[Path]]:
    """The files in each folder of it that end as images do, if there are any."""
    known, found = Image.registered_extensions(), {}
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        images = sorted(place.iterdir()) if place.is_dir() else ()
        found[place.name] = [path for path in images if path.suffix.lower() in known]
    return {name: images for name, images in found.items() if images}


def labelled(images: Mapping[str, Sequence[Path]], classes: Sequence[str]) -> Labelled:
    """The images of a folder by their classes."""
    found = [(path, classes.index(name)) for name, paths in images.items() for path in paths]
    return Labelled([path for path, _ in found], np.array([label for _, label in found]))


def neighbour_share(live: Session, task: Task, how: Preprocessing) -> float:
    """The share of images that get their own class."""
    known = features(live, task.known.paths, how)
    asked = known if task.asked is None else features(live, task.asked.paths, how)
    told = task.told
    votes = vote(known, task.known.labels, asked, told.nearest, told.leave_one_out)
    return float((votes == (task.asked or task.known).labels).mean())


def features(live: Session, paths: Sequence[Path], how: Preprocessing) -> Float32:
    """Unit vectors [images, dim]: of `pooler_output`, or of the tokens' mean without one."""
    names = [output.name for output in live.get_outputs()]
    wanted = "pooler_output" if "pooler_output" in names else "last_hidden_state"
    rows = []
    for start in range(0, len(paths), BATCH):
        pixels = pixel_values(pictures(list(paths[start : start + BATCH])), how, how.size)
        (values,) = live.run([wanted], {"pixel_values": pixels})
        values = np.asarray(values, np.float32)
        rows.append(values.mean(axis=1) if values.ndim == 3 else values)
    found = np.concatenate(rows)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)


def vote(
    known: Float32, labels: NDArray[np.int64], asked: Float32, nearest: int, leave_out: bool = False
) -> NDArray[np.int64]:
    """The class that each asked vector's nearest known ones vote for.

    With `leave_out` both are the same vectors, and none has a vote about itself.
    """
    found = []
    for start in range(0, len(asked), ROWS):
        likeness = asked[start : start + ROWS] @ known.T
        rows = np.arange(len(likeness))
        if leave_out:
            likeness[rows, start + rows] = -np.inf
        best = np.argpartition(-likeness, nearest - 1, axis=1)[:, :nearest]
        weight = np.exp(np.take_along_axis(likeness, best, axis=1) / TEMPERATURE)
        votes = np.zeros((len(likeness), int(labels.max()) + 1))
        np.add.at(votes, (rows[:, None], labels[best]), weight)
        found.append(votes.argmax(axis=1))
    return np.concatenate(found)
