"""What the recognisers share: how one is made, logical axes.

A recogniser *proves, then builds*: ``prove`` reads the graph and returns evidence, a frozen record
of all that the fused node takes, or the reason why there is none; ``build`` writes what the
evidence says. Nothing is written before everything is proved.

A matcher numbers the axes of its root node; those are the *logical axes*. A ``View`` is a value
seen along them, whatever transposes, broadcasts and size-one reshapes lie between, so that
``vmap``, einsum's operand order and memory layouts all look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import jax.numpy as jnp

from converter.frontend.trace import source_line
from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.axes import View, along
from converter.ir.dims import Shape
from converter.ir.moves import above, descended, write
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, SupportsDtype


@dataclass(frozen=True)
class NearMiss:
    """A structure that was left decomposed, and why; how many there are, and where the first.

    ``node`` is the one that was looked at, while there are passes.
    """

    pattern: str
    reason: str
    line: str = ""
    count: int = 1
    node: Node | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        more = f" ({self.count} times, first in {self.line})" if self.count > 1 else ""
        return f"{self.pattern}: {self.reason}{more}"


def grouped_near_misses(notes: Sequence[NearMiss]) -> list[NearMiss]:
    """Each reason once."""
    grouped: dict[tuple[str, str], NearMiss] = {}
    for note in notes:
        first = grouped.setdefault((note.pattern, note.reason), replace(note, count=0, node=None))
        grouped[note.pattern, note.reason] = replace(first, count=first.count + note.count)
    return list(grouped.values())


Found: TypeAlias = "Sequence[Value] | Value"
Match: TypeAlias = Callable[[Node, Editor, list[NearMiss]], "Found | None"]
LookAlikes: TypeAlias = Callable[[Graph, "Uses"], Iterable[tuple[Node, str]]]
"""What looks like a structure and has no name: the node that shows it, and what to say of it."""


@dataclass(frozen=True)
class Recogniser:
    """``match`` is tried on every node whose operation is one of ``roots``.

    What is still among its ``look_alikes`` then has a near miss of this ``pattern``, always.
    """

    roots: tuple[Op, ...]
    match: Match
    pattern: str = ""
    look_alikes: LookAlikes | None = None


E = TypeVar("E")


@dataclass(frozen=True)
class MatchedOperation:
    """Operand of an operation, along the logical axes, and its parameters."""

    x: View
    params: dict[str, Any]


def build_applied(op: Op, node: Node, applied: MatchedOperation, editor: Editor) -> Value:
    x = write(editor, applied.x, node.out.shape, node.out.dtype)
    return editor.add(op, [x], node.out.shape, node.out.dtype, applied.params)


class Uses(Protocol):
    """Questions that a proof may ask about a graph besides reading it, and about its runtime."""

    takes: SupportsDtype

    memo: dict[Any, Any]
    """What proofs found before, such as the numbers of values, by id."""

    def single_use(self, value: Value) -> bool:
        """Whether nobody but one operand of one node reads the value."""


def proved(
    pattern: str,
    roots: tuple[Op, ...],
    prove: Callable[[Node, Uses], E | str | None],
    build: Callable[[Node, E, Editor], Found],
    look_alikes: LookAlikes | None = None,
) -> Recogniser:
    """A recogniser: ``prove`` gives evidence, why there is nearly some, or ``None``."""

    def match(node: Node, editor: Editor, notes: list[NearMiss]) -> Found | None:
        evidence = prove(node, editor)
        if isinstance(evidence, str):
            notes.append(NearMiss(pattern, evidence, source_line(node), node=node))
            return None
        return None if evidence is None else build(node, evidence, editor)

    return Recogniser(roots, match, pattern, look_alikes)


def note_look_alikes(
    graph: Graph, recognisers: Iterable[Recogniser], notes: list[NearMiss], takes: SupportsDtype
) -> None:
    """Give a reason to whatever looks like a structure and neither got its name nor has one yet.

    A reason stands at the node that was looked at, which is below what shows the structure.
    """
    uses = Editor(graph, takes)
    for recogniser in recognisers:
        pairs = [] if recogniser.look_alikes is None else [*recogniser.look_alikes(graph, uses)]
        noted = [n.node for n in notes if n.pattern == recogniser.pattern and n.node is not None]
        said = {id(inner) for node in noted for inner in carried_from(node)} if pairs else set()
        notes += [
            NearMiss(recogniser.pattern, reason, source_line(node), node=node)
            for node, reason in pairs
            if id(node) not in said
        ]


def carried_from(node: Node, through: Iterable[Op] = ()) -> Iterator[Node]:
    """The node, and those above it up to where something else is done than to carry each element on
    by itself: the nearest first, and no more than ``DEEPEST_SEARCH``."""
    seen, waiting = {id(node)}, [node]
    for inner in waiting:
        yield inner
        if inner is not node and not (inner.op.elementwise or inner.op in (*CARRIERS, *through)):
            continue
        for value in inner.inputs:
            if value.node is not None and id(value.node) not in seen and len(seen) < DEEPEST_SEARCH:
                seen.add(id(value.node))
                waiting.append(value.node)


UNKNOWN = "this spelling of it is not known"

DEEPEST_SEARCH = 64
"""Nodes above one that are looked at."""

CARRIERS = frozenset(
    {
        *(ops.convert_element_type, ops.transpose, ops.reshape, ops.broadcast_in_dim),
        *(ops.slice, ops.concatenate, ops.select_n, ops.pad, ops.rev),
    }
)
"""What gives elements on, besides elementwise operations."""


def recogniser_rules(recognisers: Sequence[Recogniser], notes: list[NearMiss]) -> dict[Op, Rule]:
    """The recognisers as rules of one sweep; of several with one root the first to match wins."""
    table: dict[Op, list[Match]] = {}
    for recogniser in recognisers:
        for op in recogniser.roots:
            table.setdefault(op, []).append(recogniser.match)
    return {op: _first(matches, notes) for op, matches in table.items()}


def _first(matches: list[Match], notes: list[NearMiss]) -> Rule:
    def rule(node: Node, editor: Editor) -> Found | None:
        results = (match(node, editor, notes) for match in matches)
        return next((value for value in results if value is not None), None)

    return rule


def whole(value: Value) -> View:
    """A value along its own axes, layout operations peeled off."""
    return peel(along(value))


def operand(seen: View, index: int, *, rounding: bool = False) -> View:
    """Operand ``index`` of the elementwise node that makes the base, along the same axes."""
    return peel(seen.operand(index), rounding=rounding)


def operands(seen: View) -> list[View]:
    return [operand(seen, i) for i in range(len(seen.node().inputs))]


def pair(seen: View) -> tuple[tuple[View, View], tuple[View, View]]:
    """The two operands of an elementwise node, in both orders."""
    left, right = operands(seen)
    return (left, right), (right, left)


def peel(seen: View, *, rounding: bool = False) -> View:
    """Look through transposes, broadcasts, reshapes by ones and conversions to a wider float.

    With ``rounding`` through conversions to a narrower float too: for intermediate results, whose
    precision the fused operator chooses anyway.
    """
    while (inner := through(seen, rounding=rounding)) is not None and inner.is_whole:
        seen = inner
    return seen


def through(seen: View, *, rounding: bool = False) -> View | None:
    """The same elements behind one layout operation or conversion."""
    node = seen.base.node
    if node is None or node.op not in PEELED:
        return None
    if node.op is not ops.convert_element_type:
        return above(seen)
    wide = converts_float(node) and (rounding or _widens(node))
    return seen._replace(base=node.inputs[0]) if wide else None


def settled_view(view: View) -> View:
    """The same elements where they were computed, behind moves and conversions to wider floats."""
    while True:
        view = descended(view)
        wider = through(view) if view.op() is ops.convert_element_type else None
        if wider is None:
            return view
        view = wider


PEELED = frozenset({ops.convert_element_type, ops.transpose, ops.broadcast_in_dim, ops.reshape})


def only_reader(value: Value, base: Value, uses: Uses) -> bool:
    """Whether nobody else reads ``value``, nor what it is made of down to ``base``.

    Between the two are operations of one operand, as ``peel`` looks through.
    """
    while uses.single_use(value) and value is not base and value.node is not None:
        value = value.node.inputs[0]
    return value is base and uses.single_use(base)


def converts_float(node: Node) -> bool:
    """Whether a node converts one float to another, of which a result may be rounded: fewer bits
    are a quantisation, whose steps are meant."""
    source, target = node.inputs[0].dtype, node.out.dtype
    floats = all(jnp.issubdtype(d, jnp.floating) for d in (source, target))
    return floats and (target.itemsize > 1 or _widens(node))


def _widens(node: Node) -> bool:
    return node.inputs[0].dtype.itemsize < node.out.dtype.itemsize


def unrepeated(view: View) -> tuple[View, int] | None:
    """Value repeated along the second of two axes that are merged, and the first of them."""
    inner = above(view) if view.op() is ops.reshape else None
    merged = [i for i, group in enumerate(inner.groups) if len(group) == 2] if inner else []
    if inner is None or len(merged) != 1:
        return None
    (axis,) = merged
    first, second = inner.groups[axis]
    groups = (*inner.groups[:axis], (first,), (second,), *inner.groups[axis + 1 :])
    peeled = peel(inner._replace(groups=groups))
    lone = peeled.is_whole and peeled.axes[axis + 1] is None
    return (peeled, axis) if lone else None


def permutation(seen: View, shape: Shape) -> list[int] | None:
    """The order of its axes in which the base itself has that shape, if there is one."""
    ones = [a for a in range(seen.base.rank) if a not in seen.axes]
    order = [ones.pop(0) if a is None and ones else a for a in seen.axes]
    if ones or seen.base.rank != len(shape) or None in order:
        return None
    moved = [a for a in order if a is not None]
    return moved if dims.same_shape([seen.base.shape[a] for a in moved], shape) else None
