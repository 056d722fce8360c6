"""Values that depend only on constants, parameters or named sizes, and their numbers."""

import math
from collections.abc import Callable

import numpy as np

from converter.ir import Value, dims
from converter.ir.evaluation import compute_array, is_computable, leaf_array
from converter.ir.nodes import Fact
from converter.ir.origins import all_ancestors_pass, source_behind, sources
from converter.ir.rewrite import Editor
from converter.ir.scalars import BROADCAST_OPS, scalar
from converter.weight_folding.weight_programs import copy_program


def constant_array(value: Value) -> np.ndarray | None:
    """Return the array of a value that depends only on constants, otherwise None.

    Return None also if a shape on the way is not static or a node cannot be evaluated during
    conversion (`is_computable`).
    """
    if not all_ancestors_pass(value, is_const, is_computable):
        return None
    return np.asarray(compute_array(value, lambda leaf: leaf.const))


def bound_scalar(value: Value) -> float | int | bool | None:
    """Return the number of a constant scalar, or of a scalar that is computed from parameters.

    The parameters must be floats with one element and have their arrays now. The value may be
    broadcast or reshaped from the scalar. Return None for other values.

    Some modules keep an epsilon or the fill value of a mask as a leaf, so that it is a parameter.
    The file may be saved with another number in that parameter. A rewrite that uses the number has
    to record that with ``record_scalar_fact``.
    """
    number = scalar(value)
    if number is not None:
        return number
    source = source_behind(value, BROADCAST_OPS)
    is_single = dims.all_static(source.shape) and math.prod(source.shape) == 1
    if not is_single or not all_ancestors_pass(source, _is_bound_scalar, is_computable):
        return None
    array = np.asarray(compute_array(source, leaf_array))
    scalar_value: float | int | bool = array.astype(np.float64).item()
    return scalar_value


def _is_bound_scalar(leaf: Value) -> bool:
    """Return True if a value without a node has one element, a float dtype and a known number."""
    return math.prod(leaf.shape) == 1 and leaf.dtype.kind in "fV" and leaf_array(leaf) is not None


def record_scalar_fact(editor: Editor, value: Value) -> float:
    """Return the number of a value, and record in the graph that the rewrite relies on it.

    The value must be one for which ``bound_scalar`` returns a number. The record is checked again
    when the parameters get other numbers.
    """
    number = bound_scalar(value)
    assert number is not None, value

    def holds(array: np.ndarray) -> bool:
        return bool(array.astype(np.float64).item() == number)

    record_fact(editor, f"all numbers are {number:g}", source_behind(value, BROADCAST_OPS), holds)
    return float(number)


def record_fact(
    editor: Editor, sentence: str, value: Value, holds: Callable[[np.ndarray], bool]
) -> None:
    """Record that a rewrite relies on a property of a value, if the value depends on parameters.

    **Arguments**

    - `editor`: the editor of the graph in whose `facts` the property is recorded.
    - `sentence`: the property in words. There is one record for a value and a sentence.
    - `value`: the value that has the property.
    - `holds`: returns True if an array of the value has the property. It is not called now, but
      when the parameters get other numbers.
    """
    if any(leaf.kind == "param" for leaf in sources(value).values()):
        fact = Fact(copy_program(value, {}), holds)
        editor.facts.setdefault((value, sentence), fact)


def is_const(leaf: Value) -> bool:
    """Return True if a value without a node is a constant, not a parameter or an input."""
    return leaf.kind == "const"


def depends_on_sizes_only(value: Value) -> bool:
    """Return True if a value depends only on constants and named sizes.

    Return False if a node with bodies is among the nodes that compute it.
    """
    return all_ancestors_pass(value, is_const, lambda node: not node.bodies)


def depends_on_parameters_only(value: Value) -> bool:
    """Return True if a value depends only on parameters and constants, and can be computed now.

    All shapes on the way must be static, and the nodes must have no bodies (`is_computable`). A
    constant is a weight too.
    """
    return all_ancestors_pass(value, lambda leaf: leaf.kind in ("const", "param"), is_computable)
