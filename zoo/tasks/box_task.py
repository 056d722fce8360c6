"""The task of detectors: things in boxes, some with the pixels of each thing."""

from zoo.tasks.answer import Answer, AskedPicture, Outputs, PictureAnswer, Question, features
from zoo.tasks.boxes import (
    THRESHOLD,
    as_answered,
    draw_boxes,
    instance_areas,
    post_process_object_detection,
)
from zoo.tasks.task import GivenOutput, Task

BOX_OUTPUTS = frozenset({"logits", "pred_boxes"})
"""The outputs that say where things are."""


def box_task(queries: int, classes: int, mask_stride: int | None = None) -> Task:
    """Return the task of a network whose queries find things in boxes.

    With `mask_stride` there is a mask of each thing too, of which a pixel has so many pixels of the
    picture along a side.
    """
    outputs = {
        "logits": GivenOutput(
            f"[batch_size, {queries}, {classes}]",
            f"of each of {queries} things that there may be how much it is of each class, before "
            "a sigmoid; id2label in config.json names the classes",
        ),
        "pred_boxes": GivenOutput(
            f"[batch_size, {queries}, 4]",
            "where it is: centre (x, y), width and height, as shares of the picture's sides; "
            "zoo.tasks.boxes makes boxes in pixels of both",
        ),
    }
    if mask_stride is not None:
        outputs["pred_masks"] = GivenOutput(
            f"[batch_size, {queries}, height / {mask_stride}, width / {mask_stride}]",
            "how much every pixel is of it, before a sigmoid",
        )
    return Task(
        name="object-detection",
        purpose="Finds things in a picture, each in a box, of {classes:,} classes{such}.",
        outputs=outputs,
        answer=_answer,
        page_draws=BOX_OUTPUTS,
        compare=as_answered,
        exact=("pred_boxes",),
    )


def _answer(outputs: Outputs, picture: AskedPicture, question: Question) -> PictureAnswer:
    """Return things in boxes; the features of a file without these."""
    if not outputs.keys() >= BOX_OUTPUTS:
        return features(outputs)
    least = THRESHOLD if question.threshold is None else question.threshold
    boxes = post_process_object_detection(outputs, picture.size, picture.fed, least)
    answers = tuple(Answer(picture.names[box.label_id], box.score) for box in boxes)
    areas = instance_areas(outputs, boxes, picture.size, picture.fed)
    image = picture.image
    drawing = None if image is None else draw_boxes(image, boxes, picture.names, areas)
    return PictureAnswer(
        "boxes", answers, drawing, areas, boxes=tuple(box.corners for box in boxes)
    )
