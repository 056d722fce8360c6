"""Which factors may be multiplied at another place than they were.

    (q k) * f = (q f) k        x * s - m * s = (x - m) * s        (x * a) * b = x * (a b)

hold of real numbers. Of floats an infinite factor makes NaN of a zero, and a huge one of a zero
that a sum or a difference comes to, on one side alone; a zero, or what is tiny, takes an overflow
away. So factors have to be known to be *moderate*: by their numbers, which are relied on, or by a
bound that they are computed with, in which case NaN is NaN on both sides.
"""

import numpy as np

from converter.fuse.dependence import rely
from converter.fuse.match import Uses
from converter.ir import Value
from converter.ir.evaluation import bound
from converter.ir.formulas import LARGEST_SCALE
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor

UNBOUNDED = "numbers that may be infinite, huge or zero"
"""What is said of factors that are not."""


def is_moderate(numbers: np.ndarray, *, nothing: bool) -> bool:
    """Whether no factor is far from one; ``nothing`` allows for zeros and what is near them."""
    sizes = np.abs(numbers.astype(np.float64))
    return bool(np.all((sizes <= LARGEST_SCALE) & (nothing | (sizes >= 1 / LARGEST_SCALE))))


def may_move(value: Value, uses: Uses, *, nothing: bool = False) -> bool:
    """Whether a factor is known to be moderate."""
    numbers = bound(value, uses.memo)
    if numbers is not None:
        return is_moderate(numbers, nothing=nothing)
    ends = known_range(value)
    return is_moderate(np.asarray([ends.low, ends.high]), nothing=nothing) and (
        nothing or ends.misses(0)
    )


def rely_on_size(editor: Editor, value: Value, *, nothing: bool = False) -> None:
    """Record that a factor was moved, where its numbers are a parameter's."""
    sentence = "all numbers are " + ("moderate" if nothing else "moderate and not zero")

    def holds(numbers: np.ndarray) -> bool:
        return is_moderate(numbers, nothing=nothing)

    rely(editor, sentence, value, holds)
