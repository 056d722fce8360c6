"""Loops of few nodes are written step by step.

A runtime takes 1 µs for a step of a loop besides its nodes and 10 µs for the loop; a node takes
0.3 µs.
"""

from collections.abc import Sequence

import numpy as np

from converter.ir import Node, Value, const
from converter.ir.rewrite import Editor
from converter.loops.scan import Scan

MOST_NODES, MOST_INSIDE = 48, 96
"""Nodes of all steps together that are written in the place of a loop, and of one that another loop
runs in each of its steps.
"""


def unrolled(node: Node, editor: Editor, inside: bool) -> Sequence[Value] | None:
    """Every step of a short scan, one after the other; ``inside`` of another loop more of them."""
    scan, body = Scan.of(node, editor), node.bodies["body"]
    if scan is None or any(n.bodies for n in body.nodes):
        return None
    moving = sum(array.kind != "const" for array, _ in scan.taken)
    nodes = scan.length * (len(body.nodes) + moving + len(scan.stacked))
    if nodes > (MOST_INSIDE if inside else MOST_NODES):
        return None
    count = node.params["num_carry"]
    states, arrays = node.inputs[:count], node.inputs[count:]
    gathered: list[list[Value]] = [[] for _ in body.outputs[count:]]
    for step in _order(scan):
        parts = [_short_part(array, step, editor) for array in arrays]
        states, given_by_step = _split_at(editor.inline(body.clone(), [*states, *parts]), count)
        for line, value in zip(gathered, given_by_step, strict=True):
            line.append(editor.reshape(value, (1, *value.shape)))
    lines = (line[::-1] if scan.reverse else line for line in gathered)
    return [*states, *(editor.concatenate(line, 0) for line in lines)]


def _order(scan: Scan) -> Sequence[int]:
    steps = range(scan.length)
    return steps[::-1] if scan.reverse else steps


def _split_at(values: list[Value], count: int) -> tuple[list[Value], list[Value]]:
    return values[:count], values[count:]


def _short_part(array: Value, step: int, editor: Editor) -> Value:
    """What a step has of an array."""
    if array.kind == "const":
        return const(np.asarray(array.const)[step])
    return editor.reshape(editor.slice(array, 0, step, step + 1), array.shape[1:])
