"""What the recognisers share: how one is made, logical axes.

A recogniser *proves, then builds*: ``prove`` reads the graph and returns evidence, a frozen record
of all that the fused node takes, or the reason why there is none; ``build`` writes what the
evidence says. Nothing is written before everything is proved.

A matcher numbers the axes of its root node; those are the *logical axes*. A ``View`` is a value
seen along them, whatever transposes, broadcasts and size-one reshapes lie between, so that
``vmap``, einsum's operand order and memory layouts all look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import jax.numpy as jnp
import numpy as np

from converter.graph import Node, Value, dims, ops
from converter.graph.dims import Shape
from converter.graph.op import Op
from converter.graph.rewrite import Editor, Rule


@dataclass(frozen=True)
class NearMiss:
    """A structure that was left decomposed, and why."""

    pattern: str
    reason: str


Found: TypeAlias = "Sequence[Value] | Value"
Match: TypeAlias = Callable[[Node, Editor, list[NearMiss]], "Found | None"]


@dataclass(frozen=True)
class Recogniser:
    """``match`` is tried on every node whose operation is one of ``roots``."""

    roots: tuple[Op, ...]
    match: Match


E = TypeVar("E")


class Uses(Protocol):
    """What a proof may ask about a graph besides reading it."""

    def single_use(self, value: Value) -> bool:
        """Whether nobody but one operand of one node reads the value."""


def proved(
    pattern: str,
    roots: tuple[Op, ...],
    prove: Callable[[Node, Uses], E | str | None],
    build: Callable[[Node, E, Editor], Found],
) -> Recogniser:
    """A recogniser: ``prove`` gives evidence, why there is nearly some, or ``None``."""

    def match(node: Node, editor: Editor, notes: list[NearMiss]) -> Found | None:
        evidence = prove(node, editor)
        if isinstance(evidence, str):
            notes.append(NearMiss(pattern, evidence))
            return None
        return None if evidence is None else build(node, evidence, editor)

    return Recogniser(roots, match)


def rules(recognisers: Sequence[Recogniser], notes: list[NearMiss]) -> dict[Op, Rule]:
    """The recognisers as rules of one sweep; of several with one root the first to match wins."""
    table: dict[Op, list[Match]] = {}
    for recogniser in recognisers:
        for op in recogniser.roots:
            table.setdefault(op, []).append(recogniser.match)
    return {op: _first(matches, notes) for op, matches in table.items()}


def _first(matches: list[Match], notes: list[NearMiss]) -> Rule:
    def rule(node: Node, editor: Editor) -> Found | None:
        found = (match(node, editor, notes) for match in matches)
        return next((value for value in found if value is not None), None)

    return rule


@dataclass(frozen=True)
class View:
    """``base`` seen along logical axes: logical axis i is its axis ``axes[i]``, or none of them."""

    base: Value
    axes: tuple[int | None, ...]

    def op(self) -> Op | None:
        return self.base.node.op if self.base.node is not None else None

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


def pair(view: View) -> tuple[tuple[View, View], tuple[View, View]]:
    """The two operands of an elementwise node, in both orders."""
    left, right = operands(view)
    return (left, right), (right, left)


def peel(view: View, *, rounding: bool = False) -> View:
    """Look through transposes, broadcasts, reshapes by ones and conversions to a wider float.

    With ``rounding`` through conversions to a narrower float too: for intermediate results, whose
    precision the fused operator chooses anyway.
    """
    while (node := view.base.node) is not None and node.op in _PEEL:
        if node.op is ops.convert_element_type and not (rounding or _widens(node)):
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
    return through_ones(node.inputs[0].shape, node.out.shape)


def through_ones(source: Shape, target: Shape) -> list[int | None] | None:
    """The axis of ``source`` that each of ``target`` is, if they differ in axes of one only."""
    real = [a for a, d in enumerate(source) if not dims.same(d, 1)]
    kept = [a for a, d in enumerate(target) if not dims.same(d, 1)]
    if not dims.same_shape([source[a] for a in real], [target[a] for a in kept]):
        return None
    return [real[kept.index(a)] if a in kept else None for a in range(len(target))]


def _through_convert(node: Node) -> list[int | None] | None:
    return list(range(node.out.rank)) if converts_float(node) else None


def converts_float(node: Node) -> bool:
    """From one float to another, of which a result may be rounded: fewer bits are a quantisation,
    whose steps are meant."""
    source, target = node.inputs[0].dtype, node.out.dtype
    floats = all(jnp.issubdtype(d, jnp.floating) for d in (source, target))
    return floats and (target.itemsize > 1 or _widens(node))


def _widens(node: Node) -> bool:
    return node.inputs[0].dtype.itemsize < node.out.dtype.itemsize


_PEEL: dict[Op, Callable[[Node], list[int | None] | None]] = {
    ops.convert_element_type: _through_convert,
    ops.transpose: _through_transpose,
    ops.broadcast_in_dim: _through_broadcast,
    ops.reshape: _through_reshape,
}


def materialise(editor: Editor, view: View, shape: Shape, dtype: np.dtype | None = None) -> Value:
    """A value of the given shape along the logical axes: 1 where ``shape`` says 1.

    Only axes of ``shape`` that are not one, and that the view lacks, are broadcast. The view's own
    dtype is kept unless another is asked for.
    """
    base = editor.convert(view.base, dtype or view.base.dtype)
    present = [i for i, a in enumerate(view.axes) if a is not None and not dims.same(shape[i], 1)]
    order = [a for i in present if (a := view.axes[i]) is not None]
    kept = sorted(order)
    split, turned = tuple(base.shape[a] for a in kept), [kept.index(a) for a in order]
    bare = tuple(base.shape[a] for a in order)
    if dims.same_shape(bare, [d for d in shape if not dims.same(d, 1)]):
        return editor.rearrange(base, split, turned, shape)
    return editor.broadcast(editor.rearrange(base, split, turned, bare), shape, present)
