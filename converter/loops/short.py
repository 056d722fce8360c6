"""Loops of few nodes are written step by step, and cheap branches are both computed.

A runtime takes 1 µs for a step of a loop besides its nodes and 10 µs for the loop, and 2 µs for a
branch; a node takes 0.3 µs.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from converter.ir import Graph, Node, Value, const, dims, ops
from converter.ir.rewrite import Editor
from converter.loops.scan import Scan

MOST_NODES, MOST_INSIDE = 48, 96
"""Nodes of all steps together that are written in the place of a loop, and of one that another loop
runs in each of its steps.
"""

CHEAP_NODES, CHEAP_ELEMENTS = 12, 1024
"""Nodes of all branches with the choices, and elements of each, that are computed in any case."""


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
        states, given = _split_at(editor.inline(body.clone(), [*states, *parts]), count)
        for line, value in zip(gathered, given, strict=True):
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


# ------------------------------------------------------------------------------------- branches


def chosen_of_all(node: Node, editor: Editor) -> Sequence[Value] | None:
    """A branch is chosen of what all of them give, where that is cheap and cannot fail."""
    branches = list(node.bodies.values())
    count = sum(len(body.nodes) for body in branches) + len(node.outputs) * (len(branches) - 1)
    cheap = count <= CHEAP_NODES and all(map(_is_cheap, branches))
    if not cheap or not all(_is_small(v) for v in node.outputs):
        return None
    found, *others = (editor.inline(body, []) for body in branches)
    for number, values in enumerate(others):
        beyond = _beyond_branch(node.inputs[0], number, editor)
        pairs = zip(found, values, strict=True)
        found = [yes if yes is no else editor.where(beyond, yes, no) for no, yes in pairs]
    return found


def _is_cheap(branch: Graph) -> bool:
    """Arithmetic, and moving elements from known places to others, of few numbers."""
    return all(
        (node.op.elementwise or node.op.moves)
        and not (node.bodies or node.op.calls or node.refusal)
        and all(map(_is_small, node.outputs))
        for node in branch.nodes
    )


def _is_small(value: Value) -> bool:
    return dims.all_static(value.shape) and prod(value.shape) <= CHEAP_ELEMENTS


def _beyond_branch(index: Value, number: int, editor: Editor) -> Value:
    """``index > number``; ``lax.cond`` made its index from a boolean, which says the same."""
    made = index.made_by(ops.convert_element_type)
    if made is not None and made.inputs[0].dtype == np.bool_ and number == 0:
        return made.inputs[0]
    return editor.compare(ops.gt, index, const(number, index.dtype))
