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

from converter.ir import ops, outside
from converter.ir.op import Op

DecompositionFunction = Callable[..., Any]
Applies = Callable[[Sequence[Any], dict[str, Any]], bool]


@dataclass(frozen=True)
class Expansion:
    """A function, the parameters that it reads and ignores, and which operands it is for.

    One that ``guards`` is no decomposition: its primitive computes nothing, or what it means
    depends on where it is written, and it is traced with the function that it is in.
    """

    function: DecompositionFunction
    reads: frozenset[str]
    ignores: frozenset[str]
    applies: Applies
    guards: bool = False

    def called(self, params: Mapping[str, Any]) -> DecompositionFunction:
        """The function of the operands alone."""
        return partial(self.function, **{k: v for k, v in params.items() if k in self.reads})

    def knows(self, params: Iterable[str]) -> bool:
        """Whether it reads or ignores each of these parameters."""
        return set(params) <= self.reads | self.ignores


_expansions: dict[str, Expansion] = {}


def always(avals: Sequence[Any], params: Any) -> bool:
    """What applies to all operands."""
    return True


def decomposition(
    *primitives: str, ignores: Iterable[str] = (), only: Applies = always
) -> Callable[[DecompositionFunction], DecompositionFunction]:
    """Register one of ours for one or more primitives; ``only`` asks whether it applies."""

    return _registering(primitives, ignores, only)


def guard(
    *primitives: str, ignores: Iterable[str] = ()
) -> Callable[[DecompositionFunction], DecompositionFunction]:
    """Register what is traced in the place of primitives that guard, mark or spread values."""
    return _registering(primitives, ignores, always, guards=True)


def _registering(
    primitives: Sequence[str], ignores: Iterable[str], only: Applies, *, guards: bool = False
) -> Callable[[DecompositionFunction], DecompositionFunction]:
    def register(function: DecompositionFunction) -> DecompositionFunction:
        for primitive in primitives:
            _expansions[primitive] = Expansion(
                function, read_by(function), frozenset(ignores), only, guards
            )
        return function

    return register


def decompositions_from_outside(
    operations: Sequence[Op | str], ignores: Iterable[str], only: Applies
) -> Callable[[DecompositionFunction], DecompositionFunction]:
    """Register a function that goes before ours."""

    def register(function: DecompositionFunction) -> DecompositionFunction:
        for operation in operations:
            found = Expansion(function, read_by(function), frozenset(ignores), only)
            outside.expansions.add(operation, found)
        return function

    return register


def read_by(function: DecompositionFunction) -> frozenset[str]:
    """The parameters that a function reads."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def find_decomposition(op: Op | str, claimed: Collection[str] = ()) -> Expansion | None:
    """The expansion of a primitive: one from outside, else ours.

    ``claimed`` are the names of users' own primitives in the program.
    """
    named = ops.named(op)
    found: Expansion | None = outside.expansions.find(named, claimed)
    return found or (None if named.domain == "user" else _expansions.get(named.name))


def expanded() -> frozenset[str]:
    """Every primitive that has an expansion."""
    return frozenset(_expansions)
