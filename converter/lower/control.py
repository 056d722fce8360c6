"""Control flow: nested graphs that read the values around them."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.dims import Dim
from converter.ir.ranges import known_range
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers


@lowers(ops.cond)
def _(b: Builder, which: ir.Value) -> Sequence[ir.Value]:
    """``If`` has two branches: further ones nest. Indices out of range go to the nearest.

    Where a parameter chooses, they follow each other: an optimiser that puts a known branch in the
    place of its ``If`` may die of another one in that.
    """
    branches = list(b.node.bodies.values())
    if b.operand().kind == "const":
        return b.inline(branches[int(np.clip(b.operand().const, 0, len(branches) - 1))], [])
    if b.operand().kind == "param" and len(branches) > 2:
        return _one_by_one(b, which, branches)
    return _branch(b, b.node, which, branches, 0)


def _one_by_one(b: Builder, which: ir.Value, branches: Sequence[Graph]) -> Sequence[ir.Value]:
    """Each branch where it is chosen, else what there is so far."""
    node, last = b.node, len(branches) - 1
    results = [b.const(np.zeros((), v.dtype)) for v in node.outputs]
    index = b.op("Clip", which, b.like(0), b.like(last))
    for count, body in enumerate(branches):
        here, there = b.nested(), b.nested()
        yes = here.close("then", [], here.inline(body, []))
        no = there.close("else", [], results)
        chosen = b.op("Equal", index, b.like(count))
        results = list(b.ops("If", [chosen], len(node.outputs), then_branch=yes, else_branch=no))
    return results


def _branch(
    b: Builder, node: Node, which: ir.Value, branches: Sequence[Graph], count: int
) -> Sequence[ir.Value]:
    """Lower the first branch where ``which <= count``, else one of those after it.

    Branches are left out that the range of the index excludes: an index that was converted from a
    Boolean is never greater than 1.
    """
    first, *other_branches = branches
    interval = known_range(node.inputs[0])
    if not other_branches or interval.high <= count:
        return b.inline(first, [])
    if interval.low > count:
        return _branch(b, node, which, other_branches, count + 1)
    here, there = b.nested(), b.nested()
    no = here.close("else", [], here.inline(first, []))
    yes = there.close("then", [], _branch(there, node, which, other_branches, count + 1))
    beyond = _beyond(b, node.inputs[0], which, count)
    return b.ops("If", [beyond], len(node.outputs), then_branch=yes, else_branch=no)


def _beyond(b: Builder, index: Value, which: ir.Value, count: int) -> ir.Value:
    """Return ``which > count``, which is the Boolean that an index of 0 or 1 was converted from."""
    made = index.made_by(ops.convert_element_type)
    if count == 0 and made is not None and made.inputs[0].dtype == np.bool_:
        return b.value(made.inputs[0])
    return b.op("Greater", which, b.const(count, index.dtype))


@lowers(ops.while_)
def _(b: Builder, *state: ir.Value) -> Sequence[ir.Value]:
    """The condition runs once before the loop and again at the end of every round."""
    cond, body = b.node.bodies["cond"], b.node.bodies["body"]
    (go,) = b.inline(cond, state)
    inner, inputs = b.subgraph("loop", body, (("round", (), np.int64), ("go", (), np.bool_)))
    after = inner.inline(body, inputs[2:])
    again = inner.inline(cond, after)
    graph = inner.close("loop", inputs, [*again, *after])
    return b.ops("Loop", [None, go, *state], len(b.node.outputs), body=graph)


@lowers(ops.scan)
def _(b: Builder, *xs: ir.Value, num_carry: int, length: Dim, reverse: bool) -> Sequence[ir.Value]:
    outputs, body = b.node.outputs, b.node.bodies["body"]
    carried, scanned = xs[:num_carry], xs[num_carry:]
    if not scanned or not dims.is_at_least(length, 1):
        return _counted(b, carried, scanned, body, length, reverse)
    inner, inputs = b.subgraph("scan", body)
    graph = inner.close("scan", inputs, inner.inline(body, inputs))
    back = [1] if reverse else []
    stacked = len(outputs) - num_carry
    return b.ops(
        "Scan",
        xs,
        len(outputs),
        body=graph,
        num_scan_inputs=len(scanned),
        scan_input_directions=back * len(scanned) or None,
        scan_output_directions=back * stacked or None,
    )


def _counted(
    b: Builder,
    state: Sequence[ir.Value],
    scanned: Sequence[ir.Value],
    body: Graph,
    length: Dim,
    reverse: bool,
) -> Sequence[ir.Value]:
    """``Scan`` needs something to scan; a ``Loop`` can do with the number of its rounds."""
    carried = Graph(body.inputs[: len(state)], body.outputs, body.nodes)
    inner, inputs = b.subgraph("loop", carried, (("round", (), np.int64), ("go", (), np.bool_)))
    count, go, *before = inputs
    rounds = b.squeeze(b.ints([length]), [0])
    taken = [_control_taken(inner, x, count, rounds if reverse else None) for x in scanned]
    graph = inner.close("loop", inputs, [go, *inner.inline(body, [*before, *taken])])
    # That it goes on may be left out by the standard; its evaluator then does not begin.
    first = b.const(True, np.bool_)
    results = b.ops("Loop", [rounds, first, *state], len(b.node.outputs), body=graph)
    stacked = results[len(state) :]
    return [*results[: len(state)], *(b.reverse(y, [0]) if reverse else y for y in stacked)]


def _control_taken(b: Builder, x: ir.Value, count: ir.Value, rounds: ir.Value | None) -> ir.Value:
    """The entry of a round; from the last on, if it is told how many there are."""
    if rounds is not None:
        count = b.op("Sub", b.op("Sub", rounds, b.const(1, np.int64)), count)
    return b.op("Gather", x, count, axis=0)
