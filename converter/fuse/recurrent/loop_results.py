"""What a loop gives, as what an operator gives: the last states, and the first of them in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from converter.fuse.recurrent.cells import Cell
from converter.fuse.recurrent.rest import Rest, rest
from converter.fuse.recurrent.selection import TIME
from converter.ir import Value
from converter.ir.axes import along
from converter.ir.dims import Shape
from converter.ir.moves import descended, write
from converter.ir.rewrite import Editor


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
        found = along(value, [None if a is None else names.index(a) for a in wanted])
        return write(editor, found, shape)


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
    state, own = cell.results[index], descended(along(value))
    mine, its = ([group for group in found.groups if group] for found in (own, state))
    same = len(mine) == len(its) and set(mine) == set(its)
    if own.base is not state.base or own.starts != state.starts or not same:
        return None
    axes = (state.groups.index(group) if group else None for group in own.groups)
    return Result(index, tuple(axes), stacked)
