"""What stands in the place of a user's own primitive where nothing is registered for it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from converter import decompositions
from converter.frontend.array_forms import is_held
from converter.frontend.calls import as_python
from converter.frontend.diagnostics import RAISED, first_line
from converter.ir import ops, outside

_REFUSED = (
    "primitive '{}' cannot be written: there is no rule for it (converter.rule and "
    "converter.expansion register others), and its impl cannot be traced: {}"
)


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
