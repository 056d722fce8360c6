"""Parts of values along the logical axes of a cell, where they were computed.

The gates of a recurrent cell are parts of one value, side by side, one behind the other or in rows
of their own. Logical axes are those of the cell's state, and behind them two more.
"""

from __future__ import annotations

from collections.abc import Sequence

from converter.ir import Value
from converter.ir.axes import Factor, Group, View, along, is_forward
from converter.ir.moves import descended

TIME, INNER = -1, -2
"""The axis of a loop's rounds, and that over which a product sums."""


def select(value: Value, axes: Sequence[int], rank: int) -> View:
    """All of a value, where it was computed, for a state of that rank: its axes are these."""
    groups: list[Group] = [()] * (rank + 2)
    for axis, group in zip(axes, along(value).groups, strict=True):
        groups[axis] = group
    return descended(View(value, tuple(groups), (0,) * value.rank))


def selected_operands(found: View) -> list[View]:
    """The operands of the elementwise node that makes the base, descended."""
    return [descended(found.operand(i)) for i in range(len(found.node().inputs))]


def turned_selection(found: View, feature: int) -> View:
    """The same with the axis of features for the inner one, and the other way round."""
    axes = list(range(len(found.groups)))
    axes[feature], axes[INNER] = axes[INNER], axes[feature]
    return found.take(axes)


def goes_back(found: View) -> bool:
    """Whether the loop's rounds are counted from the end."""
    return any(not is_forward(f.stride) for f in found.groups[TIME])


def forwards(found: View) -> View:
    """The same with the loop's rounds counted from their start."""
    starts, groups = list(found.starts), list(found.groups)
    for axis, stride, size in groups[TIME] if goes_back(found) else ():
        starts[axis or 0] += stride * (size - 1)
        groups[TIME] = (Factor(axis, -stride, size),)
    return View(found.base, tuple(groups), tuple(starts))
