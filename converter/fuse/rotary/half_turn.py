"""Rotations written as ``x * cos + rotate(x) * sin``, where ``rotate`` maps the halves (a, b) of x
to (-b, a)."""

from converter.fuse.factors import read_factors
from converter.fuse.match import MatchContext
from converter.fuse.rotary.halves import (
    EmitValue,
    JoinedHalves,
    match_equal_halves,
    match_joined_halves,
    unite_halves,
)
from converter.fuse.rotary.rotation import MatchedRotation, match_rotation, signed_products
from converter.ir import Node
from converter.ir.axes import View, view_of
from converter.ir.moves import look_through


def match_rotate_half_form(node: Node, context: MatchContext) -> MatchedRotation | str | None:
    """Match ``x * cos + rotate(x) * sin`` or a difference of these, where ``rotate`` maps the
    halves (a, b) of x to (-b, a) or (b, -a).

    The halves are the first and second one, or the even and odd elements. ``cos`` and ``sin`` are
    as wide as x, and their two halves have to be equal. Return the rotation, a text with the reason
    for a near miss, or None for other nodes.
    """
    terms = signed_products(view_of(node.out), context)
    for (sign, value_factors), (other, rotated_factors) in (terms, terms[::-1]) if terms else ():
        for rotated, sin in (rotated_factors, rotated_factors[::-1]) if sign == 1 else ():
            rotated_halves = _match_rotate_half(rotated, context)
            if rotated_halves is None:
                continue
            x, join, direction = rotated_halves

            def half(table: View, join: JoinedHalves = join) -> EmitValue | str:
                axis = table.axes[join.axis]
                assert axis is not None, table
                return match_equal_halves(table.base, axis, join.interleaved, context.memo)

            for value, cos in (value_factors, value_factors[::-1]):
                if look_through(value, conversions="none", reach="parts") == x:
                    return match_rotation(
                        node.out.shape,
                        value,
                        (cos, sin),
                        join.axis,
                        join.interleaved,
                        half,
                        other * direction < 0,
                    )
    return None


def _match_rotate_half(view: View, context: MatchContext) -> tuple[View, JoinedHalves, int] | None:
    """Match ``(-b, a)`` or ``(b, -a)`` of the halves ``a`` and ``b`` of a value.

    ``a`` is the first half or the even elements. Return the value, the joined halves, and the sign
    of ``a``: 1 for the first form, -1 for the second. Return None for other views.
    """
    join = match_joined_halves(view)
    if join is None:
        return None
    parts = [read_factors(half, context) for half in (join.first, join.second)]
    signs = [part.coefficient for part in parts]
    if signs not in ([-1, 1], [1, -1]):
        return None
    if any(part.divisors or len(part.factors) != 1 for part in parts):
        return None
    (b,), (a,) = (part.factors for part in parts)
    x = unite_halves(a, b, join.axis, join.interleaved)
    if x is None:
        return None
    return look_through(x, conversions="none", reach="parts"), join, int(signs[1])
