"""Rules for what stands beside the recogniser: keys that were repeated, scores that are lowered."""

from __future__ import annotations

from converter.fuse.attention.masks import VANISHING
from converter.fuse.match import unrepeated, whole
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import View
from converter.ir.moves import write
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar


def share(node: Node, editor: Editor) -> Value | None:
    """Attention on keys and values as they were before each was repeated for every head of a group
    [Ainslie et al., arXiv:2305.13245].

        attention(q, repeat(k, n, heads), repeat(v, n, heads)) = attention(q, k, v)

    where the right side has ``n`` heads of queries to each of keys and values.
    """
    query, *repeated = node.inputs[:3]
    views = [_once(value) for value in repeated]
    fewer = [view for view in views if view is not None]
    counts = {_heads(view) for view in fewer}
    if len(fewer) < 2 or len(counts) > 1 or counts == {node.params["kv_heads"]}:
        return None
    count = counts.pop()
    once = [
        write(editor, view, (v.shape[0], count, *v.shape[2:]), v.dtype)
        for view, v in zip(fewer, repeated, strict=True)
    ]
    return editor.like(node, [query, *once, *node.inputs[3:]], kv_heads=count)


def _once(value: Value) -> View | None:
    """What is [batch, heads, positions, width] with the fewest heads."""
    view = whole(value)
    if view.axes[1] is None:
        return view
    found = unrepeated(view)
    return found[0].take((0, 1, 3, 4)) if found is not None and found[1] == 1 else None


def _heads(view: View) -> dims.Dim:
    return 1 if view.axes[1] is None else view.base.shape[view.axes[1]]


def as_term(node: Node, editor: Editor) -> Value | None:
    """Scores that are lowered where they are hidden, as a term that is added.

        where(hidden, x - c, x)  =  x - where(hidden, c, 0)

    for large ``c``. Keras' ``Attention`` layer writes the left side.
    """
    which, *cases = node.inputs
    for i, (lowered, x) in enumerate((cases, cases[::-1]) if len(cases) == 2 else ()):
        less = lowered.made_by(ops.sub)
        if less is None or less.inputs[0] is not x:
            continue
        number = scalar(less.inputs[1])
        if number is not None and number >= -VANISHING:
            numbers = [const(number if j == i else 0, x.dtype) for j in (0, 1)]
            seen = whole(which)
            small = write(editor, seen, seen.bare(which.shape))
            term = editor.add(ops.select_n, [small, *numbers], small.shape, x.dtype)
            return editor.binary(ops.sub, x, term)
    return None
