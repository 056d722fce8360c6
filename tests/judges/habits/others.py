"""tract, and OpenCV's new engine, on a CPU."""

from converter.targets import TARGETS
from tests.judges.habits import Arrays, Habit
from tests.judges.habits.arrays import f32

VERSIONS = {"tract": ("0.23.9",), "opencv": ("5.0.0.93",)}


def _quirk(
    runtime: str, inputs: Arrays, right: Arrays, seen: Arrays | str, standard: str, ours: str
) -> Habit:
    """The one that its target has."""
    (quirk,) = TARGETS[runtime].quirks
    return Habit(
        quirk.name, quirk.example, inputs, right, seen, standard, ours, versions=quirk.versions
    )


HABITS = {
    "tract": [
        _quirk(
            "tract",
            [f32([[-1, 2]])],
            [f32([[0, 2]])],
            "Failed analyse",
            "a name stands for some size; here both names stand for the batch",
            "leaves types and sizes of what nodes compute out",
        )
    ],
    "opencv": [
        _quirk(
            "opencv",
            [f32([[[[1, 2]]]])],
            [f32([[[[-2, 1]]]])],
            "at least three inputs are required",
            "tables of sines and cosines are inputs like others",
            "puts an `Identity` between a table and who reads it",
        )
    ],
}
