"""Recognisers of formulas: a *spelling* is a JAX function that computes an operation in one way.

The spelling is traced and canonicalized like the user's function, so that both have the same form.
Then the two graphs are compared node by node. Equality of the graphs is the proof.
"""

import inspect
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from converter.frontend.trace import source_line
from converter.fuse.dependence import depends_on_parameters_only
from converter.fuse.magnitudes import is_moderate, record_magnitude_fact
from converter.fuse.match import (
    MatchContext,
    NearMiss,
    Recogniser,
    operands,
    peeled_view,
    recogniser_from,
    recogniser_rules,
)
from converter.fuse.patterns import pattern_graph
from converter.fuse.polynomials import EQUAL
from converter.ir import Graph, Node, Value, ops
from converter.ir.activation_row import ActivationForm
from converter.ir.axes import View, view_of
from converter.ir.dtypes import is_float
from converter.ir.evaluation import bound_array
from converter.ir.moves import emit_view
from converter.ir.op import Op
from converter.ir.origins import ancestors
from converter.ir.rewrite import Editor, Rule, drop_dead, sweep
from converter.ir.scalars import scalar
from converter.opsets import OLDEST_OPSET
from converter.targets.schemas import operator_name

Arguments: TypeAlias = dict[str, View]
"""The arguments of a spelling in the user's graph, by name."""

DTYPES = ("float32", "float16")
"""Dtypes that ONNX's activations have at every opset."""


@dataclass(frozen=True)
class Spelling:
    """A form that is replaced by an operation: ``form.formula(x, …)`` equals ``op``.

    ``since`` is the first opset with the operator.
    """

    op: Op
    form: ActivationForm
    since: int = OLDEST_OPSET


def recognise_spellings(
    graph: Graph,
    table: Sequence[Spelling],
    opset: int,
    near_misses: list[NearMiss],
    dtypes: Collection[str] = DTYPES,
) -> bool:
    """Replace all computations in a graph that are written like a spelling, in place.

    A spelling is a formula that computes an operation in one way. Spellings whose operator does not
    exist in ``opset`` are omitted. Computations whose dtype is not one of ``dtypes`` are left as
    they are. Return True if anything was replaced.

    A computation may be a formula of the table with numbers that the spelling does not accept. For
    each of these, a near miss is appended to ``near_misses``.
    """
    spellings = spellings_in(graph, [s for s in table if s.since <= opset])
    if not spellings:
        return False
    refused: list[NearMiss] = []
    changed = sweep(graph, _rules(spellings, refused, dtypes))
    if refused:
        drop_dead(graph)
    remaining = {id(node) for node in graph.walk()}
    by_node = {id(miss.node): miss for miss in refused if id(miss.node) in remaining}
    near_misses += by_node.values()
    return changed


def report_other_dtypes(
    graph: Graph, table: Sequence[Spelling], opset: int, near_misses: list[NearMiss]
) -> None:
    """Add a near miss for each computation that is a spelling in a dtype that is not fused.

    They are found by fusing them in a copy of the graph. Spellings whose operator does not exist in
    ``opset``, and those whose condition has no text, are not reported.
    """
    results = {value.dtype for node in graph.walk() for value in node.outputs}
    dtypes = {dtype.name for dtype in results if is_float(dtype)} - {*DTYPES}
    if not (dtypes and spellings_in(graph, table)):
        return
    trial = graph.clone()
    recognise_spellings(trial, table, opset, [], dtypes)
    drop_dead(trial)
    reported_ops = {spelling.op for spelling in table if spelling.form.condition.text}
    for node in trial.walk():
        if node.op in reported_ops:
            name, dtype = operator_name(node.op), node.out.dtype.name
            reason = f"the dtype is {dtype}, and {name} is used only for {' and '.join(DTYPES)}"
            near_misses.append(NearMiss(name, reason, source_line(node)))


def spellings_in(graph: Graph, table: Sequence[Spelling]) -> tuple[Spelling, ...]:
    """Return the spellings of the table, in its order, whose ``required_op`` is in the graph or
    None."""
    operations = {None, *(node.op for node in graph.walk())}
    return tuple(s for s in table if s.form.required_op in operations)


def operations_of(spelling: Spelling) -> frozenset[Op]:
    """Return the operations of a spelling's formula after canonicalization."""
    return frozenset(v.node.op for v in ancestors(_pattern((spelling,)).base) if v.node is not None)


def _rules(
    table: tuple[Spelling, ...], near_misses: list[NearMiss], dtypes: Collection[str] = DTYPES
) -> dict[Op, Rule]:
    """Return the recognisers of all spellings as rules by operation.

    The formula of each spelling may contain earlier spellings of the table as operations.
    """
    recognisers = [_recogniser(table[: i + 1], dtypes) for i in range(len(table))]
    return recogniser_rules(recognisers, near_misses)


@cache
def _pattern(table: tuple[Spelling, ...]) -> View:
    """Return the result of the last spelling's formula, as a view in the formula's own graph.

    Earlier spellings of the table are replaced by their operations in it.
    """
    *previous_spellings, spelling = table
    names = list(inspect.signature(spelling.form.formula).parameters)
    specs = [((2, 3) if name == "x" else (), "float32") for name in names]
    graph = pattern_graph(spelling.form.formula, specs)
    for value, name in zip(graph.inputs, names, strict=True):
        value.name = name
    sweep(graph, _rules(tuple(previous_spellings), []))
    return peeled_view(graph.outputs[0])


def _recogniser(table: tuple[Spelling, ...], dtypes: Collection[str]) -> Recogniser:
    """Return the recogniser of the last spelling of a table, for computations in these dtypes.

    Its formula may contain the earlier spellings of the table as operations.
    """
    spelling, pattern = table[-1], _pattern(table)

    def match(node: Node, context: MatchContext) -> Arguments | str | None:
        if node.out.dtype.name not in dtypes:
            return None
        arguments = _unify(pattern, view_of(node.out), {})
        if arguments is None or not arguments["x"].has_no_broadcast_axes(node.out.shape):
            return None
        arrays = _arrays(arguments)
        bound_arrays = [bound_array(view.base, context.memo) for view in arrays.values()]
        if any(array is None for array in bound_arrays):
            is_open = all(depends_on_parameters_only(view.base) for view in arrays.values())
            name = ", ".join(arrays)
            return f"{name} is made from a parameter that has no value yet" if is_open else None
        are_moderate = all(is_moderate(np.asarray(a), allow_zero=True) for a in bound_arrays)
        if are_moderate and spelling.form.condition.accepts(**_numbers(arguments)):
            return arguments
        return _describe_refusal(spelling, arguments)

    def emit(node: Node, arguments: Arguments, editor: Editor) -> Value:
        shape, dtype = node.out.shape, node.out.dtype
        inputs, params = [emit_view(editor, arguments["x"], shape, dtype)], {}
        for name, number in _numbers(arguments).items():
            if number is not None:
                params[name] = -float(number) if spelling.form.negates_arguments else float(number)
                continue
            record_magnitude_fact(editor, arguments[name].base, allow_zero=True)
            array = emit_view(editor, arguments[name], arguments[name].unbroadcast_shape(shape))
            is_negated = spelling.form.negates_arguments
            inputs.append(
                editor.add(ops.neg, [array], array.shape, array.dtype) if is_negated else array
            )
        return editor.add(spelling.op, inputs, shape, dtype, params)

    return recogniser_from(operator_name(spelling.op), (pattern.node().op,), match, emit)


def _describe_refusal(spelling: Spelling, arguments: Arguments) -> str | None:
    """Return the reason why a spelling does not accept its arguments, or None if it is not
    reported."""
    values = [
        f"{name} is {'an array' if number is None else f'{number:g}'}"
        for name, number in _numbers(arguments).items()
    ]
    name, condition = operator_name(spelling.op), spelling.form.condition.text
    return f"{' and '.join(values)}, and {name} is used only {condition}" if condition else None


def _arrays(arguments: Arguments) -> dict[str, View]:
    """Return the arguments other than ``x`` that are not numbers."""
    return {name: arguments[name] for name, n in _numbers(arguments).items() if n is None}


def _numbers(arguments: Arguments) -> dict[str, float | None]:
    """Return the numbers of the arguments other than ``x``. An argument that is an array has
    None."""
    return {name: scalar(view.base) for name, view in arguments.items() if name != "x"}


def _unify(pattern: View, view: View, arguments: Arguments) -> Arguments | None:
    """Return the arguments with which the formula computes a value of the user's graph.

    Return None if the two computations differ. The operands of a commutative operation are tried in
    all orders.

    **Arguments**

    - `pattern`: a view of a value in the formula's graph.
    - `view`: a view of a value in the user's graph.
    - `arguments`: the values of the formula's arguments that are known so far. They are part of the
      result.
    """
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
    if len(terms) != len(parts):
        # The selection has more than two cases.
        return None
    orders = permutations(parts) if node.op.commutes else (parts,)
    return next(
        (b for order in orders if (b := _unify_all(terms, order, arguments)) is not None), None
    )


def _bind_argument(name: str, view: View, arguments: Arguments) -> Arguments | None:
    """Return the arguments with the argument ``name`` set to ``view``.

    Return None if the argument has another value already, or if its value has the wrong form: ``x``
    may not be a number, and only ``slope`` and ``x`` may be arrays.
    """
    if name != "slope" and (name == "x") == (scalar(view.base) is not None):
        return None
    previous = arguments.get(name, view)
    return {**arguments, name: view} if _is_equal(previous, view) else None


def _unify_all(
    terms: Sequence[View], parts: Sequence[View], arguments: Arguments
) -> Arguments | None:
    """Return the arguments with which several values of a formula compute values of the user's
    graph.

    ``terms`` are the views in the formula's graph, and ``parts`` those in the user's graph. The
    first belongs to the first, and so on. Return None if one of the computations differs.
    ``arguments`` are those known so far; they are part of the result.
    """
    extended: Arguments | None = arguments
    for term, part in zip(terms, parts, strict=True):
        extended = None if extended is None else _unify(term, part, extended)
    return extended


def _is_equal(left: View, right: View) -> bool:
    """Return True if both views are the same value or the same number."""
    number = scalar(left.base)
    return left == right or (number is not None and number == scalar(right.base))


def _has_same_params(node: Node, view: View) -> bool:
    """Return True if the view's node has the parameters of ``node``, with floats equal up to
    rounding."""
    params = view.node().params
    return params.keys() == node.params.keys() and all(
        _is_near(params[name], value, view) if isinstance(value, float) else params[name] == value
        for name, value in node.params.items()
    )


def _is_near(number: float, expected: float | None, view: View) -> bool:
    """Return True if two numbers are equal up to rounding in the dtype of the view.

    Numbers of other dtypes than floats must be equal exactly. ``expected`` may be None, which
    equals no number.
    """
    if not jnp.issubdtype(view.base.dtype, jnp.floating):
        return number == expected
    slack = EQUAL + float(jnp.finfo(view.base.dtype).eps)
    return expected is not None and abs(number - expected) <= slack * abs(expected)
