"""Recognisers whose equations are JAX functions: what is written like one of them is one of them.

A spelling is traced and simplified as the user's function was, so that both take the same form, and
then the two graphs are compared node by node. Equality of the graphs is the proof.
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
from converter.ir.evaluation import bound as held
from converter.ir.moves import write
from converter.ir.op import Op
from converter.ir.origins import ancestors
from converter.ir.rewrite import Editor, Rule, sweep
from converter.ir.scalars import scalar
from converter.opsets import OLDEST

Arguments: TypeAlias = dict[str, View]
"""What the arguments of a spelling are in the user's graph, by name."""

DTYPES = ("float32", "float16")
"""What ONNX's activations take at every opset."""


def _moderate(**numbers: float | None) -> bool:
    """Zero times an infinite number is NaN in a formula and not in an operator that chooses."""
    return all(n is None or is_moderate(np.asarray(n), allow_zero=True) for n in numbers.values())


@dataclass(frozen=True)
class Spelling:
    """``formula(x, …)`` is the operation ``op``; ``sign`` is one of the primitives in it, if one
    is told.

    Arguments but ``x`` are numbers in the user's function, and the operation's parameters, if
    ``accepts`` takes them; those called ``slope`` may be arrays too, and are operands then. The
    operator came with opset ``since``. With ``negative`` it takes the numbers with the other sign.
    """

    op: Op
    sign: Op | None
    formula: Callable[..., jax.Array]
    accepts: Callable[..., bool] = _moderate
    since: int = OLDEST
    negative: bool = False


def recognise_spellings(graph: Graph, table: Sequence[Spelling], opset: int) -> bool:
    """Give what is spelled in the graph its name, in place; whether there was anything."""
    chosen = spellings_in(graph, [s for s in table if s.since <= opset])
    return bool(chosen) and sweep(graph, _rules(chosen))


def spellings_in(graph: Graph, table: Sequence[Spelling]) -> tuple[Spelling, ...]:
    """Values whose sign is in the graph."""
    there = {node.op for node in graph.walk()}
    return tuple(spelling for spelling in table if spelling.sign is None or spelling.sign in there)


def operations_of(spelling: Spelling) -> frozenset[Op]:
    """The operations that a formula is made of."""
    return frozenset(v.node.op for v in ancestors(_pattern((spelling,)).base) if v.node is not None)


def _rules(table: tuple[Spelling, ...]) -> dict[Op, Rule]:
    return recogniser_rules([_recogniser(table[: i + 1]) for i in range(len(table))], [])


@cache
def _pattern(table: tuple[Spelling, ...]) -> View:
    """The last spelling's result; what is in it and spelled before has its name there too."""
    *before, spelling = table
    names = list(inspect.signature(spelling.formula).parameters)
    specs = [((2, 3) if name == "x" else (), "float32") for name in names]
    graph = pattern_graph(spelling.formula, specs)
    for value, name in zip(graph.inputs, names, strict=True):
        value.name = name
    sweep(graph, _rules(tuple(before)))
    return whole(graph.outputs[0])


def _recogniser(table: tuple[Spelling, ...]) -> Recogniser:
    """Of the last of the spellings."""
    spelling, pattern = table[-1], _pattern(table)

    def prove(node: Node, uses: Uses) -> Arguments | None:
        if node.out.dtype.name not in DTYPES:
            return None
        bound = _same(pattern, along(node.out), {})
        if bound is None or not bound["x"].fills(node.out.shape):
            return None
        arrays = (held(a.base, uses.memo) for a in _arrays(bound).values())
        moderate = all(a is not None and is_moderate(a, allow_zero=True) for a in arrays)
        return bound if moderate and spelling.accepts(**_spelling_numbers(bound)) else None

    def build(node: Node, bound: Arguments, editor: Editor) -> Value:
        shape, dtype = node.out.shape, node.out.dtype
        inputs, params = [write(editor, bound["x"], shape, dtype)], {}
        for name, number in _spelling_numbers(bound).items():
            if number is not None:
                params[name] = -float(number) if spelling.negative else float(number)
                continue
            rely_on_size(editor, bound[name].base, allow_zero=True)
            array = write(editor, bound[name], bound[name].bare(shape))
            less = spelling.negative
            inputs.append(editor.add(ops.neg, [array], array.shape, array.dtype) if less else array)
        return editor.add(spelling.op, inputs, shape, dtype, params)

    return proved(spelling.op.name, (pattern.node().op,), prove, build)


def _arrays(bound: Arguments) -> dict[str, View]:
    """The arguments but ``x`` that are no numbers."""
    return {name: bound[name] for name, n in _spelling_numbers(bound).items() if n is None}


def _spelling_numbers(bound: Arguments) -> dict[str, float | None]:
    """What the arguments but ``x`` are; those without a number are arrays."""
    return {name: scalar(view.base) for name, view in bound.items() if name != "x"}


def _same(pattern: View, view: View, bound: Arguments) -> Arguments | None:
    """What the arguments have to be for the two to be the same, if they can be."""
    value = pattern.base
    if value.kind == "input":
        return _spelling_bound(value.name, view, bound)
    if value.kind == "const":
        number, expected = scalar(view.base), scalar(value)
        return bound if number is not None and _near(number, expected, view) else None
    node = value.node
    if node is None or view.op() != node.op or not _same_params(node, view):
        return None
    terms, parts = operands(pattern), operands(view)
    if len(terms) != len(parts):  # a choice of more than two
        return None
    orders = permutations(parts) if node.op.commutes else (parts,)
    return next((b for order in orders if (b := _all_same(terms, order, bound)) is not None), None)


def _spelling_bound(name: str, view: View, bound: Arguments) -> Arguments | None:
    """With an argument that is this; all but ``x`` and slopes are numbers, and ``x`` is none."""
    if name != "slope" and (name == "x") == (scalar(view.base) is not None):
        return None
    earlier = bound.get(name, view)
    return {**bound, name: view} if _equal(earlier, view) else None


def _all_same(terms: Sequence[View], parts: Sequence[View], bound: Arguments) -> Arguments | None:
    extended: Arguments | None = bound
    for term, part in zip(terms, parts, strict=True):
        extended = None if extended is None else _same(term, part, extended)
    return extended


def _equal(one: View, other: View) -> bool:
    """Whether both are one value, or one number."""
    number = scalar(one.base)
    return one == other or (number is not None and number == scalar(other.base))


def _same_params(node: Node, view: View) -> bool:
    params = view.node().params
    return params.keys() == node.params.keys() and all(
        _near(params[name], value, view) if isinstance(value, float) else params[name] == value
        for name, value in node.params.items()
    )


def _near(number: float, expected: float | None, view: View) -> bool:
    if not jnp.issubdtype(view.base.dtype, jnp.floating):
        return number == expected
    slack = EQUAL + float(jnp.finfo(view.base.dtype).eps)
    return expected is not None and abs(number - expected) <= slack * abs(expected)
