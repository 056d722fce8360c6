"""A state that each step puts together of parts, and reads by its parts, is several states.

``jnp.stack([x, v])`` at the end of a step and ``x, v = state`` at the begin of the next copy what
could be carried as it is.
"""

from collections.abc import Sequence
from itertools import accumulate

from converter.frontend.array_forms import appending
from converter.ir import Node, Value, dims, ops
from converter.ir.dims import Shape
from converter.ir.moves import has_strides
from converter.ir.rewrite import Editor
from converter.loops.scan import Carry, Scan, StateParts

MOST_PARTS = 8
"""StateParts of a state: a runtime hands on each by itself."""


def split_states(scan: Scan, editor: Editor) -> bool:
    """States that are concatenations, of which steps read nothing that lies in two parts."""
    return any([_split_state(scan, carry, editor) for carry in list(scan.carries)])


def _split_state(scan: Scan, carry: Carry, editor: Editor) -> bool:
    made = carry.after.made_by(ops.concatenate)
    if made is None or made not in scan.nodes or not 2 <= len(made.inputs) <= MOST_PARTS:
        return False
    readers = [n for n in scan.nodes if any(v is carry.inside for v in n.operands())]
    ends = [*(c.after for c in scan.carries), *(s.inside for s in scan.stacked)]
    whole = any(v is carry.inside for v in ends) or not dims.all_static(carry.inside.shape)
    if not readers or whole or not all(n.op is ops.slice and not has_strides(n) for n in readers):
        return False
    axis = made.params["dimension"]
    limits = [0, *accumulate(int(shape[axis]) for shape in _shapes(made.inputs))]
    places = [_place_of(node, axis, limits) for node in readers]
    found = [place for place in places if place is not None]
    if len(found) < len(places):
        return False
    parts = StateParts(
        carry, _states_of(scan, made, carry, limits, editor), _shapes(made.inputs), axis
    )
    scan.carries.remove(carry)
    scan.carries += parts.states
    scan.parts.append(parts)
    _read_parts(scan, parts, list(zip(readers, found, strict=True)), limits)
    return True


def _shapes(values: Sequence[Value]) -> list[Shape]:
    return [v.shape for v in values]


def _place_of(node: Node, axis: int, limits: Sequence[int]) -> int | None:
    """The one part in which a slice lies."""
    low, high = node.params["start_indices"][axis], node.params["limit_indices"][axis]
    for place in range(len(limits) - 1):
        if limits[place] <= low and high <= limits[place + 1]:
            return place
    return None


def _states_of(
    scan: Scan, made: Node, carry: Carry, limits: Sequence[int], editor: Editor
) -> list[Carry]:
    """A state for each part; one of an entry has no axis for it."""
    axis, found, own = made.params["dimension"], list[Carry](), appending(scan.nodes)
    for place, part in enumerate(made.inputs):
        cut = editor.slice(carry.start, axis, limits[place], limits[place + 1])
        shape = part.shape
        if shape[axis] == 1:
            shape = (*shape[:axis], *shape[axis + 1 :])
        start, after = editor.reshape(cut, shape), own.reshape(part, shape)
        inside = Value(shape, part.dtype, kind="input")
        found.append(Carry(start, inside, after, Value(shape, part.dtype)))
        editor.uses[id(found[-1].final)] = editor.uses[id(carry.final)]
    return found


def _read_parts(
    scan: Scan, parts: StateParts, readers: Sequence[tuple[Node, int]], limits: Sequence[int]
) -> None:
    """Read the parts where the steps have read of the whole."""
    for node, place in readers:
        nodes = list[Node]()
        own, at = appending(nodes), scan.nodes.index(node)
        starts = list(node.params["start_indices"])
        starts[parts.axis] -= limits[place]
        part = own.reshape(parts.states[place].inside, parts.shapes[place])
        part = own.cut(part, tuple(starts), node.out.shape)
        scan.nodes[at : at + 1] = nodes
        scan.replace(node.out, part)


def join_states(scan: Scan, editor: Editor) -> None:
    """Append what the states of a whole have become, put together where somebody reads it."""
    for parts in scan.parts:
        ends = (scan.resolved(state.final) for state in parts.states)
        found = [editor.reshape(v, shape) for v, shape in zip(ends, parts.shapes, strict=True)]
        scan.results[id(parts.whole.final)] = editor.concatenate(found, parts.axis)
