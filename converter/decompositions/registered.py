"""Registry of expansions: JAX functions that are traced in place of primitives.

An expansion gets the operands as positional arguments and the primitive's parameters as keywords.
It returns one result for each output. Like a lowering rule, an expansion declares every parameter
of the primitive: as a keyword that it reads, or as one that it ignores on purpose. A primitive with
any other parameter is not expanded.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from converter.ir import ops, registry
from converter.ir.op import Op

DecompositionFunction = Callable[..., Any]
Decorator = Callable[[DecompositionFunction], DecompositionFunction]
Applies = Callable[[Sequence[Any], dict[str, Any]], bool]
"""Predicate of operand types and parameters: returns True if an expansion applies to them."""


@dataclass(frozen=True)
class DeclaredFunction:
    """A function that computes or lowers a primitive, with the names of the primitive's parameters.

    The function gets the parameters that it ``reads`` as keywords. Those that it ``ignores`` are
    not passed. The caller must check with `unknown` that a node has no others.
    """

    function: Callable[..., Any]
    reads: frozenset[str]
    ignores: frozenset[str] = frozenset()

    def unknown(self, params: Iterable[str]) -> list[str]:
        """Return the names in ``params`` that the function neither reads nor ignores, in
        alphabetical order."""
        return sorted(set(params) - self.reads - self.ignores)

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that the function reads, by name. Others in ``params`` are left
        out."""
        return {name: value for name, value in params.items() if name in self.reads}


def always(avals: Sequence[Any], params: Any) -> bool:
    """Return True, as the predicate of an expansion that applies to all operands and parameters."""
    return True


@dataclass(frozen=True)
class Expansion(DeclaredFunction):
    """A JAX function that is traced in place of a primitive.

    Arguments:
        applies: returns True if the function computes the primitive for operands of these types
            with these parameters.
        is_traced_early: true for a primitive that computes nothing, or whose meaning depends on the
            enclosing function. It is replaced while the user's function is traced, and others in a
            later pass.
        of_complex: true if the function also holds for complex numbers.
        packed: true if the function takes complex numbers as real arrays with a last axis of two.
    """

    applies: Applies = always
    is_traced_early: bool = False
    of_complex: bool = False
    packed: bool = False

    def bind(self, params: Mapping[str, Any]) -> DecompositionFunction:
        """Return the function with the parameters that it reads already passed. It takes the
        operands."""
        return partial(self.function, **self.read(params))


BUILTIN_EXPANSIONS: dict[str, Expansion] = {}
"""Built-in expansions by primitive."""


def decomposition(*primitives: str, ignores: Iterable[str] = (), **fields: Any) -> Decorator:
    """Return a decorator that registers a JAX function as the built-in expansion of some
    primitives.

    Arguments:
        ignores: names of parameters that the function ignores on purpose.
        fields: other fields of `Expansion`, such as ``of_complex=True``.
    """
    return register_as(BUILTIN_EXPANSIONS.__setitem__, primitives, ignores, **fields)


def register_as(
    add: Callable[[Any, Expansion], None],
    names: Iterable[Any],
    ignores: Iterable[str],
    **fields: Any,
) -> Decorator:
    """Return a decorator that registers a JAX function as the expansion of some primitives.

    The function is returned unchanged. Its keyword-only arguments are the parameters that it reads.

    Arguments:
        add: stores the expansion of a primitive.
        names: the primitives, as ``add`` takes them.
        ignores: names of parameters that the function ignores on purpose.
        fields: other fields of `Expansion`.
    """

    def register(function: DecompositionFunction) -> DecompositionFunction:
        for name in names:
            add(
                name,
                Expansion(function, keyword_parameters(function), frozenset(ignores), **fields),
            )
        return function

    return register


def keyword_parameters(function: DecompositionFunction) -> frozenset[str]:
    """Return the names of the parameters that a function reads: its keyword-only arguments."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def keyword_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the default values of the keyword-only arguments of a function, by name."""
    parameters = inspect.signature(function).parameters.values()
    return {
        p.name: p.default
        for p in parameters
        if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
    }


def find_decomposition(op: Op | str, user_op_names: Collection[str] = ()) -> Expansion | None:
    """Return the expansion of a primitive, or None if there is none.

    A user's expansion precedes the built-in one. A user's primitive has no built-in expansion.

    Arguments:
        op: the operation or its name.
        user_op_names: names of users' primitives in the program. If such a name is also that of a
            primitive of JAX, an expansion that was registered by this name is for the user's
            primitive only.
    """
    named = ops.op_by_name(op)
    expansion: Expansion | None = registry.expansions.find(named, user_op_names)
    return expansion or (None if named.domain == "user" else BUILTIN_EXPANSIONS.get(named.name))
