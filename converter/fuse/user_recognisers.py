"""Recognisers from outside: formulas, and functions that read the graph.

They come before the converter's own, in the order in which they were registered.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from converter.errors import SpecError
from converter.fuse.match import Recogniser, proved
from converter.fuse.spelling import Spelling, primitives
from converter.ir import Node, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor
from converter.opsets import OLDEST

Function: TypeAlias = Callable[..., Any]

_BROADCASTS = frozenset({ops.broadcast_in_dim, ops.reshape})


@dataclass(frozen=True)
class RegisteredRecogniser:
    """A recogniser, what it is called, and the opset of what it writes; ``calls`` are the names of
    functions if it is asked about their calls."""

    name: str
    since: int
    recogniser: Recogniser
    calls: frozenset[str] = frozenset()


REGISTERED_FORMULAS: list[Spelling] = []
REGISTERED_FUNCTIONS: list[RegisteredRecogniser] = []
NEEDS = {op.structure: op.needs for op in ops.stated() if op.needs}
"""What has to be recognised for others to be."""


def recogniser(
    name: str, *, roots: tuple[str, ...] = (), calls: tuple[str, ...] = (), since: int = OLDEST
) -> Callable[[Function], Function]:
    """Register a recogniser; `converter.rule(name)` says how what it finds is written.

    What is decorated is a formula in JAX, and what a network spells like it becomes one node:

        @converter.recogniser("quick_gelu")
        def quick_gelu(x):
            return x * jax.nn.sigmoid(1.702 * x)

    The formula treats every element of its first argument alike, which is called ``x``; what other
    arguments there are stand for numbers, and become parameters of the node. float32 and float16
    are looked at.

    Args:
        name: of the operation in the graph, and in ``to_onnx(…, fuse=[name])``.
        roots: operations at which to ask a function of the graph instead: it gets a node and an
            ``Editor``, which makes new nodes, and gives the value that takes the place of the
            node's, a sentence that says why there is nearly one (for the report), or none. It
            writes nothing before everything is proved.
        calls: names of functions under ``jax.jit`` at whose calls to ask such a function, before
            any pass. The node is the call: its name is ``node.params["name"]``. Whether it computes
            a function is what ``converter.fuse.named_calls.call_order`` says.
        since: the opset that brought the operator that the rule writes.

    Raises:
        SpecError: a formula does not treat every element alike.
    """

    def register(function: Function) -> Function:
        if roots or calls:
            operations = (*map(ops.op_by_name, roots), *([ops.named_call] if calls else []))
            asked = _of_calls(function, calls) if calls else function
            found = proved(name, operations, asked, lambda _, made, __: made)
            entry = RegisteredRecogniser(name, since, found, frozenset(calls))
            REGISTERED_FUNCTIONS.append(entry)
        else:
            REGISTERED_FORMULAS.append(_spelling(name, function, since))
        return function

    return register


def names() -> tuple[str, ...]:
    """Every name by which a user chooses what is recognised, as in ``to_onnx(…, fuse=[…])``."""
    ours = (op.structure for op in ops.stated() if op.structure)
    formulas = (spelling.op.name for spelling in REGISTERED_FORMULAS)
    return tuple(dict.fromkeys((*ours, *formulas, *(r.name for r in REGISTERED_FUNCTIONS))))


def registered_calls() -> Iterator[tuple[str, str]]:
    """Yield the name of each function whose calls are asked about, and of the recogniser."""
    for entry in REGISTERED_FUNCTIONS:
        yield from ((name, entry.name) for name in sorted(entry.calls))


def _of_calls(function: Function, calls: tuple[str, ...]) -> Function:
    """Ask a function about calls of these names alone."""

    def asked(node: Node, editor: Editor) -> Any:
        return function(node, editor) if node.params["name"] in calls else None

    return asked


@contextmanager
def restored() -> Iterator[None]:
    """Forget what is registered meanwhile."""
    held = tuple(REGISTERED_FORMULAS), tuple(REGISTERED_FUNCTIONS)
    try:
        yield
    finally:
        REGISTERED_FORMULAS[:], REGISTERED_FUNCTIONS[:] = held


def _spelling(name: str, formula: Function, since: int) -> Spelling:
    op = Op(name, "user", formula, elementwise=True, structure=name)
    spelling = Spelling(op, None, formula, accepts=lambda **numbers: True, since=since)
    odd = {p.name for p in primitives(spelling) - _BROADCASTS if not p.elementwise}
    if odd:
        raise SpecError(
            f"the formula of '{name}' does not treat every element alike: it has "
            f"{', '.join(sorted(odd))}; give roots= and a function of the graph"
        )
    return spelling
