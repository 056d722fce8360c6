"""Forms of steps: functions that write a line of Python over values that the program has."""

import importlib

from tests.forms.steps.registry import FORMS, Form

for _family in (
    *("elementwise", "reduce", "shape", "indexing", "contract"),
    *("window", "control", "transform", "macros", "users", "branches", "layouts", "masked"),
    "networks",
):
    importlib.import_module(f"{__name__}.{_family}")

__all__ = ["FORMS", "Form"]
