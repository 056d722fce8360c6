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
- as the product of ``[[cos, -sin], [sin, cos]]`` with pairs of elements (``matrices``).
"""

from dataclasses import dataclass

from converter.fuse.match import NearMiss, Recogniser, Uses, proved
from converter.fuse.rotary.half_turn import prove_half_turn
from converter.fuse.rotary.matrices import PairRotation, build_matrices, prove_matrices
from converter.fuse.rotary.pairs import Rotations, emit_parts, prove_pair, prove_parts
from converter.fuse.rotary.rotation import SIGNS, ProvedRotation, emit_rotation
from converter.fuse.rotary.unnamed import rotary_like
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import along
from converter.ir.moves import above
from converter.ir.rewrite import Editor


@dataclass(frozen=True)
class RotaryEvidence:
    """The evidence of a rotary embedding in one of its three forms.

    It is a rotation, rotations of parts of a concatenation, or a rotation of pairs by matrices.
    """

    evidence: ProvedRotation | Rotations | PairRotation


def prove_rotary(node: Node, uses: Uses) -> RotaryEvidence | str | None:
    """Match a rotary embedding in any of its forms.

    ``node`` is the last operation: a sum, a product, a concatenation, or a reshape of one. Return
    the evidence, a text with the reason for a near miss, or None.
    """
    evidence = _match_forms(node, uses)
    return evidence if evidence is None or isinstance(evidence, str) else RotaryEvidence(evidence)


def _match_forms(node: Node, uses: Uses) -> ProvedRotation | Rotations | PairRotation | str | None:
    """Match the forms of a rotary embedding that end in the operation of ``node``."""
    if node.op in SIGNS:
        return prove_half_turn(node, uses) or prove_matrices(node, uses)
    if node.op in (ops.einsum, ops.reduce_sum):
        return prove_matrices(node, uses)
    if node.op is ops.concatenate and len(node.inputs) > 2:
        return prove_parts(node, uses)
    return prove_pair(node, uses)


def build_rotary(node: Node, rotary: RotaryEvidence, editor: Editor) -> Value:
    """Emit the rotary embedding for the evidence, and return its result in the shape of
    ``node``."""
    evidence = rotary.evidence
    if isinstance(evidence, PairRotation):
        return build_matrices(node, evidence, editor)
    if isinstance(evidence, dict):
        return emit_parts(node, evidence, editor)
    return editor.reshape(emit_rotation(evidence, node.out.dtype, editor), node.out.shape)


ROTARY = proved(
    "RotaryEmbedding",
    (ops.add, ops.sub, ops.concatenate, ops.reshape, ops.einsum, ops.reduce_sum),
    prove_rotary,
    build_rotary,
    rotary_like,
)


# ---------------------------------------------------------------------------------------- prefixes


def _match_prefix(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    """Rewrite ``concatenate([x[:n], rotary(x[n:])])`` along the positions as a rotation of ``x``.

    The tables get n rows with cos = 1 and sin = 0, so that the first n positions, such as class
    tokens, are not rotated. ``node`` is the concatenation. Return None for other concatenations.
    """
    if len(node.inputs) != 2:
        return None
    seq = node.params["dimension"]
    head, tail = node.inputs
    rotary = tail.node
    if rotary is None or rotary.op is not ops.rotary or rotary.params["positions"][-1] != seq:
        return None
    prefix, rotated = above(along(head)), above(along(rotary.inputs[0]))
    if prefix is None or not dims.same_shape(prefix.base.shape, node.out.shape):
        return None
    source, count = along(prefix.base), head.shape[seq]
    cuts = source.cut(seq, 0, count), source.cut(seq, count, tail.shape[seq])
    if (prefix, rotated) != cuts or not editor.single_use(tail) or not dims.is_static(count):
        return None
    tables = [
        editor.concatenate([_constant_rows(editor, table, count, fill), table], table.rank - 2)
        for table, fill in zip(rotary.inputs[1:], (1, 0), strict=True)
    ]
    params = {**rotary.params, "prefix": True}
    return editor.add(ops.rotary, [prefix.base, *tables], node.out.shape, node.out.dtype, params)


def _constant_rows(editor: Editor, table: Value, count: int, fill: int) -> Value:
    """Emit ``count`` further rows for a table, filled with the number ``fill``."""
    return editor.broadcast(
        const(fill, table.dtype), (*table.shape[:-2], count, table.shape[-1]), ()
    )


PREFIX = Recogniser((ops.concatenate,), _match_prefix)
