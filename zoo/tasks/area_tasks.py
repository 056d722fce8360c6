"""Tasks of segmentation networks, which find areas with queries or classify every patch."""

import numpy as np

from zoo.tasks.answer import (
    Answer,
    InputPicture,
    Outputs,
    PictureAnswer,
    Question,
    Size,
    answer_features,
    best_answers,
)
from zoo.tasks.maps import (
    QueryMasks,
    class_map,
    draw_areas,
    draw_largest,
    post_process_panoptic_segmentation,
)
from zoo.tasks.task import Drawing, OutputDescription, Task

SEGMENTATION = "image-segmentation"

PURPOSE_OF_AREAS = "Divides a picture into areas of {classes:,} classes{such}."

MASK_OUTPUTS = frozenset({"class_queries_logits", "masks_queries_logits"})
"""The outputs from which areas are computed."""


def mask_task(queries: int, classes: int, stride: int) -> Task:
    """Return the task of a segmentation network whose queries each find one area and its class.

    **Arguments**

    - `queries`: the number of queries.
    - `classes`: the number of classes.
    - `stride`: the side in pixels of the square that one pixel of a mask covers.
    """
    return Task(
        name=SEGMENTATION,
        purpose=PURPOSE_OF_AREAS,
        outputs={
            "class_queries_logits": OutputDescription(
                f"[batch_size, {queries}, {classes + 1}]",
                f"for each of {queries} areas the logit of each class, and last that of no area; "
                "their softmax is the score",
            ),
            "masks_queries_logits": OutputDescription(
                f"[batch_size, {queries}, height / {stride}, width / {stride}]",
                "for each area the logit that a pixel is in it, before a sigmoid; zoo.tasks.maps "
                "computes segments from both outputs",
            ),
        },
        answer=_answer_with_segments,
        draw=lambda outputs, size: draw_largest(outputs.get("masks_queries_logits")),
        page_draws=MASK_OUTPUTS,
    )


def _answer_with_segments(
    outputs: Outputs, picture: InputPicture, question: Question
) -> PictureAnswer:
    """Return the areas of a picture with their classes, best score first, and a drawing of them.

    Return the outputs as features if they lack the masks or their classes.
    """
    if not outputs.keys() >= MASK_OUTPUTS:
        return answer_features(outputs)
    segments = post_process_panoptic_segmentation(
        QueryMasks(outputs, picture.size, *picture.input_size)
    )
    answers = (Answer(picture.names[info.label_id], info.score) for info in segments.segments_info)
    best_first = tuple(sorted(answers, key=lambda answer: -answer.score))
    areas = segments.segmentation
    return PictureAnswer("areas", best_first, draw_areas(areas), areas)


def class_map_task(classes: int, stride: int) -> Task:
    """Return the task of a segmentation network that classifies every patch of a picture.

    **Arguments**

    - `classes`: the number of classes.
    - `stride`: the side of a patch in pixels.
    """
    shape = f"[batch_size, {classes}, height / {stride}, width / {stride}]"
    words = "the logit of a linear classifier for each class and every patch"
    return Task(
        name=SEGMENTATION,
        purpose=PURPOSE_OF_AREAS,
        outputs={
            "logits": OutputDescription(
                shape, f"{words}; id2label in config.json names the classes"
            )
        },
        answer=_answer_with_classes,
        draw=_draw_classes,
        page_draws=frozenset({"logits"}),
    )


def _answer_with_classes(
    outputs: Outputs, picture: InputPicture, question: Question
) -> PictureAnswer:
    """Return the classes that occur in a picture with their shares of its pixels, largest first.

    Return the outputs as features if they contain no `logits`.
    """
    if "logits" not in outputs:
        return answer_features(outputs)
    areas = class_map(outputs["logits"], picture.size)
    counts = np.bincount(areas.ravel(), minlength=len(picture.names))
    shares = (counts / areas.size).astype(np.float32)
    answers = best_answers(shares, picture.names, int(np.count_nonzero(counts)))
    return PictureAnswer("areas", answers, draw_areas(areas), areas)


def _draw_classes(outputs: Outputs, size: Size) -> Drawing | None:
    """Return a picture of the class with the largest logit at each patch, and its caption.

    Return None if the outputs contain no `logits`.
    """
    return draw_largest(outputs.get("logits"))
