"""Keys and values that were repeated for every head of a group [Ainslie et al., arXiv:2305.13245].

    attention(q, repeat(k, n, heads), repeat(v, n, heads)) = attention(q, k, v)

where the right side has ``n`` heads of queries to each of keys and values.
"""

from __future__ import annotations

from converter.fuse.match import unrepeated, whole
from converter.ir import Node, Value, dims
from converter.ir.axes import View
from converter.ir.moves import write
from converter.ir.rewrite import Editor


def share(node: Node, editor: Editor) -> Value | None:
    """Attention on the heads of keys and values as they were before they were repeated."""
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
