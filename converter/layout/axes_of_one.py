"""Numbers without axes that come from arrays and go into them keep an axis of one.

``stack([10 * (y - x), x * y])`` of the parts of an array takes each part off its axis, and puts
each result back on one. On arrays of one element the arithmetic is the same.
"""

from collections.abc import Iterable, Sequence

from converter.ir import Graph, Node, Value, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, drop_dead, sweep

LANE = (1,)


def keep_lanes(graph: Graph) -> bool:
    """Give numbers their axis where that saves nodes, bodies included; whether any was given."""
    lanes = {id(n.out) for part in _graphs(graph) for n in _worthwhile(part)}
    if not lanes:
        return False

    def rule(node: Node, editor: Editor) -> Value | None:
        if node.op is ops.reshape:
            return _lane(node.inputs[0], editor) if _is_lane_of_number(node) else None
        if id(node.out) not in lanes:
            return None
        inputs = [_lane(v, editor) for v in node.inputs]
        return editor.reshape(editor.like(node, inputs, LANE), ())

    found: set[Op] = {n.op for n in graph.walk() if n.outputs and id(n.out) in lanes}
    sweep(graph, dict[Op, Rule](dict.fromkeys((*found, ops.reshape), rule)))
    drop_dead(graph)
    return True


def _graphs(graph: Graph) -> Iterable[Graph]:
    yield graph
    for node in graph.nodes:
        for body in node.bodies.values():
            yield from _graphs(body)


def _lane(value: Value, editor: Editor) -> Value:
    """The number with an axis; a constant is broadcast as it is."""
    return value if value.kind == "const" else editor.reshape(value, LANE)


def _is_lane_of_number(node: Node) -> bool:
    return node.out.shape == LANE and node.inputs[0].shape == ()


def _worthwhile(graph: Graph) -> list[Node]:
    """Arithmetic of numbers whose results go onto axes more often than other numbers come in."""
    uses = graph.uses()
    found = list[Node]()
    for region in _regions([n for n in graph.nodes if _is_of_numbers(n)]):
        own = {id(n.out) for n in region}
        saved = cost = 0
        for node in region:
            others = [u for u in uses.get(id(node.out), ()) if u is None or id(u.out) not in own]
            put = [u is not None and u.op is ops.reshape and _is_lane_of_number(u) for u in others]
            saved, cost = saved + sum(put), cost + (not all(put))
        read = {id(v): v for n in region for v in n.inputs if id(v) not in own}
        cost += sum(_is_bare(v) for v in read.values())
        found += region if saved > cost else []
    return found


def _is_bare(value: Value) -> bool:
    """A number that nothing has taken from an axis."""
    taken = value.made_by(ops.reshape)
    return value.kind != "const" and (taken is None or taken.inputs[0].shape != LANE)


def _is_of_numbers(node: Node) -> bool:
    plain = node.op.elementwise and (node.op.broadcasts or len(node.inputs) == 1)
    numbers = len(node.outputs) == 1 and all(v.shape == () for v in (*node.inputs, node.out))
    return plain and numbers and not node.bodies


def _regions(nodes: Sequence[Node]) -> list[list[Node]]:
    """Nodes that read each other's results."""
    leader: dict[int, int] = {}

    def first(key: int) -> int:
        while leader[key] != key:
            leader[key] = key = leader[leader[key]]
        return key

    for node in nodes:
        leader[id(node.out)] = id(node.out)
        for value in node.inputs:
            if id(value) in leader:
                leader[first(id(value))] = first(id(node.out))
    regions: dict[int, list[Node]] = {}
    for node in nodes:
        regions.setdefault(first(id(node.out)), []).append(node)
    return list(regions.values())
