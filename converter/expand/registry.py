"""Expansions by primitive: a JAX function that is traced in the place of the primitive.

An expansion takes the operands by position and the primitive's parameters by keyword, and gives
the result, or one for each output. Like a rule of the lowering it owns every parameter: it reads
it or says that it ignores it. A primitive with any other stays as it is, and so does one that the
expansion is not ``only`` for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from converter import outside
from converter.graph import ops
from converter.graph.op import Op

Function = Callable[..., Any]
Applies = Callable[[Sequence[Any], dict[str, Any]], bool]


@dataclass(frozen=True)
class Expansion:
    """A function, the parameters that it reads and ignores, and which operands it is for.

    One that ``guards`` is no decomposition: its primitive computes nothing, or what it means
    depends on where it is written, and it is traced with the function that it is in.
    """

    function: Function
    reads: frozenset[str]
    ignores: frozenset[str]
    applies: Applies
    guards: bool = False

    def called(self, params: Mapping[str, Any]) -> Function:
        """The function of the operands alone."""
        return partial(self.function, **{k: v for k, v in params.items() if k in self.reads})

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

    return _registering(primitives, ignores, only)


def guard(*primitives: str, ignores: Iterable[str] = ()) -> Callable[[Function], Function]:
    """Register what is traced in the place of primitives that guard, mark or spread values."""
    return _registering(primitives, ignores, always, guards=True)


def _registering(
    primitives: Sequence[str], ignores: Iterable[str], only: Applies, *, guards: bool = False
) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for primitive in primitives:
            _expansions[primitive] = Expansion(
                function, read_by(function), frozenset(ignores), only, guards
            )
        return function

    return register


def from_outside(
    operations: Sequence[Op | str], ignores: Iterable[str], only: Applies
) -> Callable[[Function], Function]:
    """Register a function that goes before ours."""

    def register(function: Function) -> Function:
        for operation in operations:
            found = Expansion(function, read_by(function), frozenset(ignores), only)
            outside.expansions.add(operation, found)
        return function

    return register


def read_by(function: Function) -> frozenset[str]:
    """The parameters that a function reads."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def find(op: Op | str, claimed: Collection[str] = ()) -> Expansion | None:
    """The expansion of a primitive: one from outside, else ours.

    ``claimed`` are the names of users' own primitives in the program.
    """
    named = ops.named(op)
    found: Expansion | None = outside.expansions.find(named, claimed)
    return found or (None if named.domain == "user" else _expansions.get(named.name))


def expanded() -> frozenset[str]:
    """Every primitive that has an expansion."""
    return frozenset(_expansions)
