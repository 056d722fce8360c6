"""Registry of expansions: JAX functions that are traced in place of primitives.

An expansion gets the operands as positional arguments and the primitive's parameters as keywords.
It returns one result for each output. Like a lowering rule it declares every parameter: it reads
it, or ignores it on purpose. A primitive with any other parameter is not expanded, nor one to which
the expansion does not apply.
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
    """A function with the parameters that it reads and ignores; it gets only the former."""

    function: Callable[..., Any]
    reads: frozenset[str]
    ignores: frozenset[str] = frozenset()

    def unknown(self, params: Iterable[str]) -> list[str]:
        """Return the parameters that the function neither reads nor ignores."""
        return sorted(set(params) - self.reads - self.ignores)

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that the function reads."""
        return {name: value for name, value in params.items() if name in self.reads}


def always(avals: Sequence[Any], params: Any) -> bool:
    """Return True: the expansion applies to all operands."""
    return True


@dataclass(frozen=True)
class Expansion(Owner):
    """An expansion of a primitive.

    Arguments:
        applies: a predicate of the operand types and the parameters.
        guards: true for a primitive that computes nothing, or whose meaning depends on the
            enclosing function. It is expanded while tracing.
        of_complex: whether the function also holds for complex numbers.
        packed: whether the function takes complex numbers in the form of the graph.
    """

    applies: Applies = always
    guards: bool = False
    of_complex: bool = False
    packed: bool = False

    def bind(self, params: Mapping[str, Any]) -> DecompositionFunction:
        """Return the function of the operands with bound parameters."""
        return partial(self.function, **self.read(params))


BUILTIN_EXPANSIONS: dict[str, Expansion] = {}
"""Built-in expansions by primitive."""


def decomposition(*primitives: str, ignores: Iterable[str] = (), **fields: Any) -> Decorator:
    """Register a built-in expansion for one or more primitives; ``fields`` are fields of
    `Expansion`."""
    return register_as(BUILTIN_EXPANSIONS.__setitem__, primitives, ignores, **fields)


def register_as(
    add: Callable[[Any, Expansion], None],
    names: Iterable[Any],
    ignores: Iterable[str],
    **fields: Any,
) -> Decorator:
    """Return a decorator that adds a function under some names; ``fields`` are fields of
    `Expansion`."""

    def register(function: DecompositionFunction) -> DecompositionFunction:
        for name in names:
            add(name, Expansion(function, read_by(function), frozenset(ignores), **fields))
        return function

    return register


def read_by(function: DecompositionFunction) -> frozenset[str]:
    """Return the parameters that a function reads."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def find_decomposition(op: Op | str, user_op_names: Collection[str] = ()) -> Expansion | None:
    """Return the expansion of a primitive: a user's, a built-in one, or None."""
    named = ops.op_by_name(op)
    expansion: Expansion | None = outside.expansions.find(named, user_op_names)
    return expansion or (None if named.domain == "user" else BUILTIN_EXPANSIONS.get(named.name))
