"""``einsum``, a contraction by axis labels, for ``dot_general``; transposes of it are labels."""

from __future__ import annotations

from typing import Any

from converter.canonicalize.zero_size import over_nothing
from converter.ir import Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, inverse_order


def _dot_general(node: Node, editor: Editor) -> Value:
    """Batch axes, then the free ones of the left operand, then those of the right."""
    if (nothing := over_nothing(node, editor)) is not None:
        return nothing
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = node.params["dimension_numbers"]
    x, y = node.inputs
    lhs = list(range(x.rank))
    rhs = [x.rank + i for i in range(y.rank)]
    for i, j in zip((*lhs_sum, *lhs_batch), (*rhs_sum, *rhs_batch), strict=True):
        rhs[j] = lhs[i]
    shared = {lhs[i] for i in (*lhs_sum, *lhs_batch)}
    out = [lhs[i] for i in lhs_batch] + [a for a in (*lhs, *rhs) if a not in shared]
    params = {"lhs": lhs, "rhs": rhs, "out": out, "dtype": node.out.dtype}
    params["precision"] = node.params.get("precision")
    return editor.add(ops.einsum, [x, y], node.out.shape, node.out.dtype, params)


def _einsum(node: Node, editor: Editor) -> Value | None:
    """Transposed operands are operands with other labels; broadcast ones have fewer."""
    labels = [node.params["lhs"], node.params["rhs"]]
    inputs = list(node.inputs)
    for side in (0, 1):
        if inner := inputs[side].made_by(ops.transpose):
            back = inverse_order(inner.params["permutation"])
            labels[side] = [labels[side][i] for i in back]
            inputs[side] = inner.inputs[0]
        elif inner := inputs[side].made_by(ops.broadcast_in_dim):
            left = _unbroadcast(inner, labels[side], labels[1 - side], node.params["out"])
            if left is not None:
                labels[side], inputs[side] = left, inner.inputs[0]
    if inputs == node.inputs:
        return None
    kept = {**node.params, "lhs": labels[0], "rhs": labels[1]}
    return editor.add(ops.einsum, inputs, node.out.shape, node.out.dtype, kept)


def _unbroadcast(inner: Node, own: Any, other: Any, out: Any) -> list[Any] | None:
    """The labels left to a broadcast operand, if the other operand has the ones it loses."""
    axes, source = inner.params["broadcast_dimensions"], inner.inputs[0]
    if not all(dims.same(source.shape[i], inner.out.shape[a]) for i, a in enumerate(axes)):
        return None
    lost = [own[a] for a in range(inner.out.rank) if a not in axes]
    return [own[a] for a in axes] if all(a in other and a in out for a in lost) else None


RULES: dict[Op, Rule] = {ops.dot_general: _dot_general, ops.einsum: _einsum}
