"""Reductions and the values that they reduce, independent of moves and conversions."""

from __future__ import annotations

from dataclasses import dataclass

from converter.fuse.match import operand
from converter.ir import dims
from converter.ir.axes import View, view_of
from converter.ir.dims import Dim
from converter.ir.moves import look_through
from converter.ir.op import Op


@dataclass(frozen=True)
class ReducedValue:
    """The operand of a reduction, as a view along the logical axes of the result and then the
    reduced axes.

    The view does not vary along logical axes that the reduction has removed. ``sizes`` are the
    sizes of the reduced axes.
    """

    view: View
    sizes: tuple[Dim, ...]

    def operand(self, index: int) -> ReducedValue:
        """Return operand ``index`` of the elementwise node that computes the reduced value."""
        return ReducedValue(operand(self.view, index), self.sizes)

    def axes_of(self, unreduced: View) -> tuple[int, ...] | None:
        """Return the logical axes over which ``unreduced`` is reduced to this value.

        Return None if the operand of the reduction is another value, or is reduced along only a
        part of these axes.
        """
        rank = len(unreduced.axes)
        remaining, reduced_axes = self.view.axes[:rank], self.view.axes[rank:]
        pairs = zip(reduced_axes, self.sizes, strict=True)
        repeated = any(a is None and not dims.is_same_dim(d, 1) for a, d in pairs)
        if self.view.base is not unreduced.base or repeated:
            return None
        axes = [i for i, a in enumerate(remaining) if a is None and unreduced.axes[i] is not None]
        is_same_elsewhere = all(
            remaining[i] == unreduced.axes[i] for i in range(rank) if i not in axes
        )
        is_fully_reduced = {a for a in reduced_axes if a is not None} == {
            unreduced.axes[i] for i in axes
        }
        return tuple(axes) if is_same_elsewhere and is_fully_reduced else None


def match_reduction(view: View, op: Op) -> ReducedValue | None:
    """Return the operand of a reduction by ``op``, such as `ops.reduce_sum`.

    Return None if ``view`` is no such reduction. Moves and conversions after it are skipped.
    """
    # JAX computes sums of float16 in float32 and rounds the result.
    view = look_through(view, conversions="rounding")
    if view.op() != op:
        return None
    source, reduced_axes = view.node().inputs[0], tuple(view.node().params["axes"])
    remaining_axes = [a for a in range(source.rank) if a not in reduced_axes]
    axes = (*(None if a is None else remaining_axes[a] for a in view.axes), *reduced_axes)
    return ReducedValue(
        look_through(view_of(source, axes)), tuple(source.shape[a] for a in reduced_axes)
    )


def reduction_axes(view: View, unreduced: View, op: Op) -> tuple[int, ...] | None:
    """Return the logical axes over which ``view`` is the reduction of ``unreduced`` by ``op``.

    Both views have the same logical axes. Example: ``sum(x, axis=1, keepdims=True)`` is the
    reduction of x by `ops.reduce_sum` over the axes (1,). Return None if it is no such reduction.
    """
    inner = match_reduction(view, op)
    return None if inner is None else inner.axes_of(unreduced)
