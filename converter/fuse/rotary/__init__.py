"""Rotary position embedding [Su et al., arXiv:2104.09864], half-split and interleaved.

    rotary(x, cos, sin) = join(a * cos - b * sin, b * cos + a * sin)
    rotary(x, cos, -sin) = join(a * cos + b * sin, b * cos - a * sin)

``a`` and ``b`` are the halves ``[:n]`` and ``[n:]`` of x along its width, or its even and odd
elements if the embedding is interleaved. The tables ``cos`` and ``sin`` [positions, n] depend on
one other axis, or on several: [batch, positions, n] if each sample has its own positions.

It is written in three ways:

- as the pair above, concatenated or interleaved, alone or among other parts (``pairs``);
- as ``x * cos + rotate(x) * sin``, where ``rotate`` joins ``-b`` and ``a``. The tables have the
  full width, and their halves have to be shown to be equal (``half_turn``);
- as the product of ``[[cos, -sin], [sin, cos]]`` with pairs of elements (``rotation_matrices``).
"""

from dataclasses import dataclass

from converter.fuse.match import MatchContext, NearMiss, Recogniser, recogniser_from
from converter.fuse.rotary.half_turn import match_rotate_half_form
from converter.fuse.rotary.pairs import Rotations, emit_parts, match_pair, match_parts
from converter.fuse.rotary.rotation import SIGNS, MatchedRotation, emit_rotation
from converter.fuse.rotary.rotation_matrices import (
    PairRotation,
    emit_pair_rotation,
    match_pair_rotation,
)
from converter.fuse.rotary.unnamed import find_rotary_look_alikes
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import view_of
from converter.ir.moves import view_of_operand
from converter.ir.rewrite import Editor


@dataclass(frozen=True)
class RotaryEvidence:
    """The evidence of a rotary embedding in one of its three forms.

    It is a rotation, rotations of parts of a concatenation, or a rotation of pairs by matrices.
    """

    evidence: MatchedRotation | Rotations | PairRotation


def match_rotary(node: Node, context: MatchContext) -> RotaryEvidence | str | None:
    """Match a rotary embedding in any of its forms.

    ``node`` is the last operation: a sum or difference, an einsum, a sum along an axis, a
    concatenation or a reshape. Return the evidence, a text with the reason for a near miss, or
    None.
    """
    evidence = _match_forms(node, context)
    return evidence if evidence is None or isinstance(evidence, str) else RotaryEvidence(evidence)


def _match_forms(
    node: Node, context: MatchContext
) -> MatchedRotation | Rotations | PairRotation | str | None:
    """Match the forms of a rotary embedding that end in the operation of ``node``.

    The result is as in `match_rotary`, without the `RotaryEvidence` around it.
    """
    if node.op in SIGNS:
        return match_rotate_half_form(node, context) or match_pair_rotation(node, context)
    if node.op in (ops.einsum, ops.reduce_sum):
        return match_pair_rotation(node, context)
    if node.op is ops.concatenate and len(node.inputs) > 2:
        return match_parts(node, context)
    return match_pair(node, context)


def emit_rotary_embedding(node: Node, rotary: RotaryEvidence, editor: Editor) -> Value:
    """Emit the rotary embedding for the evidence, and return its result in the shape of
    ``node``."""
    evidence = rotary.evidence
    if isinstance(evidence, PairRotation):
        return emit_pair_rotation(node, evidence, editor)
    if isinstance(evidence, dict):
        return emit_parts(node, evidence, editor)
    return editor.reshape(emit_rotation(evidence, node.out.dtype, editor), node.out.shape)


ROTARY = recogniser_from(
    "RotaryEmbedding",
    (ops.add, ops.sub, ops.concatenate, ops.reshape, ops.einsum, ops.reduce_sum),
    match_rotary,
    emit_rotary_embedding,
    find_rotary_look_alikes,
)


# ---------------------------------------------------------------------------------------- prefixes


def _match_prefix(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    """Rewrite ``concatenate([x[:n], rotary(x[n:])])`` along the positions as a rotation of ``x``.

    The tables get n rows with cos = 1 and sin = 0 before theirs, so that the first n positions,
    such as class tokens, are not rotated. ``node`` is the concatenation. Return None for other
    concatenations, if n is not static, or if another node reads ``rotary(x[n:])``.
    """
    if len(node.inputs) != 2:
        return None
    seq = node.params["dimension"]
    head, tail = node.inputs
    rotary = tail.node
    if rotary is None or rotary.op is not ops.rotary or rotary.params["positions"][-1] != seq:
        return None
    prefix, rotated = view_of_operand(view_of(head)), view_of_operand(view_of(rotary.inputs[0]))
    if prefix is None or not dims.is_same_shape(prefix.base.shape, node.out.shape):
        return None
    source, count = view_of(prefix.base), head.shape[seq]
    cuts = source.slice_axis(seq, 0, count), source.slice_axis(seq, count, tail.shape[seq])
    if (prefix, rotated) != cuts or not editor.single_use(tail) or not dims.is_static(count):
        return None
    tables = [
        editor.concatenate([_constant_rows(editor, table, count, fill), table], table.rank - 2)
        for table, fill in zip(rotary.inputs[1:], (1, 0), strict=True)
    ]
    params = {**rotary.params, "prefix": True}
    return editor.add(ops.rotary, [prefix.base, *tables], node.out.shape, node.out.dtype, params)


def _constant_rows(editor: Editor, table: Value, count: int, fill: int) -> Value:
    """Emit an array of ``count`` rows like those of a table, filled with the number ``fill``."""
    return editor.broadcast(
        const(fill, table.dtype), (*table.shape[:-2], count, table.shape[-1]), ()
    )


PREFIX = Recogniser((ops.concatenate,), _match_prefix)
