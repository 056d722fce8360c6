"""Scaled dot-product attention [Vaswani et al., arXiv:1706.03762] around a softmax.

The root is the second product. Its softmax operand is followed up, through scale, mask and bias, to
the first product. All axes are numbered as the softmax's own, so that any order of operands, heads
and batches is the same thing: an axis of queries and keys is a batch or head axis, one of queries
alone a position (or a group of heads that share their keys), the softmax's own the key position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from converter.fuse.match import (
    NearMiss,
    Recogniser,
    View,
    materialise,
    operand,
    operands,
    peel,
)
from converter.graph import Node, Value, const, dims
from converter.graph.constants import scalar
from converter.graph.dims import Dim
from converter.graph.rewrite import Editor


@dataclass
class Scores:
    """softmax's operand taken apart: ``scale * first_product + sum(terms)``."""

    product: View
    scale: float = 1.0
    terms: list[Term] = field(default_factory=list)


@dataclass(frozen=True)
class Term:
    """``coefficient * value`` added, or ``fill`` where the boolean ``value`` is ``hidden``."""

    view: View
    coefficient: float = 1.0
    fill: float | None = None
    hidden: bool = False


def _attention(node: Node, editor: Editor, notes: list[NearMiss]) -> Value | None:
    for side in (0, 1):
        weights = peel(_identity(node.inputs[side]))
        while weights.op() == "convert_element_type":
            weights = operand(weights, 0)
        if weights.op() == "softmax":
            result = _match(node, side, weights, editor)
            if isinstance(result, Value):
                return result
            notes.append(NearMiss("Attention", result))
    return None


def _identity(value: Value) -> View:
    return View(value, tuple(range(value.rank)))


def _match(node: Node, side: int, weights: View, editor: Editor) -> Value | str:
    """The fused value, or the reason why there is none."""
    softmax = weights.node()
    between = node.inputs[side]
    if not editor.single_use(weights.base) or not editor.single_use(between):
        return "the weights of the softmax are used elsewhere"
    scores = _take_apart(softmax.inputs[0], editor)
    if isinstance(scores, str):
        return scores
    plan = _plan(node, side, weights, scores, editor)
    if isinstance(plan, str):
        return plan
    mask = _masks(scores, plan, editor)
    return mask if isinstance(mask, str) else _emit(node, editor, scores, plan, mask)


# --------------------------------------------------------------------------------------- scores


def _take_apart(logits: Value, editor: Editor) -> Scores | str:
    view, scale, terms = peel(_identity(logits)), 1.0, list[Term]()
    while view.op() != "einsum":
        if view.op() not in _STEPS or not (editor.single_use(view.base) or view.base is logits):
            return f"between the first product and the softmax stands {view.op() or 'an input'}"
        step = _STEPS[view.op()](view, scale, terms)
        if step is None:
            return f"a {view.op()} between the first product and the softmax is not understood"
        view, scale = step
    if not editor.single_use(view.base):
        return "the scores are used elsewhere"
    return Scores(view, scale, terms)


def _step_mul(view: View, scale: float, terms: list[Term]) -> tuple[View, float] | None:
    left, right = operands(view)
    for number, other in ((scalar(left.base), right), (scalar(right.base), left)):
        if number is not None:
            return other, scale * float(number)
    return None


def _step_div(view: View, scale: float, terms: list[Term]) -> tuple[View, float] | None:
    left, right = operands(view)
    number = scalar(right.base)
    return (left, scale / float(number)) if number else None


def _step_add(view: View, scale: float, terms: list[Term]) -> tuple[View, float] | None:
    left, right = operands(view)
    for scores, term in ((left, right), (right, left)):
        if _leads_to_product(scores):
            terms.append(Term(term, scale))
            return scores, scale
    return None


def _step_select(view: View, scale: float, terms: list[Term]) -> tuple[View, float] | None:
    which, on_false, on_true = operands(view)
    for fill, other, hidden in ((on_false, on_true, False), (on_true, on_false, True)):
        number = scalar(fill.base)
        if number is not None:
            terms.append(Term(which, fill=scale * float(number), hidden=hidden))
            return other, scale
    return None


def _step_convert(view: View, scale: float, terms: list[Term]) -> tuple[View, float]:
    return operand(view, 0), scale


_STEPS = {
    "mul": _step_mul,
    "div": _step_div,
    "add": _step_add,
    "select_n": _step_select,
    "convert_element_type": _step_convert,
}


def _leads_to_product(view: View) -> bool:
    """Follow the one path that is not a number, a mask or a bias."""
    if view.op() == "einsum":
        return True
    return view.op() in _STEPS and any(_leads_to_product(v) for v in operands(view))


# ----------------------------------------------------------------------------------------- axes


@dataclass(frozen=True)
class Operand:
    """A value without axes of size one, and the number of each of its axes."""

    value: Value
    axes: list[int]


@dataclass(frozen=True)
class Plan:
    """Who plays which part. Numbers below ``len(shape)`` are the softmax's axes."""

    shape: tuple[Dim, ...]
    query: Operand
    key: Operand
    value: Operand
    out: list[int | None]  # per axis of the result; None for size one
    sizes: dict[int, Dim]
    outer: list[int]  # batch axes
    heads: list[int]  # the batch axis that counts as heads
    groups: list[int]  # query axes that are heads sharing keys and values
    rows: list[int]  # query positions
    columns: int  # key positions
    width: list[int]
    value_width: list[int]


def _unscaled(value: Value, editor: Editor) -> tuple[Value, float]:
    """Queries are often scaled before the product; the number joins the others."""
    node = value.node
    if node is None or not editor.single_use(value):
        return value, 1.0
    for index in {"mul": (0, 1), "div": (1,)}.get(node.op, ()):
        number, other = scalar(node.inputs[index]), node.inputs[1 - index]
        if number and dims.same_shape(other.shape, value.shape):
            return other, float(number) if node.op == "mul" else 1 / float(number)
    return value, 1.0


def _plan(node: Node, side: int, weights: View, scores: Scores, editor: Editor) -> Plan | str:
    shape = weights.base.shape
    columns = weights.node().params["axis"]
    first = scores.product.node()
    between = peel_to(node.inputs[side], weights.base)
    if between is None or not scores.product.fills(shape):
        return "the scores are broadcast between the two products"
    own, other = ("lhs", "rhs") if side == 0 else ("rhs", "lhs")
    numbers = _Numbers(len(shape))
    upper = {first.params["out"][a]: i for i, a in enumerate(scores.product.axes) if a is not None}
    lower = {label: i for label, i in zip(node.params[own], between, strict=True) if i is not None}
    (x, x_scale), (y, y_scale) = (_unscaled(v, editor) for v in first.inputs)
    left = numbers.operand(x, first.params["lhs"], upper)
    right = numbers.operand(y, first.params["rhs"], upper)
    scores.scale *= x_scale * y_scale
    value = numbers.operand(node.inputs[1 - side], node.params[other], lower)
    out = [
        None if dims.same(d, 1) else lower.get(label)
        for label, d in zip(node.params["out"], node.out.shape, strict=True)
    ]
    for query, key in ((left, right), (right, left)):
        if columns in key.axes and columns not in query.axes and columns in value.axes:
            return _roles(shape, query, key, value, out, numbers.sizes, columns)
    return "the softmax does not run over the positions of one operand"


def peel_to(value: Value, base: Value) -> list[int | None] | None:
    """The axis of ``base`` behind each axis of ``value``, layouts and conversions between them."""
    view = peel(_identity(value))
    while view.base is not base:
        if view.op() != "convert_element_type":
            return None
        view = operand(view, 0)
    lost = any(
        a is None and not dims.same(d, 1) for a, d in zip(view.axes, value.shape, strict=True)
    )
    return None if lost else list(view.axes)


class _Numbers:
    """Numbers for axes: the softmax's own first, then one for each further label."""

    def __init__(self, rank: int) -> None:
        self._next = rank
        self.sizes: dict[int, Dim] = {}

    def operand(self, value: Value, labels: list[int], known: dict[int, int]) -> Operand:
        axes: list[int] = []
        for label, size in zip(labels, value.shape, strict=True):
            if dims.same(size, 1):
                continue
            if label not in known:
                known[label] = self._next
                self._next += 1
            self.sizes[known[label]] = size
            axes.append(known[label])
        return Operand(value, axes)


def _roles(
    shape: tuple[Dim, ...],
    query: Operand,
    key: Operand,
    value: Operand,
    out: list[int | None],
    sizes: dict[int, Dim],
    columns: int,
) -> Plan | str:
    rank = len(shape)
    batch = [i for i in value.axes + key.axes if i < rank and i != columns]
    alone = [i for i in query.axes if i < rank and i not in batch]
    ordered = sorted(
        dict.fromkeys(batch), key=lambda i: query.axes.index(i) if i in query.axes else -1
    )
    width = [i for i in query.axes if i >= rank]
    value_width = [i for i in value.axes if i >= rank]
    if sorted(width) != sorted(i for i in key.axes if i >= rank):
        return "queries and keys do not share their width"
    static = [i for i in ordered if dims.is_static(sizes[i])]
    heads = static[-1:]
    groups = alone[:-1] if heads and dims.all_static(sizes[i] for i in alone[:-1]) else []
    return Plan(
        shape=shape,
        query=query,
        key=key,
        value=value,
        out=out,
        sizes=sizes,
        outer=[i for i in ordered if i not in heads],
        heads=heads,
        groups=groups,
        rows=[i for i in alone if i not in groups],
        columns=columns,
        width=width,
        value_width=value_width,
    )


# ---------------------------------------------------------------------------------------- masks


def _masks(scores: Scores, plan: Plan, editor: Editor) -> Value | str | None:
    """All terms as one additive mask [batch, heads, rows, columns], or why that is not the same."""
    hidden = [t for t in scores.terms if t.fill is not None]
    reason = _unsafe(hidden, scores.product.base.dtype, plan.columns)
    if reason:
        return reason
    if any(t.fill is None and _may_hide_a_row(t.view, plan.columns) for t in scores.terms):
        return "a row may be -inf throughout, where the fused operator does not give NaN"
    dtype = scores.product.base.dtype
    total: Value | None = None
    for term in scores.terms:
        value = editor.convert(_summand(term, dtype, plan, editor), dtype)
        total = value if total is None else editor.binary("add", total, value)
    return total


def _summand(term: Term, dtype: np.dtype, plan: Plan, editor: Editor) -> Value:
    """One term as a value whose shape broadcasts to the scores, in ONNX's four axes."""
    groups = (plan.outer, plan.heads + plan.groups, plan.rows, [plan.columns])
    spread: list[bool] = []
    for group in groups:
        varies = [i for i in group if term.view.axes[i] is not None]
        spread.append(bool(varies))
    axes = [i for group in groups for i in group]
    shape = tuple(
        plan.shape[i] if spread[g] else 1 for g, group in enumerate(groups) for i in group
    )
    flat = View(term.view.base, tuple(term.view.axes[i] for i in axes))
    value = materialise(editor, flat, shape)
    merged = [
        dims.product([plan.shape[i] for i in group]) if on else 1
        for group, on in zip(groups, spread, strict=True)
    ]
    value = editor.reshape(value, tuple(merged))
    if term.fill is not None:
        choices = [const(0, dtype), const(max(term.fill, float(jnp.finfo(dtype).min)), dtype)]
        shown, fill = choices
        pair = [shown, fill] if term.hidden else [fill, shown]
        return editor.add("select_n", [value, *pair], value.shape, dtype)
    if term.coefficient != 1:
        return editor.binary("mul", value, const(term.coefficient, value.dtype))
    return value


# Below this, ``fill + score`` rounds to ``fill`` in float32 for every score that is not absurd, so
# that a row that is masked throughout stays the same uniform average.
ABSORBING = -1e30
# Below this, exp(fill - highest score) is zero in float32.
VANISHING = -1e4


def _unsafe(hidden: list[Term], dtype: np.dtype, columns: int) -> str:
    """Why adding the fill value is not the same as putting it in place of the score."""
    if not hidden:
        return ""
    fills = [t.fill for t in hidden if t.fill is not None]
    if max(fills) > VANISHING:
        return f"the mask's fill value {max(fills):g} is not negative enough to vanish"
    wide = dtype.name != "float16" and len(hidden) == 1 and math.isfinite(fills[0])
    if wide and fills[0] < ABSORBING:
        return ""
    if len(hidden) == 1 and _no_row_is_empty(hidden[0], columns):
        return ""
    return (
        "a row of the mask may be masked throughout, where the fused operator differs from "
        f"filling with {', '.join(f'{f:g}' for f in fills)}"
    )


def _may_hide_a_row(view: View, columns: int) -> bool:
    """Whether something added to the scores is seen to be -inf, maybe in a whole row."""
    if view.base.kind == "const":
        rows = np.isneginf(np.asarray(view.base.const, np.float32))
        axis = view.axes[columns]
        return bool((rows if axis is None else rows.all(axis=axis)).any())
    if view.op() == "select_n":
        return any(scalar(v.base) == -math.inf for v in operands(view)[1:])
    return view.op() == "add" and any(_may_hide_a_row(v, columns) for v in operands(view))


def _no_row_is_empty(term: Term, columns: int) -> bool:
    """Known to leave something in every row."""
    array = term.view.base.const
    if array is None or term.view.base.kind != "const":
        return False
    shown = np.asarray(array, bool) != term.hidden
    axis = term.view.axes[columns]
    return bool((shown if axis is None else shown.any(axis=axis)).all())


# ------------------------------------------------------------------------------------- emitting


def _emit(
    node: Node, editor: Editor, scores: Scores, plan: Plan, mask: Value | None
) -> Value | str:
    if scores.scale <= 0:
        return f"the scale {scores.scale:g} is not positive"
    heads = plan.heads + plan.groups
    query = _arrange(editor, plan, plan.query, (plan.outer, heads, plan.rows, plan.width))
    key = _arrange(editor, plan, plan.key, (plan.outer, plan.heads, [plan.columns], plan.width))
    value = _arrange(
        editor, plan, plan.value, (plan.outer, plan.heads, [plan.columns], plan.value_width)
    )
    if not key.dtype == query.dtype == value.dtype == node.out.dtype:
        return "queries, keys, values and result differ in dtype"
    inputs = [query, key, value]
    if mask is not None:
        full = (*mask.shape[:2], query.shape[2], key.shape[2])  # the last two are not broadcast
        inputs.append(editor.broadcast(mask, full, (0, 1, 2, 3)))
    shape = (*query.shape[:3], value.shape[3])
    params = {
        "scale": scores.scale,
        "q_heads": query.shape[1],
        "kv_heads": key.shape[1],
        "precision": scores.product.base.dtype,
    }
    out = editor.add("attention", inputs, shape, node.out.dtype, params)
    order = [*plan.outer, *heads, *plan.rows, *plan.value_width]
    spread = editor.reshape(out, tuple(plan.sizes[i] for i in order))
    turned = editor.transpose(spread, [order.index(i) for i in plan.out if i is not None])
    return editor.reshape(turned, node.out.shape)


def _arrange(editor: Editor, plan: Plan, operand_: Operand, groups: tuple[list[int], ...]) -> Value:
    """An operand with one axis per group, batch axes that it lacks broadcast."""
    order = [i for group in groups for i in group]
    present = [i for i in order if i in operand_.axes]
    bare = tuple(plan.sizes[i] for i in operand_.axes)
    value = editor.reshape(operand_.value, bare)
    value = editor.transpose(value, [operand_.axes.index(i) for i in present])
    full = tuple(plan.sizes[i] for i in order)
    value = editor.broadcast(value, full, [order.index(i) for i in present])
    return editor.reshape(
        value, tuple(dims.product([plan.sizes[i] for i in group]) for group in groups)
    )


ATTENTION = Recogniser(("einsum",), _attention)
