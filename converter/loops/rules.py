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
from converter.loops.entries import put_together, stack_entries
from converter.loops.intervals import bound_states
from converter.loops.recurrences import solve_recurrences
from converter.loops.scan import Scan, computed_from
from converter.loops.short import chosen_of_all, unrolled
from converter.loops.states import (
    compute_known,
    count_steps,
    drop_states,
    has_states,
    keep_equal,
    move_invariants,
)

Step = Callable[[Scan, Editor], bool]


def _steps(guarded: bool) -> tuple[Step, ...]:
    return (
        drop_states,
        count_steps,
        compute_known,
        keep_equal,
        move_invariants,
        compute_before,
        partial(solve_recurrences, guarded=guarded),
        stack_entries,
        compute_after,
    )


def _shortened(
    node: Node, editor: Editor, nested: set[int], guarded: set[int]
) -> Sequence[Value] | None:
    scan = Scan.of(node, editor)
    if scan is None:
        return None
    if not any([step(scan, editor) for step in _steps(id(node.out) in guarded)]):
        return unrolled(node, editor, id(node.out) in nested)
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
    for step in (drop_states, count_steps, move_invariants):
        step(scan, editor)
    compute_at_once(scan, list(scan.nodes), editor)
    return _rewritten(scan, node, editor)


def _while_shortened(node: Node, editor: Editor) -> Sequence[Value] | None:
    """States that no round changes, or that nothing depends on, and what depends on none."""
    cond, body = node.bodies["cond"], node.bodies["body"]
    for graph in (cond, body):
        _move_invariants(graph, editor)
    same = [a is b for a, b in zip(body.inputs, body.outputs, strict=True)]
    for given, *insides, is_same in zip(node.inputs, cond.inputs, body.inputs, same, strict=True):
        if is_same:
            cond.replace_operands(partial(_other, insides[0], given))
            body.replace_operands(partial(_other, insides[1], given))
    kept = [i for i, gone in enumerate(same) if not gone and i in _needed(node, editor)]
    if len(kept) == len(same):
        return None
    types = [(node.outputs[i].shape, node.outputs[i].dtype) for i in kept]
    inputs = [node.inputs[i] for i in kept]
    results = dict(zip(kept, editor.add_many(ops.while_, inputs, types), strict=True))
    made = editor.nodes[-1]
    body.outputs = [body.outputs[i] for i in kept]
    for graph in (cond, body):
        graph.inputs = [graph.inputs[i] for i in kept]
        drop_dead(graph)
    made.bodies = {"cond": cond, "body": body}
    return [results.get(i, given) for i, given in enumerate(node.inputs)]


def _other(old: Value, new: Value, value: Value) -> Value:
    return new if value is old else value


def _needed(node: Node, editor: Editor) -> set[int]:
    """Places of states that the condition, or a result that is read, depends on."""
    cond, body = node.bodies["cond"], node.bodies["body"]
    read = computed_from(cond.nodes, cond.outputs)
    found = {i for i, v in enumerate(cond.inputs) if id(v) in read}
    found |= {i for i, v in enumerate(node.outputs) if editor.uses[id(v)]}
    while True:
        read = computed_from(body.nodes, [body.outputs[i] for i in found])
        more = {i for i, v in enumerate(body.inputs) if id(v) in read} - found
        if not more:
            return found
        found |= more


def _move_invariants(body: Graph, editor: Editor) -> None:
    """What depends on nothing of a round goes before the loop."""
    own, kept = set(map(id, body.inputs)), list[Node]()
    for node in body.nodes:
        if any(id(v) in own for v in node.operands()):
            own.update(map(id, node.outputs))
            kept.append(node)
        else:
            editor.nodes.append(node)
            editor.changed = True
    body.nodes = kept


BATCHED: dict[Op, Rule] = {ops.scan: _at_once}


def batch_loops(graph: Graph) -> bool:
    """Write scans without states as one batch, in place; whether there were any."""
    return _swept_loops(graph, BATCHED)


def shorten_loops(graph: Graph) -> bool:
    """Take out of loops what no step needs of another, in place; whether there was anything."""
    bounded = bound_states(graph)
    nested, guarded = (
        set(_scans_inside(graph, *op)) for op in ((ops.scan, ops.while_), (ops.cond,))
    )
    rules: dict[Op, Rule] = {
        ops.cond: chosen_of_all,
        ops.scan: partial(_shortened, nested=nested, guarded=guarded),
        ops.while_: _while_shortened,
    }
    return _swept_loops(graph, rules) or bounded


def _scans_inside(graph: Graph, *around: Op) -> Iterator[int]:
    """ids of the first results of scans in the bodies of such operations."""
    for node in graph.walk():
        for body in node.bodies.values() if node.op in around else ():
            yield from (id(n.out) for n in body.walk() if n.op is ops.scan)


def _swept_loops(graph: Graph, rules: dict[Op, Rule]) -> bool:
    changed = sweep(graph, rules)
    if changed:
        drop_dead(graph)
    return changed
