"""Bound the integers of loop states, so that indices are known to be in range.

A state of a scan is in the union of the ranges of its start and of its next value. A counter of a
while loop is at least its start, and the loop condition holds at the start of each iteration.
"""

import math
from collections.abc import Iterator, Sequence

from converter.ir import Graph, Node, Value, ops
from converter.ir.dtypes import highest, is_integer, lowest
from converter.ir.ranges import Range, known_range
from converter.ir.scalars import scalar


def bound_states(graph: Graph) -> bool:
    """Set the known ranges of the inputs of loop bodies. Return True if any range is new."""
    return any([_bound_node(node) for node in graph.walk() if node.op in (ops.scan, ops.while_)])


def _bound_node(node: Node) -> bool:
    bounds = _scan_ranges(node) if node.op is ops.scan else _while_ranges(node)
    return any(
        [_narrow_range(value, interval) for value, interval in bounds if is_integer(value.dtype)]
    )


def _narrow_range(value: Value, interval: Range) -> bool:
    least, most = lowest(value.dtype), highest(value.dtype)
    low, high = max(interval.low, least), min(interval.high, most)
    if low > high or value.within == (low, high) or (low, high) == (least, most):
        return False
    value.within = (low, high)
    return True


def _scan_ranges(node: Node) -> Iterator[tuple[Value, Range]]:
    count, body = node.params["num_carry"], node.bodies["body"]
    for array, part in zip(node.inputs[count:], body.inputs[count:], strict=True):
        yield part, known_range(array)
    for start, inside, after in zip(node.inputs, body.inputs[:count], body.outputs, strict=False):
        first, next_range = known_range(start), known_range(after)
        yield inside, Range(min(first.low, next_range.low), max(first.high, next_range.high))


def _while_ranges(node: Node) -> Iterator[tuple[Value, Range]]:
    cond, body = node.bodies["cond"], node.bodies["body"]
    tests = list(_conjuncts(cond.outputs[0]))
    parts = zip(node.inputs, cond.inputs, body.inputs, body.outputs, strict=True)
    for start, tested, inside, after in parts:
        tested_range = _tested_range(tested, tests)
        if tested_range.high < highest(inside.dtype) and _counts_up(inside, after):
            first = known_range(start)
            yield tested, Range(first.low, max(first.high, tested_range.high + 1))
            tested_range = Range(max(first.low, tested_range.low), tested_range.high)
        yield inside, tested_range


def _conjuncts(value: Value) -> Iterator[Value]:
    """Yield the conditions that hold if a Boolean holds that combines them by ``and``."""
    node = value.made_by(ops.and_)
    if node is None:
        yield value
    else:
        for part in node.inputs:
            yield from _conjuncts(part)


_MIRRORED = {ops.lt: ops.gt, ops.le: ops.ge, ops.gt: ops.lt, ops.ge: ops.le}


def _tested_range(state: Value, tests: Sequence[Value]) -> Range:
    """Return the range of an integer for which all tests hold."""
    low, high = -math.inf, math.inf
    comparisons = [test.made_by(*_MIRRORED) for test in tests]
    for node in (n for n in comparisons if n is not None and any(v is state for v in n.inputs)):
        left = node.inputs[0] is state
        other, op = known_range(node.inputs[left]), node.op if left else _MIRRORED[node.op]
        if op in (ops.lt, ops.le):
            high = min(high, other.high - (op is ops.lt))
        else:
            low = max(low, other.low + (op is ops.gt))
    return Range(low, high)


def _counts_up(inside: Value, after: Value) -> bool:
    """Return True if a state increases by one, which cannot overflow below a limit."""
    node = after.made_by(ops.add)
    if node is None or inside not in node.inputs or inside.rank:
        return False
    return scalar(node.inputs[1 - node.inputs.index(inside)]) == 1
