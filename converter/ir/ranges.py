"""Between which numbers a value is known to lie."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import dims, ops
from converter.ir.dtypes import highest, is_float, lowest
from converter.ir.nodes import Node, Value
from converter.ir.op import Op

DEPTH = 12  # operations that are looked through; what is made of more is of no known range


@dataclass(frozen=True)
class Range:
    """All elements are from ``low`` to ``high``, Python's numbers, or perhaps ``nan``."""

    low: float
    high: float
    nan: bool = False

    def within(self, low: float, high: float) -> bool:
        return not self.nan and low <= self.low and self.high <= high

    def misses(self, number: float) -> bool:
        """No element is this number."""
        return not self.low <= number <= self.high


def known_range(value: Value, depth: int = DEPTH) -> Range:
    """Range that can be told without running anything; that of the dtype if nothing can."""
    return _range_of(value, depth, {})


def _range_of(value: Value, depth: int, seen: dict[int, Range]) -> Range:
    if id(value) not in seen:
        seen[id(value)] = _range_found(value, depth, seen)
    return seen[id(value)]


def _range_found(value: Value, depth: int, seen: dict[int, Range]) -> Range:
    whole = _whole_range(value)
    if value.kind == "const":
        return _of_constant(value, whole)
    if value.within is not None:
        return Range(*value.within)
    node = value.node
    if node is None or depth == 0 or node.op not in _RANGES:
        return whole
    interval = _RANGES[node.op](node, [_range_of(v, depth - 1, seen) for v in node.inputs])
    # An integer that leaves its dtype wraps; a float is rounded, never past a bound that it has.
    return interval if is_float(value.dtype) or interval.within(whole.low, whole.high) else whole


def _whole_range(value: Value) -> Range:
    if value.dtype.kind == "c":
        return Range(-math.inf, math.inf, nan=True)
    # A truth value is a number here: numpy has no sign of it.
    return Range(+lowest(value.dtype), +highest(value.dtype), is_float(value.dtype))


def _of_constant(value: Value, whole: Range) -> Range:
    if value.dtype.kind == "c" or not value.const.size:
        return whole
    array = np.asarray(value.const)
    if is_float(array.dtype):
        array = array.astype(np.float64)
        if np.isnan(array).all():
            return whole
        low, high = float(np.nanmin(array)), float(np.nanmax(array))
        return Range(low, high, bool(np.isnan(array).any()))
    return Range(int(array.min()), int(array.max()))


RangeRule = Callable[[Node, Sequence[Range]], Range]


def _union(ranges: Sequence[Range]) -> Range:
    low, high = min(r.low for r in ranges), max(r.high for r in ranges)
    return Range(low, high, any(r.nan for r in ranges))


def _ranges_convert(node: Node, ranges: Sequence[Range]) -> Range:
    """Floats round, and as integers are cut off towards zero; NaN becomes 0 or true."""
    (r,) = ranges
    source, target = node.inputs[0].dtype, node.out.dtype
    if is_float(target):
        exact = max(abs(r.low), abs(r.high)) <= 256  # integers that all floats of ONNX hold
        return r if exact and not is_float(source) else _rounded(r, target)
    if not is_float(source) and target != np.bool_:
        return r
    low, high = lowest(target), highest(target)
    least, most = (math.trunc(min(max(end, low), high)) for end in (r.low, r.high))
    cut = Range(least, most)
    return _union([cut, Range(0, 1)]) if r.nan or target == np.bool_ else cut


def _rounded(r: Range, dtype: np.dtype) -> Range:
    """Wider by more than rounding to a float, and infinite, or NaN, beyond the largest."""
    kind = jnp.finfo(dtype)
    largest, unit, least = float(kind.max), float(kind.eps), float(kind.smallest_normal)
    low, high = r.low - abs(r.low) * unit, r.high + abs(r.high) * unit
    low, high = (low - least if low > 0 else low), (high + least if high < 0 else high)
    beyond = dtype.itemsize == 1 and not -largest < low <= high < largest
    ends = (low if low > -largest else -math.inf), (high if high < largest else math.inf)
    return Range(*ends, r.nan or beyond)


def _iota(node: Node, _: Sequence[Range]) -> Range:
    size = node.out.shape[node.params["dimension"]]
    line = Range(0, max(size - 1, 0) if dims.is_static(size) else math.inf)
    return _rounded(line, node.out.dtype) if is_float(node.out.dtype) else line


def _ranges_size(node: Node, _: Sequence[Range]) -> Range:
    """Names are at least one, and what is made of them may be less than nothing."""
    bounds = [low for low in (1, 0) if dims.is_at_least(node.params["dim"], low)]
    return Range(next(iter(bounds), lowest(node.out.dtype)), highest(node.out.dtype))


def _ranges_extreme(node: Node, ranges: Sequence[Range]) -> Range:
    """That of nothing is the end of the dtype."""
    sizes = (node.inputs[0].shape[axis] for axis in node.params["axes"])
    some = all(dims.is_at_least(size, 1) for size in sizes)
    return ranges[0] if some else _whole_range(node.out)


def _extreme_place(node: Node, _: Sequence[Range]) -> Range:
    """Where an extreme is along an axis."""
    sizes = [node.inputs[0].shape[axis] for axis in node.params["axes"]]
    return Range(0, max(sizes[0] - 1, 0) if dims.all_static(sizes) else math.inf)


def _clamp(node: Node, ranges: Sequence[Range]) -> Range:
    low, x, high = ranges
    if low.nan or high.nan:
        return Range(-math.inf, math.inf, nan=True)
    return Range(min(max(x.low, low.low), high.low), min(max(x.high, low.high), high.high), x.nan)


def _clip(node: Node, ranges: Sequence[Range]) -> Range:
    low, high = (Range(node.params[name], node.params[name]) for name in ("low", "high"))
    return _clamp(node, (low, *ranges, high))


def _picked(pick: Callable[..., float], *ranges: Range) -> Range:
    """The larger or the smaller of elements."""
    low, high = pick(r.low for r in ranges), pick(r.high for r in ranges)
    return Range(low, high, any(r.nan for r in ranges))


def _ranges_whole(node: Node, ranges: Sequence[Range]) -> Range:
    """``floor``, ``ceil`` and ``round``: at most one away, never past a whole bound."""
    (r,) = ranges
    low = math.floor(r.low) if math.isfinite(r.low) else r.low
    return Range(low, math.ceil(r.high) if math.isfinite(r.high) else r.high, r.nan)


def _between(low: float, high: float) -> RangeRule:
    return lambda node, ranges: Range(low, high, any(r.nan for r in ranges))


def _ranges_sign(r: Range) -> Range:
    return Range(float(np.sign(r.low)), float(np.sign(r.high)), r.nan)


def _ranges_shifted(node: Node, ranges: Sequence[Range]) -> Range:
    """Numbers without a sign, moved down by known amounts."""
    x, by = ranges
    if x.low < 0 or not by.within(0, 8 * node.out.dtype.itemsize - 1):
        return Range(lowest(node.out.dtype), highest(node.out.dtype))
    return Range(0, int(x.high) >> int(by.low))


# --------------------------------------------------------------------------------- arithmetic

# Of integers the bounds are exact. Of floats only the sign is told, which rounding keeps.


def _ranges_sum(node: Node, ranges: Sequence[Range]) -> Range:
    x, y = ranges
    if is_float(node.out.dtype):
        return _signs(min(x.low, y.low), max(x.high, y.high), x.nan or y.nan)
    return Range(x.low + y.low, x.high + y.high)


def _signs(low: float, high: float, nan: bool) -> Range:
    """Of a sum: infinities of both signs make NaN."""
    both = low < 0 < high
    return Range(0 if low >= 0 else -math.inf, 0 if high <= 0 else math.inf, nan or both)


def _ranges_difference(node: Node, ranges: Sequence[Range]) -> Range:
    x, y = ranges
    return _ranges_sum(node, (x, Range(-y.high, -y.low, y.nan)))


def _ranges_product(node: Node, ranges: Sequence[Range]) -> Range:
    x, y = ranges
    if is_float(node.out.dtype):
        return Range(0 if min(x.low, y.low) >= 0 else -math.inf, math.inf, nan=True)
    corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return Range(min(corners), max(corners))


def _ranges_square(node: Node, ranges: Sequence[Range]) -> Range:
    (r,) = ranges
    largest = math.inf if is_float(node.out.dtype) else max(r.low**2, r.high**2)
    return Range(0, largest, r.nan)


def _ranges_total(node: Node, ranges: Sequence[Range]) -> Range:
    """Return the range of a sum along axes: of integers as many times that of an element."""
    (r,), sizes = ranges, [node.inputs[0].shape[axis] for axis in node.params["axes"]]
    if is_float(node.out.dtype):
        return _signs(r.low, r.high, r.nan)
    if not dims.all_static(sizes):
        return _whole_range(node.out)
    count = math.prod(sizes)
    return Range(count * r.low, count * r.high)


def _ranges_remainder(node: Node, ranges: Sequence[Range]) -> Range:
    x, y = ranges
    if is_float(node.out.dtype) or x.low < 0 or y.low < 1:
        return _whole_range(node.out)
    return Range(0, min(x.high, y.high - 1))


def _ranges_quotient(node: Node, ranges: Sequence[Range]) -> Range:
    x, y = ranges
    if is_float(node.out.dtype) or x.low < 0 or y.low < 1:
        return _whole_range(node.out)
    return Range(0, x.high)


def _sizes(node: Node, r: Range) -> Range:
    """The size of the least integer is no integer of its dtype."""
    largest = max(abs(r.low), abs(r.high))
    return Range(0, largest, r.nan)


def _ranges_exp(node: Node, ranges: Sequence[Range]) -> Range:
    (r,) = ranges
    return Range(0, 1 if r.high <= 0 else math.inf, r.nan)


def _ranges_gather(node: Node, ranges: Sequence[Range]) -> Range:
    """Elements, but for those that are filled in."""
    mode = lax.GatherScatterMode.from_any(node.params["mode"])
    inside = (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    return ranges[0] if mode in inside else _whole_range(node.out)


_FIRST = (ops.dynamic_slice, ops.split, ops.take)

_RANGES: dict[Op, RangeRule] = {
    **dict.fromkeys(_FIRST, lambda node, ranges: ranges[0]),
    **dict.fromkeys((ops.reduce_max, ops.reduce_min), _ranges_extreme),
    **dict.fromkeys((ops.add, ops.add_any), _ranges_sum),
    ops.sub: _ranges_difference,
    ops.mul: _ranges_product,
    ops.square: _ranges_square,
    ops.neg: lambda node, ranges: Range(-ranges[0].high, -ranges[0].low, ranges[0].nan),
    ops.abs: lambda node, ranges: _sizes(node, *ranges),
    ops.exp: _ranges_exp,
    ops.reduce_sum: _ranges_total,
    ops.rem: _ranges_remainder,
    ops.div: _ranges_quotient,
    ops.gather: _ranges_gather,
    **dict.fromkeys((op for op in ops.stated() if op.moves), lambda node, ranges: ranges[0]),
    **dict.fromkeys((ops.floor, ops.ceil, ops.round), _ranges_whole),
    ops.convert_element_type: _ranges_convert,
    ops.iota: _iota,
    **dict.fromkeys((ops.argmax, ops.argmin), _extreme_place),
    ops.clamp: _clamp,
    ops.clip: _clip,
    ops.relu: lambda node, ranges: _picked(max, *ranges, Range(0, 0)),
    ops.max: lambda node, ranges: _picked(max, *ranges),
    ops.min: lambda node, ranges: _picked(min, *ranges),
    ops.concatenate: lambda node, ranges: _union(ranges),
    ops.select_n: lambda node, ranges: _union(ranges[1:]),
    ops.shift_right_logical: _ranges_shifted,
    ops.is_finite: _between(0, 1),
    ops.sign: lambda node, ranges: _ranges_sign(*ranges),
    ops.dim_as_value: _ranges_size,
}
