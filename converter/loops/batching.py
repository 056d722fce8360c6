"""Move operations that do not depend on other steps out of a loop, as one batch before or after it.

A batch is the operation on the values of all steps at once, stacked along a new first axis.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import jax

from converter.decompose.expansion import Decomposer
from converter.frontend.array_forms import Constants
from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.evaluation import evaluate, size_in_bytes, use_precision_of
from converter.ir.names import Names
from converter.ir.op import Op
from converter.ir.rewrite import Editor
from converter.loops.scan import MAX_BATCH_BYTES, DeferredNodes, Scan, StackedResult, is_small_batch

SMALL_RESULT, GROWTH = 1 << 16, 4
"""Bytes that the batched results may take in any case, and the largest growth over their
operands."""


def is_batchable(node: Node, length: int) -> bool:
    """Return True if a node can be batched over all steps of a loop, and its results stay small
    enough.

    JAX must be able to evaluate it: it has static shapes, runs no user code, and has no bodies
    except the body of a scan. ``length`` is the number of steps.
    """
    if node.op is ops.scan:
        is_possible = all(is_batchable(inner, length) for inner in node.bodies["body"].nodes)
    else:
        is_plain = not (node.bodies or node.op.calls or node.refusal_reason)
        is_possible = is_plain and (node.meaning is not None or node.op.formula is not None)
    is_static = all(dims.all_static(v.shape) for v in node.operands())
    return is_possible and is_static and all(is_small_batch(v, length) for v in node.outputs)


def batch_nodes(
    nodes: Sequence[Node], results: Sequence[Value], full_arrays: dict[int, Value], editor: Editor
) -> list[Value]:
    """Append the nodes of a step, batched over all steps, and return the batched results.

    A batched value has the values of all steps along a new first axis. Operations with a rule in
    ``BATCH_RULES`` stay the same operations.

    Arguments:
        nodes: the nodes of a step. They are not changed.
        results: the values of a step whose batches are returned, in this order.
        full_arrays: the arrays of all steps, by the id of the value that a step reads. Other
            operands are the same in all steps.
        editor: gets the new nodes.
    """
    batched_arrays = dict(full_arrays)
    for part, needed in _split_by_rules(nodes, results):
        rule = BATCH_RULES.get(part[0].op)
        if rule is not None and any(id(v) in batched_arrays for v in part[0].inputs):
            arrays = [rule(part[0], batched_arrays, editor)]
        else:
            arrays = _batch_by_vmap(part, needed, batched_arrays, editor)
        batched_arrays.update((id(v), array) for v, array in zip(needed, arrays, strict=True))
    return [batched_arrays[id(v)] for v in results]


def _split_by_rules(
    nodes: Sequence[Node], results: Sequence[Value]
) -> Iterator[tuple[list[Node], list[Value]]]:
    """Yield the nodes of a step in parts, with the results of each part that are read outside it.

    A node whose operation has a rule in ``BATCH_RULES`` is a part of its own. Parts without such
    results are left out.
    """
    result_ids = {id(v) for v in results}
    # Other nodes have the same key, so that consecutive ones are grouped.
    for _, group in groupby(nodes, lambda n: id(n) if n.op in BATCH_RULES else None):
        part = list(group)
        part_ids = {id(node) for node in part}
        others = (node for node in nodes if id(node) not in part_ids)
        read = result_ids.union(id(v) for node in others for v in node.operands())
        needed = [v for node in part for v in node.outputs if id(v) in read]
        if needed:
            yield part, needed


def _batch_by_vmap(
    nodes: Sequence[Node], results: Sequence[Value], full_arrays: dict[int, Value], editor: Editor
) -> list[Value]:
    """Append the operations that ``jax.vmap`` makes of nodes, and return the batched results."""
    result_ids = {id(v) for n in nodes for v in n.outputs}
    read = {id(v): v for n in nodes for v in n.operands() if v.kind != "const"}
    inputs = [v for i, v in read.items() if i not in result_ids]
    graph = Graph(inputs, list(results), list(nodes))
    axes = [0 if id(v) in full_arrays else None for v in inputs]
    batched_function = jax.vmap(lambda *xs: evaluate(graph, xs), in_axes=axes)
    operands = [full_arrays.get(id(v), v) for v in inputs]
    with use_precision_of(graph.walk()):
        return _trace_function(batched_function, operands, nodes[0].source, editor)


def _trace_function(
    function: Callable[..., Any], operands: Sequence[Value], source: Any, editor: Editor
) -> list[Value]:
    """Append the traced operations of a JAX function on operands, and return its results.

    ``source`` contains the frames of the user's code for the new nodes.
    """
    closed = jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(v.shape, v.dtype) for v in operands))
    return Decomposer(Constants([], Names()), source).inline(closed, operands, editor.nodes)


def _batch_resize(node: Node, full_arrays: Mapping[int, Value], editor: Editor) -> Value:
    """Append a resize of the images of all steps, and return its result."""
    images = full_arrays[id(node.inputs[0])]
    axes = tuple(axis + 1 for axis in node.params["axes"])
    shape = (images.shape[0], *node.out.shape)
    return editor.copy_with_operands(node, [images], shape, axes=axes)


def _batch_sampling(node: Node, full_arrays: Mapping[int, Value], editor: Editor) -> Value:
    """Append a sampling for all steps, and return its result.

    If only the images or only the coordinates differ between the steps, the other operands are used
    once for all steps. Otherwise an operand that is the same in all steps is repeated for each.
    """
    length = next(full_arrays[id(v)].shape[0] for v in node.inputs if id(v) in full_arrays)
    image, *coordinates = node.inputs
    if id(image) not in full_arrays:
        return _batch_points(node, length, full_arrays, editor)
    if not any(id(v) in full_arrays for v in coordinates):
        return _batch_channels(node, full_arrays[id(image)], editor)
    merged = []
    for operand in node.inputs:
        array = _array_of_steps(operand, length, full_arrays, editor)
        merged.append(editor.reshape(array, (length * operand.shape[0], *operand.shape[1:])))
    shape = (length * node.out.shape[0], *node.out.shape[1:])
    return editor.reshape(editor.copy_with_operands(node, merged, shape), (length, *node.out.shape))


def _batch_channels(node: Node, images: Value, editor: Editor) -> Value:
    """Append a sampling of the images of all steps at the same points, and return its result.

    The images [steps, batch, channels, height, width] become images with more channels.
    """
    length, batch, channels, *pixels = images.shape
    merged = editor.transpose(images, (1, 0, 2, 3, 4))
    merged = editor.reshape(merged, (batch, length * channels, *pixels))
    points = node.out.shape[2:]
    operands = [merged, *node.inputs[1:]]
    sampled = editor.copy_with_operands(node, operands, (batch, length * channels, *points))
    sampled = editor.reshape(sampled, (batch, length, channels, *points))
    return editor.transpose(sampled, (1, 0, *range(2, sampled.rank)))


def _batch_points(
    node: Node, length: int, full_arrays: Mapping[int, Value], editor: Editor
) -> Value:
    """Append a sampling of the same images at the points of all ``length`` steps, and return its
    result.

    The coordinates are [batch, points…]. The axis of the steps is merged with the first axis of the
    points, if there is one.
    """
    image, *coordinates = node.inputs
    batch, channels, *points = node.out.shape
    count = length * dims.size_product(points[:1])
    merged = []
    for operand in coordinates:
        array = _array_of_steps(operand, length, full_arrays, editor)
        array = editor.transpose(array, (1, 0, *range(2, array.rank)))
        merged.append(editor.reshape(array, (batch, count, *operand.shape[2:])))
    shape = (batch, channels, count, *points[1:])
    sampled = editor.copy_with_operands(node, [image, *merged], shape)
    sampled = editor.reshape(sampled, (batch, channels, length, *points))
    return editor.transpose(sampled, (2, 0, 1, *range(3, sampled.rank)))


def _array_of_steps(
    value: Value, length: int, full_arrays: Mapping[int, Value], editor: Editor
) -> Value:
    """Return the values of all ``length`` steps along a new first axis. A value that is the same in
    all steps is broadcast."""
    array = full_arrays.get(id(value))
    axes = tuple(range(1, value.rank + 1))
    return array or editor.broadcast(value, (length, *value.shape), axes)


BATCH_RULES: Mapping[Op, Callable[[Node, Mapping[int, Value], Editor], Value]] = {
    ops.image_resize: _batch_resize,
    ops.resize: _batch_resize,
    ops.sample_at: _batch_sampling,
    ops.grid_sample: _batch_sampling,
}
"""Functions that batch an operation, where ``jax.vmap`` of its formula would give operations in
which no later pass finds it again.

At least one operand differs between the steps. The function gets the batched arrays by the id of
the value that a step reads.
"""


def batch_stateless_nodes(scan: Scan, editor: Editor) -> bool:
    """Batch the nodes that depend on scanned arrays but on no state, before the loop.

    Return True if the loop changed. It does not if there are no such nodes, or if the change does
    not pay off.
    """
    return batch_before_loop(scan, _select_stateless(scan), editor)


def batch_before_loop(scan: Scan, nodes: Sequence[Node], editor: Editor) -> bool:
    """Batch nodes before the loop, and let the loop scan their results.

    The scan is changed in place. Return False, and change nothing, if there are no nodes, if
    nothing reads their results, or if the steps would gain more scanned arrays than they lose nodes
    and scanned arrays.
    """
    results = {id(v): v for n in nodes for v in n.outputs}
    remaining = [node for node in scan.nodes if node not in nodes]
    inner_ids = {id(v) for n in remaining for v in n.operands()} | {
        id(c.after) for c in scan.carries
    }
    stacked_ids = {id(s.inner) for s in scan.stacked}
    batched_values = [v for i, v in results.items() if i in inner_ids or i in stacked_ids]
    if not nodes or not batched_values:
        return False
    needed_ids = inner_ids | stacked_ids
    dropped_parts = sum(id(part) not in needed_ids for _, part in scan.scanned)
    if sum(id(v) in inner_ids for v in batched_values) > len(nodes) + dropped_parts:
        return False
    full_arrays = {id(part): array for array, part in scan.scanned}
    arrays = batch_nodes(nodes, batched_values, full_arrays, editor)
    scan.nodes = remaining
    for value, array in zip(batched_values, arrays, strict=True):
        part = Value(value.shape, value.dtype, kind="input")
        scan.scanned.append((array, part))
        scan.replace(value, part)
    scan.drop_dead()
    return True


def _select_stateless(scan: Scan) -> list[Node]:
    """Return the nodes of a step that can be computed before the loop, for all steps at once.

    Such a node depends on no state of the loop and on no node that stays in it, and `is_batchable`
    holds for it. None of its results, stacked over all steps, takes more bytes than the larger of
    two limits: `SMALL_RESULT`, and `GROWTH` times the bytes of the largest of these arrays:

    - the arrays that the node reads. For a value that is one step's part of a scanned array, the
      size of the whole array is used. For the result of another selected node, the largest of the
      arrays of that node is used.
    - the stacked results of the loop.

    Broadcasts are omitted if they are read only by nodes that stay in the loop, or by other such
    broadcasts.
    """
    state_ids, inner = {id(carry.inner) for carry in scan.carries}, scan.inner_ids()
    largest_result = max((size_in_bytes(s.full) for s in scan.stacked), default=0)
    allowances = {id(part): size_in_bytes(array) for array, part in scan.scanned}
    selected = []
    for node in scan.nodes:
        operands = list(node.operands())
        outer_sizes = (size_in_bytes(v) for v in operands if id(v) not in inner)
        allowed_size = max(
            SMALL_RESULT,
            GROWTH
            * max(largest_result, *(allowances.get(id(v), 0) for v in operands), *outer_sizes),
        )
        sizes = [scan.length * size_in_bytes(v) for v in node.outputs]
        must_stay = any(id(v) in state_ids for v in operands) or max(sizes) > allowed_size
        if must_stay or not is_batchable(node, scan.length):
            state_ids.update(map(id, node.outputs))
        else:
            allowances.update((id(v), allowed_size / GROWTH) for v in node.outputs)
            selected.append(node)
    return _keep_last_broadcasts(scan, selected)


def _keep_last_broadcasts(scan: Scan, nodes: list[Node]) -> list[Node]:
    """Return the nodes without the broadcasts that only the remaining nodes of a step read.

    Such a broadcast stays in the step. The operation that reads it may broadcast implicitly there.
    """
    kept_nodes, read = list[Node](), {id(s.inner) for s in scan.stacked}
    for node in reversed(nodes):
        if node.op is not ops.broadcast_in_dim or id(node.out) in read:
            kept_nodes.append(node)
            read.update(map(id, node.operands()))
    return kept_nodes[::-1]


def defer_results(scan: Scan, editor: Editor) -> bool:
    """Defer nodes that no state depends on until after the loop.

    They are removed from the step and recorded in ``scan.deferred``, for `emit_deferred`. The loop
    returns the values of all steps that they read. Return True if the loop changed. It does not if
    there are no such nodes, or if the change does not pay off.
    """
    needed_ids = scan.source_ids(c.after for c in scan.carries)
    for node in reversed(scan.nodes):
        if any(id(v) in needed_ids for v in node.outputs) or not is_batchable(node, scan.length):
            needed_ids.update(map(id, (*node.outputs, *node.operands())))
    deferred = [n for n in scan.nodes if not any(id(v) in needed_ids for v in n.outputs)]
    result_ids = {id(v) for n in deferred for v in n.outputs}
    results = [s for s in scan.stacked if id(s.inner) in result_ids]
    inner, full_arrays = scan.inner_ids(), {id(part): array for array, part in scan.scanned}
    full_arrays |= {id(s.inner): s.full for s in scan.stacked if s not in results}
    read = {id(v): v for n in deferred for v in n.operands()}
    missing = [
        v for i, v in read.items() if i in inner and i not in result_ids and i not in full_arrays
    ]
    if not results or not _is_worthwhile(missing, results, deferred, scan.length):
        return False
    added = [StackedResult(v, Value((scan.length, *v.shape), v.dtype)) for v in missing]
    full_arrays |= {id(s.inner): s.full for s in added}
    scan.stacked = [s for s in scan.stacked if s not in results] + added
    scan.nodes = [node for node in scan.nodes if node not in deferred]
    scan.deferred.append(DeferredNodes(deferred, full_arrays, results))
    return True


def _is_worthwhile(
    missing: Sequence[Value], results: Sequence[StackedResult], nodes: Sequence[Node], length: int
) -> bool:
    """Return True if deferring nodes pays off.

    ``len(missing) - len(results)`` must be less than the number of nodes. The arrays of ``missing``
    together may take `MAX_BATCH_BYTES` / 16, or twice the bytes of the results. Each of them must
    be small (`is_small_batch`).

    Arguments:
        missing: the values that each step has to return for the nodes.
        results: the results that the nodes compute and that the loop no longer returns.
        nodes: the nodes.
        length: the number of steps.
    """
    if len(missing) - len(results) >= len(nodes) or not all(
        is_small_batch(v, length) for v in missing
    ):
        return False
    before = sum(size_in_bytes(s.full) for s in results)
    return length * sum(map(size_in_bytes, missing)) <= max(MAX_BATCH_BYTES >> 4, 2 * before)


def emit_deferred(scan: Scan, editor: Editor) -> None:
    """Append the deferred nodes after the loop, batched, and record their results in
    ``scan.results``."""
    for deferred in reversed(scan.deferred):
        full_arrays = {i: scan.resolve(v) for i, v in deferred.full.items()}
        inner_values = [s.inner for s in deferred.results]
        arrays = batch_nodes(deferred.nodes, inner_values, full_arrays, editor)
        result_ids = [id(s.full) for s in deferred.results]
        scan.results.update(zip(result_ids, arrays, strict=True))
