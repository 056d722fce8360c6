"""``einsum`` by axis labels becomes a matrix product with as few transposes as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from converter import dims
from converter.graph import Node, Value
from converter.rewrite import Editor, Rule


@dataclass(frozen=True)
class Labels:
    """The parts that the labels play: in all three, summed, left only, right only."""

    batch: list[int]
    summed: list[int]
    left: list[int]
    right: list[int]

    def out(self) -> list[int]:
        return [*self.batch, *self.left, *self.right]


def rule(fixed: set[int]) -> Rule:
    """The rule, told which values (by id) are weights: transposing those costs nothing."""

    def contract(node: Node, editor: Editor) -> Value:
        lhs, rhs, out = (list(node.params[k]) for k in ("lhs", "rhs", "out"))
        x, y = (editor.convert(v, node.out.dtype) for v in node.inputs)
        straight, turned = _cost(x, lhs, y, rhs, out, fixed), _cost(y, rhs, x, lhs, out, fixed)
        if straight <= turned:
            return _emit(editor, x, lhs, y, rhs, out)
        return _emit(editor, y, rhs, x, lhs, out)

    return contract


def _labels(lhs: list[int], rhs: list[int], out: list[int]) -> Labels:
    return Labels(
        batch=[a for a in out if a in lhs and a in rhs],
        summed=[a for a in lhs if a in rhs and a not in out],
        left=[a for a in out if a in lhs and a not in rhs],
        right=[a for a in out if a in rhs and a not in lhs],
    )


def _cost(
    x: Value, lhs: list[int], y: Value, rhs: list[int], out: list[int], fixed: set[int]
) -> int:
    """Transposes of activations that this order of operands needs."""
    parts = _labels(lhs, rhs, out)
    cost = int(parts.out() != out)
    cost += int(id(x) not in fixed and lhs != [*parts.batch, *parts.left, *parts.summed])
    cost += int(id(y) not in fixed and rhs != [*parts.batch, *parts.summed, *parts.right])
    return cost


def _emit(
    editor: Editor,
    x: Value,
    lhs: list[int],
    y: Value,
    rhs: list[int],
    out: list[int],
) -> Value:
    parts = _labels(lhs, rhs, out)
    sizes = {**dict(zip(lhs, x.shape, strict=True)), **dict(zip(rhs, y.shape, strict=True))}
    if not parts.summed:
        result = _outer(editor, x, lhs, y, rhs, parts, sizes)
    else:
        result = _matmul(editor, x, lhs, y, rhs, parts, sizes)
    spread = editor.reshape(result, tuple(sizes[a] for a in parts.out()))
    return editor.transpose(spread, [parts.out().index(a) for a in out])


def _matmul(
    editor: Editor,
    x: Value,
    lhs: list[int],
    y: Value,
    rhs: list[int],
    parts: Labels,
    sizes: dict[int, dims.Dim],
) -> Value:
    """[batch…, left, summed] @ [batch…, summed, right]; without batch, left stays unmerged."""
    keep_left = not parts.batch
    batch = [[a] for a in parts.batch]
    left = [[a] for a in parts.left] if keep_left else [parts.left]
    right = [parts.right] if parts.right or parts.batch else []
    a = _arranged(editor, x, lhs, [*batch, *left, parts.summed], sizes)
    b = _arranged(editor, y, rhs, [*batch, parts.summed, *right], sizes)
    shape = tuple(dims.product([sizes[i] for i in group]) for group in [*batch, *left, *right])
    return editor.add("matmul", [a, b], shape, a.dtype)


def _outer(
    editor: Editor,
    x: Value,
    lhs: list[int],
    y: Value,
    rhs: list[int],
    parts: Labels,
    sizes: dict[int, dims.Dim],
) -> Value:
    """Nothing is summed: a product of broadcast operands."""
    a = _arranged(editor, x, lhs, [[i] for i in [*parts.batch, *parts.left]], sizes)
    b = _arranged(editor, y, rhs, [[i] for i in [*parts.batch, *parts.right]], sizes)
    a = editor.reshape(a, (*a.shape, *(1 for _ in parts.right)))
    count = len(parts.batch)
    b = editor.reshape(b, (*b.shape[:count], *(1 for _ in parts.left), *b.shape[count:]))
    return editor.binary("mul", a, b)


def _arranged(
    editor: Editor,
    value: Value,
    labels: list[int],
    groups: Sequence[Sequence[int]],
    sizes: dict[int, dims.Dim],
) -> Value:
    order = [labels.index(a) for group in groups for a in group]
    turned = editor.transpose(value, order)
    return editor.reshape(
        turned, tuple(dims.product([sizes[a] for a in group]) for group in groups)
    )
