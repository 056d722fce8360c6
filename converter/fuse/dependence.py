"""What a value rests on: constants alone, parameters, named sizes."""

import math
from collections.abc import Callable

import numpy as np

from converter.ir import Value, dims
from converter.ir.evaluation import compute, is_computable, known_numbers
from converter.ir.nodes import Fact
from converter.ir.origins import all_ancestors_pass, source_behind, sources
from converter.ir.rewrite import Editor
from converter.ir.scalars import BROADCAST_OPS, scalar
from converter.weight_folding.weight_programs import copy_program


def known(value: Value) -> np.ndarray | None:
    """The array behind a value that is made from constants alone."""
    if not all_ancestors_pass(value, is_const, is_computable):
        return None
    return np.asarray(compute(value, lambda leaf: leaf.const))


def bound_scalar(value: Value) -> float | int | bool | None:
    """The number behind a scalar, of a constant or of a parameter that has a value now.

    Modules keep an epsilon, or what masked scores are, as a leaf. What is concluded from it has to
    be relied on by ``rely_on_scalar``.
    """
    number = scalar(value)
    if number is not None:
        return number
    source = source_behind(value, BROADCAST_OPS)
    single = dims.all_static(source.shape) and math.prod(source.shape) == 1
    if not single or not all_ancestors_pass(source, _is_bound_scalar, is_computable):
        return None
    array = np.asarray(compute(source, known_numbers))
    scalar_value: float | int | bool = array.astype(np.float64).item()
    return scalar_value


def _is_bound_scalar(leaf: Value) -> bool:
    return (
        math.prod(leaf.shape) == 1 and leaf.dtype.kind in "fV" and known_numbers(leaf) is not None
    )


def rely_on_scalar(editor: Editor, value: Value) -> float:
    """Scalar that ``bound_scalar`` gives, recorded as what something rests on."""
    number = bound_scalar(value)
    assert number is not None, value

    def holds(array: np.ndarray) -> bool:
        return bool(array.astype(np.float64).item() == number)

    rely(editor, f"all numbers are {number:g}", source_behind(value, BROADCAST_OPS), holds)
    return float(number)


def rely(editor: Editor, sentence: str, value: Value, holds: Callable[[np.ndarray], bool]) -> None:
    """Record what was concluded from a value's numbers; those of constants stay what they are."""
    if any(leaf.kind == "param" for leaf in sources(value).values()):
        fact = Fact(copy_program(value, {}), holds)
        editor.facts.setdefault((value, sentence), fact)


def is_const(leaf: Value) -> bool:
    return leaf.kind == "const"


def is_sized(value: Value) -> bool:
    """Made from constants and named sizes alone."""
    return all_ancestors_pass(value, is_const, lambda node: not node.bodies)


def is_weight(value: Value) -> bool:
    """Made from parameters and constants alone, all shapes known."""
    return all_ancestors_pass(value, lambda leaf: leaf.kind in ("const", "param"), is_computable)
