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

from converter.frontend.trace import source_line
from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.axes import View, view_of
from converter.ir.dims import Shape
from converter.ir.moves import Conversions, Reach, emit_view, look_through, view_of_operand
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, SupportsDtype


@dataclass(frozen=True)
class NearMiss:
    """A structure that a recogniser almost matched but did not change, with the reason.

    ``pattern`` is the name of the structure. ``count`` is the number of structures with this
    reason, the first of them at source line ``line``. ``node`` is the node at which the match
    failed; it is dropped after the passes.
    """

    pattern: str
    reason: str
    line: str = ""
    count: int = 1
    node: Node | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return "pattern: reason", with the count and the first source line if ``count`` is above
        1."""
        repetition = f" ({self.count} times, first in {self.line})" if self.count > 1 else ""
        return f"{self.pattern}: {self.reason}{repetition}"


def group_near_misses(near_misses: Sequence[NearMiss]) -> list[NearMiss]:
    """Merge near misses with the same pattern and reason into one whose ``count`` is their sum.

    The source line of the first one is used. The merged near misses have no node. They are in the
    order in which each pattern and reason first occurs.
    """
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
FindLookAlikes: TypeAlias = Callable[[Graph, "MatchContext"], Iterable[tuple[Node, str]]]
"""Function that yields nodes of structures that look like a named one, each with a reason for the
report."""


@dataclass(frozen=True)
class Recogniser:
    """A function that matches structures and replaces them, with the operations at which they end.

    ``match`` is called on every node whose operation is one of ``roots``. It gets the node, the
    editor of the graph and a list to which it adds near misses. It returns the values that replace
    the node's outputs, or None.

    ``look_alikes`` finds structures that are similar to the one called ``pattern`` and were not
    replaced. They are reported as near misses.
    """

    roots: tuple[Op, ...]
    match: Match
    pattern: str = ""
    look_alikes: FindLookAlikes | None = None


E = TypeVar("E")


@dataclass(frozen=True)
class MatchedOperation:
    """The operand ``x`` of a matched operation and its parameters.

    ``x`` is a view with the axes of the matched node.
    """

    x: View
    params: dict[str, Any]


def emit_matched_operation(op: Op, node: Node, matched: MatchedOperation, editor: Editor) -> Value:
    """Emit ``op`` with the matched operand and parameters, and return its result.

    The operand and the result have the shape and dtype of ``node``'s output.
    """
    x = emit_view(editor, matched.x, node.out.shape, node.out.dtype)
    return editor.add(op, [x], node.out.shape, node.out.dtype, matched.params)


class MatchContext(Protocol):
    """Facts about the graph and the runtime that a match may need besides the nodes.

    ``has_operator(operator, dtype)`` returns True if the runtime has an ONNX operator for a dtype.
    """

    has_operator: SupportsDtype

    memo: dict[Any, Any]
    """Cache in which matching functions keep results, such as computed arrays by value id."""

    def single_use(self, value: Value) -> bool:
        """Return True if the value is used exactly once, as an operand of a node or as an output of
        the graph."""


def recogniser_from(
    pattern: str,
    roots: tuple[Op, ...],
    find_evidence: Callable[[Node, MatchContext], E | str | None],
    emit: Callable[[Node, E, Editor], Replacement],
    look_alikes: FindLookAlikes | None = None,
) -> Recogniser:
    """Return a recogniser that first collects evidence without touching the graph, and then emits.

    If there is a reason for a near miss, it is added to the near misses with the node and its
    source line, and the node is not replaced.

    **Arguments**

    - `pattern`: the name of the structure in near misses.
    - `roots`: the operations of the nodes on which the recogniser is called.
    - `find_evidence`: returns the evidence that a node is such a structure, a text with the reason
      for a near miss, or None.
    - `emit`: emits the values that replace the outputs of the node, from the evidence.
    - `look_alikes`: yields nodes of structures that no recogniser replaced, each with a reason for
      the report.
    """

    def match(node: Node, editor: Editor, near_misses: list[NearMiss]) -> Replacement | None:
        evidence = find_evidence(node, editor)
        if isinstance(evidence, str):
            near_misses.append(NearMiss(pattern, evidence, source_line(node), node=node))
            return None
        return None if evidence is None else emit(node, evidence, editor)

    return Recogniser(roots, match, pattern, look_alikes)


def report_look_alikes(
    graph: Graph,
    recognisers: Iterable[Recogniser],
    near_misses: list[NearMiss],
    has_operator: SupportsDtype,
) -> None:
    """Add a near miss for each structure that looks like a named one and has no near miss yet.

    A look-alike has a near miss already if one with the same pattern is at its node, or at a node
    that is computed from its node by elementwise operations and moves
    (`iter_elementwise_ancestors`).

    **Arguments**

    - `graph`: the graph after the recognisers have run.
    - `recognisers`: the recognisers whose `look_alikes` are called.
    - `near_misses`: the near misses so far. New ones are appended.
    - `has_operator`: returns True if the runtime has an operator for a dtype.
    """
    context = Editor(graph, has_operator)
    for recogniser in recognisers:
        pairs = [] if recogniser.look_alikes is None else [*recogniser.look_alikes(graph, context)]
        missed_nodes = [
            n.node for n in near_misses if n.pattern == recogniser.pattern and n.node is not None
        ]
        explained = (
            {id(inner) for node in missed_nodes for inner in iter_elementwise_ancestors(node)}
            if pairs
            else set()
        )
        near_misses += [
            NearMiss(recogniser.pattern, reason, source_line(node), node=node)
            for node, reason in pairs
            if id(node) not in explained
        ]


def iter_elementwise_ancestors(node: Node, through: Iterable[Op] = ()) -> Iterator[Node]:
    """Yield a node and the nodes that it is computed from by elementwise operations and moves,
    nearest first.

    The operands of ``node`` are always followed, whatever its operation is. On each path the first
    node of another operation is also yielded, but its operands are not followed. ``through`` adds
    operations that are passed like elementwise ones. The moves are `CARRIERS`. At most
    `DEEPEST_SEARCH` nodes are yielded, each once.
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
    """Return the recognisers as rules, by the operation at which they are tried.

    If several recognisers have the same operation, they are tried in their order, and the first
    match wins. Near misses are appended to ``near_misses``.
    """
    matches_by_root: dict[Op, list[Match]] = {}
    for recogniser in recognisers:
        for op in recogniser.roots:
            matches_by_root.setdefault(op, []).append(recogniser.match)
    return {op: _first_match(matches, near_misses) for op, matches in matches_by_root.items()}


def _first_match(matches: list[Match], near_misses: list[NearMiss]) -> Rule:
    """Return a rule that tries these functions in order and returns the first result that is not
    None."""

    def rule(node: Node, editor: Editor) -> Replacement | None:
        results = (match(node, editor, near_misses) for match in matches)
        return next((value for value in results if value is not None), None)

    return rule


def peeled_view(value: Value) -> View:
    """Return a value as a view along its own axes, with moves and conversions to wider floats
    removed.

    The base of the view is the value before those operations (see `look_through`).
    """
    return look_through(view_of(value))


def operand(
    view: View, index: int, *, conversions: Conversions = "wider", reach: Reach = "axes"
) -> View:
    """Return operand ``index`` of the elementwise node that computes the view's base.

    The result has the axes of ``view``. It is a view of an earlier value (`look_through`, also for
    the options).
    """
    return look_through(view.operand(index), conversions=conversions, reach=reach)


def operands(
    view: View, *, conversions: Conversions = "wider", reach: Reach = "axes"
) -> list[View]:
    """Return all operands of the elementwise node that computes the view's base, each as by
    `operand`."""
    indices = range(len(view.node().inputs))
    return [operand(view, i, conversions=conversions, reach=reach) for i in indices]


def operand_orders(view: View) -> tuple[tuple[View, View], tuple[View, View]]:
    """Return the two operands of the elementwise node that computes the base, as (a, b) and
    (b, a)."""
    left, right = operands(view)
    return (left, right), (right, left)


def is_only_read_through(value: Value, base: Value, context: MatchContext) -> bool:
    """Return True if ``value``, ``base`` and each value between them is read exactly once.

    ``base`` is an ancestor of ``value`` through first operands, as after `look_through`.
    """
    while context.single_use(value) and value is not base and value.node is not None:
        value = value.node.inputs[0]
    return value is base and context.single_use(base)


def match_repeated_axis(view: View) -> tuple[View, int] | None:
    """Match a value that repeats each entry along one axis, as ``repeat(x, n, axis)`` does.

    Example: ``x[..., C, None]`` is broadcast to ``[..., C, n]`` and reshaped to ``[..., C * n]``.
    Return a view of ``x`` with the axes ``[..., C, n]``, which repeats its elements along ``n``,
    and the index of axis C in it. This is also the index of the axis C * n in ``view``. Return None
    if the value is not computed in this way.
    """
    inner = view_of_operand(view) if view.op() is ops.reshape else None
    merged = [i for i, group in enumerate(inner.groups) if len(group) == 2] if inner else []
    if inner is None or len(merged) != 1:
        return None
    (axis,) = merged
    first, second = inner.groups[axis]
    groups = (*inner.groups[:axis], (first,), (second,), *inner.groups[axis + 1 :])
    peeled = look_through(inner._replace(groups=groups))
    is_repeat = peeled.has_full_axes and peeled.axes[axis + 1] is None
    return (peeled, axis) if is_repeat else None


def base_permutation(view: View, shape: Shape) -> list[int] | None:
    """Return the permutation p if ``view`` is its base transposed by p: axis i of the view is axis
    p[i] of the base.

    An axis of the view along which nothing varies gets one of the base's axes of size one. ``view``
    must have full axes. Return None if it is no transpose of its base, or if the transposed base
    has another shape than ``shape``.
    """
    ones = [a for a in range(view.base.rank) if a not in view.axes]
    order = [ones.pop(0) if a is None and ones else a for a in view.axes]
    if ones or view.base.rank != len(shape) or None in order:
        return None
    permutation = [a for a in order if a is not None]
    return (
        permutation
        if dims.is_same_shape([view.base.shape[a] for a in permutation], shape)
        else None
    )
