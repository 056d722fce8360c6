"""The task of networks that estimate the depth of every pixel."""

from zoo.tasks.answer import InputPicture, Outputs, PictureAnswer, Question, Size, answer_features
from zoo.tasks.maps import depth_map, draw_depth, map_to_colours
from zoo.tasks.task import Drawing, OutputDescription, Task


def depth_task(max_depth: float | None) -> Task:
    """Return the task of a network that estimates the depth of every pixel.

    `max_depth` is the largest depth in metres that the network can return. None means relative
    depth without a unit, which is larger for nearer pixels.
    """
    direction, unit_words, meaning = (
        "near",
        "without a unit",
        "larger for nearer pixels, without a unit",
    )
    if max_depth:
        direction, unit_words = "far away", f"in metres up to {max_depth:g}"
        meaning = f"in metres, at most {max_depth:g}"
    words = f"the depth of every pixel, {meaning}"
    return Task(
        name="depth-estimation",
        purpose=f"Estimates how {direction} every pixel of a picture is, {unit_words}.",
        outputs={"predicted_depth": OutputDescription("[batch_size, height, width]", words)},
        answer=_answer,
        draw=_draw,
        page_draws=frozenset({"predicted_depth"}),
    )


def _answer(outputs: Outputs, picture: InputPicture, question: Question) -> PictureAnswer:
    """Return the depth of each pixel of a picture, and a drawing of it.

    Return the outputs as features if they contain no `predicted_depth`.
    """
    if "predicted_depth" not in outputs:
        return answer_features(outputs)
    depth = depth_map(outputs["predicted_depth"], picture.size)
    return PictureAnswer("depth", drawing=draw_depth(depth), values=depth)


def _draw(outputs: Outputs, size: Size) -> Drawing | None:
    """Return a picture of the depths in colours, and its caption.

    Return None if the outputs contain no `predicted_depth`.
    """
    if (depth := outputs.get("predicted_depth")) is None:
        return None
    return map_to_colours(depth[0]), "The depth of the photograph of a cat"
