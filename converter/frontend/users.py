"""Primitives of users' own, and what stands in their place where nothing is registered.

Whose a primitive is, is told by the object and not by its name: users call theirs as they like.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from typing import Any
from weakref import WeakSet

from jax.extend.core import Primitive

from converter import decompositions
from converter.frontend.array_forms import is_held
from converter.frontend.calls import as_python
from converter.frontend.diagnostics import RAISED, first_line
from converter.ir import ops, outside

PACKAGES = ("jax", "equinox")
"""Whose primitives are attributes of their modules, all of which are in memory with them."""

_theirs: set[Primitive] = set()
_users: WeakSet[Primitive] = WeakSet()

_REFUSED = (
    "primitive '{}' cannot be written: there is no rule for it (converter.rule and "
    "converter.expansion register others), and its impl cannot be traced: {}"
)


def is_users(primitive: Primitive) -> bool:
    """Whether a primitive is neither of JAX's nor of Equinox's."""
    if primitive not in _theirs and primitive not in _users:
        _theirs.update(_held())
        if primitive not in _theirs:
            _users.add(primitive)
    return primitive in _users


def _held() -> Iterator[Primitive]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES and module is not None:
            yield from (v for v in vars(module).values() if isinstance(v, Primitive))


def users_own(eqn: Any, within: Collection[Any]) -> tuple[Any, str]:
    """A closed jaxpr of what the primitive's impl does; or none, and why it is refused, if it is.

    ``within`` are the primitives whose impl the equation is part of: JAX's generic dispatch binds
    the primitive itself.
    """
    primitive = eqn.primitive
    if _is_registered(eqn):
        return None, ""
    if primitive in within:
        return None, _REFUSED.format(primitive.name, "it binds the primitive itself")
    try:
        return as_python(eqn), ""
    except RAISED as error:
        return None, _REFUSED.format(primitive.name, first_line(error))


def _is_registered(eqn: Any) -> bool:
    """Whether there is a rule, or an expansion that applies.

    Neither is for keys and complex numbers, in whose place the graph has others.
    """
    op, operands = ops.of_user(eqn.primitive), [v.aval for v in eqn.invars]
    if any(map(is_held, (*operands, *(v.aval for v in eqn.outvars)))):
        return False
    found = decompositions.find_decomposition(op)
    is_expanded = found and not found.unknown(eqn.params) and found.applies(operands, eqn.params)
    return bool(is_expanded or outside.rules_of.find(op))
