"""The scale and the bias of a norm, taken in one at a time.

    layer_norm(x, 1) * w = layer_norm(x, w)        rms_norm(x, 1) * w = rms_norm(x, w)
    layer_norm(x, w) + b = layer_norm(x, w, b)

where ``w`` and ``b`` vary along the normalised axes only; those of a group norm and of a batch norm
vary along the channels.
"""

from converter.fuse.magnitudes import may_move, rely_on_size
from converter.fuse.match import Uses, pair, proved
from converter.ir import Node, Value, ops
from converter.ir.axes import View, along
from converter.ir.moves import write
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

_BARE = {ops.layer_norm: 2, ops.rms_norm: 2, ops.group_norm: 2, ops.batch_norm: 4}
"""Operands without a bias: the value, its scale, and statistics if they are known."""
_TAKES = {ops.mul: tuple(_BARE), ops.add: (ops.layer_norm, ops.group_norm, ops.batch_norm)}


def prove_affine(node: Node, uses: Uses) -> tuple[View, View] | None:
    """Value that is normed, and the scale or bias that it takes in, along the norm's own axes."""
    for normed, other in pair(along(node.out)):
        if normed.op() in _TAKES[node.op] and _may_take(node, normed, other, uses):
            own = _own_axes(normed.node())
            logical = [normed.axes.index(a) if a in normed.axes else None for a in own]
            return normed, other.take(logical)
    return None


def _own_axes(norm: Node) -> range:
    """The axes that its scale and its bias have."""
    first: int = norm.params.get("axis", 1)
    return range(first, norm.out.rank if "axis" in norm.params else 2)


def _may_take(node: Node, normed: View, other: View, uses: Uses) -> bool:
    inner = normed.node()
    within = [i for i, a in enumerate(normed.axes) if a in _own_axes(inner)]
    bare = scalar(inner.inputs[1]) == 1
    takes_more = len(inner.inputs) == _BARE[inner.op] and inner.out.dtype == node.out.dtype
    in_place = normed.complete() and normed.fills(node.out.shape) and other.covers(within)
    # several scales of one norm get a norm each: that is less work than to scale and shift it
    alone = uses.single_use(normed.base) or (node.op is ops.mul and bare)
    # two scales are multiplied first, which in float16 may overflow where one after the other does
    # not
    exact = bare or node.op is ops.add or node.out.dtype.name != "float16"
    if not (takes_more and in_place and alone and exact):
        return False
    moved = () if bare or node.op is ops.add else (inner.inputs[1], other.base)
    return all(may_move(value, uses, nothing=True) for value in moved)


def build_affine(node: Node, affine: tuple[View, View], editor: Editor) -> Value:
    normed, seen = affine
    inner = normed.node()
    x, scale, *biases = inner.inputs
    shape = tuple(inner.out.shape[a] for a in _own_axes(inner))
    other = write(editor, seen, shape, inner.out.dtype)
    if node.op is ops.add:
        inputs = [x, scale, *biases, other]
    else:
        one = scalar(scale) == 1
        for moved in () if one else (scale, seen.base):
            rely_on_size(editor, moved, nothing=True)
        inputs = [x, other if one else editor.binary(ops.mul, scale, other), *biases]
    out = editor.add(inner.op, inputs, inner.out.shape, inner.out.dtype, inner.params)
    return write(editor, along(out, normed.axes), node.out.shape)


AFFINE = proved("LayerNormalization", (ops.mul, ops.add), prove_affine, build_affine)
