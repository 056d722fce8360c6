"""A state of which each step writes one entry, and reads none, is what the steps give, stacked."""

import numpy as np

from converter.ir import Node, Value, ops
from converter.ir.rewrite import Editor, inverse_order
from converter.ir.scalars import scalar
from converter.loops.scan import Carry, Place, Scan, Stacked

Entry = tuple[Value, Place]
"""What a step writes, and where all of them do."""


def stack_entries(scan: Scan, _: Editor) -> bool:
    """States that steps write to, as ``x.at[i].set(…)`` and ``dynamic_update_slice``."""
    found = [(carry, entry) for carry in scan.carries if (entry := _entry(scan, carry)) is not None]
    for carry, (value, place) in found:
        whole = Value((scan.length, *value.shape), value.dtype)
        stacked = Stacked(value, whole)
        scan.stacked.append(stacked)
        scan.written.append((carry, stacked, place))
        scan.carries.remove(carry)
        scan.drop_dead()
    return bool(found)


def _entry(scan: Scan, carry: Carry) -> Entry | None:
    node = carry.after.made_by(ops.scatter, ops.dynamic_update_slice)
    if node is None or node not in scan.nodes or node.inputs[0] is not carry.inside:
        return None
    read = [v for n in scan.nodes for v in n.operands()]
    read += [c.after for c in scan.carries] + [s.inside for s in scan.stacked]
    uses = [sum(v is value for v in read) for value in (carry.inside, carry.after)]
    if uses != [1, 1]:
        return None
    return _scattered(scan, node) if node.op is ops.scatter else _updated(scan, node)


def _scattered(scan: Scan, node: Node) -> Entry | None:
    x, indices, updates = node.inputs
    numbers = node.params["dimension_numbers"]
    axes = numbers.scatter_dims_to_operand_dims
    whole = tuple(size for i, size in enumerate(x.shape) if i not in axes)
    is_entry = len(axes) == 1 and axes == numbers.inserted_window_dims and updates.shape == whole
    if not is_entry or indices.shape != (1,) or numbers.operand_batching_dims:
        return None
    place = _entry_place(scan, indices, axes[0], x.shape[axes[0]])
    return None if place is None else (updates, place)


def _updated(scan: Scan, node: Node) -> Entry | None:
    x, updates, *starts = node.inputs
    moving = [i for i, start in enumerate(starts) if scalar(start) != 0]
    if len(moving) != 1:
        return None
    axis = moving[0]
    if updates.shape != (*x.shape[:axis], 1, *x.shape[axis + 1 :]):
        return None
    place = _entry_place(scan, starts[axis], axis, x.shape[axis])
    return None if place is None else (updates, place)


def _entry_place(scan: Scan, index: Value, axis: int, size: int) -> Place | None:
    """Where indices lie that are known and follow each other."""
    array = next((array for array, part in scan.taken if part is index), None)
    if array is None or array.kind != "const":
        return None
    line = np.asarray(array.const).reshape(-1).astype(np.int64)
    first, last = int(line.min()), int(line.max())
    if first < 0 or last >= size or last - first + 1 != len(line):
        return None
    for down, expected in ((False, range(first, last + 1)), (True, range(last, first - 1, -1))):
        if line.tolist() == list(expected):
            return Place(axis, first, down)
    return None


def put_together(scan: Scan, editor: Editor) -> None:
    """Append what the states have become: what the steps gave, between what was there before."""
    for carry, stacked, place in scan.written:
        x, whole, axis = carry.start, scan.resolved(stacked.whole), place.axis
        rest = tuple(size for i, size in enumerate(x.shape) if i != axis)
        lines = editor.reshape(whole, (scan.length, *rest))
        if place.down:
            lines = editor.rev(lines, [0])
        order = (axis, *(i for i in range(x.rank) if i != axis))
        lines = editor.transpose(lines, inverse_order(order))
        end = place.first + scan.length
        parts = [
            editor.slice(x, axis, 0, place.first) if place.first else None,
            lines,
            editor.slice(x, axis, end, x.shape[axis]) if end < x.shape[axis] else None,
        ]
        some = [part for part in parts if part is not None]
        scan.results[id(carry.final)] = editor.concatenate(some, axis) if some[1:] else lines
