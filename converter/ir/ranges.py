"""Derive between which numbers the elements of a value lie, without evaluating it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import dims, ops
from converter.ir.dtypes import highest, is_float, is_integer, lowest
from converter.ir.nodes import Node, Value
from converter.ir.op import Op
from converter.ir.scalars import scalar

DEPTH = 12
"""Number of operations above a value from which its range is derived; further ones are ignored."""


@dataclass(frozen=True)
class Range:
    """An interval that contains all elements of a value, from ``low`` to ``high``.

    The bounds are Python's numbers, or infinities. With ``nan``, elements may also be NaN.
    """

    low: float
    high: float
    nan: bool = False

    def within(self, low: float, high: float) -> bool:
        """Return True if all elements are from ``low`` to ``high`` and none is NaN."""
        return not self.nan and low <= self.low and self.high <= high

    def misses(self, number: float) -> bool:
        """Return True if no element can be this number."""
        return not self.low <= number <= self.high


def known_range(value: Value, depth: int = DEPTH) -> Range:
    """Return the range of a value, derived from the operations and constants that compute it.

    ``depth`` is the number of operations that are followed upwards. If nothing is known, the range
    is the range of the dtype.
    """
    return _memoized_range(value, depth, {})


def _memoized_range(value: Value, depth: int, memo: dict[int, Range]) -> Range:
    """Return the range of a value, from ``memo`` (by value id) if it is there. ``memo`` gets new
    ranges."""
    if id(value) not in memo:
        memo[id(value)] = _compute_range(value, depth, memo)
    return memo[id(value)]


def _compute_range(value: Value, depth: int, memo: dict[int, Range]) -> Range:
    """Return the range of a value by the rule for its operation, or from a constant or a loop
    bound.

    Otherwise it is the range of the dtype. The range of an integer is that of the dtype also if the
    rule's exceeds it, because integers wrap around. ``depth`` is the number of operations that are
    followed towards the inputs. ``memo`` contains the ranges that are already known, by value id,
    and gets new ones.
    """
    dtype_range = _dtype_range(value)
    if value.kind == "const":
        return _constant_range(value, dtype_range)
    if value.known_bounds is not None:
        return Range(*value.known_bounds)
    node = value.node
    if node is None or depth == 0 or node.op not in _RANGES:
        return dtype_range
    interval = _RANGES[node.op](node, [_memoized_range(v, depth - 1, memo) for v in node.inputs])
    # Integers wrap around if they exceed the limits of their dtype. Floats are rounded, but
    # rounding cannot exceed a bound that is a float itself.
    return (
        interval
        if is_float(value.dtype) or interval.within(dtype_range.low, dtype_range.high)
        else dtype_range
    )


def _dtype_range(value: Value) -> Range:
    """Return the range of all numbers of the value's dtype. Floats may be NaN."""
    if value.dtype.kind == "c":
        return Range(-math.inf, math.inf, nan=True)
    # The unary plus converts a Boolean to an integer, because numpy cannot negate a Boolean.
    return Range(+lowest(value.dtype), +highest(value.dtype), is_float(value.dtype))


def _constant_range(value: Value, dtype_range: Range) -> Range:
    """Return the range of the elements of a constant, or ``dtype_range`` if it is complex, empty or
    all NaN."""
    if value.dtype.kind == "c" or not value.const.size:
        return dtype_range
    array = np.asarray(value.const)
    if is_float(array.dtype):
        array = array.astype(np.float64)
        if np.isnan(array).all():
            return dtype_range
        low, high = float(np.nanmin(array)), float(np.nanmax(array))
        return Range(low, high, bool(np.isnan(array).any()))
    return Range(int(array.min()), int(array.max()))


RangeRule = Callable[[Node, Sequence[Range]], Range]
"""A function from a node and the ranges of its operands to the range of its result."""


def _union(ranges: Sequence[Range]) -> Range:
    """Return the smallest range that contains all these ranges."""
    low, high = min(r.low for r in ranges), max(r.high for r in ranges)
    return Range(low, high, any(r.nan for r in ranges))


def _ranges_convert(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range after a conversion to another dtype.

    To a float, numbers are rounded. From a float to an integer, they are cut off towards zero and
    limited to the integer's range, and NaN becomes 0. From an integer to an integer, the range is
    unchanged. To a Boolean, it is 0 to 1.
    """
    (r,) = ranges
    source, target = node.inputs[0].dtype, node.out.dtype
    if is_float(target):
        # All float dtypes of ONNX represent these integers exactly.
        is_exact = max(abs(r.low), abs(r.high)) <= 256
        return r if is_exact and not is_float(source) else _round_range(r, target)
    if not is_float(source) and target != np.bool_:
        return r
    low, high = lowest(target), highest(target)
    least, greatest = (math.trunc(min(max(end, low), high)) for end in (r.low, r.high))
    converted = Range(least, greatest)
    return _union([converted, Range(0, 1)]) if r.nan or target == np.bool_ else converted


def _round_range(r: Range, dtype: np.dtype) -> Range:
    """Return the range after rounding to a float dtype.

    It is wider by more than the rounding error. Elements that exceed the largest number are
    converted to infinity, or to NaN in floats of 8 bits.
    """
    limits = jnp.finfo(dtype)
    largest, epsilon, smallest = float(limits.max), float(limits.eps), float(limits.smallest_normal)
    low, high = r.low - abs(r.low) * epsilon, r.high + abs(r.high) * epsilon
    low, high = (low - smallest if low > 0 else low), (high + smallest if high < 0 else high)
    may_become_nan = dtype.itemsize == 1 and not -largest < low <= high < largest
    bounds = (low if low > -largest else -math.inf), (high if high < largest else math.inf)
    return Range(*bounds, r.nan or may_become_nan)


def _ranges_iota(node: Node, _: Sequence[Range]) -> Range:
    """Return the range of the positions along an axis. It has no upper bound if the size is
    symbolic."""
    size = node.out.shape[node.params["dimension"]]
    positions = Range(0, max(size - 1, 0) if dims.is_static(size) else math.inf)
    return _round_range(positions, node.out.dtype) if is_float(node.out.dtype) else positions


def _ranges_dim_as_value(node: Node, _: Sequence[Range]) -> Range:
    """Return the range of a dimension's size. Its lower bound is 1 or 0 if that is proved for all
    named sizes.

    Otherwise it may be negative, because an expression such as ``h-5`` can be.
    """
    bounds = [low for low in (1, 0) if dims.is_at_least(node.params["dim"], low)]
    return Range(next(iter(bounds), lowest(node.out.dtype)), highest(node.out.dtype))


def _ranges_extreme(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of a maximum or minimum along axes, which is that of the elements.

    If the axes may be empty, the result may be the limit of the dtype.
    """
    sizes = (node.inputs[0].shape[axis] for axis in node.params["axes"])
    is_not_empty = all(dims.is_at_least(size, 1) for size in sizes)
    return ranges[0] if is_not_empty else _dtype_range(node.out)


def _ranges_argmax(node: Node, _: Sequence[Range]) -> Range:
    """Return the range of the position of an extreme along an axis. It has no upper bound if the
    size is symbolic."""
    sizes = [node.inputs[0].shape[axis] for axis in node.params["axes"]]
    return Range(0, max(sizes[0] - 1, 0) if dims.all_static(sizes) else math.inf)


def _ranges_clamp(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of ``clamp(low, x, high)``; ``ranges`` are the ranges of the three operands.

    If ``low`` or ``high`` may be NaN, the result may be any number or NaN.
    """
    low, x, high = ranges
    if low.nan or high.nan:
        return Range(-math.inf, math.inf, nan=True)
    return Range(min(max(x.low, low.low), high.low), min(max(x.high, low.high), high.high), x.nan)


def _ranges_clip(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of a value that is clipped to the parameters ``low`` and ``high``."""
    low, high = (Range(node.params[name], node.params[name]) for name in ("low", "high"))
    return _ranges_clamp(node, (low, *ranges, high))


def _select_range(select: Callable[..., float], *ranges: Range) -> Range:
    """Return the range of the elementwise maximum or minimum of values with these ranges.

    ``select`` is ``max`` or ``min``.
    """
    low, high = select(r.low for r in ranges), select(r.high for r in ranges)
    return Range(low, high, any(r.nan for r in ranges))


def _ranges_round(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range after ``floor``, ``ceil`` or ``round``, which move a number to a
    neighbouring integer."""
    (r,) = ranges
    low = math.floor(r.low) if math.isfinite(r.low) else r.low
    return Range(low, math.ceil(r.high) if math.isfinite(r.high) else r.high, r.nan)


def _fixed_range(low: float, high: float) -> RangeRule:
    """Return a rule whose result has always these bounds, and may be NaN if an operand may be."""
    return lambda node, ranges: Range(low, high, any(r.nan for r in ranges))


def _ranges_sign(r: Range) -> Range:
    """Return the range of ``sign(x)`` for the range of x."""
    return Range(float(np.sign(r.low)), float(np.sign(r.high)), r.nan)


def _ranges_shift_right(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of a logical right shift.

    It is the range of the dtype unless x is not negative and the shift is from 0 to less than the
    number of bits.
    """
    x, shift = ranges
    if x.low < 0 or not shift.within(0, 8 * node.out.dtype.itemsize - 1):
        return Range(lowest(node.out.dtype), highest(node.out.dtype))
    return Range(0, int(x.high) >> int(shift.low))


# --------------------------------------------------------------------------------- arithmetic

# The bounds of integers are exact. For floats only the sign is computed, because rounding does not
# change it.


def _ranges_sum(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of a sum of two operands. For floats only the sign of the result is
    known."""
    x, y = ranges
    if is_float(node.out.dtype):
        return _sign_range(min(x.low, y.low), max(x.high, y.high), x.nan or y.nan)
    return Range(x.low + y.low, x.high + y.high)


def _sign_range(low: float, high: float, nan: bool) -> Range:
    """Return the range of a sum of floats from ``low`` to ``high``: only its sign is known.

    ``nan`` is true if an operand may be NaN. If the operands may have both signs, the sum of two
    infinities may be NaN.
    """
    has_both_signs = low < 0 < high
    return Range(0 if low >= 0 else -math.inf, 0 if high <= 0 else math.inf, nan or has_both_signs)


def _ranges_difference(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of x - y, which is that of x + (-y)."""
    x, y = ranges
    return _ranges_sum(node, (x, Range(-y.high, -y.low, y.nan)))


def _ranges_product(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of a product.

    A product of floats may be NaN. Its only known bound is 0, if no operand can be negative.
    """
    x, y = ranges
    if is_float(node.out.dtype):
        return Range(0 if min(x.low, y.low) >= 0 else -math.inf, math.inf, nan=True)
    corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return Range(min(corners), max(corners))


def _ranges_square(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of a square, which is not negative. For floats it has no upper bound."""
    (r,) = ranges
    largest = math.inf if is_float(node.out.dtype) else max(r.low**2, r.high**2)
    return Range(0, largest, r.nan)


def _ranges_reduce_sum(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of a sum along axes.

    For integers it is that of an element, times the number of elements, or that of the dtype if
    this number is symbolic. For floats only the sign is known.
    """
    (r,), sizes = ranges, [node.inputs[0].shape[axis] for axis in node.params["axes"]]
    if is_float(node.out.dtype):
        return _sign_range(r.low, r.high, r.nan)
    if not dims.all_static(sizes):
        return _dtype_range(node.out)
    count = math.prod(sizes)
    return Range(count * r.low, count * r.high)


def _ranges_remainder(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of the remainder of integers: 0 to the smaller of x and y - 1, if x is not
    negative and y is positive.

    Otherwise return the range of the dtype.
    """
    x, y = ranges
    if is_float(node.out.dtype) or x.low < 0 or y.low < 1:
        return _dtype_range(node.out)
    return Range(0, min(x.high, y.high - 1))


def _ranges_quotient(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of the quotient of integers: 0 to x if x is not negative and y is positive.

    Otherwise return the range of the dtype.
    """
    x, y = ranges
    if is_float(node.out.dtype) or x.low < 0 or y.low < 1:
        return _dtype_range(node.out)
    return Range(0, x.high)


def _ranges_abs(node: Node, r: Range) -> Range:
    """Return the range of an absolute value.

    The upper bound may exceed the dtype: the absolute value of its least integer does not fit.
    """
    largest = max(abs(r.low), abs(r.high))
    return Range(0, largest, r.nan)


def _ranges_exp(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of exp(x), which is positive, and at most 1 if x is never positive."""
    (r,) = ranges
    return Range(0, 1 if r.high <= 0 else math.inf, r.nan)


def _ranges_gather(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of gathered elements, or that of the dtype if indices out of bounds are
    filled."""
    mode = lax.GatherScatterMode.from_any(node.params["mode"])
    modes_without_fill = (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    return ranges[0] if mode in modes_without_fill else _dtype_range(node.out)


_RANGE_OF_FIRST_OPERAND = (ops.dynamic_slice, ops.split, ops.take)

_RANGES: dict[Op, RangeRule] = {
    **dict.fromkeys(_RANGE_OF_FIRST_OPERAND, lambda node, ranges: ranges[0]),
    **dict.fromkeys((ops.reduce_max, ops.reduce_min), _ranges_extreme),
    **dict.fromkeys((ops.add, ops.add_any), _ranges_sum),
    ops.sub: _ranges_difference,
    ops.mul: _ranges_product,
    ops.square: _ranges_square,
    ops.neg: lambda node, ranges: Range(-ranges[0].high, -ranges[0].low, ranges[0].nan),
    ops.abs: lambda node, ranges: _ranges_abs(node, *ranges),
    ops.exp: _ranges_exp,
    ops.reduce_sum: _ranges_reduce_sum,
    ops.rem: _ranges_remainder,
    ops.div: _ranges_quotient,
    ops.gather: _ranges_gather,
    **dict.fromkeys((op for op in ops.defined_ops() if op.moves), lambda node, ranges: ranges[0]),
    **dict.fromkeys((ops.floor, ops.ceil, ops.round), _ranges_round),
    ops.convert_element_type: _ranges_convert,
    ops.iota: _ranges_iota,
    **dict.fromkeys((ops.argmax, ops.argmin), _ranges_argmax),
    ops.clamp: _ranges_clamp,
    ops.clip: _ranges_clip,
    ops.relu: lambda node, ranges: _select_range(max, *ranges, Range(0, 0)),
    ops.max: lambda node, ranges: _select_range(max, *ranges),
    ops.min: lambda node, ranges: _select_range(min, *ranges),
    ops.concatenate: lambda node, ranges: _union(ranges),
    ops.select_n: lambda node, ranges: _union(ranges[1:]),
    ops.shift_right_logical: _ranges_shift_right,
    ops.is_finite: _fixed_range(0, 1),
    ops.sign: lambda node, ranges: _ranges_sign(*ranges),
    ops.dim_as_value: _ranges_dim_as_value,
}


# ---------------------------------------------------------------------------------- loops

# The integers of loop states are bounded, so that indices are known to be in range. A state of a
# scan is in the union of the ranges of its start and of its next value. A counter of a while loop
# is at least its start, and the loop condition holds at the start of each iteration.


def body_input_ranges(node: Node) -> Iterator[tuple[Value, Range]]:
    """Yield integer inputs of the bodies of a ``scan`` or ``while`` with their ranges.

    Inputs of which only the dtype is known are left out.
    """
    for value, interval in _scan_ranges(node) if node.op is ops.scan else _while_ranges(node):
        limits = _dtype_range(value)
        inner = Range(max(interval.low, limits.low), min(interval.high, limits.high))
        if is_integer(value.dtype) and inner.low <= inner.high and inner != limits:
            yield value, inner


def _scan_ranges(node: Node) -> Iterator[tuple[Value, Range]]:
    """Yield the inputs of a scan's body with their ranges.

    An entry of a scanned array has the range of the array. A state has the union of the ranges of
    its start and of its next value.
    """
    count, body = node.params["num_carry"], node.bodies["body"]
    for array, part in zip(node.inputs[count:], body.inputs[count:], strict=True):
        yield part, known_range(array)
    for start, inner, after in zip(node.inputs, body.inputs[:count], body.outputs, strict=False):
        yield inner, _union([known_range(start), known_range(after)])


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
