"""Between which numbers a value is known to lie."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from converter.ir import dims, ops
from converter.ir.dtypes import highest, is_float, lowest
from converter.ir.nodes import Node, Value
from converter.ir.op import Op

DEPTH = 12  # operations that are looked through; what is made of more is of no known range


NOTHING: Mapping[int, Value] = {}


@dataclass(frozen=True)
class Range:
    """All elements are from ``low`` to ``high``, or perhaps ``nan``."""

    low: float
    high: float
    nan: bool = False

    def within(self, low: float, high: float) -> bool:
        return not self.nan and low <= self.low and self.high <= high

    def misses(self, number: float) -> bool:
        """No element is this number."""
        return not self.low <= number <= self.high


def known_range(value: Value, depth: int = DEPTH, known: Mapping[int, Value] = NOTHING) -> Range:
    """What can be told without running anything; the range of the dtype if nothing can.

    ``known`` has values whose ranges those of others are, by the ids of these.
    """
    value = known.get(id(value), value)
    whole = Range(lowest(value.dtype), highest(value.dtype), is_float(value.dtype))
    if value.kind == "const":
        return _of_constant(value, whole)
    node = value.node
    if node is None or depth == 0 or node.op not in _RANGES:
        return whole
    found = _RANGES[node.op](node, [known_range(v, depth - 1, known) for v in node.inputs])
    # An integer that leaves its dtype wraps; a float is rounded, never past a bound that it has.
    return found if is_float(value.dtype) or found.within(whole.low, whole.high) else whole


def _of_constant(value: Value, whole: Range) -> Range:
    if value.dtype.kind == "c" or not value.const.size:
        return whole
    array = np.asarray(value.const)
    if is_float(array.dtype):
        array = array.astype(np.float64)
        if np.isnan(array).all():
            return whole
        return Range(np.nanmin(array), np.nanmax(array), bool(np.isnan(array).any()))
    return Range(int(array.min()), int(array.max()))


RangeRule = Callable[[Node, Sequence[Range]], Range]


def _union(ranges: Sequence[Range]) -> Range:
    low, high = min(r.low for r in ranges), max(r.high for r in ranges)
    return Range(low, high, any(r.nan for r in ranges))


def _ranges_convert(node: Node, ranges: Sequence[Range]) -> Range:
    """Floats round, and are cut off as they become integers; NaN becomes 0 or true."""
    (r,) = ranges
    source, target = node.inputs[0].dtype, node.out.dtype
    if is_float(target):
        exact = max(abs(r.low), abs(r.high)) <= 256  # integers that all floats of ONNX hold
        return r if exact and not is_float(source) else _rounded(r, float(jnp.finfo(target).max))
    if not is_float(source) and target != np.bool_:
        return r
    low, high = lowest(target), highest(target)
    cut = Range(min(max(r.low, low), high), max(min(r.high, high), low))
    return _union([cut, Range(0, 1)]) if r.nan or target == np.bool_ else cut


def _rounded(r: Range, largest: float) -> Range:
    """Wider by more than rounding to a float of 8 bits, and infinite beyond the largest."""
    low, high = r.low - abs(r.low) / 128, r.high + abs(r.high) / 128
    return Range(low if low > -largest else -math.inf, high if high < largest else math.inf, r.nan)


def _iota(node: Node, _: Sequence[Range]) -> Range:
    size = node.out.shape[node.params["dimension"]]
    return Range(0, max(size - 1, 0) if dims.is_static(size) else math.inf)


def _ranges_size(node: Node, _: Sequence[Range]) -> Range:
    """Names are at least one, and what is made of them may be less than nothing."""
    bounds = [low for low in (1, 0) if dims.is_at_least(node.params["dim"], low)]
    return Range(next(iter(bounds), lowest(node.out.dtype)), highest(node.out.dtype))


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
    finite = math.isfinite(r.low) and math.isfinite(r.high)
    return Range(math.floor(r.low), math.ceil(r.high), r.nan) if finite else r


def _between(low: float, high: float) -> RangeRule:
    return lambda node, ranges: Range(low, high, any(r.nan for r in ranges))


def _ranges_shifted(node: Node, ranges: Sequence[Range]) -> Range:
    """Numbers without a sign, moved down by known amounts."""
    x, by = ranges
    if x.low < 0 or not by.within(0, 8 * node.out.dtype.itemsize - 1):
        return Range(lowest(node.out.dtype), highest(node.out.dtype))
    return Range(0, int(x.high) >> int(by.low))


_RANGES: dict[Op, RangeRule] = {
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
    ops.sign: _between(-1, 1),
    ops.dim_as_value: _ranges_size,
}
