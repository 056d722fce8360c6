"""What stands in the place of a user's own primitive: what is registered for it, or its impl."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from converter import outside
from converter.graph import ops
from converter.jaxprs.held import is_held
from converter.jaxprs.instead import as_python, expanded
from converter.jaxprs.refusal import RAISED, first_line

_REFUSED = (
    "primitive '{}' cannot be written: there is no rule for it (converter.rule and "
    "converter.expansion register others), and its impl cannot be traced: {}"
)


def users_own(eqn: Any, within: Collection[Any]) -> tuple[Any, str]:
    """A closed jaxpr of the equation's operands, or none and why it is refused, if it is.

    A rule writes arrays that are no keys and no complex numbers, for which the graph has others.
    ``within`` are the primitives whose impl the equation is part of: JAX's generic dispatch binds
    the primitive itself.
    """
    op, primitive = ops.of_user(eqn.primitive), eqn.primitive
    if (found := expanded(eqn, op, eqn.params)) is not None:
        return found, ""
    if outside.rules.find(op) and not any(is_held(v.aval) for v in (*eqn.invars, *eqn.outvars)):
        return None, ""
    if primitive in within:
        return None, _REFUSED.format(primitive.name, "it binds the primitive itself")
    try:
        return as_python(eqn), ""
    except RAISED as error:
        return None, _REFUSED.format(primitive.name, first_line(error))
