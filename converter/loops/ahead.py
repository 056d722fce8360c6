"""What a step computes of its states, and the step before has computed already, is a state itself.

A step of velocity Verlet ends with the forces at the new places, and the next begins with them.
What is read in the begin is then handed on: the same operations of the same numbers. (In compilers
this is predictive commoning.)
"""

from collections.abc import Sequence
from typing import Any

from converter.ir import Graph, Node, Value
from converter.ir.equality import frozen_form
from converter.ir.rewrite import Editor
from converter.loops.scan import Carry, Scan, computed_from

LEAST_NODES = 3
"""Nodes that a state which is handed on has to save: it costs a copy of its own."""


def carry_ahead(scan: Scan, editor: Editor) -> bool:
    """Values that depend on states alone, and that a step has of its last states too."""
    images = _images(scan)
    early = [n for n in scan.nodes if all(id(v) in images for v in n.outputs)]
    values = _read_besides(scan, early)
    if not values or len(_only_for(scan, values)) < LEAST_NODES * len(values):
        return False
    starts = _begun(scan, early, values, editor)
    for value, start in zip(values, starts, strict=True):
        inside = Value(value.shape, value.dtype, kind="input")
        after = images[id(value)]
        scan.carries.append(Carry(start, inside, after, Value(value.shape, value.dtype)))
        scan.replace(value, inside)
    scan.drop_dead()
    return True


def _images(scan: Scan) -> dict[int, Value]:
    """What becomes of values where states are replaced by what they become, by their ids.

    Of nodes only those that are there already, computed of the new states.
    """
    inner = scan.inner()
    images = {id(c.inside): c.after for c in scan.carries}

    def image(value: Value) -> Value | None:
        return images.get(id(value), None if id(value) in inner else value)

    known = {_key(node, node.inputs): node for node in scan.nodes if _is_plain(node)}
    for node in scan.nodes:
        moved = [image(v) for v in node.inputs]
        found = [v for v in moved if v is not None]
        if not _is_plain(node) or len(found) < len(moved):
            continue
        twin = known.get(_key(node, found))
        if twin is not None and twin is not node:
            images.update((id(a), b) for a, b in zip(node.outputs, twin.outputs, strict=True))
    return images


def _is_plain(node: Node) -> bool:
    return not (node.bodies or node.op.calls or node.refusal)


def _key(node: Node, inputs: Sequence[Value]) -> Any:
    """Constants are one by one: those that are equal have been merged."""
    return tuple(map(id, inputs)), frozen_form(node)


def _read_besides(scan: Scan, early: Sequence[Node]) -> list[Value]:
    """Results of these nodes that others read, become states or are given."""
    own = {id(n) for n in early}
    read = {id(v) for n in scan.nodes if id(n) not in own for v in n.operands()}
    read |= {id(c.after) for c in scan.carries} | {id(s.inside) for s in scan.stacked}
    return [v for n in early for v in n.outputs if id(v) in read]


def _only_for(scan: Scan, values: Sequence[Value]) -> list[Node]:
    """Nodes that nobody needs but for these values."""
    gone = {id(v) for v in values}
    ends = [*(c.after for c in scan.carries), *(s.inside for s in scan.stacked)]
    needed = {id(v) for v in ends} - gone
    for node in reversed(scan.nodes):
        if any(id(v) in needed for v in node.outputs):
            needed |= {id(v) for v in node.operands()} - gone
    return [n for n in scan.nodes if not any(id(v) in needed for v in n.outputs)]


def _begun(
    scan: Scan, early: Sequence[Node], values: Sequence[Value], editor: Editor
) -> list[Value]:
    """Append what computes the values of the first states."""
    needed = computed_from(early, values)
    chosen = [n for n in early if any(id(v) in needed for v in n.outputs)]
    copy = Graph([], list(values), chosen).clone()
    starts = {id(c.inside): c.start for c in scan.carries}
    copy.replace_operands(lambda v: starts.get(id(v), v))
    editor.nodes.extend(copy.nodes)
    return copy.outputs
