"""Parts of values along the logical axes of a recurrent cell.

The gates of a recurrent cell are often parts of one value. They are next to each other along one
axis, or the value has a separate axis for them. The logical axes are the axes of the cell's state,
followed by two additional axes: ``INNER`` and ``TIME``.
"""

from converter.ir.axes import Factor, View, is_forward

TIME, INNER = -1, -2
"""The logical axes of a loop's rounds, and of the elements that a product sums over."""


def exchange_feature_axis(view: View, feature: int) -> View:
    """Return the view with the axis ``feature`` and the axis that products sum over (``INNER``)
    exchanged."""
    axes = list(range(len(view.groups)))
    axes[feature], axes[INNER] = axes[INNER], axes[feature]
    return view.select_axes(axes)


def runs_backwards(view: View) -> bool:
    """Return True if the view runs through the rounds of the loop from the last to the first."""
    return any(not is_forward(f.stride) for f in view.groups[TIME])


def to_forward_order(view: View) -> View:
    """Return a view of the same elements that runs through the rounds of the loop from the first to
    the last. A view that goes back is reversed along ``TIME``; another one is returned unchanged.
    No node is emitted."""
    starts, groups = list(view.starts), list(view.groups)
    for axis, stride, size in groups[TIME] if runs_backwards(view) else ():
        starts[axis or 0] += stride * (size - 1)
        groups[TIME] = (Factor(axis, -stride, size),)
    return View(view.base, tuple(groups), tuple(starts))
