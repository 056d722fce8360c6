"""Rolled arrays of one array are parts of the array that goes on around its ends.

``jnp.roll`` is two slices that are put together, and a stencil has one for each neighbour. Once the
array is padded with what is at its other ends, each of them is a single slice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from converter.frontend.array_forms import appending
from converter.ir import Graph, Node, Value, dims, ops
from converter.ir.moves import cut_axes, has_strides
from converter.ir.rewrite import Takes

GROWTH = 2
"""How many times as large the padded array may be."""


@dataclass(frozen=True)
class Roll:
    """Element i is that of ``base`` at i + ``offsets``, around the ends."""

    base: Value
    offsets: tuple[int, ...]


def share_rolls(graph: Graph, takes: Takes) -> bool:
    """Pad what is rolled in several ways once, in place, in bodies too; whether anything was."""
    bodies = [body for node in graph.nodes for body in node.bodies.values()]
    changed = any([share_rolls(body, takes) for body in bodies])
    rolls = _rolls(graph)
    groups = dict[int, list[Value]]()
    for value in _read_rolls(graph, rolls) if rolls else ():
        groups.setdefault(id(rolls[id(value)].base), []).append(value)
    for values in groups.values():
        if takes("Pad:wrap", values[0].dtype) and _is_shorter([rolls[id(v)] for v in values]):
            _cut_from_padded(graph, values, rolls)
            changed = True
    return changed


def _rolls(graph: Graph) -> dict[int, Roll]:
    found = dict[int, Roll]()
    for node in graph.nodes:
        if (roll := _roll_of(node, found)) is not None:
            found[id(node.out)] = roll
    return found


def _roll_of(node: Node, known: dict[int, Roll]) -> Roll | None:
    """Two slices of one array along one axis, from within to its end and from its begin on."""
    if node.op is not ops.concatenate or len(node.inputs) != 2:
        return None
    axis, cuts = node.params["dimension"], [v.made_by(ops.slice) for v in node.inputs]
    tail, head = cuts
    if tail is None or head is None or tail.inputs[0] is not head.inputs[0]:
        return None
    x = tail.inputs[0]
    plain = all(cut_axes(cut) == [axis] and not has_strides(cut) for cut in (tail, head))
    if not plain or not dims.same_shape(x.shape, node.out.shape) or not dims.all_static(x.shape):
        return None
    first, size = tail.params["start_indices"][axis], x.shape[axis]
    if head.params["start_indices"][axis] != 0 or tail.params["limit_indices"][axis] != size:
        return None
    inner = known.get(id(x), Roll(x, (0,) * x.rank))
    offset = (inner.offsets[axis] + first) % size
    offset -= size if 2 * offset > size else 0
    return Roll(inner.base, (*inner.offsets[:axis], offset, *inner.offsets[axis + 1 :]))


def _read_rolls(graph: Graph, rolls: dict[int, Roll]) -> Iterator[Value]:
    """Those that others read than slices of which further ones are made."""
    uses = graph.uses()

    def is_inner(reader: Node | None) -> bool:
        if reader is None or reader.op is not ops.slice:
            return False
        return all(n is not None and id(n.out) in rolls for n in uses.get(id(reader.out), ()))

    for node in graph.nodes:
        read = uses.get(id(node.out), ())
        if id(node.out) in rolls and not all(map(is_inner, read)):
            yield node.out


def _is_shorter(rolls: Sequence[Roll]) -> bool:
    """A single gather rolls along the first axis, so that only others count."""
    others = [roll for roll in rolls if any(roll.offsets[1:])]
    before, after = _reach(rolls)
    shape = rolls[0].base.shape
    padded = (b + size + a for b, size, a in zip(before, shape, after, strict=True))
    return len(others) > 1 and prod(padded) <= GROWTH * prod(shape)


def _reach(rolls: Sequence[Roll]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How far they look beyond the begin and the end of each axis."""
    columns = list(zip(*(roll.offsets for roll in rolls), strict=True))
    return tuple(max(0, *(-o for o in c)) for c in columns), tuple(max(0, *c) for c in columns)


def _cut_from_padded(graph: Graph, values: Sequence[Value], rolls: dict[int, Roll]) -> None:
    chosen = [rolls[id(v)] for v in values]
    before, after = _reach(chosen)
    base, nodes = chosen[0].base, list[Node]()
    shape = tuple(b + s + a for b, s, a in zip(before, base.shape, after, strict=True))
    own, table = appending(nodes), dict[int, Value]()
    own.source = values[0].node.source if values[0].node is not None else ()
    padded = own.add(ops.wrap_pad, [base], shape, base.dtype, {"before": before, "after": after})
    for value, roll in zip(values, chosen, strict=True):
        starts = tuple(b + o for b, o in zip(before, roll.offsets, strict=True))
        table[id(value)] = own.cut(padded, starts, base.shape)
    at = min(graph.nodes.index(v.node) for v in values if v.node is not None)
    graph.nodes[at:at] = nodes
    graph.replace_operands(lambda v: table.get(id(v), v))
