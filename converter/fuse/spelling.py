"""Recognisers of formulas: a *spelling* is a JAX function that computes an operation in one way.

The spelling is traced and canonicalized like the user's function, so that both have the same form.
Then the two graphs are compared node by node. Equality of the graphs is the proof.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from converter.fuse.magnitudes import is_moderate, rely_on_size
from converter.fuse.match import Recogniser, Uses, operands, proved, recogniser_rules, whole
from converter.fuse.patterns import pattern_graph
from converter.fuse.product_terms import EQUAL
from converter.ir import Graph, Node, Value, ops
from converter.ir.axes import View, along
from converter.ir.evaluation import bound as bound_array
from converter.ir.moves import write
from converter.ir.op import Op
from converter.ir.origins import ancestors
from converter.ir.rewrite import Editor, Rule, sweep
from converter.ir.scalars import scalar
from converter.opsets import OLDEST

Arguments: TypeAlias = dict[str, View]
"""The arguments of a spelling in the user's graph, by name."""

DTYPES = ("float32", "float16")
"""Dtypes that ONNX's activations have at every opset."""


def _are_moderate(**numbers: float | None) -> bool:
    """Return True if all numbers are moderate.

    Zero times an infinite number is NaN in a formula, but not in an operator that selects.
    """
    return all(n is None or is_moderate(np.asarray(n), allow_zero=True) for n in numbers.values())


@dataclass(frozen=True)
class Spelling:
    """A formula that computes an operation: ``formula(x, …)`` equals ``op``.

    ``sign`` is a primitive that the formula contains; without it in a graph the spelling is not
    tried. The arguments other than ``x`` are numbers in the user's function. They become parameters
    of the operation if ``accepts`` returns True for them. Arguments called ``slope`` may also be
    arrays, which become operands. ``since`` is the first opset with the operator. With ``negative``
    the operator has the numbers with the opposite sign.
    """

    op: Op
    sign: Op | None
    formula: Callable[..., jax.Array]
    accepts: Callable[..., bool] = _are_moderate
    since: int = OLDEST
    negative: bool = False


def recognise_spellings(graph: Graph, table: Sequence[Spelling], opset: int) -> bool:
    """Replace everything in the graph that is written like a spelling, in place. Return True if
    there was any."""
    spellings = spellings_in(graph, [s for s in table if s.since <= opset])
    return bool(spellings) and sweep(graph, _rules(spellings))


def spellings_in(graph: Graph, table: Sequence[Spelling]) -> tuple[Spelling, ...]:
    """Return the spellings whose ``sign`` is in the graph."""
    operations = {node.op for node in graph.walk()}
    return tuple(
        spelling for spelling in table if spelling.sign is None or spelling.sign in operations
    )


def operations_of(spelling: Spelling) -> frozenset[Op]:
    """Return the operations of a formula."""
    return frozenset(v.node.op for v in ancestors(_pattern((spelling,)).base) if v.node is not None)


def _rules(table: tuple[Spelling, ...]) -> dict[Op, Rule]:
    """Return the rules of all spellings; the recogniser of each knows the spellings before it."""
    return recogniser_rules([_recogniser(table[: i + 1]) for i in range(len(table))], [])


@cache
def _pattern(table: tuple[Spelling, ...]) -> View:
    """Return the result of the last spelling's formula, in which earlier spellings are replaced."""
    *previous_spellings, spelling = table
    names = list(inspect.signature(spelling.formula).parameters)
    specs = [((2, 3) if name == "x" else (), "float32") for name in names]
    graph = pattern_graph(spelling.formula, specs)
    for value, name in zip(graph.inputs, names, strict=True):
        value.name = name
    sweep(graph, _rules(tuple(previous_spellings)))
    return whole(graph.outputs[0])


def _recogniser(table: tuple[Spelling, ...]) -> Recogniser:
    """Return the recogniser of the last spelling."""
    spelling, pattern = table[-1], _pattern(table)

    def match(node: Node, uses: Uses) -> Arguments | None:
        if node.out.dtype.name not in DTYPES:
            return None
        arguments = _unify(pattern, along(node.out), {})
        if arguments is None or not arguments["x"].fills(node.out.shape):
            return None
        arrays = (bound_array(a.base, uses.memo) for a in _arrays(arguments).values())
        are_moderate = all(a is not None and is_moderate(a, allow_zero=True) for a in arrays)
        return arguments if are_moderate and spelling.accepts(**_numbers(arguments)) else None

    def emit(node: Node, arguments: Arguments, editor: Editor) -> Value:
        shape, dtype = node.out.shape, node.out.dtype
        inputs, params = [write(editor, arguments["x"], shape, dtype)], {}
        for name, number in _numbers(arguments).items():
            if number is not None:
                params[name] = -float(number) if spelling.negative else float(number)
                continue
            rely_on_size(editor, arguments[name].base, allow_zero=True)
            array = write(editor, arguments[name], arguments[name].bare(shape))
            is_negated = spelling.negative
            inputs.append(
                editor.add(ops.neg, [array], array.shape, array.dtype) if is_negated else array
            )
        return editor.add(spelling.op, inputs, shape, dtype, params)

    return proved(spelling.op.name, (pattern.node().op,), match, emit)


def _arrays(arguments: Arguments) -> dict[str, View]:
    """Return the arguments other than ``x`` that are not numbers."""
    return {name: arguments[name] for name, n in _numbers(arguments).items() if n is None}


def _numbers(arguments: Arguments) -> dict[str, float | None]:
    """Return the numbers of the arguments other than ``x``; None for an array."""
    return {name: scalar(view.base) for name, view in arguments.items() if name != "x"}


def _unify(pattern: View, view: View, arguments: Arguments) -> Arguments | None:
    """Return the arguments with which the pattern equals the view, or None. ``arguments`` has those
    known so far."""
    value = pattern.base
    if value.kind == "input":
        return _bind_argument(value.name, view, arguments)
    if value.kind == "const":
        number, expected = scalar(view.base), scalar(value)
        return arguments if number is not None and _is_near(number, expected, view) else None
    node = value.node
    if node is None or view.op() != node.op or not _has_same_params(node, view):
        return None
    terms, parts = operands(pattern), operands(view)
    if len(terms) != len(parts):  # a choice of more than two
        return None
    orders = permutations(parts) if node.op.commutes else (parts,)
    return next(
        (b for order in orders if (b := _unify_all(terms, order, arguments)) is not None), None
    )


def _bind_argument(name: str, view: View, arguments: Arguments) -> Arguments | None:
    """Return the arguments with one more, or None if it cannot be that.

    Only ``x`` and slopes may be arrays, and ``x`` may not be a number.
    """
    if name != "slope" and (name == "x") == (scalar(view.base) is not None):
        return None
    previous = arguments.get(name, view)
    return {**arguments, name: view} if _is_equal(previous, view) else None


def _unify_all(
    terms: Sequence[View], parts: Sequence[View], arguments: Arguments
) -> Arguments | None:
    """Return the arguments with which all terms equal their parts, or None."""
    extended: Arguments | None = arguments
    for term, part in zip(terms, parts, strict=True):
        extended = None if extended is None else _unify(term, part, extended)
    return extended


def _is_equal(left: View, right: View) -> bool:
    """Return True if both views are the same value or the same number."""
    number = scalar(left.base)
    return left == right or (number is not None and number == scalar(right.base))


def _has_same_params(node: Node, view: View) -> bool:
    params = view.node().params
    return params.keys() == node.params.keys() and all(
        _is_near(params[name], value, view) if isinstance(value, float) else params[name] == value
        for name, value in node.params.items()
    )


def _is_near(number: float, expected: float | None, view: View) -> bool:
    """Return True if two numbers are equal up to rounding in the dtype of the view."""
    if not jnp.issubdtype(view.base.dtype, jnp.floating):
        return number == expected
    slack = EQUAL + float(jnp.finfo(view.base.dtype).eps)
    return expected is not None and abs(number - expected) <= slack * abs(expected)
