"""The rules of loops: in which order their parts are taken out."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from converter.ir import Graph, Node, Value, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, drop_dead, sweep
from converter.loops.at_once import (
    compute_after,
    compute_at_once,
    compute_before,
    compute_later,
    is_batchable,
)
from converter.loops.intervals import bound_states
from converter.loops.recurrences import solve_recurrences
from converter.loops.scan import Scan
from converter.loops.short import unrolled
from converter.loops.states import (
    count_steps,
    drop_states,
    has_states,
    move_invariants,
)

STEPS: tuple[Callable[[Scan, Editor], bool], ...] = (
    drop_states,
    count_steps,
    move_invariants,
    compute_before,
    solve_recurrences,
    compute_after,
)


def _shortened(node: Node, editor: Editor, nested: set[int]) -> Sequence[Value] | None:
    scan = Scan.of(node, editor)
    if scan is None:
        return None
    if not any([step(scan, editor) for step in STEPS]):
        return unrolled(node, editor, id(node.out) in nested)
    return _rewritten(scan, node, editor)


def _rewritten(scan: Scan, node: Node, editor: Editor) -> Sequence[Value]:
    """The loop written again; of results that nobody reads anything of their type will do."""
    scan.write(node, editor)
    compute_later(scan, editor)
    return [scan.resolved(value) for value in node.outputs]


def _at_once(node: Node, editor: Editor) -> Sequence[Value] | None:
    """A scan without states, but for those that count, as one batch."""
    scan = Scan.of(node, editor)
    if scan is None or has_states(scan, editor):
        return None
    if not all(is_batchable(inner, scan.length) for inner in scan.nodes):
        return None
    for step in (drop_states, count_steps, move_invariants):
        step(scan, editor)
    compute_at_once(scan, list(scan.nodes), editor)
    return _rewritten(scan, node, editor)


def batch_loops(graph: Graph) -> bool:
    """Write scans without states as one batch, in place; whether there were any."""
    return _swept_loops(graph, {ops.scan: _at_once})


def shorten_loops(graph: Graph) -> bool:
    """Take out of loops what no step needs of another, in place; whether there was anything."""
    bounded = bound_states(graph)
    nested = set(_scans_in_loops(graph))
    return _swept_loops(graph, {ops.scan: partial(_shortened, nested=nested)}) or bounded


def _scans_in_loops(graph: Graph) -> Iterator[int]:
    """ids of the first results of scans that a loop runs in each of its steps."""
    for node in graph.walk():
        for body in node.bodies.values() if node.op in (ops.scan, ops.while_) else ():
            yield from (id(n.out) for n in body.walk() if n.op is ops.scan)


def _swept_loops(graph: Graph, rules: dict[Op, Rule]) -> bool:
    changed = sweep(graph, rules)
    if changed:
        drop_dead(graph)
    return changed
