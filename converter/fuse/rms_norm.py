"""RMSNorm [Zhang & Sennrich, arXiv:1910.07467]: ``x * rsqrt(mean(x^2) + eps) * scale``."""

from __future__ import annotations

from converter.fuse.layer_norm import epsilon_of, is_count, normalised, squared_sum, sum_of_mean
from converter.fuse.match import NearMiss, Product, Recogniser, View, operand, product
from converter.graph import Node, Value
from converter.graph.rewrite import Editor


def _rms_norm(node: Node, editor: Editor, notes: list[NearMiss]) -> Value | None:
    root = View(node.out, tuple(range(node.out.rank)))
    parts = product(root, editor)
    inverse = parts.pop(lambda f: f.op() == "rsqrt")
    if inverse is None and len(parts.divisors) == 1 and parts.divisors[0].op() == "sqrt":
        inverse = parts.divisors.pop()
    if inverse is None or parts.divisors:
        return None
    found = epsilon_of(operand(inverse, 0))
    total = None if found is None else sum_of_mean(found[0], editor)
    squares = None if total is None else squared_sum(total[0])
    if found is None or total is None or squares is None:
        return None
    if _is_centred(squares, parts):
        notes.append(NearMiss("RMSNormalization", "the mean is taken off what is squared only"))
    x = parts.pop(lambda f: f.base is squares.base)
    axes = None if x is None else _summed(squares, x)
    if x is None or not axes or not is_count(total[1], x, axes) or not x.complete():
        return None
    return normalised(editor, node, "rms_norm", x, axes, found[1], parts)


def _is_centred(squares: View, parts: Product) -> bool:
    """``x * rsqrt(var(x) + eps)``: a variance, as of LayerNorm, but x itself is not centred."""
    bases = [f.base for f in parts.factors]
    return squares.op() == "sub" and len(bases) == 1 and operand(squares, 0).base is bases[0]


def _summed(squares: View, x: View) -> tuple[int, ...] | None:
    """The logical axes of ``x`` that the sum of squares runs over."""
    rank = len(x.axes)
    axes = tuple(i for i in range(rank) if squares.axes[i] is None and x.axes[i] is not None)
    kept = all(squares.axes[i] == x.axes[i] for i in range(rank) if i not in axes)
    gone = {a for a in squares.axes[rank:] if a is not None}
    return axes if kept and gone == {x.axes[i] for i in axes} else None


RMS_NORM = Recogniser(("mul", "div"), _rms_norm)
