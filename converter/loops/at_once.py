"""What steps compute without each other is computed for all of them at once, before or after."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from converter.decompose.expansion import Decomposer
from converter.frontend.array_forms import Constants
from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.evaluation import evaluate, precision, size_in_bytes
from converter.ir.names import Names
from converter.ir.rewrite import Editor
from converter.loops.scan import LARGEST_BATCH, DeferredNodes, Scan, StackedResult, takes_little

SMALL, GROWTH = 1 << 16, 4
"""Bytes that results of all steps may take in any case, and how many times what they come from."""


def is_batchable(node: Node, length: int) -> bool:
    """Whether JAX can batch it, and no result takes too much."""
    if node.op is ops.scan:
        possible = all(is_batchable(inner, length) for inner in node.bodies["body"].nodes)
    else:
        plain = not (node.bodies or node.op.calls or node.refusal)
        possible = plain and (node.meaning is not None or node.op.formula is not None)
    is_static = all(dims.all_static(v.shape) for v in node.operands())
    return possible and is_static and all(takes_little(v, length) for v in node.outputs)


def batched(
    nodes: Sequence[Node], results: Sequence[Value], whole: dict[int, Value], editor: Editor
) -> list[Value]:
    """Append what nodes of a step compute, for all steps; the results, of all steps.

    **Arguments:** ``whole`` has the arrays of all steps, by the id of what a step has of them.
    """
    made = {id(v) for n in nodes for v in n.outputs}
    read = {id(v): v for n in nodes for v in n.operands() if v.kind != "const"}
    inputs = [v for i, v in read.items() if i not in made]
    graph = Graph(inputs, list(results), list(nodes))
    axes = [0 if id(v) in whole else None for v in inputs]
    of_all = jax.vmap(lambda *xs: evaluate(graph, xs), in_axes=axes)
    operands = [whole.get(id(v), v) for v in inputs]
    with precision(graph.walk()):
        return _written_out(of_all, operands, nodes[0].source, editor)


def _written_out(
    function: Callable[..., Any], operands: Sequence[Value], source: Any, editor: Editor
) -> list[Value]:
    """Append what a JAX function makes of operands."""
    closed = jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(v.shape, v.dtype) for v in operands))
    return Decomposer(Constants([], Names()), source).inline(closed, operands, editor.nodes)


def compute_before(scan: Scan, editor: Editor) -> bool:
    """Nodes that depend on the arrays that are scanned, and on no state."""
    return compute_at_once(scan, _before(scan), editor)


def compute_at_once(scan: Scan, chosen: Sequence[Node], editor: Editor) -> bool:
    """Nodes that depend on no state, before the loop; their results are arrays that it scans."""
    made = {id(v): v for n in chosen for v in n.outputs}
    remaining = [node for node in scan.nodes if node not in chosen]
    inside = {id(v) for n in remaining for v in n.operands()} | {id(c.after) for c in scan.carries}
    given_ids = {id(s.inside) for s in scan.stacked}
    bounds = [v for i, v in made.items() if i in inside or i in given_ids]
    if not chosen or not bounds:
        return False
    needed_ids = inside | given_ids
    gone = sum(id(part) not in needed_ids for _, part in scan.taken)
    if sum(id(v) in inside for v in bounds) > len(chosen) + gone:
        return False
    whole = {id(part): array for array, part in scan.taken}
    arrays = batched(chosen, bounds, whole, editor)
    scan.nodes = remaining
    for value, array in zip(bounds, arrays, strict=True):
        part = Value(value.shape, value.dtype, kind="input")
        scan.taken.append((array, part))
        scan.replace(value, part)
    scan.drop_dead()
    return True


def _before(scan: Scan) -> list[Node]:
    """Nodes that depend on no state, whose results of all steps take little, or not much more than
    the arrays that they come from and the results of the loop.
    """
    far, inner = {id(carry.inside) for carry in scan.carries}, scan.inner()
    largest_result = max((size_in_bytes(s.whole) for s in scan.stacked), default=0)
    room = {id(part): size_in_bytes(array) for array, part in scan.taken}
    chosen = []
    for node in scan.nodes:
        operands = list(node.operands())
        outside = (size_in_bytes(v) for v in operands if id(v) not in inner)
        most = max(
            SMALL, GROWTH * max(largest_result, *(room.get(id(v), 0) for v in operands), *outside)
        )
        sizes = [scan.length * size_in_bytes(v) for v in node.outputs]
        depends = any(id(v) in far for v in operands) or max(sizes) > most
        if depends or not is_batchable(node, scan.length):
            far.update(map(id, node.outputs))
        else:
            room.update((id(v), most / GROWTH) for v in node.outputs)
            chosen.append(node)
    return _without_last_spreads(scan, chosen)


def _without_last_spreads(scan: Scan, chosen: list[Node]) -> list[Node]:
    """Spreading that only the steps read stays in them, where an operation may do it by itself."""
    kept, read = list[Node](), {id(s.inside) for s in scan.stacked}
    for node in reversed(chosen):
        if node.op is not ops.broadcast_in_dim or id(node.out) in read:
            kept.append(node)
            read.update(map(id, node.operands()))
    return kept[::-1]


def compute_after(scan: Scan, editor: Editor) -> bool:
    """Compute what no state depends on from the states of all steps, once the loop is over."""
    kept = scan.behind(c.after for c in scan.carries)
    for node in reversed(scan.nodes):
        if any(id(v) in kept for v in node.outputs) or not is_batchable(node, scan.length):
            kept.update(map(id, (*node.outputs, *node.operands())))
    chosen = [n for n in scan.nodes if not any(id(v) in kept for v in n.outputs)]
    made = {id(v) for n in chosen for v in n.outputs}
    results = [s for s in scan.stacked if id(s.inside) in made]
    inner, whole = scan.inner(), {id(part): array for array, part in scan.taken}
    whole |= {id(s.inside): s.whole for s in scan.stacked if s not in results}
    read = {id(v): v for n in chosen for v in n.operands()}
    missing = [v for i, v in read.items() if i in inner and i not in made and i not in whole]
    if not results or not _pays(missing, results, chosen, scan.length):
        return False
    more = [StackedResult(v, Value((scan.length, *v.shape), v.dtype)) for v in missing]
    whole |= {id(s.inside): s.whole for s in more}
    scan.stacked = [s for s in scan.stacked if s not in results] + more
    scan.nodes = [node for node in scan.nodes if node not in chosen]
    scan.later.append(DeferredNodes(chosen, whole, results))
    return True


def _pays(
    missing: Sequence[Value], results: Sequence[StackedResult], nodes: Sequence[Node], length: int
) -> bool:
    """What is stacked besides costs less than the nodes of a step, and not much more memory."""
    if len(missing) - len(results) >= len(nodes) or not all(
        takes_little(v, length) for v in missing
    ):
        return False
    before = sum(size_in_bytes(s.whole) for s in results)
    return length * sum(map(size_in_bytes, missing)) <= max(LARGEST_BATCH >> 4, 2 * before)


def compute_later(scan: Scan, editor: Editor) -> None:
    """Append what was left until the results of the loop are there."""
    for later in reversed(scan.later):
        whole = {i: scan.resolved(v) for i, v in later.whole.items()}
        insides = [s.inside for s in later.results]
        arrays = batched(later.nodes, insides, whole, editor)
        ends = [id(s.whole) for s in later.results]
        scan.results.update(zip(ends, arrays, strict=True))
