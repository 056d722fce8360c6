"""GELU, exact and with tanh [Hendrycks & Gimpel, arXiv:1606.08415].

The formulas are the forms of its row in the table of activations. Each is a product of x and a
gate, which contains erf, erfc or tanh. The product and the argument of that function are compared
with those of the formula in their normal forms, so that the constants and x may be multiplied in
any order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from converter.fuse.factors import factors_of, read_factors
from converter.fuse.match import (
    MatchContext,
    MatchedOperation,
    emit_matched_operation,
    operand,
    operands,
    recogniser_from,
)
from converter.fuse.normal_form import normal_form
from converter.fuse.patterns import pattern_graph
from converter.fuse.polynomials import Terms, all_views
from converter.ir import Node, ops
from converter.ir.activation_row import ActivationForm
from converter.ir.axes import View, view_of
from converter.ir.dtypes import is_float
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

ROW = ops.ACTIVATIONS[ops.gelu]

OTHER_NUMBERS = "its numbers are not those of a GELU"
CANCELS = "a value cancels in it, which makes the result NaN where that value is infinite"


@dataclass(frozen=True)
class GatedProduct:
    """A form of the table as polynomials: ``product`` is one over ``x`` and ``function``, the
    result of erf, erfc or tanh, and ``argument`` is one over ``x``."""

    x: View
    function: View
    argument: Terms
    product: Terms


def match_gelu(node: Node, context: MatchContext) -> MatchedOperation | str | None:
    """Match a product of a value x and its standard normal distribution function Phi(x).

    Return x and the parameter ``approximate``: True for the formula with tanh, False for the one
    with erf or erfc. Return a text, the reason for a near miss, for such a product with other
    numbers, with a value that cancels, or in a dtype for which the runtime has no Gelu. Return None
    for other products.
    """
    product = view_of(node.out)
    parts = factors_of(node, context) if is_float(node.out.dtype) else None
    if parts is None or len(parts.factors) != 2 or parts.divisors:
        return None
    reason: str | None = None
    for x, gate in (parts.factors, parts.factors[::-1]):
        for function, form in _find_functions(gate, context):
            if all(part.base is not x.base for part in _iter_arithmetic(operand(function, 0))):
                continue
            difference = _compare(product, x, function, _read_form(form), context)
            if difference == "":
                return _check_dtype(node, x, form, context)
            reason = reason or difference
    return reason


def _check_dtype(
    node: Node, x: View, form: ActivationForm, context: MatchContext
) -> MatchedOperation | str:
    """Return a GELU of ``x``, or the reason for a near miss if the runtime has none of its
    dtype."""
    dtype = node.out.dtype
    if not context.has_operator("Gelu", dtype):
        return f"the runtime has no Gelu of {dtype.name}"
    return MatchedOperation(x, dict(form.params))


def _find_functions(gate: View, context: MatchContext) -> Iterator[tuple[View, ActivationForm]]:
    """Yield the result of erf, erfc or tanh in a gate, with each form of GELU that has it.

    The gate is such a result, or the sum of a number and a multiple of one.
    """
    terms = operands(gate) if gate.op() in _SUMS else []
    multiples = [term for term in terms if scalar(term.base) is None]
    views = read_factors(multiples[0], context).factors if len(multiples) == 1 else (gate,)
    for form in ROW.forms:
        yield from ((view, form) for view in views if view.op() is form.required_op)


_SUMS = (ops.add, ops.sub)
_ARITHMETIC = (*_SUMS, ops.mul, ops.div, ops.neg, ops.pow, ops.integer_pow, ops.square)
DEEPEST_OPERAND = 6
"""Largest depth of operations in the argument of a function that is searched for x."""


def _iter_arithmetic(view: View, depth: int = 0) -> Iterator[View]:
    """Yield a value and the values from which it is computed by arithmetic."""
    yield view
    for part in operands(view) if depth < DEEPEST_OPERAND and view.op() in _ARITHMETIC else ():
        yield from _iter_arithmetic(part, depth + 1)


@cache
def _read_form(form: ActivationForm) -> GatedProduct:
    """Return a form of the table as polynomials."""
    graph = pattern_graph(form.formula, [((2, 3), "float32")])
    context, x = Editor(graph), view_of(graph.inputs[0])
    product = normal_form(view_of(graph.outputs[0]), context)
    assert product is not None
    function = next(v for v in all_views(product.terms) if v.op() is form.required_op)
    argument = normal_form(operand(function, 0), context)
    assert argument is not None
    return GatedProduct(x, function, argument.terms, product.terms)


def _compare(
    product: View, x: View, function: View, form: GatedProduct, context: MatchContext
) -> str | None:
    """Compare ``product`` with GELU of ``x`` in this form, where ``function`` is the result of erf,
    erfc or tanh.

    Return "" for GELU, a text with the difference for a near miss, or None for other products.
    """
    views = {form.x: x, form.function: function}
    difference = ""
    for value, expected in ((operand(function, 0), form.argument), (product, form.product)):
        terms = _replace_views(expected, views)
        read = partial(normal_form, value, context, [x.base], conversions="wider")
        found = read(are_finite=True)
        if found is None or found.terms.keys() != terms.keys():
            return None
        if not found.is_near(terms, 1):
            difference = difference or OTHER_NUMBERS
        elif read() is None:
            difference = difference or CANCELS
    return difference


def _replace_views(terms: Terms, views: Mapping[View, View]) -> Terms:
    """Return a polynomial over views with other views in their place."""
    return {
        frozenset((views[atom], power) for atom, power in monomial if isinstance(atom, View)): n
        for monomial, n in terms.items()
    }


GELU = recogniser_from("Gelu", (ops.mul,), match_gelu, partial(emit_matched_operation, ops.gelu))
