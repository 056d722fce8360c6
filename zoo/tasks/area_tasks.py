"""The task of segmentation networks: areas of queries' masks, or a class of every patch."""

import numpy as np

from zoo.tasks.answer import (
    Answer,
    AskedPicture,
    Outputs,
    PictureAnswer,
    Question,
    Size,
    best,
    features,
)
from zoo.tasks.maps import (
    QueryMasks,
    class_map,
    draw_areas,
    drawn_maps,
    post_process_panoptic_segmentation,
)
from zoo.tasks.task import Drawing, GivenOutput, Task

SEGMENTATION = "image-segmentation"

PURPOSE_OF_AREAS = "Finds what is where in a picture, of {classes:,} classes{such}."

MAPS = frozenset({"class_queries_logits", "masks_queries_logits"})
"""The outputs that together say what is where."""


def mask_task(queries: int, classes: int, stride: int) -> Task:
    """Return the task of a network whose queries find areas; a pixel of a mask has `stride` pixels
    of the picture along a side."""
    return Task(
        name=SEGMENTATION,
        purpose=PURPOSE_OF_AREAS,
        outputs={
            "class_queries_logits": GivenOutput(
                f"[batch_size, {queries}, {classes + 1}]",
                f"of each of {queries} areas how much it is each class, and the last that it is "
                "none, before a softmax",
            ),
            "masks_queries_logits": GivenOutput(
                f"[batch_size, {queries}, height / {stride}, width / {stride}]",
                "how much every pixel is in it, before a sigmoid; zoo.tasks.maps makes segments of "
                "both",
            ),
        },
        answer=_segments,
        draw=lambda outputs, size: drawn_maps(outputs.get("masks_queries_logits")),
        page_draws=MAPS,
    )


def _segments(outputs: Outputs, picture: AskedPicture, question: Question) -> PictureAnswer:
    """Return the segments, the surest first."""
    if not outputs.keys() >= MAPS:
        return features(outputs)
    segments = post_process_panoptic_segmentation(QueryMasks(outputs, picture.size, *picture.fed))
    answers = (Answer(picture.names[each.label_id], each.score) for each in segments.segments_info)
    best_first = tuple(sorted(answers, key=lambda each: -each.score))
    areas = segments.segmentation
    return PictureAnswer("areas", best_first, draw_areas(areas), areas)


def class_map_task(classes: int, stride: int) -> Task:
    """Return the task of a network that classifies every patch of `stride` pixels along a side."""
    shape = f"[batch_size, {classes}, height / {stride}, width / {stride}]"
    words = "a linear classifier's number for each class and every patch, larger where likelier"
    return Task(
        name=SEGMENTATION,
        purpose=PURPOSE_OF_AREAS,
        outputs={
            "logits": GivenOutput(shape, f"{words}; id2label in config.json names the classes")
        },
        answer=_classes_by_area,
        draw=_draw_classes,
        page_draws=frozenset({"logits"}),
    )


def _classes_by_area(outputs: Outputs, picture: AskedPicture, question: Question) -> PictureAnswer:
    """Return the classes and their shares of the picture, the largest first."""
    if "logits" not in outputs:
        return features(outputs)
    areas = class_map(outputs["logits"], picture.size)
    counts = np.bincount(areas.ravel(), minlength=len(picture.names))
    shares = (counts / areas.size).astype(np.float32)
    found = best(shares, picture.names, int(np.count_nonzero(counts)))
    return PictureAnswer("areas", found, draw_areas(areas), areas)


def _draw_classes(outputs: Outputs, size: Size) -> Drawing | None:
    return drawn_maps(outputs.get("logits"))
