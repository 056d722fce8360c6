"""Settings of the passes, and the records that they fill."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

from converter.errors import SpecError
from converter.fuse.match import NearMiss
from converter.fuse.named_calls import CALLS
from converter.fuse.user_recognisers import REQUIRED_STRUCTURES, registered_calls, structure_names
from converter.ir import Node
from converter.opsets import DEFAULT_TARGET
from converter.targets import AttentionLayout, Target, find_target

Fuse: TypeAlias = bool | Sequence[str]


@dataclass(frozen=True, kw_only=True)
class PassSettings:
    """Settings of a conversion, and the records that the passes fill.

    Arguments:
        opset: the ONNX opset; None for the target's default.
        attention_layout: layout of attention operands; None for the faster one.
        strict: whether to return JAX's results for all inputs.
        fold: whether to fold scales and shifts by parameters into the weights before them.
        fuse: whether to fuse structures such as layer norm, or the names of the structures to fuse.
        target: the target, optionally with versions.
        near_misses: the structures that were nearly fused. They are added by the passes.
        deviations: the nodes whose results may differ from JAX. They are added by the passes. The
            keys are sentences that say for which inputs.
        newer: the number of operators that would be fused at a newer opset, by opset and name. They
            are added by the passes.

    Raises:
        SpecError: the layout, the opset, the target or the name of a structure is unknown.
    """

    opset: int | None = None
    attention_layout: AttentionLayout | None = None
    strict: bool = False
    fold: bool = True
    fuse: Fuse = True
    target: str = DEFAULT_TARGET
    near_misses: list[NearMiss] = field(default_factory=list, init=False)
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
        unknown = (
            [self.fuse] if isinstance(self.fuse, str) else set(self.fuse) - set(structure_names())
        )
        if unknown:
            raise SpecError(
                f"fuse must be True, False or a list of {', '.join(structure_names())}; "
                f"received {self.fuse!r}"
            )

    @property
    def runtime(self) -> Target:
        """The target, restricted to the requested versions."""
        return find_target(self.target)

    @property
    def selected_opset(self) -> int:
        """The requested opset, or the target's default."""
        return self.runtime.select_opset(self.opset)

    @property
    def layout(self) -> AttentionLayout:
        """The requested layout of attention operands, or the target's default."""
        return self.attention_layout or self.runtime.attention_layout

    def has_operator(self, operator: str, dtype: Any) -> bool:
        """Return True unless the target lacks an ONNX operator for a dtype at the opset of the
        conversion (``Target.has_operator``)."""
        return self.runtime.has_operator(operator, dtype, self.selected_opset)

    def fuses(self, name: str) -> bool:
        """Return True if structures of this name are fused. This is the case if all structures are
        fused, or if the setting lists or needs this one.

        Example: with ``fuse=["attention"]``, structures that attention is built from are fused too.
        """
        if isinstance(self.fuse, bool):
            return self.fuse
        return any(
            name in (requested, *REQUIRED_STRUCTURES.get(requested, ())) for requested in self.fuse
        )

    @property
    def kept_calls(self) -> frozenset[str]:
        """Names of functions under ``jax.jit`` whose calls stay nodes of the graph until a
        recogniser has tried them.

        These are JAX's functions that resize or sample images, and those for which users have
        registered recognisers, if the structures that replace them are fused.
        """
        named = ((name, structure) for name, structure in CALLS.items())
        return frozenset(
            name for name, structure in (*named, *registered_calls()) if self.fuses(structure)
        )

    def count_newer(self, opset: int, operator: str, count: int) -> None:
        """Add operators that would be emitted at a newer opset to ``newer``.

        They are not counted if the opset is not newer than the requested opset, if the target does
        not support the opset, or if the target has no float32 kernel of the operator.

        Arguments:
            opset: the newer opset.
            operator: the ONNX operator.
            count: the number of operators that would be emitted.
        """
        is_available = opset in self.runtime.opsets and self.runtime.has_operator(
            operator, "float32", opset
        )
        if self.selected_opset < opset and count and is_available:
            self.newer.setdefault(opset, Counter())[operator] += count

    def at_opset(self, opset: int) -> Self:
        """Return a copy of the settings for another opset, with new and empty records."""
        return replace(self, opset=opset)
