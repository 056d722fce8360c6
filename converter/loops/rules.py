"""Rules that simplify, unroll or batch loops.

A runtime takes 10 µs for a loop, 1 µs for each of its steps, and 0.3 µs for each node.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from converter.ir import Graph, Node, Value, const, ops
from converter.ir.op import Op
from converter.ir.ranges import body_input_ranges
from converter.ir.rewrite import Editor, Rule, drop_dead, sweep
from converter.ir.scalars import scalar
from converter.loops.batching import (
    batch_before_loop,
    batch_stateless_nodes,
    defer_results,
    emit_deferred,
    is_batchable,
)
from converter.loops.scan import Carry, Scan

# ------------------------------------------------------------------------- states that need no loop

MAX_CONSTANT_STEPS = 1 << 16
"""Largest number of steps for which the values of a counter are written into the file."""


def replace_counters(scan: Scan, _: Editor) -> bool:
    """Replace states that increase by a constant in each step by scanned arrays of their values.

    The states are integer scalars with a constant start. Return True if there were any. A loop of
    more than `MAX_CONSTANT_STEPS` steps is unchanged.
    """
    counters = [(carry, step) for carry in scan.carries if (step := _increment(carry)) is not None]
    if scan.length > MAX_CONSTANT_STEPS:
        return False
    for carry, step in counters:
        dtype = carry.start.dtype
        with np.errstate(over="ignore"):
            numbers = np.arange(scan.length + 1).astype(dtype) * np.asarray(step, dtype)
            numbers = (numbers + np.asarray(carry.start.const, dtype)).astype(dtype)
        steps = numbers[:-1][::-1] if scan.reverse else numbers[:-1]
        part = Value((), dtype, kind="input")
        scan.replace(carry.inner, part)
        scan.scanned.append((const(steps), part))
        scan.results[id(carry.final)] = const(numbers[-1])
        scan.carries.remove(carry)
    return bool(counters)


def _increment(carry: Carry) -> float | None:
    """Return the constant that each step adds to a state, or None.

    The state must be an integer scalar whose start is a constant.
    """
    added = carry.after.producer_if(ops.add)
    if carry.start.kind != "const" or carry.start.rank or carry.start.dtype.kind not in "iu":
        return None
    if added is None or carry.inner not in added.inputs:
        return None
    other = added.inputs[1 - added.inputs.index(carry.inner)]
    return scalar(other)


def needs_loop(scan: Scan, editor: Editor) -> bool:
    """Return True if a result that is read may depend on a changing state that is not a counter.

    Return True for every loop of more than `MAX_CONSTANT_STEPS` steps.
    """
    if scan.length > MAX_CONSTANT_STEPS:
        # With so many steps, counters are not replaced by constants and stay in the loop.
        return True
    used = [c.after for c in scan.carries if editor.uses[id(c.final)]]
    needed = scan.source_ids([*used, *(s.inner for s in scan.stacked)])
    states = [c for c in scan.carries if c.after is not c.inner and _increment(c) is None]
    return any(editor.uses[id(c.final)] or id(c.inner) in needed for c in states)


def drop_states(scan: Scan, editor: Editor) -> bool:
    """Remove states that do not change, and states that no result needs. Return True if there were
    any.

    A result counts only if it is read.
    """
    constant_states = [c for c in scan.carries if c.after is c.inner]
    for carry in constant_states:
        scan.replace(carry.inner, carry.start)
        scan.results[id(carry.final)] = carry.start
    scan.carries = [c for c in scan.carries if c not in constant_states]
    live = [c for c in scan.carries if editor.uses[id(c.final)]]
    while True:
        ends = [*(c.after for c in live), *(s.inner for s in scan.stacked)]
        needed = scan.source_ids(ends)
        newly_needed = [c for c in scan.carries if c not in live and id(c.inner) in needed]
        if not newly_needed:
            break
        live += newly_needed
    dead = [c for c in scan.carries if c not in live]
    scan.results.update((id(c.final), c.start) for c in dead)
    scan.carries = [c for c in scan.carries if c in live]
    scan.drop_dead()
    return bool(constant_states or dead)


def move_invariants(scan: Scan, editor: Editor) -> bool:
    """Move operations whose results are the same in all steps before the loop. Return True if there
    were any."""
    step_values = [*(c.inner for c in scan.carries), *(part for _, part in scan.scanned)]
    varying_ids = scan.dependent_ids(step_values)
    invariants = [n for n in scan.nodes if id(n.out) not in varying_ids]
    scan.nodes = [n for n in scan.nodes if id(n.out) in varying_ids]
    editor.nodes.extend(invariants)
    return bool(invariants)


# ------------------------------------------------------------------------------------- short loops

MAX_UNROLLED_NODES, MAX_NESTED_NODES = 48, 96
"""Largest number of nodes of all steps together that replace a loop, and that replace a nested
loop."""


def unroll_scan(node: Node, editor: Editor, is_nested: bool) -> Sequence[Value] | None:
    """Return the results of a short scan whose steps are emitted one after the other.

    Return None if the body has nodes with bodies, or if the steps together have more than
    `MAX_UNROLLED_NODES` nodes. The limit is `MAX_NESTED_NODES` if the scan is inside of another
    loop (``is_nested``). Slices of scanned arrays and stacked results count as nodes.
    """
    scan, body = Scan.from_node(node, editor), node.bodies["body"]
    if scan is None or any(n.bodies for n in body.nodes):
        return None
    sliced_count = sum(array.kind != "const" for array, _ in scan.scanned)
    nodes = scan.length * (len(body.nodes) + sliced_count + len(scan.stacked))
    if nodes > (MAX_NESTED_NODES if is_nested else MAX_UNROLLED_NODES):
        return None
    count = node.params["num_carry"]
    states, arrays = node.inputs[:count], node.inputs[count:]
    gathered: list[list[Value]] = [[] for _ in body.outputs[count:]]
    for step in _step_order(scan):
        parts = [_step_entry(array, step, editor) for array in arrays]
        states, stacked_values = _split_values(
            editor.inline(body.clone(), [*states, *parts]), count
        )
        for entries, value in zip(gathered, stacked_values, strict=True):
            entries.append(editor.reshape(value, (1, *value.shape)))
    ordered_entries = (entries[::-1] if scan.reverse else entries for entries in gathered)
    return [*states, *(editor.concatenate(entries, 0) for entries in ordered_entries)]


def _step_order(scan: Scan) -> Sequence[int]:
    """Return the indices of the steps in the order in which they run."""
    steps = range(scan.length)
    return steps[::-1] if scan.reverse else steps


def _split_values(values: list[Value], count: int) -> tuple[list[Value], list[Value]]:
    """Return the first ``count`` results of a step, which are its states, and the other results."""
    return values[:count], values[count:]


def _step_entry(array: Value, step: int, editor: Editor) -> Value:
    """Return the entry of an array along its first axis for a step, without that axis."""
    if array.kind == "const":
        return const(np.asarray(array.const)[step])
    return editor.reshape(editor.slice(array, 0, step, step + 1), array.shape[1:])


# ---------------------------------------------------------------------------------- known ranges


def bound_states(graph: Graph) -> bool:
    """Set the known bounds of integer inputs of loop bodies. Return True if any of them are new.

    They are `Value.known_bounds`, the least and the largest number.
    """
    return any([_bound_node(node) for node in graph.walk() if node.op in (ops.scan, ops.while_)])


def _bound_node(node: Node) -> bool:
    """Set the known bounds of the inputs of a loop's bodies. Return True if any of them are new.

    Earlier bounds are replaced. The ranges of the next inputs follow from the new ones.
    """
    is_new = False
    for value, interval in body_input_ranges(node):
        bounds = interval.low, interval.high
        is_new = is_new or value.known_bounds != bounds
        value.known_bounds = bounds
    return is_new


# ------------------------------------------------------------------------------------- whole loops

LOOP_RULES: tuple[Callable[[Scan, Editor], bool], ...] = (
    drop_states,
    replace_counters,
    move_invariants,
    batch_stateless_nodes,
    defer_results,
)


def _shorten_scan(node: Node, editor: Editor, nested: set[int]) -> Sequence[Value] | None:
    """Apply the rules for loops to a scan, or unroll it if none applies. Return its results, or
    None if it is unchanged.

    ``nested`` contains the ids of the first results of scans inside of other loops.
    """
    scan = Scan.from_node(node, editor)
    if scan is None:
        return None
    if not any([step(scan, editor) for step in LOOP_RULES]):
        return unroll_scan(node, editor, id(node.out) in nested)
    return _rewrite_scan(scan, node, editor)


def _rewrite_scan(scan: Scan, node: Node, editor: Editor) -> Sequence[Value]:
    """Emit the changed loop and its deferred nodes. Return the values that replace the results of
    ``node``."""
    scan.emit(node, editor)
    emit_deferred(scan, editor)
    return [scan.resolve(value) for value in node.outputs]


def _batch_scan(node: Node, editor: Editor) -> Sequence[Value] | None:
    """Return the results of a scan without states, computed for all steps at once.

    States that are counters or do not change are allowed. Return None if the scan has other states
    (`needs_loop`), or nodes that cannot be batched.
    """
    scan = Scan.from_node(node, editor)
    if scan is None or needs_loop(scan, editor):
        return None
    if not all(is_batchable(inner, scan.length) for inner in scan.nodes):
        return None
    for step in (drop_states, replace_counters, move_invariants):
        step(scan, editor)
    batch_before_loop(scan, list(scan.nodes), editor)
    return _rewrite_scan(scan, node, editor)


def batch_loops(graph: Graph) -> bool:
    """Compute scans without states for all steps at once, in place. Return True if there were
    any."""
    return _sweep_loops(graph, {ops.scan: _batch_scan})


def shorten_loops(graph: Graph) -> bool:
    """Move operations that do not depend on other steps out of loops, in place. Short loops are
    unrolled.

    Return True if anything changed, including the known ranges of loop states.
    """
    bounded = bound_states(graph)
    nested = set(_scans_in_loops(graph))
    return _sweep_loops(graph, {ops.scan: partial(_shorten_scan, nested=nested)}) or bounded


def _scans_in_loops(graph: Graph) -> Iterator[int]:
    """Yield the ids of the first results of scans that are nested in another loop."""
    for node in graph.walk():
        for body in node.bodies.values() if node.op in (ops.scan, ops.while_) else ():
            yield from (id(n.out) for n in body.walk() if n.op is ops.scan)


def _sweep_loops(graph: Graph, rules: dict[Op, Rule]) -> bool:
    """Apply rules to a graph in place, and remove nodes that are no longer read. Return True if
    anything changed."""
    changed = sweep(graph, rules)
    if changed:
        drop_dead(graph)
    return changed
