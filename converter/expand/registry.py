"""Expansions by primitive: a JAX function that is traced in the place of the primitive.

An expansion takes the operands by position and the primitive's parameters by keyword, and gives
the result, or one for each output. Like a rule of the lowering it owns every parameter: it reads
it or says that it ignores it. A primitive with any other stays as it is, and so does one that the
expansion is not ``only`` for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from converter import outside
from converter.graph import ops
from converter.graph.op import Op

Function = Callable[..., Any]
Applies = Callable[[Sequence[Any], dict[str, Any]], bool]


@dataclass(frozen=True)
class Expansion:
    """A function, the parameters that it reads and ignores, and which operands it is for."""

    function: Function
    reads: frozenset[str]
    ignores: frozenset[str]
    applies: Applies

    def knows(self, params: Iterable[str]) -> bool:
        """Whether it reads or ignores each of these parameters."""
        return set(params) <= self.reads | self.ignores


_expansions: dict[str, Expansion] = {}


def always(avals: Sequence[Any], params: Any) -> bool:
    """What applies to all operands."""
    return True


def expansion(
    *primitives: str, ignores: Iterable[str] = (), only: Applies = always
) -> Callable[[Function], Function]:
    """Register one of ours for one or more primitives; ``only`` asks whether it applies."""

    def register(function: Function) -> Function:
        for primitive in primitives:
            _expansions[primitive] = _expansion(function, ignores, only)
        return function

    return register


def from_outside(
    operations: Sequence[Op | str], ignores: Iterable[str], only: Applies
) -> Callable[[Function], Function]:
    """Register a function that goes before ours."""

    def register(function: Function) -> Function:
        for operation in operations:
            outside.expansions.add(operation, _expansion(function, ignores, only))
        return function

    return register


def _expansion(function: Function, ignores: Iterable[str], only: Applies) -> Expansion:
    parameters = inspect.signature(function).parameters.values()
    reads = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    return Expansion(function, reads, frozenset(ignores), only)


def find(op: Op | str) -> Expansion | None:
    """The expansion of a primitive: one from outside, else ours."""
    named = ops.named(op)
    found: Expansion | None = outside.expansions.find(named)
    return found or (None if named.domain == "user" else _expansions.get(named.name))


def expanded() -> frozenset[str]:
    """Every primitive that has an expansion."""
    return frozenset(_expansions)
