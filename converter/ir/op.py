"""The record of an operation: its name, its formula in JAX and its traits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

Formula: TypeAlias = Callable[..., Any]
Vectors: TypeAlias = Literal["rows", "columns", "both", ""]


class Rounding(Enum):
    """How an operation rounds. The verification derives from it how far a correct result may be
    from JAX's."""

    INSIDE = "operands and results may differ by some units in the last place"
    NONE = "returns only numbers of its operands, or rounds to whole numbers"
    ONCE = "rounds its result, element by element"
    ADDS = "sum of two, into which XLA may fuse a product that is one of them"
    SUMS = "sum of many, which is exact if all operands have few digits"
    FUNCTION = "function of a runtime's own, correct except for the last digits"
    NORMWISE = "backward stable: error in units of the largest element, times the root of the rows"
    CALLER = "rounds as the computation of the caller that it applies"
    CANCELS = "the sums of XLA's approximation cancel near its zeros"


class Linear(Enum):
    """Kind of linearity of an operation."""

    NOT = "in no operand"
    TOGETHER = "in all operands with data together"
    SEPARATELY = "in each of two operands separately, as a product"


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Op:
    """An operation and its traits. Each operation is one object, and equality is identity.

    ``formula`` computes it in JAX, with parameters by keyword. A node of a primitive without
    formula has its own ``meaning``. ``numpy`` computes it in numpy. If it ``divides``, the function
    in numpy is used for floats only, because it has other results for integers.

    An ``elementwise`` operation computes each element of the result from the elements at the same
    position. If it ``broadcasts``, it has several operands, which are broadcast as in numpy. If it
    ``commutes``, its two operands may be exchanged. If it ``can_fuse_into_sum``, it is a product, a
    quotient or an integer power, which XLA may fuse into a sum. If it ``moves``, every element of
    the result is an element of the first operand. If it ``reduces``, all elements along the axes in
    its parameter ``axes`` are combined into one element. If it ``forwards``, its results are its
    operands, unchanged. With ``zero_sign_is_open``, a zero in the result may have either sign. If
    it ``calls``, it runs user code, which a conversion never runs.

    ``triangle(params)`` says which triangle of the first operand, a matrix, is read. It returns two
    Booleans: whether it is the lower one, and whether the diagonal is excluded.
    ``vectors(operand_index, params)`` returns which vectors of a matrix operand are independent.
    "columns" or "rows" means that an error in one of them does not spread to others. "both" means
    that the error of an element depends on the diagonal elements of its row and column. "" means
    that no vectors are independent. ``float64_units`` is the largest error of XLA's function in
    float64, in units in the last place. It is 0 if that error is at most two. If it
    ``rounds_float64_operand``, the result of ONNX Runtime in float64 has an error as if the operand
    had been rounded.

    Reports count the ONNX operator of a composite: ``operator``, or ``alternative_operator`` if
    another one was written. ``structure`` is the name by which ``fuse=`` selects the recogniser;
    ``needs`` contains the structures from which it is built.
    """

    name: str
    domain: Literal["jax", "ours", "user"] = "jax"
    formula: Formula | None = None
    numpy: Formula | None = None
    divides: bool = False
    elementwise: bool = False
    broadcasts: bool = False
    commutes: bool = False
    can_fuse_into_sum: bool = False
    moves: bool = False
    reduces: bool = False
    forwards: bool = False
    linear: Linear = Linear.NOT
    rounding: Rounding = Rounding.INSIDE
    zero_sign_is_open: bool = False
    float64_units: int = 0
    rounds_float64_operand: bool = False
    triangle: Callable[[Mapping[str, Any]], tuple[bool, bool]] | None = None
    vectors: Callable[[int, Mapping[str, Any]], Vectors] | None = None
    calls: bool = False
    operator: str = ""
    alternative_operator: str = ""
    structure: str = ""
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.domain} {self.name}>"
