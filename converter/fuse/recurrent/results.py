"""What a loop gives, as what an operator gives: the last states, and the first of them in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from converter.fuse.recurrent.cells import Cell
from converter.fuse.recurrent.rest import Rest, rest
from converter.fuse.recurrent.selection import TIME, Selection, place, select
from converter.graph import Value, dims
from converter.graph.dims import Shape
from converter.graph.rewrite import Editor


@dataclass(frozen=True)
class Result:
    """State ``index`` of a cell, of which axis i is axis ``axes[i]``: after all rounds, or each."""

    index: int
    axes: tuple[int | None, ...]
    stacked: bool

    def written(self, editor: Editor, value: Value, axes: Sequence[int], shape: Shape) -> Value:
        """``value`` has the ``axes`` of the state, and what is stacked those of time first."""
        names = (TIME, *axes) if self.stacked else tuple(axes)
        wanted = (TIME, *self.axes) if self.stacked else self.axes
        table = {name: i for i, name in enumerate(wanted) if name is not None}
        places = tuple(
            place(table.get(name), 0, d) for name, d in zip(names, value.shape, strict=True)
        )
        sizes = dict(enumerate(shape))
        return Selection(value, places).materialised(editor, tuple(sizes), sizes)


@dataclass(frozen=True)
class Results:
    """What a loop's outputs are, by their places, and what gives the others, if there are any."""

    known: dict[int, Result]
    rest: Rest | None


def results(cell: Cell) -> Results | str:
    """The loop's outputs, if the operator gives them or what they are computed from."""
    graph, carried = cell.body.graph, cell.body.loop.params["num_carry"]
    found: dict[int, Result] = {}
    for i, value in enumerate(graph.outputs):
        alike = [_result(cell, n, value, i >= carried) for n in range(len(cell.results))]
        known = [result for result in alike if result is not None]
        if known and i >= carried and known[0].index != 0:
            return "its cell is wanted after each round"
        before = graph.inputs[i] if i < carried else None
        if before in cell.states and not known:
            return "its loop carries something else in the place of a state"
        if known:
            found[i] = known[0]
    missing = [i for i in range(len(graph.outputs)) if i not in found]
    others = rest(cell, missing)
    if others is None:
        return "its loop gives more than what the new states of the cell say"
    return Results(
        {i: r for i, r in found.items() if i not in others.outputs}, others if missing else None
    )


def _result(cell: Cell, index: int, value: Value, stacked: bool) -> Result | None:
    """A value as the state of this index, its axes in another order perhaps."""
    state, own = cell.results[index], select(value, range(value.rank))
    if own.base is not state.base:
        return None
    axes: list[int | None] = [None] * value.rank
    for mine, its in zip(own.places, state.places, strict=True):
        if (mine.start, mine.logical is None) != (its.start, its.logical is None):
            return None
        if not dims.same(mine.size, its.size):
            return None
        if mine.logical is not None:
            axes[mine.logical] = its.logical
    return Result(index, tuple(axes), stacked)
