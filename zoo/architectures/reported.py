"""Published results of models, to which a measurement is compared.

They are others', except for the networks whose weights this project has trained. A number is in an
entry only if its source was read; where nothing is known, there is nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Task = Literal["k-NN", "linear", "classifier", "zero-shot", "depth", "areas", "boxes"]

MEASURED_TASKS: Mapping[Task, str] = {
    "k-NN": "% right by the nearest neighbours",
    "linear": "% right by a linear layer on frozen features",
    "classifier": "% right by its own classifier",
    "zero-shot": "% right by sentences about the classes",
    "depth": "error in metres (RMSE) of a linear layer on frozen features",
    "boxes": "% average precision of boxes, at overlaps from 50 to 95 %",
    "areas": "%, mIoU, PQ or AP as is usual for the data",
}
"""How each is measured, and in which unit."""


@dataclass(frozen=True)
class Reported:
    """A result on some data, in the unit of its task, and where it is reported."""

    task: Task
    data: str
    value: float
    source: str


def reported(source: str, data: str, **values: float | None) -> tuple[Reported, ...]:
    """Results on the same data, by the task's name with `_` for `-`; None for what is not known."""
    names: dict[str, Task] = {name.replace("-", "_"): name for name in MEASURED_TASKS}
    rows = ((names[name], value) for name, value in values.items())
    return tuple(Reported(task, data, value, source) for task, value in rows if value is not None)


IMAGENET, NYU, ADE20K = "ImageNet-1k", "NYU Depth v2", "ADE20k"
