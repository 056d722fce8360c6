"""The task of networks that give the depth of every pixel."""

from zoo.tasks.answer import AskedPicture, Outputs, PictureAnswer, Question, Size, features
from zoo.tasks.maps import depth_map, draw_depth, ramp
from zoo.tasks.task import Drawing, GivenOutput, Task


def depth_task(max_depth: float | None) -> Task:
    """Return the task of a network for depth, in metres up to `max_depth`; None for no unit."""
    near, unit, given = "near", "without a unit", "larger the nearer it is, without a unit"
    if max_depth:
        near, unit = "far away", f"in metres up to {max_depth:g}"
        given = f"in metres, at most {max_depth:g}"
    words = f"how far away every pixel is, {given}"
    return Task(
        name="depth-estimation",
        purpose=f"Says how {near} everything in a picture is, pixel by pixel, {unit}.",
        outputs={"predicted_depth": GivenOutput("[batch_size, height, width]", words)},
        answer=_answer,
        draw=_draw,
        page_draws=frozenset({"predicted_depth"}),
    )


def _answer(outputs: Outputs, picture: AskedPicture, question: Question) -> PictureAnswer:
    if "predicted_depth" not in outputs:
        return features(outputs)
    depth = depth_map(outputs["predicted_depth"], picture.size)
    return PictureAnswer("depth", drawing=draw_depth(depth), values=depth)


def _draw(outputs: Outputs, size: Size) -> Drawing | None:
    if (depth := outputs.get("predicted_depth")) is None:
        return None
    return ramp(depth[0]), "How near everything in the photograph of a cat is"
