"""Recognisers from outside: formulas, and functions that read the graph.

They come before the converter's own, in the order in which they were registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from converter.errors import SpecError
from converter.frontend.trace import source_line
from converter.fuse.match import NearMiss, Recogniser
from converter.fuse.spelling import Spelling, primitives
from converter.ir import Node, Value, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor

FoundOutside: TypeAlias = "Value | str | None"
Function: TypeAlias = Callable[..., Any]

NEWEST = 26
_BROADCASTS = frozenset({ops.broadcast_in_dim, ops.reshape})


@dataclass(frozen=True)
class RegisteredRecogniser:
    """A recogniser, what it is called, and the opset of what it writes."""

    name: str
    since: int
    recogniser: Recogniser


_formulas: list[Spelling] = []
_functions: list[RegisteredRecogniser] = []


def recogniser(
    name: str, *, roots: tuple[str, ...] = (), since: int = 17
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
        since: the opset that brought the operator that the rule writes.

    Raises:
        SpecError: a formula does not treat every element alike.
    """

    def register(function: Function) -> Function:
        if roots:
            found = Recogniser(tuple(map(ops.named, roots)), _match(name, function))
            _functions.append(RegisteredRecogniser(name, since, found))
        else:
            _formulas.append(_spelling(name, function, since))
        return function

    return register


def registered_formulas() -> tuple[Spelling, ...]:
    """Every formula that is registered."""
    return tuple(_formulas)


def functions() -> tuple[RegisteredRecogniser, ...]:
    """Every function of the graph that is registered."""
    return tuple(_functions)


def registered_names() -> tuple[str, ...]:
    """The names of all of them."""
    return tuple(dict.fromkeys([*(s.op.name for s in _formulas), *(r.name for r in _functions)]))


@contextmanager
def restored() -> Iterator[None]:
    """What is registered meanwhile is forgotten."""
    held = registered_formulas(), functions()
    try:
        yield
    finally:
        _formulas[:], _functions[:] = held


def _spelling(name: str, formula: Function, since: int) -> Spelling:
    op = Op(name, "user", formula, elementwise=True, structure=name)
    spelling = Spelling(op, None, formula, opsets=range(since, NEWEST + 1))
    odd = {p.name for p in primitives(spelling) if not p.elementwise} - {
        p.name for p in _BROADCASTS
    }
    if odd:
        raise SpecError(
            f"the formula of '{name}' does not treat every element alike: it has "
            f"{', '.join(sorted(odd))}; give roots= and a function of the graph"
        )
    return spelling


def _match(name: str, function: Function) -> Callable[[Node, Editor, list[NearMiss]], Value | None]:
    def match(node: Node, editor: Editor, notes: list[NearMiss]) -> Value | None:
        found: FoundOutside = function(node, editor)
        if isinstance(found, str):
            notes.append(NearMiss(name, found, source_line(node)))
            return None
        return found

    return match
