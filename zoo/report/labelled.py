"""How often a network's own classifier is right about images in folders that are their classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from weights.parameters import parameter
from zoo.architectures.entry import ModelInfo
from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.common.errors import BadRequest
from zoo.common.runtime import Session
from zoo.images.pictures import pictures
from zoo.images.pixel_values import Float32, pixel_values
from zoo.report.content import Images

IMAGES_AT_ONCE = 8
"""Images that a file gets at once."""

SYNSET = re.compile(r"n\d{8}")
"""Names of ImageNet's classes in its folders: classifiers have them in this order."""


@dataclass(frozen=True)
class LabelledTask:
    """Paths of images, and for each the number of its class; `classes` are their names."""

    paths: Sequence[Path]
    labels: Sequence[int]
    classes: tuple[str, ...]
    told: Images

    def fitting(self, most: int) -> LabelledTask | None:
        """The same with at most so many images, taken evenly; None for fewer than classes."""
        if most >= len(self.paths):
            return self
        if most < len(self.classes):
            return None
        places = np.linspace(0, len(self.paths) - 1, most).round().astype(int)
        left_out = {"pictures": most, "left_out": len(self.paths) - most}
        return replace(
            self,
            paths=[self.paths[place] for place in places],
            labels=[self.labels[place] for place in places],
            told=self.told.model_copy(update=left_out),
        )


def read_task(folder: Path) -> LabelledTask:
    """The images of `FOLDER/CLASS`. **Raises** `BadRequest` where there are fewer than two
    classes."""
    endings = Image.registered_extensions()
    images = {
        place.name: [path for path in sorted(place.iterdir()) if path.suffix.lower() in endings]
        for place in (sorted(folder.iterdir()) if folder.is_dir() else ())
        if place.is_dir()
    }
    classes = tuple(name for name, paths in images.items() if paths)
    if len(classes) < 2:
        raise BadRequest(
            f"{parameter('images')} {folder} has {len(classes)} folders with images: give a folder "
            "for each of two or more classes."
        )
    pairs = [(path, label) for label, name in enumerate(classes) for path in images[name]]
    neighbours = Images(folder=folder.absolute().name, pictures=len(pairs), classes=len(classes))
    return LabelledTask(
        [path for path, _ in pairs], [each for _, each in pairs], classes, neighbours
    )


def classifier_accuracy(live: Session, task: LabelledTask, entry: ModelInfo) -> float | None:
    """Percent of the images that get their own class; None of a file without logits, or of other
    classes."""
    order = class_order(task.classes, entry.class_names)
    if order is None or "logits" not in {output.name for output in live.get_outputs()}:
        return None
    logits = run_on(live, task.paths, entry.preprocessing, ["logits"])
    return 100 * float((logits.argmax(axis=1) == np.take(order, task.labels)).mean())


def run_on(
    live: Session, paths: Sequence[Path], how: Preprocessing, names: list[str] | None = None
) -> Float32:
    """The first of some outputs of a file for images, some at once."""
    rows = []
    for start in range(0, len(paths), IMAGES_AT_ONCE):
        some = pictures([str(path) for path in paths[start : start + IMAGES_AT_ONCE]])
        rows.append(live.run(names, {"pixel_values": pixel_values(some, how, how.size)})[0])
    return np.concatenate(rows)


def class_order(folders: Sequence[str], names: Sequence[str]) -> list[int] | None:
    """The number that a classifier has for each folder; None if they are other classes."""
    if {*folders} <= {*names}:
        return [names.index(name) for name in folders]
    if len(folders) == len(names) and all(map(SYNSET.fullmatch, folders)):
        return list(range(len(names)))
    return None
