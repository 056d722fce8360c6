"""What the passes are told, and where they note what they left."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

from converter.errors import SpecError
from converter.fuse.match import NearMiss
from converter.fuse.user_recognisers import NEEDS, names
from converter.ir import Node
from converter.opsets import DEFAULT_TARGET
from converter.targets import AttentionLayout, Target, find_target

Fuse: TypeAlias = bool | Sequence[str]


@dataclass(frozen=True, kw_only=True)
class PassSettings:
    """The target and its opset and layout, what to fuse, and whether to be exact at any cost.

    With ``fold`` scales and shifts by parameters go into the weights before them.

    ``notes`` gets structures that were nearly recognised, ``deviations`` nodes that may give other
    numbers than JAX, each under a sentence that says when; ``newer`` counts the operators that
    would be there at a newer opset, by opset and name.

    Raises:
        SpecError: one of them cannot be used.
    """

    opset: int | None = None
    attention_layout: AttentionLayout | None = None
    strict: bool = False
    fold: bool = True
    fuse: Fuse = True
    target: str = DEFAULT_TARGET
    notes: list[NearMiss] = field(default_factory=list, init=False)
    deviations: dict[str, list[Node]] = field(default_factory=dict, init=False)
    newer: dict[int, Counter[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.attention_layout not in ("4d", "3d", None):
            raise SpecError(
                "attention_layout must be '4d' or '3d', or None for what the target runs best; "
                f"received {self.attention_layout!r}"
            )
        self.runtime.select_opset(self.opset)
        if isinstance(self.fuse, bool):
            return
        unknown = [self.fuse] if isinstance(self.fuse, str) else set(self.fuse) - set(names())
        if unknown:
            raise SpecError(
                f"fuse must be True, False or a list of {', '.join(names())}; "
                f"received {self.fuse!r}"
            )

    @property
    def runtime(self) -> Target:
        return find_target(self.target)

    @property
    def version(self) -> int:
        """The opset: what is asked for, or else what suits the target."""
        return self.runtime.select_opset(self.opset)

    @property
    def layout(self) -> AttentionLayout:
        return self.attention_layout or self.runtime.attention_layout

    def takes(self, operator: str, dtype: Any) -> bool:
        """Whether the target has an operator in a dtype."""
        return self.runtime.takes(operator, dtype, self.version)

    def fuses(self, name: str) -> bool:
        """Whether structures of this name are recognised."""
        if isinstance(self.fuse, bool):
            return self.fuse
        return any(name in (requested, *NEEDS.get(requested, ())) for requested in self.fuse)

    def note_newer(self, opset: int, operator: str, count: int) -> None:
        """A newer opset would bring an operator, in the most usual dtype at least."""
        is_available = opset in self.runtime.opsets and self.runtime.takes(
            operator, "float32", opset
        )
        if self.version < opset and count and is_available:
            self.newer.setdefault(opset, Counter())[operator] += count

    def trial(self, opset: int) -> Self:
        """The same at another opset, whose notes are of no interest."""
        return replace(self, opset=opset)
