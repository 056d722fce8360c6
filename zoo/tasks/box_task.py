"""The task of detectors, which find objects in boxes, some with a mask of each object."""

from zoo.tasks.answer import Answer, InputPicture, Outputs, PictureAnswer, Question, answer_features
from zoo.tasks.boxes import (
    THRESHOLD,
    align_detections,
    draw_boxes,
    instance_areas,
    post_process_object_detection,
)
from zoo.tasks.task import OutputDescription, Task

BOX_OUTPUTS = frozenset({"logits", "pred_boxes"})
"""The outputs from which boxes are computed."""


def box_task(queries: int, classes: int, mask_stride: int | None = None) -> Task:
    """Return the task of a detector, whose queries find objects in boxes.

    **Arguments**

    - `queries`: the number of queries, and so of possible objects.
    - `classes`: the number of classes.
    - `mask_stride`: the side in pixels of the square that one pixel of an object's mask covers.
      None means that the network computes no masks.
    """
    outputs = {
        "logits": OutputDescription(
            f"[batch_size, {queries}, {classes}]",
            f"for each of {queries} possible objects the logit of each class, before a sigmoid; "
            "id2label in config.json names the classes",
        ),
        "pred_boxes": OutputDescription(
            f"[batch_size, {queries}, 4]",
            "the box of each object: centre (x, y), width and height, as fractions of the "
            "picture's sides; zoo.tasks.boxes computes boxes in pixels from both outputs",
        ),
    }
    if mask_stride is not None:
        outputs["pred_masks"] = OutputDescription(
            f"[batch_size, {queries}, height / {mask_stride}, width / {mask_stride}]",
            "for each object the logit that a pixel belongs to it, before a sigmoid",
        )
    return Task(
        name="object-detection",
        purpose="Finds objects in a picture, each in a box, of {classes:,} classes{such}.",
        outputs=outputs,
        answer=_answer,
        page_draws=BOX_OUTPUTS,
        align_outputs=align_detections,
        exact=("pred_boxes",),
    )


def _answer(outputs: Outputs, picture: InputPicture, question: Question) -> PictureAnswer:
    """Return the objects in a picture with their boxes, and a drawing of these on the picture.

    Return the outputs as features if they contain no boxes. The score of an object must exceed the
    question's threshold, or the default.
    """
    if not outputs.keys() >= BOX_OUTPUTS:
        return answer_features(outputs)
    threshold = THRESHOLD if question.threshold is None else question.threshold
    boxes = post_process_object_detection(outputs, picture.size, picture.input_size, threshold)
    answers = tuple(Answer(picture.names[box.label_id], box.score) for box in boxes)
    areas = instance_areas(outputs, boxes, picture.size, picture.input_size)
    image = picture.image
    drawing = None if image is None else draw_boxes(image, boxes, picture.names, areas)
    return PictureAnswer(
        "boxes", answers, drawing, areas, boxes=tuple(box.corners for box in boxes)
    )
