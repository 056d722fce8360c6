"""Factors that may be multiplied in another order.

    (q k) * f = (q f) k        x * s - m * s = (x - m) * s        (x * a) * b = x * (a b)

These hold for real numbers. With floats, only one of the sides may be NaN: an infinite factor times
a zero, or a huge factor times a difference that is zero. A zero or tiny factor removes an overflow
on one side. So the factors have to be *moderate*: by their numbers, which the rewrite then relies
on, or by a bound from their computation, with which NaN is NaN on both sides.
"""

import numpy as np

from converter.fuse.dependence import record_fact
from converter.fuse.match import MatchContext
from converter.ir import Value
from converter.ir.evaluation import bound_array
from converter.ir.formulas import LARGEST_SCALE
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor

UNBOUNDED_REASON = "numbers that may be infinite, huge or zero"
"""Text of a report for factors that are not moderate."""


def is_moderate(numbers: np.ndarray, *, allow_zero: bool) -> bool:
    """Return True if all absolute values are from 2**-20 to 2**20 (``LARGEST_SCALE``).

    With ``allow_zero``, zero and values below 2**-20 are moderate too. NaN is never moderate. An
    empty array is.
    """
    sizes = np.abs(numbers.astype(np.float64))
    return bool(np.all((sizes <= LARGEST_SCALE) & (allow_zero | (sizes >= 1 / LARGEST_SCALE))))


def may_move(value: Value, context: MatchContext, *, allow_zero: bool = False) -> bool:
    """Return True if a factor is moderate, so that products with it may be computed in another
    order.

    Its numbers are used if it depends only on constants and on parameters with an array. Otherwise
    the range that follows from its computation has to be moderate. ``allow_zero`` is as in
    `is_moderate`. A rewrite that moves the factor has to call `record_magnitude_fact`, because the
    parameters may get other numbers.
    """
    numbers = bound_array(value, context.memo)
    if numbers is not None:
        return is_moderate(numbers, allow_zero=allow_zero)
    ends = known_range(value)
    return is_moderate(np.asarray([ends.low, ends.high]), allow_zero=allow_zero) and (
        allow_zero or ends.misses(0)
    )


def record_magnitude_fact(editor: Editor, value: Value, *, allow_zero: bool = False) -> None:
    """Record that a rewrite relies on a factor being moderate, if the factor depends on parameters.

    ``allow_zero`` is as in `is_moderate`. The record is checked again when the parameters get other
    numbers.
    """
    sentence = "all numbers are " + ("moderate" if allow_zero else "moderate and not zero")

    def holds(numbers: np.ndarray) -> bool:
        return is_moderate(numbers, allow_zero=allow_zero)

    record_fact(editor, sentence, value, holds)
