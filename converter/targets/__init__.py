"""Targets: the operators, preferred forms and quirks of each runtime, in a folder with its
``TARGET``.

Passes and rules query a ``Target`` and never name a runtime.
"""

import re
from functools import cache
from importlib import import_module

from converter.errors import SpecError
from converter.opsets import TARGET_NAMES
from converter.targets.target import AttentionLayout, Deviation, Quirk, Target

__all__ = ["TARGETS", "AttentionLayout", "Deviation", "Quirk", "Target", "find_target"]

TARGETS: dict[str, Target] = {
    name: import_module(f"{__name__}.{name}").TARGET for name in TARGET_NAMES
}
"""The targets by the name that ``to_onnx`` takes."""


@cache
def find_target(text: str) -> Target:
    """Return the target of a name, restricted to some versions if the text has any.

    Arguments:
        text: a name such as ``onnxruntime``, or one with versions such as ``onnxruntime>=1.32``.
            Without versions, they are those from ``Target.oldest`` on.

    Raises:
        SpecError: there is no such target or no such version of it, or the versions are not written
            as a range.
    """
    name, version_text = re.fullmatch(r"\s*(\w*)\s*(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if name not in TARGETS:
        names = ", ".join(TARGETS)
        raise SpecError(
            f"target must be {names}, optionally with versions (onnxruntime>=1.32); "
            f"received {text!r}"
        )
    return TARGETS[name].restrict_to_versions(version_text)
