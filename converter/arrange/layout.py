"""Chains of reshapes, transposes and slices in their shortest form.

A chain is followed up to the value it rearranges: each axis of that value is split into *atoms*,
the atoms are cut and permuted, then merged into the axes of the result. Writing that down takes at
most a slice, a reshape, a transpose and a reshape, each left out where it does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeAlias

from converter.graph import Graph, Node, Value, dims, ops
from converter.graph.dims import Dim, Shape
from converter.graph.moves import Step, apply, rearranging
from converter.graph.op import Op
from converter.graph.rewrite import Editor, Rule
from converter.graph.slices import has_strides, known_cut

# Where in its axis: the halves of what stands at p stand at (*p, 0) and (*p, 1), so that splitting
# one stretch changes no order among the others.
Place: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Atom:
    """An indivisible stretch of a base axis; only ``[start, start + size)`` of ``full`` is kept."""

    axis: int
    place: Place  # order among the atoms of its axis
    full: Dim
    start: Dim
    size: Dim

    @property
    def cut(self) -> bool:
        return not dims.same(self.full, self.size)


Axes = tuple[tuple[Atom, ...], ...]


def _identity(shape: Shape) -> Axes:
    return tuple(
        (Atom(i, (), d, 0, d),) if not dims.same(d, 1) else () for i, d in enumerate(shape)
    )


def _after(node: Node, axes: Axes) -> Axes | None:
    """The layout after one more operation, or ``None`` where it is not one of atoms."""
    if node.op is ops.transpose:
        return tuple(axes[i] for i in node.params["permutation"])
    if node.op is ops.reshape:
        return _reshaped([a for group in axes for a in group], node.out.shape)
    return _sliced(axes, node)


def _reshaped(atoms: list[Atom], shape: Shape) -> Axes | None:
    queue, result = list(atoms), list[tuple[Atom, ...]]()
    for size in shape:
        group: list[Atom] = []
        left = size
        while not dims.same(left, 1):
            if not queue:
                return None
            atom = queue.pop(0)
            rest = dims.divides(atom.size, left)
            if rest is None:
                outer = dims.divides(left, atom.size)
                if outer is None or atom.cut:
                    return None
                # the inner part of the atom is left for the next axis
                head = Atom(atom.axis, (*atom.place, 0), left, 0, left)
                tail = Atom(atom.axis, (*atom.place, 1), outer, 0, outer)
                atom, rest = head, 1
                queue.insert(0, tail)
            group.append(atom)
            left = rest
        result.append(tuple(group))
    # what is cut down to one has no place in the shape, but is not lost
    if queue and result and all(dims.same(a.size, 1) for a in queue):
        result[-1] += tuple(queue)
        queue = []
    return tuple(result) if not queue else None


def _sliced(axes: Axes, node: Node) -> Axes | None:
    if has_strides(node):
        return None
    result = list(axes)
    source = node.inputs[0].shape
    for i, (group, start) in enumerate(zip(axes, node.params["start_indices"], strict=True)):
        if dims.same(source[i], node.out.shape[i]):
            continue
        if not group:
            return None
        first, *inner = sorted(group, key=lambda a: dims.same(a.size, 1))
        block = dims.product([a.size for a in inner])
        begin, size = dims.divides(block, start), dims.divides(block, node.out.shape[i])
        if begin is None or size is None:
            return None
        cut = replace(first, start=dims.as_dim(first.start + begin), size=size)
        result[i] = (cut, *inner)
    return tuple(result)


_OPS = (ops.reshape, ops.transpose, ops.slice)


def _shorten(node: Node, editor: Editor) -> Value | None:
    chain = [node]
    while (above := chain[-1].inputs[0].node) is not None and above.op in _OPS:
        chain.append(above)
    for length in range(len(chain), 1, -1):
        part = chain[:length]
        dying = 1 + len([*takewhile(lambda link: editor.single_use(link.out), part[1:])])
        plan = _plan(part[::-1])
        if plan is not None and len(plan) < dying:
            return apply(editor, part[-1].inputs[0], plan)
    return None


def _plan(chain: list[Node]) -> list[Step] | None:
    """The operations that take the chain's base to its end."""
    base = chain[0].inputs[0]
    axes = _identity(base.shape)
    for node in chain:
        after = _after(node, axes)
        if after is None:
            return None
        axes = after
    return _operations(base.shape, axes, chain[-1].out.shape)


def _operations(base: Shape, axes: Axes, target: Shape) -> list[Step] | None:
    flat = [a for group in axes for a in group]
    source = sorted(flat, key=lambda a: (a.axis, a.place))
    steps: list[Step] = []
    shape = list(base)
    for atom in source:
        if not atom.cut:
            continue
        if any(a.axis == atom.axis and a.place < atom.place for a in source):
            return None  # a cut inside an axis: slicing the base first would not be contiguous
        inner = dims.product([a.size for a in source if a.axis == atom.axis and a is not atom])
        start, stop = atom.start * inner, (atom.start + atom.size) * inner
        steps.append((ops.slice, (atom.axis, dims.as_dim(start), dims.as_dim(stop))))
        shape[atom.axis] = dims.as_dim(stop - start)
    source, flat = ([a for a in atoms if not dims.same(a.size, 1)] for atoms in (source, flat))
    runs = _runs(source, flat)
    split = tuple(dims.product([a.size for a in run]) for run in sorted(runs, key=_first))
    order = [sorted(runs, key=_first).index(run) for run in runs]
    return [*steps, *rearranging(tuple(shape), split, order, target)]


def _first(run: tuple[Atom, ...]) -> tuple[int, Place]:
    return run[0].axis, run[0].place


def _runs(source: list[Atom], flat: list[Atom]) -> list[tuple[Atom, ...]]:
    """Atoms that stay neighbours, in the result's order; those of different axes stay apart."""
    runs: list[list[Atom]] = []
    for atom in flat:
        place = source.index(atom)
        if runs and source.index(runs[-1][-1]) == place - 1 and runs[-1][-1].axis == atom.axis:
            runs[-1].append(atom)
        else:
            runs.append([atom])
    return [tuple(r) for r in runs]


RULES: dict[Op, Rule] = dict.fromkeys(_OPS, _shorten)


# -------------------------------------------------------------------------------- slices and splits


def _select(node: Node, editor: Editor) -> Value | None:
    """One entry along an axis, the axis dropped, is a single gather."""
    inner = node.inputs[0].node
    if inner is None or inner.op is not ops.slice or not editor.single_use(inner.out):
        return None
    source = inner.inputs[0]
    for axis in range(source.rank):
        one = dims.same(inner.out.shape[axis], 1) and not dims.same(source.shape[axis], 1)
        dropped = (*inner.out.shape[:axis], *inner.out.shape[axis + 1 :])
        others = (*source.shape[:axis], *source.shape[axis + 1 :])
        if one and dims.same_shape(dropped, others) and dims.same_shape(dropped, node.out.shape):
            params = {"axis": axis, "index": inner.params["start_indices"][axis]}
            return editor.add(ops.select_index, [source], node.out.shape, source.dtype, params)
    return None


SELECT: dict[Op, Rule] = {ops.reshape: _select}


def merge_splits(graph: Graph) -> None:
    """Slices that together cover an axis of one value become one split, in place."""
    for node in graph.nodes:
        for body in node.bodies.values():
            merge_splits(body)
    families: dict[tuple[int, int], list[Node]] = {}
    for node in graph.nodes:
        axis = known_cut(node)
        if axis is not None:
            families.setdefault((id(node.inputs[0]), axis), []).append(node)
    for (_, axis), family in families.items():
        _merge(graph, family, axis)


def _merge(graph: Graph, family: list[Node], axis: int) -> None:
    source = family[0].inputs[0]
    ordered = sorted(family, key=lambda n: n.params["start_indices"][axis])
    ends = [0, *(n.params["limit_indices"][axis] for n in ordered)]
    starts = [n.params["start_indices"][axis] for n in ordered]
    if len(family) < 2 or starts != ends[:-1] or ends[-1] != source.shape[axis]:
        return
    first = next(n for n in graph.nodes if n in family)
    sizes = tuple(n.out.shape[axis] for n in ordered)
    split = Node(ops.split, [source], {"axis": axis, "sizes": sizes}, source=first.source)
    for i, node in enumerate(ordered):
        out = node.out
        out.node, out.index = split, i
        split.outputs.append(out)
    graph.nodes[graph.nodes.index(first)] = split
    graph.nodes = [n for n in graph.nodes if n not in family]
