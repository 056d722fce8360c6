"""Scores that are lowered where they are hidden, as a term that is added.

    where(hidden, x - c, x)  =  x - where(hidden, c, 0)

for large ``c``. Keras' ``Attention`` layer writes the left side.
"""

from __future__ import annotations

from converter.fuse.attention.masks import VANISHING
from converter.fuse.match import whole
from converter.ir import Node, Value, const, ops
from converter.ir.moves import write
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar


def as_term(node: Node, editor: Editor) -> Value | None:
    which, *cases = node.inputs
    for i, (lowered, x) in enumerate((cases, cases[::-1]) if len(cases) == 2 else ()):
        if (
            lowered.node is None
            or lowered.node.op is not ops.sub
            or lowered.node.inputs[0] is not x
        ):
            continue
        number = scalar(lowered.node.inputs[1])
        if number is not None and number >= -VANISHING:
            numbers = [const(number if j == i else 0, x.dtype) for j in (0, 1)]
            seen = whole(which)
            small = write(editor, seen, seen.bare(which.shape))
            term = editor.add(ops.select_n, [small, *numbers], small.shape, x.dtype)
            return editor.binary(ops.sub, x, term)
    return None
