"""Absorb the scale and the bias of a norm, one at a time.

    layer_norm(x, 1) * w = layer_norm(x, w)        rms_norm(x, 1) * w = rms_norm(x, w)
    layer_norm(x, w) + b = layer_norm(x, w, b)

``w`` and ``b`` vary only along the normalised axes; the scales and biases of a group norm or batch
norm vary along the channels.
"""

from converter.fuse.magnitudes import may_move, record_magnitude_fact
from converter.fuse.match import MatchContext, operand_orders, recogniser_from
from converter.ir import Node, Value, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import emit_view
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

_OPERANDS_WITHOUT_BIAS = {ops.layer_norm: 2, ops.rms_norm: 2, ops.group_norm: 2, ops.batch_norm: 4}
"""Number of operands without a bias: the value, its scale and, for a batch norm, the statistics."""
_ABSORBING_NORMS = {
    ops.mul: tuple(_OPERANDS_WITHOUT_BIAS),
    ops.add: (ops.layer_norm, ops.group_norm, ops.batch_norm),
}


def match_affine(node: Node, context: MatchContext) -> tuple[View, View] | None:
    """Match a norm that is multiplied by a scale or added to a bias.

    ``node`` is the product or the sum. Return a view of the norm's output along the axes of
    ``node``, and a view of the scale or bias along the axes of the norm's scale. Return None if
    neither operand of ``node`` is a norm that can take the other operand. An RMS norm takes no
    bias.
    """
    for normed, other in operand_orders(view_of(node.out)):
        if normed.op() in _ABSORBING_NORMS[node.op] and _can_absorb(node, normed, other, context):
            affine_axes = _affine_axes(normed.node())
            logical = [normed.axes.index(a) if a in normed.axes else None for a in affine_axes]
            return normed, other.select_axes(logical)
    return None


def _affine_axes(norm: Node) -> range:
    """Return the axes of a norm's value along which its scale and bias vary.

    For a layer norm or RMS norm these are the normalised axes, from ``axis`` to the last. For a
    group norm or batch norm it is the channel axis 1.
    """
    first: int = norm.params.get("axis", 1)
    return range(first, norm.out.rank if "axis" in norm.params else 2)


def _can_absorb(node: Node, normed: View, other: View, context: MatchContext) -> bool:
    """Return True if a norm can take ``other`` as its scale or bias without a change of the result.

    ``node`` is the product or the sum of ``other`` and ``normed``, a view of the norm's output. All
    of these have to be true:

    - The norm has no bias yet, and the dtype of ``node``.
    - ``normed`` has each element of the norm once.
    - ``other`` varies along the axes of the norm's scale only.
    - The norm has no other reader, unless ``other`` becomes its first scale.
    - If ``other`` is a second scale, the numbers of both scales are moderate, and the dtype is not
      float16.
    """
    inner = normed.node()
    affine_axes = [i for i, a in enumerate(normed.axes) if a in _affine_axes(inner)]
    has_unit_scale = scalar(inner.inputs[1]) == 1
    is_unbiased = (
        len(inner.inputs) == _OPERANDS_WITHOUT_BIAS[inner.op] and inner.out.dtype == node.out.dtype
    )
    is_aligned = (
        normed.has_all_base_axes()
        and normed.has_no_broadcast_axes(node.out.shape)
        and other.varies_only_along(affine_axes)
    )
    # If a norm is multiplied by several scales, a separate norm is emitted for each of them. This
    # is faster than one norm whose result is scaled and shifted several times.
    is_sole_use = context.single_use(normed.base) or (node.op is ops.mul and has_unit_scale)
    # Two scales are multiplied by each other first. In float16 their product may overflow even if
    # the result of multiplying by one after the other does not.
    keeps_range = has_unit_scale or node.op is ops.add or node.out.dtype.name != "float16"
    if not (is_unbiased and is_aligned and is_sole_use and keeps_range):
        return False
    moved = () if has_unit_scale or node.op is ops.add else (inner.inputs[1], other.base)
    return all(may_move(value, context, allow_zero=True) for value in moved)


def emit_affine(node: Node, affine: tuple[View, View], editor: Editor) -> Value:
    """Emit a norm that includes the scale or bias of ``node``, and return its result along the axes
    of ``node``.

    A bias becomes the norm's bias. A scale replaces the norm's scale if that is 1; otherwise the
    two are multiplied.

    Arguments:
        node: the product or sum of the norm's result and the scale or bias.
        affine: the views that ``match_affine`` returned for ``node``.
        editor: gets the new nodes.
    """
    normed, operand_view = affine
    inner = normed.node()
    x, scale, *biases = inner.inputs
    shape = tuple(inner.out.shape[a] for a in _affine_axes(inner))
    operand = emit_view(editor, operand_view, shape, inner.out.dtype)
    if node.op is ops.add:
        inputs = [x, scale, *biases, operand]
    else:
        has_unit_scale = scalar(scale) == 1
        for moved in () if has_unit_scale else (scale, operand_view.base):
            record_magnitude_fact(editor, moved, allow_zero=True)
        inputs = [x, operand if has_unit_scale else editor.binary(ops.mul, scale, operand), *biases]
    out = editor.add(inner.op, inputs, inner.out.shape, inner.out.dtype, inner.params)
    return emit_view(editor, view_of(out, normed.axes), node.out.shape)


AFFINE = recogniser_from("LayerNormalization", (ops.mul, ops.add), match_affine, emit_affine)
