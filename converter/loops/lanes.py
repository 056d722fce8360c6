"""Lanes of a loop whose results nobody reads do not run.

``vmap`` of a loop runs until its last lane is done. What ``jnp.piecewise`` and ``jnp.where`` make
of several loops chooses one for each element, so that the others' lanes may be slow ones for
nothing: a continued fraction where a series was wanted.
"""

from collections.abc import Iterator

import numpy as np

from converter.frontend.array_forms import appending
from converter.ir import Graph, Node, Value, const, ops
from converter.ir.rewrite import Editor

Choice = tuple[Value, int]
"""What a selection chooses by, and which of its cases is read."""


def skip_lanes(graph: Graph) -> bool:
    """Loops of independent lanes run only those that are chosen, in place; whether any do."""
    changed = False
    for node in [n for n in graph.nodes if n.op is ops.while_]:
        chosen = _choices(graph, node) if _has_lanes(node) else None
        if chosen and _move_before(graph, node, chosen):
            _run_only(graph, node, chosen)
            changed = True
    return changed


def _has_lanes(node: Node) -> bool:
    """Whether it runs while any of its last state holds, and no lane reads of another or changes
    once that no longer holds.
    """
    cond, body = node.bodies["cond"], node.bodies["body"]
    live, shape = body.inputs[-1], node.inputs[-1].shape
    whole = tuple(range(len(shape)))
    (goes_on,) = cond.outputs
    asked = goes_on.made_by(ops.reduce_or)
    if not shape or asked is None or asked.inputs[0] is not cond.inputs[-1]:
        return False
    if tuple(asked.params["axes"]) != whole or len(cond.nodes) > 1:
        return False
    alone = all(_is_alone(n, shape) for n in body.nodes)
    pairs = zip(body.inputs[:-1], body.outputs[:-1], strict=True)
    return alone and all(_stays(old, new, live) for old, new in pairs)


def _is_alone(node: Node, shape: tuple[object, ...]) -> bool:
    """Whether each element of its result comes of those in the same place."""
    if node.op is ops.broadcast_in_dim:
        return node.inputs[0].rank == 0
    same = all(v.shape in (shape, ()) for v in node.operands())
    return node.op.elementwise and not node.bodies and same


def _stays(old: Value, new: Value, live: Value) -> bool:
    choice = new.made_by(ops.select_n)
    return new is old or (choice is not None and choice.inputs[:2] == [live, old])


def _choices(graph: Graph, node: Node) -> list[Choice] | None:
    """All selections that its results come to; ``None`` if anything else reads of them."""
    uses, shape = graph.uses(), node.inputs[-1].shape
    stack, found = list(node.outputs), dict[tuple[int, int], Choice]()
    while stack:
        value = stack.pop()
        for reader in uses.get(id(value), ()):
            if reader is None or reader.out.shape != shape:
                return None
            if reader.op is ops.select_n and value is not reader.inputs[0]:
                chosen = list(_read_cases(reader, value))
                found |= {(id(which), i): (which, i) for which, i in chosen}
            elif reader.op.elementwise and not reader.bodies:
                stack.append(reader.out)
            else:
                return None
    usable = all(which.shape == shape for which, _ in found.values())
    return list(found.values()) if usable else None


def _read_cases(node: Node, value: Value) -> Iterator[Choice]:
    for i, case in enumerate(node.inputs[1:]):
        if case is value:
            yield node.inputs[0], i


def _move_before(graph: Graph, node: Node, chosen: list[Choice]) -> bool:
    """Bring what is chosen by before the loop; whether it does not depend on it."""
    place, needed = graph.nodes.index(node), {id(which) for which, _ in chosen}
    early, late = list[Node](), list[Node]()
    for each in reversed(graph.nodes[place:]):
        if needed.isdisjoint(map(id, each.outputs)):
            late.append(each)
        elif each is node:
            return False
        else:
            early.append(each)
            needed.update(map(id, each.operands()))
    graph.nodes[place:] = early[::-1] + late[::-1]
    return True


def _run_only(graph: Graph, node: Node, chosen: list[Choice]) -> None:
    """Lanes that are not chosen are over before they begin; what is over stays so."""
    place, body = graph.nodes.index(node), node.bodies["body"]
    before = list[Node]()
    editor = appending(before)
    wanted = [_is_case(editor, which, i) for which, i in chosen]
    any_of = wanted[0]
    for more in wanted[1:]:
        any_of = editor.binary(ops.or_, any_of, more)
    node.inputs[-1] = editor.binary(ops.and_, node.inputs[-1], any_of)
    graph.nodes[place:place] = before
    body.outputs[-1] = appending(body.nodes).binary(ops.and_, body.inputs[-1], body.outputs[-1])


def _is_case(editor: Editor, which: Value, case: int) -> Value:
    if which.dtype != np.bool_:
        return editor.compare(ops.eq, which, const(case, which.dtype))
    return which if case else editor.add(ops.not_, [which], which.shape, np.bool_)
