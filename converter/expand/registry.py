"""Expansions by primitive: a JAX function that is traced in the place of the primitive.

An expansion takes the operands by position and the primitive's parameters by keyword, and gives
the result, or one for each output. Like a rule of the lowering it owns every parameter: it reads
it or says that it ignores it. A primitive with any other stays as it is, and so does one that the
expansion is not ``only`` for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

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
    """Register a JAX function that is traced in the place of one or more primitives.

    It gets the operands by position and the primitive's parameters by keyword:

        @converter.expansion("my_primitive")
        def _(x, *, alpha):
            return jax.numpy.where(x > 0, x, alpha * x)

    Args:
        primitives: names of primitives.
        ignores: parameters that it knowingly does not read. A primitive with any other stays.
        only: is asked with the types of the operands and the parameters whether it applies.
    """

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


def read_by(function: Function) -> frozenset[str]:
    """The parameters that a function reads."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


@contextmanager
def restored() -> Iterator[None]:
    """What is registered meanwhile is forgotten."""
    held = dict(_expansions)
    try:
        yield
    finally:
        _expansions.clear()
        _expansions.update(held)


def find(primitive: str) -> Expansion | None:
    """The expansion of a primitive."""
    return _expansions.get(primitive)


def expanded() -> frozenset[str]:
    """Every primitive that has an expansion."""
    return frozenset(_expansions)
