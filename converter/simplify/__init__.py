"""Local clean-up: forward what does nothing, evaluate what is known, merge equals, drop the dead.

It also settles on one spelling where JAX has several: ``reshape`` for every change of shape,
slices for ``split`` and for indexing by numbers, ``einsum`` (labelled axes, no transposes around
it) for ``dot_general``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.graph import Graph, Node, Value, const, dims
from converter.graph.constants import scalar
from converter.graph.equals import merge_equals
from converter.graph.rewrite import Editor, Rule, drop_dead, moves_only_ones, sweep
from converter.simplify import index, labels
from converter.simplify.fold import fold

logger = logging.getLogger(__name__)

ROUNDS = 8  # each round only shrinks the graph; real networks settle in three


def simplify(graph: Graph) -> None:
    """Simplify in place."""
    drop_dead(graph)
    for _ in range(ROUNDS):
        before = len(graph.nodes)
        editor = sweep(graph, RULES)
        drop_dead(graph)
        folded = fold(graph)
        merge_equals(graph)
        drop_dead(graph)
        if not (editor.changed or folded or len(graph.nodes) != before):
            break
    logger.info("simplified to %d nodes", len(graph.nodes))


# ------------------------------------------------------------------------------------------ rules


def _forward(node: Node, _: Editor) -> Sequence[Value]:
    return node.inputs


def _convert(node: Node, editor: Editor) -> Value | None:
    if node.inputs[0].dtype == node.out.dtype:
        return node.inputs[0]
    return None


def _reshape(node: Node, editor: Editor) -> Value | None:
    source = node.inputs[0]
    if (order := node.params.get("dimensions")) is not None and node.op == "reshape":
        return editor.reshape(editor.transpose(source, order), node.out.shape)
    if dims.same_shape(source.shape, node.out.shape):
        return source
    inner = source.node
    if inner is not None and inner.op == "reshape":
        return editor.reshape(inner.inputs[0], node.out.shape)
    if node.op == "reshape" and set(node.params) == {"shape"}:
        return None
    return editor.reshape(source, node.out.shape)


def _transpose(node: Node, editor: Editor) -> Value | None:
    source, order = node.inputs[0], tuple(node.params["permutation"])
    inner = source.node
    if moves_only_ones(source.shape, order):
        return editor.reshape(source, node.out.shape)
    if inner is None:
        return None
    if inner.op == "transpose":
        first = inner.params["permutation"]
        return editor.transpose(inner.inputs[0], [first[i] for i in order])
    if inner.op == "broadcast_in_dim":
        axes = [order.index(a) for a in inner.params["broadcast_dimensions"]]
        return (
            editor.broadcast(inner.inputs[0], node.out.shape, axes)
            if axes == sorted(axes)
            else None
        )
    if inner.op == "einsum" and editor.single_use(source):
        out = [inner.params["out"][i] for i in order]
        return editor.add(
            "einsum", inner.inputs, node.out.shape, node.out.dtype, {**inner.params, "out": out}
        )
    return None


def _broadcast(node: Node, editor: Editor) -> Value | None:
    source, shape = node.inputs[0], node.out.shape
    axes = list(node.params["broadcast_dimensions"])
    inner = source.node
    if inner is not None and inner.op == "broadcast_in_dim":
        outer = [axes[a] for a in inner.params["broadcast_dimensions"]]
        return editor.broadcast(inner.inputs[0], shape, outer)
    result = editor.broadcast(source, shape, axes) if _only_ones(source, shape, axes) else None
    if result is None and inner is not None and inner.op == "reshape":
        squeezed = [a for a in range(source.rank) if not dims.same(source.shape[a], 1)]
        bare = tuple(source.shape[a] for a in squeezed)
        if dims.same_shape(inner.inputs[0].shape, bare):
            return editor.broadcast(inner.inputs[0], shape, [axes[a] for a in squeezed])
    return result


def _only_ones(source: Value, shape: Any, axes: list[int]) -> bool:
    ones = tuple(source.shape[axes.index(i)] if i in axes else 1 for i in range(len(shape)))
    return dims.same_shape(ones, shape)


def _slice(node: Node, editor: Editor) -> Value | None:
    source = node.inputs[0]
    if dims.same_shape(source.shape, node.out.shape):
        return source  # no stride shortens nothing: a full slice of equal shape is the whole
    inner = source.node
    starts, limits = node.params["start_indices"], node.params["limit_indices"]
    if inner is not None and inner.op == "concatenate" and _plain_strides(node):
        return _slice_of_concatenate(node, editor, inner, starts, limits)
    if node.params["strides"] is None:
        kept = {"start_indices": starts, "limit_indices": limits, "strides": (1,) * source.rank}
        return editor.add("slice", [source], node.out.shape, node.out.dtype, kept)
    if inner is not None and inner.op == "slice" and _cuts_alike(inner, node):
        base = inner.params["start_indices"]
        kept = {
            "start_indices": tuple(dims.as_dim(a + b) for a, b in zip(starts, base, strict=True)),
            "limit_indices": tuple(dims.as_dim(a + b) for a, b in zip(limits, base, strict=True)),
            "strides": node.params["strides"],
        }
        return editor.add("slice", inner.inputs, node.out.shape, node.out.dtype, kept)
    return None


def _cuts_alike(inner: Node, outer: Node) -> bool:
    """Both cut the same axes, so that one slice says what the two do; others keep their roles."""
    cuts = [
        [not dims.same(a, b) for a, b in zip(n.inputs[0].shape, n.out.shape, strict=True)]
        for n in (inner, outer)
    ]
    return cuts[0] == cuts[1] and _plain_strides(inner) and _plain_strides(outer)


def _slice_of_concatenate(
    node: Node, editor: Editor, inner: Node, starts: Any, limits: Any
) -> Value | None:
    """A slice that lies within one part of a concatenation is a slice of that part."""
    axis, offset = inner.params["dimension"], 0
    if not all(dims.is_static(v.shape[axis]) for v in inner.inputs[:-1]):
        return None
    start, stop = starts[axis], limits[axis]
    for part in inner.inputs:
        end = dims.as_dim(offset + part.shape[axis])
        inside = dims.is_static(start) and start >= offset
        ends = dims.same(stop, end) or (
            dims.is_static(stop) and dims.is_static(end) and stop <= end
        )
        if inside and ends:
            kept = {
                "start_indices": tuple(
                    start - offset if i == axis else s for i, s in enumerate(starts)
                ),
                "limit_indices": tuple(
                    dims.as_dim(stop - offset) if i == axis else s for i, s in enumerate(limits)
                ),
                "strides": (1,) * part.rank,
            }
            if dims.same_shape(part.shape, node.out.shape):
                return part
            return editor.add("slice", [part], node.out.shape, node.out.dtype, kept)
        offset = end
        if not dims.is_static(offset):
            return None
    return None


def _plain_strides(node: Node) -> bool:
    strides = node.params["strides"]
    return strides is None or all(s == 1 for s in strides)


def _split(node: Node, editor: Editor) -> list[Value] | None:
    source, axis = node.inputs[0], node.params["axis"]
    if "sizes" not in node.params:
        return None
    parts, start = [], 0
    for size in node.params["sizes"]:
        stop = dims.as_dim(start + size)
        parts.append(editor.slice(source, axis, start, stop))
        start = stop
    return parts


def _unstack(node: Node, editor: Editor) -> list[Value]:
    source, axis = node.inputs[0], node.params["axis"] % node.inputs[0].rank
    shape = (*source.shape[:axis], *source.shape[axis + 1 :])
    parts = [editor.slice(source, axis, i, i + 1) for i in range(len(node.outputs))]
    return [editor.reshape(p, shape) for p in parts]


def _stack(node: Node, editor: Editor) -> Value:
    axis = node.params["axis"] % node.out.rank
    shape = tuple(1 if i == axis else d for i, d in enumerate(node.out.shape))
    return editor.concatenate([editor.reshape(v, shape) for v in node.inputs], axis)


def _concatenate(node: Node, editor: Editor) -> Value | None:
    axis = node.params["dimension"]
    parts = [v for v in node.inputs if not dims.same(v.shape[axis], 0)]
    if len(parts) == 1:
        return parts[0]
    merged = _merge_broadcasts(parts, axis, editor)
    if parts and len(merged) < len(node.inputs):
        return merged[0] if len(merged) == 1 else editor.concatenate(merged, axis)
    return None


def _merge_broadcasts(parts: list[Value], axis: int, editor: Editor) -> list[Value]:
    """Neighbours that are broadcast alike are joined first and broadcast once."""
    result: list[Value] = []
    for part in parts:
        above = result[-1].node if result else None
        node = part.node
        if above is not None and node is not None and _broadcast_alike(above, node, axis):
            axes = node.params["broadcast_dimensions"]
            joined = editor.concatenate([above.inputs[0], node.inputs[0]], axes.index(axis))
            size = dims.as_dim(above.out.shape[axis] + part.shape[axis])
            shape = (*part.shape[:axis], size, *part.shape[axis + 1 :])
            result[-1] = editor.broadcast(joined, shape, axes)
        else:
            result.append(part)
    return result


def _broadcast_alike(first: Node, second: Node, axis: int) -> bool:
    if not first.op == second.op == "broadcast_in_dim":
        return False
    axes = first.params["broadcast_dimensions"]
    if axes != second.params["broadcast_dimensions"] or axis not in axes:
        return False
    shapes = [
        [n.inputs[0].shape[axes.index(a)] for a in axes if a != axis] for n in (first, second)
    ]
    own = axes.index(axis)
    whole = all(dims.same(n.inputs[0].shape[own], n.out.shape[axis]) for n in (first, second))
    return whole and dims.same_shape(*shapes)


def _neutral(node: Node, number: float, sides: Sequence[int]) -> Value | None:
    """``x op number`` is x, where x already has the result's type."""
    for side in sides:
        other = node.inputs[1 - side]
        if scalar(node.inputs[side]) == number and dims.same_shape(other.shape, node.out.shape):
            return other
    return None


def _max(node: Node, _: Editor) -> Value | None:
    return _neutral(node, float("-inf"), (0, 1))


def _min(node: Node, _: Editor) -> Value | None:
    return _neutral(node, float("inf"), (0, 1))


def _add(node: Node, _: Editor) -> Value | None:
    return _neutral(node, 0, (0, 1))


def _sub(node: Node, _: Editor) -> Value | None:
    return _neutral(node, 0, (1,))


def _mul(node: Node, editor: Editor) -> Value | None:
    if node.inputs[0] is node.inputs[1]:
        return editor.add("square", node.inputs[:1], node.out.shape, node.out.dtype)
    return _neutral(node, 1, (0, 1))


def _div(node: Node, _: Editor) -> Value | None:
    return _neutral(node, 1, (1,))


def _and(node: Node, _: Editor) -> Value | None:
    return _neutral(node, True, (0, 1)) if node.out.dtype == np.bool_ else None


def _or(node: Node, _: Editor) -> Value | None:
    return _neutral(node, False, (0, 1)) if node.out.dtype == np.bool_ else None


def _integer_pow(node: Node, editor: Editor) -> Value | None:
    if node.params["y"] == 1:
        return node.inputs[0]
    if node.params["y"] == 2:
        return editor.add("square", node.inputs, node.out.shape, node.out.dtype)
    return None


def _select(node: Node, _: Editor) -> Value | None:
    which = scalar(node.inputs[0])
    chosen = None if which is None else node.inputs[1 + int(which)]
    return chosen


def _reduce(node: Node, editor: Editor) -> Value | None:
    source = node.inputs[0]
    if all(dims.same(source.shape[a], 1) for a in node.params["axes"]):
        return editor.reshape(source, node.out.shape)
    return None


def _pad(node: Node, _: Editor) -> Value | None:
    empty = all(tuple(p) == (0, 0, 0) for p in node.params["padding_config"])
    return node.inputs[0] if empty else None


def _dim_as_value(node: Node, _: Editor) -> Value | None:
    dim = node.params["dim"]
    return const(dim, node.out.dtype) if dims.is_static(dim) else None


NOTHING = (
    *("copy", "copy_p", "stop_gradient", "optimization_barrier", "name", "sharding_constraint"),
    *("device_put", "pvary"),
)
"""Operations whose results are their operands."""

FORMS = frozenset({*NOTHING, "squeeze", "expand_dims", "stack", "unstack", "dot_general"})
"""Operations that have another spelling, of which none is left."""

RULES: dict[str, Rule] = {
    **dict.fromkeys(NOTHING, _forward),
    "convert_element_type": _convert,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "split": _split,
    "stack": _stack,
    "unstack": _unstack,
    "concatenate": _concatenate,
    "max": _max,
    "min": _min,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "and": _and,
    "or": _or,
    "integer_pow": _integer_pow,
    "select_n": _select,
    "pad": _pad,
    "dim_as_value": _dim_as_value,
    **dict.fromkeys(
        ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"),
        _reduce,
    ),
    **labels.RULES,
    **index.RULES,
}
