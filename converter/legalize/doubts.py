"""Where a program itself expects indices that are out of bounds, whatever it promises."""

from collections.abc import Iterator, Sequence

from jax import lax

from converter.ir import Graph, Node, Value, ops
from converter.ir.origins import given_to_bodies
from converter.ir.ranges import known_range

Mode = lax.GatherScatterMode

KEEPS_APART = frozenset(
    {
        *(op for op in ops.stated() if op.elementwise or op.moves or op.reduces),
        *(ops.concatenate, ops.pad, ops.gather, ops.take, ops.dynamic_slice),
    }
)
"""Operations behind which a mask still tells elements of the operands from each other."""


WEAVES = frozenset({*(op for op in ops.stated() if op.elementwise or op.moves), ops.concatenate})
"""Operations each element of whose results is made of few elements of the operands."""


def unpromised(graph: Graph) -> set[int]:
    """ids of the indices that a gather or a scatter takes without a promise, bodies included."""
    return {
        id(node.inputs[1])
        for node in graph.walk()
        if node.op is ops.gather or node.op in ops.SCATTERS
        if Mode.from_any(node.params["mode"]) != Mode.PROMISE_IN_BOUNDS
    }


def masked(graph: Graph) -> set[int]:
    """ids of the values of which a selection or a mask leaves elements out, bodies included."""
    nodes = list(graph.walk())
    outside = given_to_bodies(graph)
    stack = [value for node in nodes for _, value in _masked_operands(node)]
    found: set[int] = set()
    while stack:
        value = stack.pop()
        if id(value) in found:
            continue
        found.add(id(value))
        if value.node is None:
            stack += [outside[id(value)]] if id(value) in outside else []
        elif value.node.op in KEEPS_APART:
            stack += value.node.inputs
        for body in value.node.bodies.values() if value.node is not None else ():
            stack += body.outputs[value.index : value.index + 1]
    return found


def _masked_operands(node: Node) -> Iterator[tuple[Value, Value]]:
    """Masks with the operands whose elements they may leave out: the cases of a choice, and what
    is multiplied by zeros."""
    if node.op is ops.select_n:
        yield from ((node.inputs[0], case) for case in _cases(node.inputs[1:]))
    if node.op is ops.mul:
        for value, mask in (node.inputs, node.inputs[::-1]):
            numbers = known_range(mask)
            if numbers.within(0, 1) and not numbers.misses(0):
                yield mask, value


def _cases(cases: list[Value]) -> Iterator[Value]:
    """Cases of a choice, but for one that another is made of: ``where(i < 0, i + n, i)``."""
    read = [{id(v) for v in (case.node.inputs if case.node is not None else ())} for case in cases]
    kept = {id(case) for case in cases if any(id(case) in ids for ids in read)}
    for case, ids in zip(cases, read, strict=True):
        if case.node is None or not ids & kept:
            yield from () if id(case) in kept else (case,)
        else:
            yield from (v for v in case.node.inputs if id(v) not in kept)


def is_masked_by(updates: Value, indices: Value) -> bool:
    """Whether a mask of what the indices are made of leaves out some of the updates."""
    places = {id(value) for value in _woven([indices]) if value.kind != "const"}
    made = (value.node for value in _woven([updates]) if value.node is not None)
    masks = [mask for node in made for mask, _ in _masked_operands(node)]
    return any(id(value) in places for value in _woven(masks))


def _woven(values: Sequence[Value]) -> list[Value]:
    """Values and what they are made of, element by element."""
    seen = {id(value): value for value in values}
    waiting = [*values]
    while waiting:
        node = waiting.pop().node
        if node is not None and node.op in WEAVES:
            fresh = [operand for operand in node.inputs if id(operand) not in seen]
            seen |= {id(operand): operand for operand in fresh}
            waiting += fresh
    return list(seen.values())
