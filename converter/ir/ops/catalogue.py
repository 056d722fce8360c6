"""Operations by name. Each is made once, so that two are one where they are one object."""

from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from converter.ir.op import Formula, Linear, Op, Rounding

_known: dict[str, Op] = {}
_others: dict[str, Op] = {}
_users: WeakKeyDictionary[Any, Op] = WeakKeyDictionary()


def define_op(
    name: str, formula: Formula | None = None, numpy: Formula | None = None, **traits: Any
) -> Op:
    """One of JAX's or of ours, stated in this package."""
    assert name not in _known, f"{name} is stated twice"
    return _known.setdefault(name, Op(name, formula=formula, numpy=numpy, **traits))


def op_by_name(op: Op | str) -> Op:
    """The operation of a name: one that is stated here, or another, of which nothing is known."""
    if isinstance(op, Op):
        return op
    return _known.get(op) or _others.setdefault(op, Op(op))


def op_variant(name: str, kind: str) -> Op:
    """An operation on numbers of another kind: what only moves numbers does so here too."""
    base, full = op_by_name(name), f"{name} of {kind}"
    # The size of one is computed; what compares two or chooses gives only what it was given.
    computes = base.elementwise and not base.broadcasts and base.linear is Linear.NOT
    stays = base.rounding in (Rounding.NONE, Rounding.NORMWISE) and not computes
    rounding = base.rounding if stays else Rounding.INSIDE
    traits: dict[str, Any] = {"triangle": base.triangle, "vectors": base.vectors}
    return _others.setdefault(full, Op(full, rounding=rounding, divides=base.divides, **traits))


@cache
def external_op(name: str, formula: Formula) -> Op:
    """Operation of a recogniser from outside, by its own name, which may be one of ours."""
    return Op(name, "user", formula)


def user_op(primitive: Any) -> Op:
    """A primitive of a user's own, whatever it is called."""
    return _users.setdefault(primitive, Op(primitive.name, "user", calls=True))


def stated() -> tuple[Op, ...]:
    """Every operation that is known by name."""
    return tuple(_known.values())
