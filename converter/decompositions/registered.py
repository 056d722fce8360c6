"""Expansions by primitive: a JAX function that is traced in the place of the primitive.

An expansion takes the operands by position and the primitive's parameters by keyword, and gives
the result, or one for each output. Like a rule of the lowering it owns every parameter: it reads
it or says that it ignores it. A primitive with any other stays as it is, and so does one that the
expansion is not ``only`` for.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from converter.ir import ops, outside
from converter.ir.op import Op

DecompositionFunction = Callable[..., Any]
Decorator = Callable[[DecompositionFunction], DecompositionFunction]
Applies = Callable[[Sequence[Any], dict[str, Any]], bool]


@dataclass(frozen=True)
class Owner:
    """A function, and the parameters that it reads and ignores; it is given no others."""

    function: Callable[..., Any]
    reads: frozenset[str]
    ignores: frozenset[str] = frozenset()

    def unknown(self, params: Iterable[str]) -> list[str]:
        """The parameters that it neither reads nor ignores."""
        return sorted(set(params) - self.reads - self.ignores)

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters that it reads."""
        return {name: value for name, value in params.items() if name in self.reads}


def always(avals: Sequence[Any], params: Any) -> bool:
    """Rule that applies to all operands."""
    return True


@dataclass(frozen=True)
class Expansion(Owner):
    """A function of JAX's arrays, and which operands it is for.

    One that ``guards`` is no decomposition: its primitive computes nothing, or what it means
    depends on where it is written, and it is traced with the function that it is in. One that is
    ``of_complex`` holds for complex numbers too. One that is ``packed`` takes them as the graph has
    them.
    """

    applies: Applies = always
    guards: bool = False
    of_complex: bool = False
    packed: bool = False

    def bind(self, params: Mapping[str, Any]) -> DecompositionFunction:
        """The function of the operands alone."""
        return partial(self.function, **self.read(params))


BUILTIN_EXPANSIONS: dict[str, Expansion] = {}
"""By primitive."""


def decomposition(*primitives: str, ignores: Iterable[str] = (), **fields: Any) -> Decorator:
    """Register one of ours for one or more primitives; ``more`` are fields of its `Expansion`."""
    return register_as(BUILTIN_EXPANSIONS.__setitem__, primitives, ignores, **fields)


def register_as(
    add: Callable[[Any, Expansion], None],
    names: Iterable[Any],
    ignores: Iterable[str],
    **fields: Any,
) -> Decorator:
    """Add a function under some names; ``more`` are fields of its `Expansion`."""

    def register(function: DecompositionFunction) -> DecompositionFunction:
        for name in names:
            add(name, Expansion(function, read_by(function), frozenset(ignores), **fields))
        return function

    return register


def read_by(function: DecompositionFunction) -> frozenset[str]:
    """The parameters that a function reads."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def find_decomposition(op: Op | str, claimed: Collection[str] = ()) -> Expansion | None:
    """The expansion of a primitive: one from outside, else ours."""
    named = ops.named(op)
    expansion: Expansion | None = outside.expansions.find(named, claimed)
    return expansion or (None if named.domain == "user" else BUILTIN_EXPANSIONS.get(named.name))
