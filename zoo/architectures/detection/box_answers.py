"""What networks that find things give and say."""

from functools import partial

from zoo.architectures.architecture import GivenOutput, on_backbone
from zoo.tasks.answer import Answer, Answered, Outputs, Question, features
from zoo.tasks.boxes import (
    THRESHOLD,
    as_answered,
    draw_boxes,
    instance_areas,
    post_process_object_detection,
)

BOX_OUTPUTS = frozenset({"logits", "pred_boxes"})
"""The outputs that say where things are."""

PURPOSE_OF_BOXES = "Finds things in a picture, each in a box, of {classes:,} classes{such}."


def box_answer(outputs: Outputs, question: Question) -> Answered:
    """Things in boxes; the features of a file without these."""
    if not outputs.keys() >= BOX_OUTPUTS:
        return features(outputs)
    least = THRESHOLD if question.threshold is None else question.threshold
    boxes = post_process_object_detection(outputs, question.size, question.fed, least)
    answers = tuple(Answer(question.names[box.label_id], box.score) for box in boxes)
    areas = instance_areas(outputs, boxes, question.size, question.fed)
    picture = question.picture
    drawing = None if picture is None else draw_boxes(picture, boxes, question.names, areas)
    return Answered("boxes", answers, drawing, areas, boxes=tuple(box.corners for box in boxes))


def box_outputs(queries: int, classes: int) -> dict[str, GivenOutput]:
    """Shapes of the outputs of so many queries and classes."""
    return {
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


finds_boxes = partial(
    on_backbone,
    crops=False,
    purpose=lambda config: PURPOSE_OF_BOXES,
    exact=("pred_boxes",),
    compared=as_answered,
    answer=lambda config, outputs, question: box_answer(outputs, question),
    page_draws=lambda config: BOX_OUTPUTS,
)
"""Makes the record of networks that find things, each in a box."""
