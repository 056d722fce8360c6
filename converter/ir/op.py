"""What an operation is: its name, whose it is, what it means in JAX and what is known of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

Formula: TypeAlias = Callable[..., Any]
Vectors: TypeAlias = Literal["rows", "columns", "both", ""]


class Rounding(Enum):
    """How an operation rounds, which is how far a right result may be from JAX's."""

    INSIDE = "operands and results may be off by some units in the last place"
    NONE = "gives only numbers that it was given, or rounds to whole ones"
    ONCE = "rounds its result, element by element"
    ADDS = "sum of two, into which XLA may fuse the product that is one of them"
    SUMS = "sum of many, which is exact where all operands have few digits"
    FUNCTION = "function that a runtime computes by itself, right but for the last digits"
    NORMWISE = "backward stable: off by units of the largest element, times the root of the rows"
    GIVEN = "as the computation of the caller's does that it applies"
    CANCELS = "XLA's own sums cancel near its zeros"


class Linear(Enum):
    """Kind of linearity of an operation."""

    NOT = "in nothing"
    TOGETHER = "in all operands that hold data, taken together"
    EACH = "in each of two operands, as a product is"


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Op:
    """An operation and its traits. Each is one object: equality is identity.

    ``formula`` applies it to JAX's arrays, parameters by keyword; a primitive that only a jaxpr
    brings has none, and its nodes hold their ``meaning``. ``numpy`` does the same in numpy, for
    floats alone where it ``divides``. An ``elementwise`` operation treats every element alike; one
    that ``broadcasts`` takes several operands of shapes that fit, as numpy does. What ``moves``
    data gives the elements of its first operand in other places, or only some of them. What
    ``reduces`` makes one of all elements along its ``axes``. Where
    ``forwards`` holds the results are the operands. The sign of a zero is open where
    ``any_zero`` holds. ``triangle`` says of parameters which triangle is read of the first operand:
    whether it is the lower one, and is without the diagonal. ``vectors`` says of the place of an
    operand whether its columns or rows are each for themselves, so that none is off by another, or
    both, so that an element is off by the diagonal's of its row and its column.
    ``float64_units`` is the largest error of XLA's function in float64, in units in the last place,
    if it is above two.
    What ``calls`` runs somebody's code, which a conversion never does.
    Reports count ``operator``, as which a composite is written, or ``otherwise``. ``structure`` is
    the name by which ``fuse=`` chooses it, and ``needs`` are the structures that it is made of.
    """

    name: str
    domain: Literal["jax", "ours", "user"] = "jax"
    formula: Formula | None = None
    numpy: Formula | None = None
    divides: bool = False
    elementwise: bool = False
    broadcasts: bool = False
    commutes: bool = False
    multiplies: bool = False
    moves: bool = False
    reduces: bool = False
    forwards: bool = False
    linear: Linear = Linear.NOT
    rounding: Rounding = Rounding.INSIDE
    any_zero: bool = False
    float64_units: int = 0
    triangle: Callable[[Mapping[str, Any]], tuple[bool, bool]] | None = None
    vectors: Callable[[int, Mapping[str, Any]], Vectors] | None = None
    calls: bool = False
    operator: str = ""
    otherwise: str = ""
    structure: str = ""
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.domain} {self.name}>"
