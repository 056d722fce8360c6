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
from converter.ir import ops
from converter.ir.op import Op
from converter.opsets import OLDEST

Function: TypeAlias = Callable[..., Any]

_BROADCASTS = frozenset({ops.broadcast_in_dim, ops.reshape})


@dataclass(frozen=True)
class RegisteredRecogniser:
    """A recogniser, what it is called, and the opset of what it writes."""

    name: str
    since: int
    recogniser: Recogniser


REGISTERED_FORMULAS: list[Spelling] = []
REGISTERED_FUNCTIONS: list[RegisteredRecogniser] = []
NEEDS = {op.structure: op.needs for op in ops.stated() if op.needs}
"""What has to be recognised for others to be."""


def recogniser(
    name: str, *, roots: tuple[str, ...] = (), since: int = OLDEST
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
            recogniser_of_function = proved(
                name, tuple(map(ops.named, roots)), function, lambda _, made, __: made
            )
            REGISTERED_FUNCTIONS.append(RegisteredRecogniser(name, since, recogniser_of_function))
        else:
            REGISTERED_FORMULAS.append(_spelling(name, function, since))
        return function

    return register


def names() -> tuple[str, ...]:
    """Every name by which a user chooses what is recognised, as in ``to_onnx(…, fuse=[…])``."""
    ours = (op.structure for op in ops.stated() if op.structure)
    formulas = (spelling.op.name for spelling in REGISTERED_FORMULAS)
    return tuple(dict.fromkeys((*ours, *formulas, *(r.name for r in REGISTERED_FUNCTIONS))))


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
