"""Images in folders that are their classes, and a part of them for which there is time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from weights.parameters import parameter
from zoo.errors import BadRequest
from zoo.report.content import Neighbours

VOTERS = 20
"""Neighbours that vote."""

LEAST_OF_A_CLASS = 2
"""Images of a class without which nothing can be said."""

SYNSET = re.compile(r"n\d{8}")
"""What the classes of ImageNet are called in its folders: classifiers have them in this order."""


@dataclass(frozen=True)
class Labelled:
    """Paths of images, and for each the number of its class."""

    paths: Sequence[Path]
    labels: NDArray[np.int64]

    def thinned(self, share: float) -> Labelled:
        """That share of the images of each class, taken evenly, and `LEAST_OF_A_CLASS` at least."""
        kept: list[int] = []
        for label in np.unique(self.labels):
            (places,) = np.nonzero(self.labels == label)
            count = min(len(places), max(LEAST_OF_A_CLASS, int(share * len(places))))
            kept += places[np.linspace(0, len(places) - 1, count).round().astype(int)].tolist()
        return Labelled([self.paths[place] for place in kept], self.labels[kept])


@dataclass(frozen=True)
class LabelledTask:
    """Images whose class is known and images whose class is asked; None if those are the same.

    `classes` are their names, in the order of their numbers.
    """

    known: Labelled
    asked: Labelled | None
    classes: tuple[str, ...]
    told: Neighbours

    @property
    def images(self) -> int:
        """How many a file has to see."""
        return len(self.known.paths) + (len(self.asked.paths) if self.asked else 0)

    def fitting(self, most: int) -> LabelledTask | None:
        """The same with at most so many images; None where that says nothing."""
        if most >= self.images:
            return self
        if most < LEAST_OF_A_CLASS * len(self.classes) * (2 if self.asked else 1):
            return None
        share = most / self.images
        known = self.known.thinned(share)
        asked = self.asked and self.asked.thinned(share)
        told = tell(self.told.folder, known, asked, len(self.classes))
        few = replace(self, known=known, asked=asked, told=told)
        left_out = {"left_out": self.images - few.images}
        return replace(few, told=told.model_copy(update=left_out))


def read_task(folder: Path) -> LabelledTask:
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
            f"{parameter('images')} {folder} has {len(classes)} folders with images: give a folder "
            "for each of two or more classes, or `train` and `val` with such folders in them."
        )
    known, *more = (labelled(each, classes) for each in found)
    asked = more[0] if split else None
    told = tell(folder.absolute().name, known, asked, len(classes))
    return LabelledTask(known, asked, tuple(classes), told)


def tell(folder: str, known: Labelled, asked: Labelled | None, classes: int) -> Neighbours:
    """What is said of images in a report."""
    return Neighbours(
        folder=folder,
        known=len(known.paths),
        asked=len((asked or known).paths),
        classes=classes,
        nearest=min(VOTERS, len(known.paths) - (asked is None)),
        leave_one_out=asked is None,
    )


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


def class_order(folders: Sequence[str], known: Sequence[str]) -> list[int] | None:
    """The number that a classifier has for each folder; None if they are other classes."""
    if set(folders) == set(known):
        return [known.index(name) for name in folders]
    if len(folders) == len(known) and all(map(SYNSET.fullmatch, folders)):
        return list(range(len(known)))
    return None
