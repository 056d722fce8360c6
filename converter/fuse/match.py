"""What the recognisers share: logical axes, products, reductions.

A matcher numbers the axes of its root node; those are the *logical axes*. A ``View`` is a value
seen along them, whatever transposes, broadcasts and size-one reshapes lie between, so that
``vmap``, einsum's operand order and memory layouts all look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from converter.graph import Node, Value, dims
from converter.graph.constants import scalar
from converter.graph.dims import Shape
from converter.graph.rewrite import Editor, Rule


@dataclass(frozen=True)
class NearMiss:
    """A structure that was left decomposed, and why."""

    pattern: str
    reason: str


Match: TypeAlias = Callable[[Node, Editor, list[NearMiss]], "Value | None"]


@dataclass(frozen=True)
class Recogniser:
    """``match`` is tried on every node whose operation is one of ``roots``."""

    roots: tuple[str, ...]
    match: Match


def rules(recognisers: Sequence[Recogniser], notes: list[NearMiss]) -> dict[str, Rule]:
    """The recognisers as rules of one sweep; of several with one root the first to match wins."""
    table: dict[str, list[Match]] = {}
    for recogniser in recognisers:
        for op in recogniser.roots:
            table.setdefault(op, []).append(recogniser.match)
    return {op: _first(matches, notes) for op, matches in table.items()}


def _first(matches: list[Match], notes: list[NearMiss]) -> Rule:
    def rule(node: Node, editor: Editor) -> Value | None:
        found = (match(node, editor, notes) for match in matches)
        return next((value for value in found if value is not None), None)

    return rule


@dataclass(frozen=True)
class View:
    """``base`` seen along logical axes: logical axis i is its axis ``axes[i]``, or none of them."""

    base: Value
    axes: tuple[int | None, ...]

    def op(self) -> str:
        return self.base.node.op if self.base.node is not None else ""

    def node(self) -> Node:
        assert self.base.node is not None
        return self.base.node

    def covers(self, logical: Sequence[int]) -> bool:
        """True where the value varies along the given logical axes only."""
        return all(a is None or i in logical for i, a in enumerate(self.axes))

    def complete(self) -> bool:
        """True where every axis of the base (longer than one) is one of the logical axes."""
        real = {a for a, d in enumerate(self.base.shape) if not dims.same(d, 1)}
        return real <= set(self.axes)

    def fills(self, shape: Shape) -> bool:
        """True where the value is not broadcast along any logical axis of that shape."""
        return all(a is not None or dims.same(d, 1) for a, d in zip(self.axes, shape, strict=True))


def whole(value: Value) -> View:
    """A value along its own axes, layout operations peeled off."""
    return peel(View(value, tuple(range(value.rank))))


def operand(view: View, index: int, *, rounding: bool = False) -> View:
    """Operand ``index`` of the elementwise node that makes ``view.base``, along the same axes."""
    value = view.node().inputs[index]
    shift = view.base.rank - value.rank
    axes = tuple(None if a is None or a < shift else a - shift for a in view.axes)
    return peel(View(value, axes), rounding=rounding)


def operands(view: View) -> list[View]:
    return [operand(view, i) for i in range(len(view.node().inputs))]


def peel(view: View, *, rounding: bool = False) -> View:
    """Look through transposes, broadcasts, reshapes by ones and conversions to a wider float.

    With ``rounding`` through conversions to a narrower float too: for intermediate results, whose
    precision the fused operator chooses anyway.
    """
    while (node := view.base.node) is not None and node.op in _PEEL:
        if node.op == "convert_element_type" and not (rounding or _widens(node)):
            break
        axis_map = _PEEL[node.op](node)
        if axis_map is None:
            break
        view = View(node.inputs[0], tuple(None if a is None else axis_map[a] for a in view.axes))
    shape = view.base.shape
    return View(
        view.base, tuple(None if a is None or dims.same(shape[a], 1) else a for a in view.axes)
    )


def _through_transpose(node: Node) -> list[int | None]:
    return list(node.params["permutation"])


def _through_broadcast(node: Node) -> list[int | None]:
    axes = list(node.params["broadcast_dimensions"])
    shape = node.inputs[0].shape
    return [
        axes.index(a) if a in axes and dims.same(shape[axes.index(a)], size) else None
        for a, size in enumerate(node.out.shape)
    ]


def _through_reshape(node: Node) -> list[int | None] | None:
    source, target = node.inputs[0].shape, node.out.shape
    real = [a for a, d in enumerate(source) if not dims.same(d, 1)]
    kept = [a for a, d in enumerate(target) if not dims.same(d, 1)]
    if not dims.same_shape([source[a] for a in real], [target[a] for a in kept]):
        return None
    return [real[kept.index(a)] if a in kept else None for a in range(len(target))]


def _through_convert(node: Node) -> list[int | None] | None:
    floats = all(jnp.issubdtype(v.dtype, jnp.floating) for v in (node.inputs[0], node.out))
    return list(range(node.out.rank)) if floats else None


def _widens(node: Node) -> bool:
    return node.inputs[0].dtype.itemsize < node.out.dtype.itemsize


_PEEL: dict[str, Callable[[Node], list[int | None] | None]] = {
    "convert_element_type": _through_convert,
    "transpose": _through_transpose,
    "broadcast_in_dim": _through_broadcast,
    "reshape": _through_reshape,
}


def materialise(editor: Editor, view: View, shape: Shape, dtype: np.dtype | None = None) -> Value:
    """A value of the given shape along the logical axes: 1 where ``shape`` says 1.

    Only axes of ``shape`` that are not one, and that the view lacks, are broadcast. The view's own
    dtype is kept unless another is asked for.
    """
    present = [i for i, a in enumerate(view.axes) if a is not None and not dims.same(shape[i], 1)]
    order = [a for i in present if (a := view.axes[i]) is not None]
    kept = sorted(order)
    bare = editor.reshape(view.base, tuple(view.base.shape[a] for a in kept))
    turned = editor.transpose(bare, [kept.index(a) for a in order])
    return editor.broadcast(editor.convert(turned, dtype or turned.dtype), shape, present)


# ------------------------------------------------------------------------------------ reductions


def reduction(part: View, of: View, op: str) -> tuple[int, ...] | None:
    """The logical axes over which ``part`` is ``op`` of ``of``, or ``None`` if it is not."""
    inner = reduced(part, op)
    inner = None if inner is None else peel(inner)
    rank = len(part.axes)
    if inner is None or inner.base is not of.base:
        return None
    axes = [i for i in range(rank) if inner.axes[i] is None and of.axes[i] is not None]
    others = all(inner.axes[i] == of.axes[i] for i in range(rank) if i not in axes)
    gone = {a for a in inner.axes[rank:] if a is not None}
    return tuple(axes) if others and gone == {of.axes[i] for i in axes} else None


def reduced(part: View, op: str) -> View | None:
    """What ``part`` is the ``op`` of, along the logical axes (``None`` at the reduced ones).

    The axes that are reduced away are appended, in the order of the reduction's parameters.
    """
    part = peel(part, rounding=True)  # sums of halves are taken in float32 and rounded
    if part.op() != op:
        return None
    node = part.node()
    lost = tuple(node.params["axes"])
    kept = [a for a in range(node.inputs[0].rank) if a not in lost]
    return View(node.inputs[0], (*(None if a is None else kept[a] for a in part.axes), *lost))


# -------------------------------------------------------------------------------------- products


@dataclass
class Product:
    """``coefficient * prod(factors) / prod(divisors)``, all along the same logical axes."""

    coefficient: float = 1.0
    factors: list[View] = field(default_factory=list)
    divisors: list[View] = field(default_factory=list)

    def pop(self, test: Callable[[View], bool]) -> View | None:
        """Take out the only factor that passes ``test``."""
        found = [f for f in self.factors if test(f)]
        if len(found) != 1:
            return None
        self.factors.remove(found[0])
        return found[0]


def product(view: View, editor: Editor, *, powers: bool = False, rounding: bool = False) -> Product:
    """Flatten multiplications, divisions, negations and numbers.

    Only what nobody else reads is flattened, the root apart; ``powers`` also writes squares and
    small integer powers as repeated factors, shared or not; ``rounding`` is ``peel``'s.
    """
    result = Product()
    start = peel(view, rounding=True) if rounding else view
    _collect(start, editor, result, divide=False, root=True, powers=powers, rounding=rounding)
    return result


def _collect(
    view: View,
    editor: Editor,
    into: Product,
    *,
    divide: bool,
    root: bool,
    powers: bool,
    rounding: bool,
) -> None:
    number = scalar(view.base)
    if number is not None and not isinstance(number, bool):
        into.coefficient *= 1 / number if divide and number else number
        return
    op = view.op()
    open_ = root or editor.single_use(view.base)

    def go(index: int, flip: bool = False) -> None:
        inner = operand(view, index, rounding=rounding)
        _collect(
            inner,
            editor,
            into,
            divide=divide != flip,
            root=False,
            powers=powers,
            rounding=rounding,
        )

    if op == "mul" and open_:
        go(0)
        go(1)
    elif op == "div" and open_:
        go(0)
        go(1, flip=True)
    elif op == "neg" and open_:
        into.coefficient *= -1
        go(0)
    elif powers and op in ("square", "integer_pow") and not divide:
        times = 2 if op == "square" else view.node().params["y"]
        for _ in range(times if 0 < times < 5 else 0):
            go(0)
        if not 0 < times < 5:
            into.factors.append(view)
    else:
        (into.divisors if divide else into.factors).append(view)


def close(number: float | None, target: float, dtype: np.dtype) -> bool:
    """Equal up to the rounding of a constant in ``dtype``."""
    if number is None:
        return False
    digits = {"float16": 2e-3, "bfloat16": 1e-2}.get(dtype.name, 1e-6)
    return abs(number - target) <= digits * abs(target)
