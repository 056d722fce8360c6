"""Determine the integers that inputs may have: loop counts and indices have limits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from jax import lax

from converter.ir import Graph, Node, Value, dims, named_sizes, ops
from converter.ir.dims import Dim
from converter.ir.op import Rounding
from converter.ir.origins import ancestors, operands_of_body_inputs
from converter.ir.ranges import known_range
from converter.ir.windows import find_indexed_axes

MAX_COUNT = 100
"""Limit of the magnitude of integers that may be loop counts."""

INDEX_PRESERVING = frozenset(
    {op for op in ops.defined_ops() if op.elementwise or op.rounding is Rounding.NONE}
    - {ops.clamp, ops.rem, ops.and_, ops.argmax, ops.argmin}
)
"""Operations whose result is an index of about the size of their operand."""

DATA_OPERANDS = {
    **dict.fromkeys((ops.gather, ops.take, ops.dynamic_slice, ops.top_k), slice(1)),
    ops.dynamic_update_slice: slice(2),
    **dict.fromkeys(ops.SCATTERS, slice(0, None, 2)),
}
"""Operands of indexing operations that are data, not indices."""


@dataclass
class AllowedIntegers:
    """Integers that an input of a graph may have.

    All integers of its dtype are allowed, unless it is a loop count or an index.

    Arguments:
        is_loop_count: whether the number of iterations of a loop may depend on the input.
        limits: largest valid index along each axis that the input is an index of. It is empty if
            the input is no index.
    """

    is_loop_count: bool = False
    limits: list[Dim] = field(default_factory=list)

    def constrain(self, x: np.ndarray, sizes: named_sizes.Sizes) -> np.ndarray:
        """Return drawn numbers after replacing those that are outside of the limits.

        A loop count becomes the remainder of its division by ``MAX_COUNT``, with the same sign. An
        index becomes its remainder modulo the number of valid indices along the shortest axis,
        which is never negative. If the axis is empty, the index becomes 0. If the dtype cannot
        represent the number of valid indices, only the sign bit is cleared. Numbers of an input
        without limits are returned unchanged.

        Arguments:
            x: the numbers that were drawn for the input.
            sizes: sizes of the named dimensions.
        """
        if self.is_loop_count:
            x = np.fmod(x, x.dtype.type(MAX_COUNT))
        if not self.limits:
            return x
        size = max(0, min(dims.substitute_sizes(tuple(self.limits), sizes))) + 1
        most = np.iinfo(x.dtype).max
        return np.mod(x, x.dtype.type(size)) if size <= most else x & most


def allowed_integers(graph: Graph) -> list[AllowedIntegers]:
    """Return for each input of a graph, in order, the integers that it may have.

    Inputs of other dtypes have an entry without limits. Indices have no limits either if they are
    known to be within bounds.
    """
    by_id = {id(v): AllowedIntegers() for v in graph.inputs}
    integer_ids = {id(v) for v in graph.inputs if v.dtype.kind in "iu"}
    for value in _loop_operands(graph):
        if id(value) in integer_ids:
            by_id[id(value)].is_loop_count = True
    body_operands = operands_of_body_inputs(graph)
    for node in graph.walk():
        for index, limits in _unbounded_indices(node):
            if dims.all_static(limits) and known_range(index).within(0, min(limits, default=0)):
                continue
            for value in _index_inputs(index, body_operands):
                if id(value) in integer_ids:
                    by_id[id(value)].limits += limits
    return [by_id[id(v)] for v in graph.inputs]


def _loop_operands(graph: Graph) -> Iterator[Value]:
    """Yield all values that the number of iterations of a loop may depend on.

    These are the operands of while loops, the operands of nodes with a while loop in a body, and
    all values from which these operands are computed. A value may be yielded several times. A drawn
    integer among them must be small, because 2**31 iterations would take hours.
    """
    outer_loops = (node for node in graph.nodes if any(map(_is_while, _body_nodes(node))))
    # The operands of the enclosing loops are searched too, because the inputs of a body have no
    # producer.
    loops = chain(outer_loops, filter(_is_while, graph.walk()))
    operands = chain.from_iterable(node.inputs for node in loops)
    return chain.from_iterable(map(ancestors, operands))


def _is_while(node: Node) -> bool:
    return node.op is ops.while_


def _body_nodes(node: Node) -> Iterator[Node]:
    """Yield all nodes in the bodies of a node, also in nested ones."""
    return chain.from_iterable(body.walk() for body in node.bodies.values())


def _unbounded_indices(node: Node) -> Iterator[tuple[Value, list[Dim]]]:
    """Yield the indices of a node that the program itself does not keep within bounds.

    These are the indices of ``take``, and of gathers and scatters that promise to be in bounds. The
    second element of a pair is the largest valid index along each indexed axis. Nothing is yielded
    for other nodes.
    """
    if node.op is ops.take:
        yield node.inputs[1], [dims.as_dim(node.inputs[0].shape[node.params["axis"]] - 1)]
    elif (node.op is ops.gather or node.op in ops.SCATTERS) and _promises_in_bounds(node):
        yield node.inputs[1], find_indexed_axes(node).limits


def _promises_in_bounds(node: Node) -> bool:
    """Return True if a gather or scatter has the mode ``promise_in_bounds``."""
    mode = lax.GatherScatterMode.from_any(node.params["mode"])
    return mode == lax.GatherScatterMode.PROMISE_IN_BOUNDS


def _index_inputs(index: Value, body_operands: dict[int, Value]) -> Iterator[Value]:
    """Yield the integer values without a producer from whose numbers an index is computed.

    These are inputs of the graph and of bodies, parameters and constants. The search goes back
    through the operations in ``INDEX_PRESERVING``, whose result is a number of about the magnitude
    of their operands. Values of other dtypes, such as Boolean masks, are not followed. Operands
    that only select numbers, such as the indices of a gather, are not followed either.

    ``body_operands`` maps the id of a body's input to the operand that it gets. After a body's
    input is yielded, the search continues at this operand.
    """
    visited: set[int] = set()
    stack = [index]
    while stack:
        value = stack.pop()
        if id(value) in visited or value.dtype.kind not in "iu":
            continue
        visited.add(id(value))
        if value.node is None:
            yield value
            stack += [body_operands[id(value)]] if id(value) in body_operands else []
        elif value.node.op in INDEX_PRESERVING:
            stack += _value_operands(value, value.node)


def _value_operands(value: Value, node: Node) -> Sequence[Value]:
    """Return the operands whose numbers determine the magnitude of a result of a node.

    All operands are returned for most operations. Operations in ``DATA_OPERANDS`` have operands
    that are only indices, which are omitted. A result of ``sort`` has the operand at the same
    position. The positions that ``top_k`` returns have no such operand.
    """
    if node.op is ops.sort:
        return node.inputs[value.index : value.index + 1]
    if node.op is ops.top_k and value.index == 1:
        return ()
    return node.inputs[DATA_OPERANDS.get(node.op, slice(None))]
