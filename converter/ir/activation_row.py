"""Types of the table of activations (``converter/ir/ops/activation_table.py``)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from converter.ir.formulas import LARGEST_SCALE
from converter.ir.op import Formula, Op


@dataclass(frozen=True)
class Condition:
    """A condition on the numbers in a formula.

    - `accepts`: is called with the numbers of the formula's arguments by name, or None for an
      array. It returns True if the formula with these numbers may be replaced.
    - `text`: describes the accepted numbers in the report, such as "for slopes between 0 and 1". If
      it is empty, refused numbers are not reported.
    - `refused`: a number that `accepts` refuses if every argument has it; None if it accepts all
      numbers. It is an example for tests.
    """

    accepts: Callable[..., bool]
    text: str
    refused: float | None


def _are_moderate(**numbers: float | None) -> bool:
    """Return True if all numbers among the arguments are at most 2**20 in absolute value.

    None stands for an argument that is an array. Zero times an infinite number is NaN in a formula,
    but not in an operator that selects.
    """
    return all(n is None or abs(n) <= LARGEST_SCALE for n in numbers.values())


MODERATE = Condition(_are_moderate, "for numbers of at most 2**20 in absolute value", 1e9)


@dataclass(frozen=True)
class ActivationForm:
    """A formula in JAX that computes an operation in one way.

    - `required_op`: a primitive that the formula contains. In a graph without it the form is not
      tried. None means that it is always tried.
    - `formula`: a function of ``x`` and possibly of further arguments. In the user's function these
      are numbers, which become parameters of the operation by their names. An argument called
      ``slope`` may also be an array, which becomes an operand.
    - `condition`: the numbers with which the formula may be replaced.
    - `negates_arguments`: whether the operation gets these numbers and arrays with the opposite
      sign.
    - `contains`: the name of a later activation of the table that is a part of the formula. The
      form is tried after the forms of that activation.
    - `has_any_order`: whether products with the same normal form are replaced too, whatever the
      order of their operations. Otherwise the operations are compared one by one.
    - `params`: parameters of the operation that no argument of the formula determines.
    """

    required_op: Op | None
    formula: Formula
    condition: Condition = MODERATE
    negates_arguments: bool = False
    contains: str = ""
    has_any_order: bool = False
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class ActivationRow:
    """A row of the table: all facts about an activation for which ONNX has an operator.

    The operation in graphs:

    - `name`, `formula`, `operator`, `alternative_operator`: the fields of its `Op`.

    Recognition:

    - `forms`: the formulas that the operation replaces. It is empty if a function recognises them.
    - `numbers`: accepted numbers for the further arguments of the forms. They are examples for
      tests.
    - `examples`: functions of libraries and of users that the operation replaces, for tests.
    - `near_misses`: functions that resemble the activation and are not replaced, by the difference.
      They take ``x``, and for GELU a second operand. They are for tests.

    The operator in comparison with JAX:

    - `is_inexact`: whether the operator is less precise than JAX, so that a strict conversion does
      not recognise the forms.
    - `deviation`: the sentence in the report about results that differ, or "".
    - `absolute_functions`: operations of JAX in whose place the operator computes results with an
      absolute error. The verification allows for it.
    - `fails_verification`: whether the operator and `formula` round so differently from the forms
      that the verification fails for some ordinary numbers.
    """

    name: str
    formula: Formula
    operator: str = ""
    alternative_operator: str = ""
    forms: tuple[ActivationForm, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    examples: tuple[Formula, ...] = ()
    near_misses: Mapping[str, Formula] = field(default_factory=dict)
    is_inexact: bool = False
    deviation: str = ""
    absolute_functions: tuple[Op, ...] = ()
    fails_verification: bool = False
