"""What runtimes have, lack, like and get wrong: a folder each, which has its ``TARGET``.

Passes and rules ask a ``Target``, and know no runtime by name.
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
"""By the name that ``to_onnx`` takes."""


@cache
def find_target(text: str) -> Target:
    """The target of a name, with versions perhaps: ``onnxruntime>=1.32``.

    **Raises** `SpecError` if there is none.
    """
    name, version_text = re.fullmatch(r"\s*(\w*)\s*(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if name not in TARGETS:
        names = ", ".join(TARGETS)
        raise SpecError(
            f"target must be {names}, perhaps with versions (onnxruntime>=1.32); received {text!r}"
        )
    return TARGETS[name].restrict_to_versions(version_text)
