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
    """Set the known bounds of integer inputs of loop bodies. Return True if any of them are new.

    They are `Value.known_bounds`, the least and the largest number.
    """
    return any([_bound_node(node) for node in graph.walk() if node.op in (ops.scan, ops.while_)])


def _bound_node(node: Node) -> bool:
    """Set the ranges of the inputs of a loop's bodies. Return True if any range is new."""
    bounds = _scan_ranges(node) if node.op is ops.scan else _while_ranges(node)
    return any(
        [
            _set_known_bounds(value, interval)
            for value, interval in bounds
            if is_integer(value.dtype)
        ]
    )


def _set_known_bounds(value: Value, interval: Range) -> bool:
    """Set the range of a value to an interval, cut to the limits of its dtype. Return True if it is
    new.

    An earlier range is replaced. The value is unchanged if the new range is empty, is that of the
    dtype, or is equal to the earlier range.
    """
    dtype_low, dtype_high = lowest(value.dtype), highest(value.dtype)
    low, high = max(interval.low, dtype_low), min(interval.high, dtype_high)
    if low > high or value.known_bounds == (low, high) or (low, high) == (dtype_low, dtype_high):
        return False
    value.known_bounds = (low, high)
    return True


def _scan_ranges(node: Node) -> Iterator[tuple[Value, Range]]:
    """Yield the inputs of a scan's body with their ranges.

    An entry of a scanned array has the range of the array. A state has the union of the ranges of
    its start and of its next value.
    """
    count, body = node.params["num_carry"], node.bodies["body"]
    for array, part in zip(node.inputs[count:], body.inputs[count:], strict=True):
        yield part, known_range(array)
    for start, inner, after in zip(node.inputs, body.inputs[:count], body.outputs, strict=False):
        first, next_range = known_range(start), known_range(after)
        yield inner, Range(min(first.low, next_range.low), max(first.high, next_range.high))


def _while_ranges(node: Node) -> Iterator[tuple[Value, Range]]:
    """Yield the inputs of a while loop's condition and body with their ranges.

    In the body, the condition holds. A state that is incremented by one in each step, and that the
    condition limits, is at least its initial value. In the condition, only the range of such a
    state is known: it may exceed the limit by one.
    """
    cond, body = node.bodies["cond"], node.bodies["body"]
    tests = list(_conjuncts(cond.outputs[0]))
    parts = zip(node.inputs, cond.inputs, body.inputs, body.outputs, strict=True)
    for start, tested, inner, after in parts:
        tested_range = _tested_range(tested, tests)
        if tested_range.high < highest(inner.dtype) and _counts_up(inner, after):
            first = known_range(start)
            yield tested, Range(first.low, max(first.high, tested_range.high + 1))
            tested_range = Range(max(first.low, tested_range.low), tested_range.high)
        yield inner, tested_range


def _conjuncts(value: Value) -> Iterator[Value]:
    """Yield the conditions that are combined by ``and`` into this Boolean: a, b and c of ``a & b &
    c``."""
    node = value.producer_if(ops.and_)
    if node is None:
        yield value
    else:
        for part in node.inputs:
            yield from _conjuncts(part)


_MIRRORED = {ops.lt: ops.gt, ops.le: ops.ge, ops.gt: ops.lt, ops.ge: ops.le}


def _tested_range(state: Value, tests: Sequence[Value]) -> Range:
    """Return the range of an integer for which all tests hold.

    A test is used if it compares the integer with another value by ``<``, ``<=``, ``>`` or ``>=``.
    """
    low, high = -math.inf, math.inf
    comparisons = [test.producer_if(*_MIRRORED) for test in tests]
    for node in (n for n in comparisons if n is not None and any(v is state for v in n.inputs)):
        is_left = node.inputs[0] is state
        other_range, op = (
            known_range(node.inputs[is_left]),
            node.op if is_left else _MIRRORED[node.op],
        )
        if op in (ops.lt, ops.le):
            high = min(high, other_range.high - (op is ops.lt))
        else:
            low = max(low, other_range.low + (op is ops.gt))
    return Range(low, high)


def _counts_up(inner: Value, after: Value) -> bool:
    """Return True if a scalar state increases by one in each step.

    ``inner`` is the state in a step, ``after`` its next value. The caller has to make sure that the
    sum does not overflow.
    """
    node = after.producer_if(ops.add)
    if node is None or inner not in node.inputs or inner.rank:
        return False
    return scalar(node.inputs[1 - node.inputs.index(inner)]) == 1
