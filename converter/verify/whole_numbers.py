"""What inputs of whole numbers may be: a loop turns as often, or an index points there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from jax import lax

from converter.ir import Graph, Node, Value, dims, named_sizes, ops
from converter.ir.dims import Dim
from converter.ir.op import Rounding
from converter.ir.origins import ancestors, given_to_bodies
from converter.ir.ranges import known_range
from converter.ir.windows import pointed

TURNS = 100
"""Below so many in size are whole numbers that may say how often a loop turns."""

PASSES = frozenset(
    {op for op in ops.stated() if op.elementwise or op.rounding is Rounding.NONE}
    - {ops.clamp, ops.rem, ops.and_, ops.argmax, ops.argmin}
)
"""Operations behind which an index is still as large as what it is made of, or nearly."""

DATA = {
    **dict.fromkeys((ops.gather, ops.take, ops.dynamic_slice, ops.top_k), slice(1)),
    ops.dynamic_update_slice: slice(2),
    **dict.fromkeys(ops.SCATTERS, slice(0, None, 2)),
}
"""Which operands of these are no indices."""


@dataclass
class WholeNumbers:
    """Numbers that an input may have: all of its dtype, but for a count or an index, which has
    these limits."""

    counts: bool = False
    limits: list[Dim] = field(default_factory=list)

    def brought(self, x: np.ndarray, sizes: named_sizes.Sizes) -> np.ndarray:
        """Numbers in place of those that are drawn; what is allowed stays as it is."""
        if self.counts:
            x = np.fmod(x, x.dtype.type(TURNS))
        if not self.limits:
            return x
        size = max(0, min(dims.concrete(tuple(self.limits), sizes))) + 1
        most = np.iinfo(x.dtype).max
        return np.mod(x, x.dtype.type(size)) if size <= most else x & most


def whole_numbers(graph: Graph) -> list[WholeNumbers]:
    """Say of each input of a graph what it may be; floats may be anything."""
    found = {id(v): WholeNumbers() for v in graph.inputs}
    are_whole = {id(v) for v in graph.inputs if v.dtype.kind in "iu"}
    for value in _loop_operands(graph):
        if id(value) in are_whole:
            found[id(value)].counts = True
    outside = given_to_bodies(graph)
    for node in graph.walk():
        for index, limits in _indexed(node):
            if dims.all_static(limits) and known_range(index).within(0, min(limits, default=0)):
                continue
            for value in _made_of(index, outside):
                if id(value) in are_whole:
                    found[id(value)].limits += limits
    return [found[id(v)] for v in graph.inputs]


def _loop_operands(graph: Graph) -> Iterator[Value]:
    """Values that loops depend on: 2**31 turns would take hours."""
    around = (node for node in graph.nodes if any(map(_turns, _bodies(node))))
    loops = chain(around, filter(_turns, graph.walk()))  # what is held has no node that gives it
    asked = chain.from_iterable(node.inputs for node in loops)
    return chain.from_iterable(map(ancestors, asked))


def _turns(node: Node) -> bool:
    return node.op is ops.while_


def _bodies(node: Node) -> Iterator[Node]:
    return chain.from_iterable(body.walk() for body in node.bodies.values())


def _indexed(node: Node) -> Iterator[tuple[Value, list[Dim]]]:
    """Indices that nothing brings within bounds, and the largest that they may be."""
    if node.op is ops.take:
        yield node.inputs[1], [dims.as_dim(node.inputs[0].shape[node.params["axis"]] - 1)]
    elif (node.op is ops.gather or node.op in ops.SCATTERS) and _promises(node):
        yield node.inputs[1], pointed(node).limits


def _promises(node: Node) -> bool:
    mode = lax.GatherScatterMode.from_any(node.params["mode"])
    return mode == lax.GatherScatterMode.PROMISE_IN_BOUNDS


def _made_of(index: Value, outside: dict[int, Value]) -> Iterator[Value]:
    """Inputs that make an index about as large as they are; a mask makes none."""
    seen: set[int] = set()
    stack = [index]
    while stack:
        value = stack.pop()
        if id(value) in seen or value.dtype.kind not in "iu":
            continue
        seen.add(id(value))
        if value.node is None:
            yield value
            stack += [outside[id(value)]] if id(value) in outside else []
        elif value.node.op in PASSES:
            stack += _sources(value, value.node)


def _sources(value: Value, node: Node) -> Sequence[Value]:
    """Operands whose numbers are in a result; the places of the largest are numbers of none."""
    if node.op is ops.sort:
        return node.inputs[value.index : value.index + 1]
    if node.op is ops.top_k and value.index == 1:
        return ()
    return node.inputs[DATA.get(node.op, slice(None))]
