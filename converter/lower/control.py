"""Lower control flow to nested graphs, which may read values of the outer graph."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.dims import Dim
from converter.ir.ranges import known_range
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers


@lowers(ops.cond)
def _(b: Builder, index: ir.Value) -> Sequence[ir.Value]:
    """Lower a conditional. ``If`` has two branches, so further ones are nested. The index is
    clamped.

    If a parameter selects among more than two branches, the conditionals follow each other instead.
    An optimizer that replaces an ``If`` with a constant condition may crash on another ``If``
    inside of it.
    """
    branches = list(b.node.bodies.values())
    if b.operand().kind == "param" and len(branches) > 2:
        return _lower_branches_in_sequence(b, index, branches)
    return _lower_branches(b, b.node, index, branches, 0)


def _lower_branches_in_sequence(
    b: Builder, index: ir.Value, branches: Sequence[Graph]
) -> Sequence[ir.Value]:
    """Lower each branch to a separate ``If`` and return the results of the last one.

    Each ``If`` computes its branch if ``index``, clamped, is the branch's number, or else returns
    the results so far.
    """
    node, last = b.node, len(branches) - 1
    results = [b.const(np.zeros((), v.dtype)) for v in node.outputs]
    position = b.op("Clip", index, b.like(0), b.like(last))
    for count, body in enumerate(branches):
        then_builder, else_builder = b.nested(), b.nested()
        then_branch = then_builder.to_graph("then", [], then_builder.inline(body, []))
        else_branch = else_builder.to_graph("else", [], results)
        is_selected = b.op("Equal", position, b.like(count))
        results = list(
            b.ops(
                "If",
                [is_selected],
                len(node.outputs),
                then_branch=then_branch,
                else_branch=else_branch,
            )
        )
    return results


def _lower_branches(
    b: Builder, node: Node, index: ir.Value, branches: Sequence[Graph], count: int
) -> Sequence[ir.Value]:
    """Lower the branches from number ``count`` on. Branch ``count`` runs if ``index <= count``,
    otherwise one of the following branches runs.

    ``branches`` are the branches from number ``count`` on. A branch is omitted if the range of the
    index excludes it. For example, an index that was converted from a Boolean is never greater than
    1.
    """
    first, *other_branches = branches
    interval = known_range(node.inputs[0])
    if not other_branches or interval.high <= count:
        return b.inline(first, [])
    if interval.low > count:
        return _lower_branches(b, node, index, other_branches, count + 1)
    else_builder, then_builder = b.nested(), b.nested()
    else_branch = else_builder.to_graph("else", [], else_builder.inline(first, []))
    then_branch = then_builder.to_graph(
        "then", [], _lower_branches(then_builder, node, index, other_branches, count + 1)
    )
    is_later = _exceeds(b, node.inputs[0], index, count)
    return b.ops(
        "If", [is_later], len(node.outputs), then_branch=then_branch, else_branch=else_branch
    )


def _exceeds(b: Builder, index: Value, selector: ir.Value, count: int) -> ir.Value:
    """Return ``index > count``, or the Boolean that an index of 0 or 1 was converted from.

    ``index`` is the graph value, ``selector`` its ONNX value.
    """
    conversion = index.producer_if(ops.convert_element_type)
    if count == 0 and conversion is not None and conversion.inputs[0].dtype == np.bool_:
        return b.value(conversion.inputs[0])
    return b.op("Greater", selector, b.const(count, index.dtype))


@lowers(ops.while_)
def _(b: Builder, *state: ir.Value) -> Sequence[ir.Value]:
    """Lower a while loop. The condition runs before the loop and at the end of every turn."""
    cond, body = b.node.bodies["cond"], b.node.bodies["body"]
    (condition,) = b.inline(cond, state)
    inner, inputs = b.subgraph("loop", body, (("round", (), np.int64), ("go", (), np.bool_)))
    after = inner.inline(body, inputs[2:])
    next_condition = inner.inline(cond, after)
    graph = inner.to_graph("loop", inputs, [*next_condition, *after])
    return b.ops("Loop", [None, condition, *state], len(b.node.outputs), body=graph)


@lowers(ops.scan)
def _(b: Builder, *xs: ir.Value, num_carry: int, length: Dim, reverse: bool) -> Sequence[ir.Value]:
    """Lower a scan to ``Scan``, or to ``Loop`` if it scans no arrays or may have no turns."""
    outputs, body = b.node.outputs, b.node.bodies["body"]
    carried, scanned = xs[:num_carry], xs[num_carry:]
    if not scanned or not dims.is_at_least(length, 1):
        return _lower_as_loop(b, carried, scanned, body, length, reverse)
    inner, inputs = b.subgraph("scan", body)
    graph = inner.to_graph("scan", inputs, inner.inline(body, inputs))
    directions = [1] if reverse else []
    stacked = len(outputs) - num_carry
    return b.ops(
        "Scan",
        xs,
        len(outputs),
        body=graph,
        num_scan_inputs=len(scanned),
        scan_input_directions=directions * len(scanned) or None,
        scan_output_directions=directions * stacked or None,
    )


def _lower_as_loop(
    b: Builder,
    state: Sequence[ir.Value],
    scanned: Sequence[ir.Value],
    body: Graph,
    length: Dim,
    reverse: bool,
) -> Sequence[ir.Value]:
    """Lower a scan to a ``Loop`` with a trip count.

    ``state`` are the initial carried values, ``scanned`` the arrays of which each turn gets one
    entry.
    """
    carried = Graph(body.inputs[: len(state)], body.outputs, body.nodes)
    inner, inputs = b.subgraph("loop", carried, (("round", (), np.int64), ("go", (), np.bool_)))
    count, condition, *before = inputs
    iterations = b.squeeze(b.ints([length]), [0])
    entries = [_select_entry(inner, x, count, iterations if reverse else None) for x in scanned]
    graph = inner.to_graph("loop", inputs, [condition, *inner.inline(body, [*before, *entries])])
    # The ONNX standard allows an empty condition, but its reference evaluator does not run such a
    # loop.
    first = b.const(True, np.bool_)
    results = b.ops("Loop", [iterations, first, *state], len(b.node.outputs), body=graph)
    stacked = results[len(state) :]
    return [*results[: len(state)], *(b.reverse(y, [0]) if reverse else y for y in stacked)]


def _select_entry(
    b: Builder, x: ir.Value, count: ir.Value, iterations: ir.Value | None
) -> ir.Value:
    """Return the entry of ``x`` along its first axis for turn ``count`` of a loop.

    If the number of turns, ``iterations``, is given, entries are counted from the end.
    """
    if iterations is not None:
        count = b.op("Sub", b.op("Sub", iterations, b.const(1, np.int64)), count)
    return b.op("Gather", x, count, axis=0)
