"""The scope of named dimensions of inputs, and their constraints."""

import math
import re
import tokenize
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import export

from converter.errors import SpecError
from converter.ir.dims import is_symbolic

UNREADABLE_DIMENSION = (ValueError, NotImplementedError, tokenize.TokenError)
"""Errors that JAX raises if a dimension or a constraint cannot be parsed."""

_NAME = r"\s*([A-Za-z_]\w*)\s*"
_MULTIPLE = re.compile(rf"\s*mod\({_NAME},\s*([1-9]\d*)\s*\)\s*==\s*0\s*")
_EQUAL = re.compile(rf"{_NAME}=={_NAME}")


def scope(specs: Sequence[Any], constraints: Sequence[str]) -> export.SymbolicScope:
    """Return the scope of the symbolic dimensions in the specs, or a new scope with the
    constraints.

    Arguments:
        specs: the specs of the inputs, whose dimensions may be names, or symbolic dimensions of JAX
            that have a scope already.
        constraints: texts such as ``"B >= 2"``, for a new scope.

    Raises:
        SpecError: the dimensions have several scopes, a scope exists and constraints are passed for
            a new one, or a constraint cannot be used.
    """
    scopes = {id(dim.scope): dim.scope for dim in _dims(specs) if is_symbolic(dim)}
    if len(scopes) > 1:
        raise SpecError(
            "the inputs' symbolic dimensions are of several scopes; make all of them with one "
            "jax.export.SymbolicScope, or give their names as words"
        )
    if scopes and constraints:
        raise SpecError(
            "the inputs' symbolic dimensions have a scope already; give the constraints to it, "
            "jax.export.SymbolicScope(constraints), or give the dimensions' names as words"
        )
    if scopes:
        return next(iter(scopes.values()))
    if isinstance(constraints, str):
        raise SpecError(f"constraints must be a list; for one write [{constraints!r}]")
    return _constrained_scope(specs, constraints)


def _constrained_scope(specs: Sequence[Any], constraints: Sequence[str]) -> export.SymbolicScope:
    """Return a new scope with these constraints.

    Each constraint is tried separately first, so that the error can name it.

    Raises:
        SpecError: a constraint cannot be read, contradicts another one, or uses a name that no spec
            has.
    """
    single_constraints = [([text], [text]) for text in constraints]
    for texts, spelled in (
        *single_constraints,
        (list(constraints), _rewrite_multiples(constraints)),
    ):
        try:
            new_scope = export.SymbolicScope(spelled)
        except UNREADABLE_DIMENSION as error:
            constraint_text = texts[0] if len(texts) == 1 else ", ".join(map(repr, texts))
            raise SpecError(
                f"constraint {constraint_text!r} cannot be used: {error}; write it as 'B >= 2', "
                "'B <= 64', 'mod(h, 16) == 0' or 'h == w'"
            ) from error
    words = {word for dim in _dims(specs) if isinstance(dim, str) for word in _words(dim)}
    for text in constraints:
        if unknown := sorted(set(_words(text)) - words - {"mod", "floordiv", "max", "min"}):
            raise SpecError(
                f"constraint {text!r} uses the name {unknown[0]!r}, which is in no input's shape; "
                "use the names in specs"
            )
    return new_scope


def _words(text: str) -> list[str]:
    """Return all names in a text. For ``mod(h, 16)`` they are ``["mod", "h"]``."""
    return re.findall(r"[A-Za-z_]\w*", text)


def _rewrite_multiples(constraints: Sequence[str]) -> list[str]:
    """Return the constraints with ``h == 16*h_16`` in place of ``mod(h, 16) == 0``.

    JAX derives more facts about a dimension that is written as a multiple than from a remainder.
    Several factors of a name are joined to their least common multiple.
    """
    matches = [_MULTIPLE.fullmatch(text) for text in constraints]
    factors: dict[str, int] = {}
    for match in filter(None, matches):
        factors[match[1]] = math.lcm(factors.get(match[1], 1), int(match[2]))
    other_texts = [text for text, match in zip(constraints, matches, strict=True) if match is None]
    return [
        *(f"{name} == {factor}*{name}_{factor}" for name, factor in factors.items()),
        *(_swap_equal_sides(text, factors) for text in other_texts),
    ]


def _swap_equal_sides(text: str, values: dict[str, int]) -> str:
    """Return ``w == h`` for ``h == w`` if only ``h`` is a multiple, and other texts unchanged.

    JAX replaces the left side, whose constraints would be lost. ``values`` contains the factor of
    each name that is a multiple.
    """
    match = _EQUAL.fullmatch(text)
    if match and match[1] in values and match[2] not in values:
        return f"{match[2]} == {match[1]}"
    return text


def constraints(scope: export.SymbolicScope) -> tuple[str, ...]:
    """Return the constraints of a scope as text."""
    lines = str(scope).partition("with constraints:")[2].splitlines()
    return tuple(line.strip() for line in lines if line.strip())


def _dims(specs: Sequence[Any]) -> Iterator[Any]:
    """Yield the dimensions of all specs: numbers, names and symbolic dimensions.

    The dtypes of (shape, dtype) pairs are also yielded, which the callers ignore.
    """
    for leaf in jax.tree.leaves(specs):
        if isinstance(leaf, (jax.Array, np.ndarray, jax.ShapeDtypeStruct)):
            yield from leaf.shape
        else:
            yield leaf
