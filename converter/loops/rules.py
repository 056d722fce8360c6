"""The rules of loops: in which order their parts are taken out."""

from collections.abc import Callable, Sequence

from converter.ir import Graph, Node, Value, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, drop_dead, sweep
from converter.loops.at_once import compute_after, compute_before, compute_later, is_batchable
from converter.loops.entries import put_together, stack_entries
from converter.loops.scan import Scan
from converter.loops.states import count_steps, drop_states, has_states, move_invariants

Step = Callable[[Scan, Editor], bool]

STEPS: tuple[Step, ...] = (
    drop_states,
    count_steps,
    move_invariants,
    compute_before,
    stack_entries,
    compute_after,
)


def _shortened(node: Node, editor: Editor) -> Sequence[Value] | None:
    scan = Scan.of(node, editor)
    if scan is None or not any([step(scan, editor) for step in STEPS]):
        return None
    return _rewritten(scan, node, editor)


def _rewritten(scan: Scan, node: Node, editor: Editor) -> Sequence[Value]:
    """The loop written again; of results that nobody reads anything of their type will do."""
    scan.write(node, editor)
    compute_later(scan, editor)
    put_together(scan, editor)
    return [scan.resolved(value) for value in node.outputs]


def _at_once(node: Node, editor: Editor) -> Sequence[Value] | None:
    """A scan without states, but for those that count, as one batch."""
    scan = Scan.of(node, editor)
    if scan is None or has_states(scan, editor):
        return None
    if not all(is_batchable(inner, scan.length) for inner in scan.nodes):
        return None
    for step in (drop_states, count_steps, move_invariants, compute_before):
        step(scan, editor)
    return _rewritten(scan, node, editor)


def _invariants_of_while(node: Node, editor: Editor) -> None:
    """What depends on no state goes before the loop, of its condition too."""
    for body in node.bodies.values():
        own, kept = set(map(id, body.inputs)), list[Node]()
        for inner in body.nodes:
            if any(id(v) in own for v in inner.operands()):
                own.update(map(id, inner.outputs))
                kept.append(inner)
            else:
                editor.nodes.append(inner)
                editor.changed = True
        body.nodes = kept


BATCHED: dict[Op, Rule] = {ops.scan: _at_once}
SHORTENED: dict[Op, Rule] = {ops.scan: _shortened, ops.while_: _invariants_of_while}


def batch_loops(graph: Graph) -> bool:
    """Write scans without states as one batch, in place; whether there were any."""
    return _swept_loops(graph, BATCHED)


def shorten_loops(graph: Graph) -> bool:
    """Take out of loops what no step needs of another, in place; whether there was anything."""
    return _swept_loops(graph, SHORTENED)


def _swept_loops(graph: Graph, rules: dict[Op, Rule]) -> bool:
    changed = sweep(graph, rules)
    if changed:
        drop_dead(graph)
    return changed
