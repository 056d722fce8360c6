"""One spelling for halves: slices of the axis that is halved, not of an axis of two.

``x.reshape(…, n, 2)[…, 0]`` takes the even elements of x's axis, ``x.reshape(…, 2, n)[…, 0, :]``
its first half; rotary embeddings are written either way.
"""

from __future__ import annotations

from converter.fuse.match import NearMiss, Recogniser
from converter.graph import Node, Value, dims
from converter.graph.dims import Shape
from converter.graph.rewrite import Editor
from converter.graph.slices import cut_axes


def _halve(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    pairs = node.inputs[0]
    cut = cut_axes(node)
    if len(cut) != 1 or not dims.same_shape([v.shape[cut[0]] for v in (pairs, node.out)], (2, 1)):
        return None
    order = list(range(pairs.rank))
    if pairs.node is not None and pairs.node.op == "transpose":
        order = list(pairs.node.params["permutation"])
        pairs = pairs.node.inputs[0]
    if pairs.node is None or pairs.node.op != "reshape":
        return None
    axis, second = order[cut[0]], int(node.params["start_indices"][cut[0]])
    half = _half(editor, pairs.node.inputs[0], pairs.shape, axis, second)
    if half is None:
        return None
    single = (*pairs.shape[:axis], 1, *pairs.shape[axis + 1 :])
    return editor.transpose(editor.reshape(half, single), order)


def _half(editor: Editor, source: Value, shape: Shape, axis: int, second: int) -> Value | None:
    """Half of ``source``, whose reshape to ``shape`` counts halves along ``axis``."""
    before, after = (_ends(source.shape, shape[i:]) for i in (axis, axis + 1))
    if before and after:
        return None  # an axis of two that the source has itself
    if axis > 0 and after:
        merged = editor.reshape(source, _merged(shape, axis - 1))
        return editor.slice(merged, axis - 1, second, merged.shape[axis - 1], 2)
    last = axis == len(shape) - 2
    if last or (axis < len(shape) - 2 and _ends(source.shape, shape[axis + 2 :])):
        merged = editor.reshape(source, _merged(shape, axis))
        width = shape[axis + 1]
        start = dims.as_dim(second * width)
        return editor.slice(merged, axis, start, dims.as_dim(start + width))
    return None


def _ends(source: Shape, rest: Shape) -> bool:
    """Whether an axis of the source ends where the axes ``rest`` of its reshape begin."""
    size = dims.product(rest)
    return any(dims.same(dims.product(source[i:]), size) for i in range(1, len(source) + 1))


def _merged(shape: Shape, axis: int) -> Shape:
    """A shape with the two axes from ``axis`` on as one."""
    return (*shape[:axis], dims.product(shape[axis : axis + 2]), *shape[axis + 2 :])


PAIRS = Recogniser(("slice",), _halve)
