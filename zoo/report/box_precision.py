"""How precisely a network finds things: the mean average precision of COCO.

The folder is one of COCO's form: pictures, and a file that says what is where on them. The numbers
are those of pycocotools, which everybody's are (Lin et al., 2014, arXiv:1405.0312).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from weights.opening import as_utf8, read_at_most
from weights.parameters import parameter
from zoo.architectures.entry import ModelInfo
from zoo.common.errors import BadRequest, MissingLibrary
from zoo.common.fields import Line, Model
from zoo.common.runtime import Session
from zoo.images.pictures import pictures
from zoo.images.pixel_values import pixel_values
from zoo.report.content import Boxes
from zoo.tasks.answer import Fed
from zoo.tasks.boxes import post_process_object_detection

ANNOTATION_FILES = ("_annotations.coco.json", "annotations.json", "annotations/*.json")
"""Where it is said what is on the pictures: as Roboflow, others and COCO itself have it."""

LARGEST = 1 << 30
"""Bytes of such a file; COCO's own for training has 450 MB."""

BOXES_OF_FILES = ("logits", "pred_boxes")


class Picture(Model, extra="ignore"):
    """A picture, and the sides that boxes refer to."""

    id: int
    file_name: Line
    height: Annotated[int, Field(gt=0)]
    width: Annotated[int, Field(gt=0)]


class Thing(Model, extra="ignore"):
    """A thing: left and top edge, width and height of its box."""

    id: int
    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    area: float | None = None
    iscrowd: int = 0


class Kind(Model, extra="ignore"):
    """A class of things."""

    id: int
    name: Line


class Annotations(Model, extra="ignore"):
    """Annotations of pictures: what is where."""

    images: tuple[Picture, ...]
    annotations: tuple[Thing, ...]
    categories: tuple[Kind, ...]


@dataclass(frozen=True)
class BoxTask:
    """Pictures, and what is on them."""

    paths: Sequence[Path]
    known: Annotations
    told: Boxes

    def fitting(self, most: int) -> BoxTask | None:
        """The same with at most so many pictures, taken evenly; None where there are none."""
        if most >= len(self.paths):
            return self
        if most < 1:
            return None
        places = np.linspace(0, len(self.paths) - 1, most).round().astype(int)
        images = tuple(self.known.images[place] for place in places)
        there = {image.id for image in images}
        things = tuple(each for each in self.known.annotations if each.image_id in there)
        fewer = self.known.model_copy(update={"images": images, "annotations": things})
        facts = Boxes(
            folder=self.told.folder,
            pictures=most,
            things=len(things),
            left_out=len(self.paths) - most,
        )
        return replace(self, paths=[self.paths[place] for place in places], known=fewer, told=facts)


def read_box_task(folder: Path) -> BoxTask:
    """A folder of COCO's form. **Raises** `BadRequest` where it is none, `MissingLibrary` where
    pycocotools is not there."""
    _library()
    files = [path for pattern in ANNOTATION_FILES for path in sorted(folder.glob(pattern))]
    if len(files) != 1:
        raise BadRequest(
            f"{parameter('boxes')} {folder} has {len(files)} files that say what is on its "
            f"pictures: give a folder with one, called {', '.join(ANNOTATION_FILES)}, in COCO's "
            "form."
        )
    try:
        known = Annotations.model_validate_json(as_utf8(read_at_most(files[0], LARGEST)))
    except (OSError, ValidationError) as error:
        raise BadRequest(f"{files[0]} is not in COCO's form: {str(error)[:300]}") from error
    paths = [_place(folder, image.file_name) for image in known.images]
    if not paths or not known.annotations:
        raise BadRequest(f"{files[0]} names no pictures, or nothing on them.")
    facts = Boxes(folder=folder.absolute().name, pictures=len(paths), things=len(known.annotations))
    return BoxTask(paths, known, facts)


def _place(folder: Path, name: str) -> Path:
    """A picture in a folder or in one of its folders. **Raises** `BadRequest` without it."""
    inside = not Path(name).is_absolute() and ".." not in Path(name).parts
    places = [folder, *(each for each in sorted(folder.iterdir()) if each.is_dir())]
    path = next((place / name for place in places if inside and (place / name).is_file()), None)
    if path is None:
        raise BadRequest(f"{name!a} is in no folder of {folder}: put the picture there.")
    return path


def box_precision(live: Session, task: BoxTask, entry: ModelInfo) -> float | None:
    """The mean average precision in %; None of a file without boxes, or of other classes."""
    numbers = category_numbers(entry.class_names, task.known.categories)
    names = [output.name for output in live.get_outputs()]
    if not {*BOXES_OF_FILES} <= {*names} or numbers is None:
        return None
    how, boxes = entry.preprocessing, list[dict[str, Any]]()
    for path, image in zip(task.paths, task.known.images, strict=True):
        size = image.height, image.width
        fed = Fed(how.fitted(*size), how.padded)
        pixels = pixel_values(pictures([str(path)]), how, fed.size)
        outputs = dict(
            zip(BOXES_OF_FILES, live.run([*BOXES_OF_FILES], {"pixel_values": pixels}), strict=True)
        )
        named = {name: np.asarray(value)[0] for name, value in outputs.items()}
        for box in post_process_object_detection(named, size, fed, threshold=0.0):
            if (number := numbers.get(box.label_id)) is not None:
                left, top, right, bottom = box.corners
                where = [left, top, right - left, bottom - top]
                boxes.append(
                    {
                        "image_id": image.id,
                        "category_id": number,
                        "bbox": where,
                        "score": box.score,
                    }
                )
    return 100 * mean_average_precision(task.known, boxes)


def category_numbers(names: Sequence[str], kinds: Sequence[Kind]) -> dict[int, int] | None:
    """The number in annotations of each class of a network: that of its name, or else its own
    number; None where they are of other classes."""
    by_name = {kind.name: kind.id for kind in kinds}
    if {*by_name} <= {*names}:
        return {place: by_name[name] for place, name in enumerate(names) if name in by_name}
    return None


def mean_average_precision(known: Annotations, boxes: Sequence[dict[str, Any]]) -> float:
    """Over classes and over overlaps from 0.5 to 0.95, from 0 to 1; 0 where nothing was found."""
    coco, evaluation = _library()
    if not boxes:
        return 0.0
    dataset = known.model_dump(mode="json")
    for thing in dataset["annotations"]:
        if thing["area"] is None:
            thing["area"] = thing["bbox"][2] * thing["bbox"][3]
    # It prints what it does.
    with redirect_stdout(StringIO()):
        there = coco()
        there.dataset = json.loads(json.dumps(dataset))
        there.createIndex()
        judge = evaluation(there, there.loadRes([*boxes]), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return float(judge.stats[0])


def _library() -> tuple[Any, Any]:
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise MissingLibrary(
            "average precision is that of pycocotools, which is not installed: `pip install "
            "jax-onnx-zoo[boxes]`."
        ) from error
    return COCO, COCOeval
