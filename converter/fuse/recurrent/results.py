"""What a loop gives, as what an operator gives: the last states, and the first of them in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from converter.fuse.recurrent.cells import Cell
from converter.fuse.recurrent.selection import TIME, Selection, place, select
from converter.graph import Value, dims
from converter.graph.rewrite import Editor


@dataclass(frozen=True)
class Result:
    """State ``index`` of a cell, of which axis i is axis ``axes[i]``: after all rounds, or each."""

    index: int
    axes: tuple[int | None, ...]
    stacked: bool

    def written(self, editor: Editor, value: Value, axes: Sequence[int], out: Value) -> Value:
        """``value`` has the ``axes`` of the state, and what is stacked those of time first."""
        names = (TIME, *axes) if self.stacked else tuple(axes)
        wanted = (TIME, *self.axes) if self.stacked else self.axes
        table = {name: i for i, name in enumerate(wanted) if name is not None}
        places = tuple(
            place(table.get(name), 0, d) for name, d in zip(names, value.shape, strict=True)
        )
        sizes = dict(enumerate(out.shape))
        return Selection(value, places).materialised(editor, tuple(sizes), sizes)


def results(cell: Cell) -> tuple[Result, ...] | str:
    """The loop's outputs, if the operator gives them all."""
    graph, carried = cell.body.graph, cell.body.loop.params["num_carry"]
    read = {id(v) for node in graph.nodes for v in node.operands()}
    found = []
    for i, value in enumerate(graph.outputs):
        alike = [_result(cell, n, value, i >= carried) for n in range(len(cell.results))]
        known = [result for result in alike if result is not None]
        if not known:
            return "its loop gives more than the states of the cell"
        if i < carried:
            before = graph.inputs[i]
            state = before in cell.states and cell.states.index(before) == known[0].index
            if not state and (id(before) in read or before in cell.states):
                return "its loop carries more than the states of the cell"
        elif known[0].index != 0:
            return "its cell is wanted after each round"
        found.append(known[0])
    return tuple(found)


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
