"""Operations by name. Each is created once, so that operations are compared by identity."""

from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from converter.ir.op import Formula, Linear, Op, Rounding

_defined: dict[str, Op] = {}
_undefined: dict[str, Op] = {}
_user_ops: WeakKeyDictionary[Any, Op] = WeakKeyDictionary()


def define_op(
    name: str, formula: Formula | None = None, numpy: Formula | None = None, **traits: Any
) -> Op:
    """Define an operation of JAX or of the converter. Only this package calls it, once for each
    name.

    ``formula`` and ``numpy`` compute it in JAX and in numpy. ``traits`` are the other fields of
    `Op`.
    """
    assert name not in _defined, f"{name} is defined twice"
    return _defined.setdefault(name, Op(name, formula=formula, numpy=numpy, **traits))


def op_by_name(op: Op | str) -> Op:
    """Return the defined operation of a name, or an operation of JAX without traits.

    The result is always the same object for a name. An `Op` is returned unchanged.
    """
    if isinstance(op, Op):
        return op
    return _defined.get(op) or _undefined.setdefault(op, Op(op))


def op_variant(name: str, number_kind: str) -> Op:
    """Return the variant of an operation for another kind of number, created on first use.

    The name of the variant is ``"{name} of {number_kind}"``. It has no formula. It keeps the
    rounding class if the operation only moves, compares or selects values, or is an operation on
    matrices (``Rounding.NORMWISE``).
    """
    original, full_name = op_by_name(name), f"{name} of {number_kind}"
    # The absolute value of a complex number has to be computed, but comparisons and selections only
    # return values of their operands.
    computes = original.elementwise and not original.broadcasts and original.linear is Linear.NOT
    keeps_rounding = original.rounding in (Rounding.NONE, Rounding.NORMWISE) and not computes
    rounding = original.rounding if keeps_rounding else Rounding.INSIDE
    traits: dict[str, Any] = {"triangle": original.triangle, "vectors": original.vectors}
    return _undefined.setdefault(
        full_name, Op(full_name, rounding=rounding, divides=original.divides, **traits)
    )


@cache
def external_op(name: str, formula: Formula) -> Op:
    """Return the operation of a user's recogniser, the same object for the same arguments. Its name
    may be that of a defined operation."""
    return Op(name, "user", formula)


def user_op(primitive: Any) -> Op:
    """Return the operation of a user's JAX primitive, the same object for the same primitive. Its
    name may be that of a defined operation."""
    return _user_ops.setdefault(primitive, Op(primitive.name, "user", calls=True))


def defined_ops() -> tuple[Op, ...]:
    """Return every operation that was defined by ``define_op``, but no variant and no operation of
    a user."""
    return tuple(_defined.values())
