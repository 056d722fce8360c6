"""The record of an operation: its name, its formula in JAX and its traits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

Formula: TypeAlias = Callable[..., Any]
Vectors: TypeAlias = Literal["rows", "columns", "both", ""]


class Rounding(Enum):
    """How an operation rounds, which determines how far a correct result may be from JAX's."""

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
    """An operation and its traits. Each operation is one object; equality is identity.

    ``formula`` computes it in JAX, with parameters by keyword; nodes of other primitives have their
    own ``meaning``. ``numpy`` computes it in numpy, for floats only if it ``divides``. An
    ``elementwise`` operation treats every element alike. One that ``broadcasts`` has several
    operands with numpy's broadcasting. ``moves``: the result has elements of the first operand at
    other positions, or some of them. ``reduces``: all elements along ``axes`` become one.
    ``forwards``: the results are the operands. ``any_zero``: the sign of a zero is open. ``calls``:
    it runs user code, which a conversion never does.

    ``triangle(params)`` returns which triangle of the first operand is read: whether it is the
    lower one, and whether the diagonal is excluded. ``vectors(operand_index, params)`` returns
    which vectors of a matrix operand are independent: "columns" or "rows", whose errors do not
    spread to others, or "both" if the error of an element depends on the diagonal elements of its
    row and column. ``float64_units`` is the largest error of XLA's function in float64, in units in
    the last place, if it is above two.

    Reports count ``operator``, the ONNX operator of a composite, or ``otherwise``, another one.
    ``structure`` is the name that ``fuse=`` selects it by; ``needs`` are the structures that it is
    built from.
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
