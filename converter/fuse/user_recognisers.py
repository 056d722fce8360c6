"""Users' recognisers: formulas, and functions that read the graph.

Formulas are tried before functions, each in the order of registration, and both before the
converter's own recognisers. A function that is registered for calls is tried before all of these.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from converter.errors import SpecError
from converter.fuse.match import Recogniser, recogniser_from
from converter.fuse.spelling import Spelling, operations_of
from converter.ir import Node, ops
from converter.ir.activation_row import MODERATE, ActivationForm, Condition
from converter.ir.op import Op
from converter.ir.rewrite import Editor
from converter.opsets import OLDEST_OPSET

Function: TypeAlias = Callable[..., Any]

ALL_NUMBERS = Condition(lambda **numbers: True, MODERATE.text, refused=None)
"""The condition of users' formulas. Only arrays have to be moderate."""

_BROADCASTS = frozenset({ops.broadcast_in_dim, ops.reshape})


@dataclass(frozen=True)
class RegisteredRecogniser:
    """A user's recogniser, with its name and the first opset that has the operator of its rule.

    ``calls`` are the names of the jitted functions for whose calls it is tried. It is empty for a
    recogniser that is tried at operations of the graph.
    """

    name: str
    since: int
    recogniser: Recogniser
    calls: frozenset[str] = frozenset()


REGISTERED_FORMULAS: list[Spelling] = []
REGISTERED_FUNCTIONS: list[RegisteredRecogniser] = []
REQUIRED_STRUCTURES = {op.structure: op.needs for op in ops.defined_ops() if op.needs}
"""The structures that have to be recognised before a structure, by the name of the latter."""


def recogniser(
    name: str,
    *,
    roots: tuple[str, ...] = (),
    calls: tuple[str, ...] = (),
    since: int = OLDEST_OPSET,
) -> Callable[[Function], Function]:
    """Return a decorator that registers a recogniser and returns the decorated function unchanged.

    `converter.rule(name)` registers how the recogniser's operation is lowered.

    The decorated function is a formula in JAX. A part of a network that is written in the same way
    is replaced by one node:

        @converter.recogniser("quick_gelu")
        def quick_gelu(x):
            return x * jax.nn.sigmoid(1.702 * x)

    The formula has to be elementwise in its first argument, ``x``. Its other arguments stand for
    numbers, which become parameters of the node. Only float32 and float16 are matched.

    Args:
        name: Name of the operation in the graph, and in ``to_onnx(…, fuse=[name])``.
        roots: Names of operations. The decorated function is then no formula. It is called for
            every node with one of these operations. It gets the node and an ``Editor``, which
            creates nodes. It returns the value that replaces the node's output, the reason for a
            near miss as a text, or None. It must not add nodes before the full structure is
            matched.
        calls: Names of functions under ``jax.jit``. The decorated function is then no formula. It
            is called for every call of these functions, before all other passes. Its arguments and
            results are those for ``roots``. The node is the call, and the name of the called
            function is ``node.params["name"]``.
            ``converter.fuse.named_calls.call_order`` checks whether a call computes a function.
        since: First opset that has the operator of the rule.

    Raises:
        SpecError: The formula is not elementwise. The decorator raises this, not `recogniser`.
    """

    if roots and calls:
        raise SpecError(
            f"the recogniser '{name}' has roots and calls, which are tried at different times: "
            "register it twice"
        )

    def register(function: Function) -> Function:
        if roots or calls:
            operations = (ops.named_call,) if calls else (*map(ops.op_by_name, roots),)
            match = _of_calls(function, calls) if calls else function
            entry_recogniser = recogniser_from(
                name, operations, match, lambda _, result, __: result
            )
            entry = RegisteredRecogniser(name, since, entry_recogniser, frozenset(calls))
            REGISTERED_FUNCTIONS.append(entry)
        else:
            REGISTERED_FORMULAS.append(_spelling(name, function, since))
        return function

    return register


def structure_names() -> tuple[str, ...]:
    """Return all names that select structures, as in ``to_onnx(…, fuse=[…])``.

    They are the names of the converter's recognisers, then of users' formulas, then of users'
    functions, each name once.
    """
    own_structures = (op.structure for op in ops.defined_ops() if op.structure)
    formulas = (spelling.op.name for spelling in REGISTERED_FORMULAS)
    return tuple(
        dict.fromkeys((*own_structures, *formulas, *(r.name for r in REGISTERED_FUNCTIONS)))
    )


def registered_calls() -> Iterator[tuple[str, str]]:
    """Yield pairs of names: of a jitted function, and of the user's recogniser for its calls.

    They are in the order of registration, and within a recogniser sorted.
    """
    for entry in REGISTERED_FUNCTIONS:
        yield from ((name, entry.name) for name in sorted(entry.calls))


def _of_calls(function: Function, calls: tuple[str, ...]) -> Function:
    """Return a matching function that returns None except for calls of functions with these
    names."""

    def match_call(node: Node, editor: Editor) -> Any:
        return function(node, editor) if node.params["name"] in calls else None

    return match_call


@contextmanager
def restoring_registrations() -> Iterator[None]:
    """Return a context manager that restores the registered recognisers when it exits.

    They are then those that were registered when it was entered.
    """
    registered = tuple(REGISTERED_FORMULAS), tuple(REGISTERED_FUNCTIONS)
    try:
        yield
    finally:
        REGISTERED_FORMULAS[:], REGISTERED_FUNCTIONS[:] = registered


def _spelling(name: str, formula: Function, since: int) -> Spelling:
    """Return a user's formula as a spelling that accepts all numbers as arguments.

    Its operation is new, elementwise, and has the structure ``name``. ``since`` is the first opset
    with the operator. Raise `SpecError` if an operation of the formula is not elementwise.
    """
    op = Op(name, "user", formula, elementwise=True, structure=name)
    spelling = Spelling(op, ActivationForm(None, formula, ALL_NUMBERS), since)
    not_elementwise = {p.name for p in operations_of(spelling) - _BROADCASTS if not p.elementwise}
    if not_elementwise:
        raise SpecError(
            f"the formula of '{name}' does not treat every element alike: it has "
            f"{', '.join(sorted(not_elementwise))}; give roots= and a function of the graph"
        )
    return spelling
