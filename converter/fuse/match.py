"""What recognisers share: how one is defined, near misses, and values along logical axes.

A recogniser matches, then emits. Its matching function reads the graph and returns evidence, a
frozen record of everything that the composite needs, or the reason for a near miss. Its emitting
function adds the nodes for that evidence. No node is added before the whole structure is proved.

The axes of the root node are the *logical axes* of a match. A ``View`` is a value seen along them,
through transposes, broadcasts and reshapes by size-one axes, so that ``vmap``, einsum's operand
order and memory layouts make no difference.
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
    """A structure that was left as it is, with the reason; ``count`` of them, the first at
    ``line``.

    ``node`` is the node at which the match failed. It is dropped after the passes.
    """

    pattern: str
    reason: str
    line: str = ""
    count: int = 1
    node: Node | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        repetition = f" ({self.count} times, first in {self.line})" if self.count > 1 else ""
        return f"{self.pattern}: {self.reason}{repetition}"


def group_near_misses(near_misses: Sequence[NearMiss]) -> list[NearMiss]:
    """Merge near misses of the same pattern and reason into one with their count."""
    grouped: dict[tuple[str, str], NearMiss] = {}
    for near_miss in near_misses:
        first = grouped.setdefault(
            (near_miss.pattern, near_miss.reason), replace(near_miss, count=0, node=None)
        )
        grouped[near_miss.pattern, near_miss.reason] = replace(
            first, count=first.count + near_miss.count
        )
    return list(grouped.values())


Replacement: TypeAlias = "Sequence[Value] | Value"
Match: TypeAlias = Callable[[Node, Editor, list[NearMiss]], "Replacement | None"]
FindLookAlikes: TypeAlias = Callable[[Graph, "Uses"], Iterable[tuple[Node, str]]]
"""Function that yields nodes of structures that look like a named one, each with a reason for the
report."""


@dataclass(frozen=True)
class Recogniser:
    """A recogniser: ``match`` is called on every node whose operation is one of ``roots``.

    Every remaining node of ``look_alikes`` is reported as a near miss of ``pattern``.
    """

    roots: tuple[Op, ...]
    match: Match
    pattern: str = ""
    look_alikes: FindLookAlikes | None = None


E = TypeVar("E")


@dataclass(frozen=True)
class MatchedOperation:
    """The operand of a matched operation, along the logical axes, and its parameters."""

    x: View
    params: dict[str, Any]


def build_applied(op: Op, node: Node, applied: MatchedOperation, editor: Editor) -> Value:
    """Emit an operation with one operand, as it was matched."""
    x = write(editor, applied.x, node.out.shape, node.out.dtype)
    return editor.add(op, [x], node.out.shape, node.out.dtype, applied.params)


class Uses(Protocol):
    """Facts about the graph and the runtime that a match may need besides the nodes."""

    takes: SupportsDtype

    memo: dict[Any, Any]
    """Results of earlier matches, such as arrays of values, by key or id."""

    def single_use(self, value: Value) -> bool:
        """Return True if exactly one operand of one node reads the value."""


def proved(
    pattern: str,
    roots: tuple[Op, ...],
    prove: Callable[[Node, Uses], E | str | None],
    build: Callable[[Node, E, Editor], Replacement],
    look_alikes: FindLookAlikes | None = None,
) -> Recogniser:
    """Return a recogniser of a matching and an emitting function.

    ``prove`` returns evidence, the reason for a near miss, or None. ``build`` emits the values for
    the evidence.
    """

    def match(node: Node, editor: Editor, near_misses: list[NearMiss]) -> Replacement | None:
        evidence = prove(node, editor)
        if isinstance(evidence, str):
            near_misses.append(NearMiss(pattern, evidence, source_line(node), node=node))
            return None
        return None if evidence is None else build(node, evidence, editor)

    return Recogniser(roots, match, pattern, look_alikes)


def report_look_alikes(
    graph: Graph,
    recognisers: Iterable[Recogniser],
    near_misses: list[NearMiss],
    takes: SupportsDtype,
) -> None:
    """Add a near miss for each structure that looks like a named one and has no near miss yet.

    The node of an earlier near miss is below the node that shows the structure.
    """
    uses = Editor(graph, takes)
    for recogniser in recognisers:
        pairs = [] if recogniser.look_alikes is None else [*recogniser.look_alikes(graph, uses)]
        missed_nodes = [
            n.node for n in near_misses if n.pattern == recogniser.pattern and n.node is not None
        ]
        explained = (
            {id(inner) for node in missed_nodes for inner in carried_from(node)} if pairs else set()
        )
        near_misses += [
            NearMiss(recogniser.pattern, reason, source_line(node), node=node)
            for node, reason in pairs
            if id(node) not in explained
        ]


def carried_from(node: Node, through: Iterable[Op] = ()) -> Iterator[Node]:
    """Yield a node and the nodes above it through elementwise operations and carriers, the nearest
    first.

    The first other operation on each path is yielded too. ``through`` adds operations that are
    passed. At most ``DEEPEST_SEARCH`` nodes are yielded.
    """
    visited, queue = {id(node)}, [node]
    for inner in queue:
        yield inner
        if inner is not node and not (inner.op.elementwise or inner.op in (*CARRIERS, *through)):
            continue
        for value in inner.inputs:
            if (
                value.node is not None
                and id(value.node) not in visited
                and len(visited) < DEEPEST_SEARCH
            ):
                visited.add(id(value.node))
                queue.append(value.node)


UNKNOWN = "this spelling of it is not known"

DEEPEST_SEARCH = 64
"""Number of nodes above one that are searched."""

CARRIERS = frozenset(
    {
        *(ops.convert_element_type, ops.transpose, ops.reshape, ops.broadcast_in_dim),
        *(ops.slice, ops.concatenate, ops.select_n, ops.pad, ops.rev),
    }
)
"""Operations that pass on elements, besides elementwise ones."""


def recogniser_rules(
    recognisers: Sequence[Recogniser], near_misses: list[NearMiss]
) -> dict[Op, Rule]:
    """Return the recognisers as rules of one sweep. Of several with the same root the first match
    wins."""
    matches_by_root: dict[Op, list[Match]] = {}
    for recogniser in recognisers:
        for op in recogniser.roots:
            matches_by_root.setdefault(op, []).append(recogniser.match)
    return {op: _first_match(matches, near_misses) for op, matches in matches_by_root.items()}


def _first_match(matches: list[Match], near_misses: list[NearMiss]) -> Rule:
    def rule(node: Node, editor: Editor) -> Replacement | None:
        results = (match(node, editor, near_misses) for match in matches)
        return next((value for value in results if value is not None), None)

    return rule


def whole(value: Value) -> View:
    """Return a view of a value along its own axes, behind layout operations."""
    return peel(along(value))


def operand(view: View, index: int, *, rounding: bool = False) -> View:
    """Return operand ``index`` of the base's elementwise node as a peeled view along the same
    axes."""
    return peel(view.operand(index), rounding=rounding)


def operands(view: View) -> list[View]:
    """Return all operands of the base's elementwise node as peeled views."""
    return [operand(view, i) for i in range(len(view.node().inputs))]


def operand_orders(view: View) -> tuple[tuple[View, View], tuple[View, View]]:
    """Return the two operands of the base's elementwise node in both orders."""
    left, right = operands(view)
    return (left, right), (right, left)


def peel(view: View, *, rounding: bool = False) -> View:
    """Look through transposes, broadcasts, reshapes by ones and conversions to a wider float.

    With ``rounding``, look through conversions to a narrower float too. This is for intermediate
    results, whose precision the fused operator decides.
    """
    while (inner := through(view, rounding=rounding)) is not None and inner.is_whole:
        view = inner
    return view


def through(view: View, *, rounding: bool = False) -> View | None:
    """Return the same elements behind one layout operation or conversion, or None if the base is
    another."""
    node = view.base.node
    if node is None or node.op not in PEELED:
        return None
    if node.op is not ops.convert_element_type:
        return above(view)
    is_passed = converts_float(node) and (rounding or _widens(node))
    return view._replace(base=node.inputs[0]) if is_passed else None


def peel_moves(view: View) -> View:
    """Return the same elements where they are computed, before moves and conversions to wider
    floats."""
    while True:
        view = descended(view)
        wider = through(view) if view.op() is ops.convert_element_type else None
        if wider is None:
            return view
        view = wider


PEELED = frozenset({ops.convert_element_type, ops.transpose, ops.broadcast_in_dim, ops.reshape})


def only_reader(value: Value, base: Value, uses: Uses) -> bool:
    """Return True if nothing else reads ``value``, nor any value between it and ``base``.

    The nodes between the two have one operand, as those that ``peel`` looks through.
    """
    while uses.single_use(value) and value is not base and value.node is not None:
        value = value.node.inputs[0]
    return value is base and uses.single_use(base)


def converts_float(node: Node) -> bool:
    """Return True if a node converts a float to a float whose rounding may be ignored.

    A conversion to fewer than 16 bits is a quantisation, whose rounding is intended.
    """
    source, target = node.inputs[0].dtype, node.out.dtype
    floats = all(jnp.issubdtype(d, jnp.floating) for d in (source, target))
    return floats and (target.itemsize > 1 or _widens(node))


def _widens(node: Node) -> bool:
    return node.inputs[0].dtype.itemsize < node.out.dtype.itemsize


def unrepeated(view: View) -> tuple[View, int] | None:
    """Return a value before it is repeated along the second of two merged axes, and the first axis.

    Return None if the view is not such a repetition.
    """
    inner = above(view) if view.op() is ops.reshape else None
    merged = [i for i, group in enumerate(inner.groups) if len(group) == 2] if inner else []
    if inner is None or len(merged) != 1:
        return None
    (axis,) = merged
    first, second = inner.groups[axis]
    groups = (*inner.groups[:axis], (first,), (second,), *inner.groups[axis + 1 :])
    peeled = peel(inner._replace(groups=groups))
    is_repeat = peeled.is_whole and peeled.axes[axis + 1] is None
    return (peeled, axis) if is_repeat else None


def base_permutation(view: View, shape: Shape) -> list[int] | None:
    """Return the permutation of the base's axes that has this shape and the view's elements, or
    None."""
    ones = [a for a in range(view.base.rank) if a not in view.axes]
    order = [ones.pop(0) if a is None and ones else a for a in view.axes]
    if ones or view.base.rank != len(shape) or None in order:
        return None
    permutation = [a for a in order if a is not None]
    return (
        permutation if dims.same_shape([view.base.shape[a] for a in permutation], shape) else None
    )
