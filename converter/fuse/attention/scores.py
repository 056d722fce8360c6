"""The operations between the first product of attention and its softmax."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from converter.fuse.dependence import bound_scalar
from converter.fuse.magnitudes import is_moderate
from converter.fuse.match import (
    MatchContext,
    is_only_read_through,
    operand,
    operands,
)
from converter.ir import Value, dims, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import has_ignorable_rounding, look_through, view_of_operand
from converter.ir.op import Op
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class AdditiveMask:
    """A mask that adds ``coefficient * view`` to the scores, in ``dtype``."""

    view: View
    dtype: np.dtype
    coefficient: float = 1.0

    def multiplied_by(self, number: float) -> AdditiveMask:
        """Return the mask for scores that are multiplied by a number after it is added."""
        return replace(self, coefficient=self.coefficient * number)

    def along(self, logical: View) -> AdditiveMask | None:
        """Return the mask along the logical axes, or None if its array cannot be seen along them.

        ``logical`` is a view of the softmax along its logical axes (`split_axes`).
        """
        view = logical.compose(self.view)
        return None if view is None else replace(self, view=view)


@dataclass(frozen=True)
class FillMask:
    """A mask that replaces scores by a number.

    - `view`: the boolean array that selects the scores.
    - `dtype`: the dtype in which the scores are replaced.
    - `number`: the number, which is that of `value`.
    - `hidden`: the element of `view` at scores that are replaced.
    - `value`: the scalar in the graph.
    """

    view: View
    dtype: np.dtype
    number: float
    hidden: bool
    value: Value

    def multiplied_by(self, number: float) -> FillMask:
        """Return the mask for scores that are multiplied by a number after it is applied."""
        return replace(self, number=self.number * number).rounded(self.dtype)

    def rounded(self, dtype: np.dtype) -> FillMask:
        """Return the mask with its number rounded to a dtype."""
        with np.errstate(over="ignore"):
            return replace(self, number=float(np.asarray(self.number).astype(dtype)))

    def along(self, logical: View) -> FillMask | None:
        """Return the mask along the logical axes, or None if its array cannot be seen along them.

        ``logical`` is a view of the softmax along its logical axes (`split_axes`).
        """
        view = logical.compose(self.view)
        return None if view is None else replace(self, view=view)

    def hides_like(self, other: FillMask) -> bool:
        """Return True if both masks replace the same scores. The condition of one mask may be
        negated."""
        return self._without_negations() == other._without_negations()

    def _without_negations(self) -> tuple[View, bool]:
        """Return the condition before logical negations, and its element at scores that are
        replaced."""
        view, hidden = look_through(self.view, reach="parts"), self.hidden
        while view.op() is ops.not_:
            view, hidden = operand(view, 0, reach="parts"), not hidden
        return view, hidden


ScoreTerm: TypeAlias = AdditiveMask | FillMask

ScoreFactor: TypeAlias = tuple[Op, View]
"""A multiplication or division of the scores, and its other operand."""


@dataclass(frozen=True)
class Scores:
    """The operand of a softmax: ``scale * product * factors``, to which the terms are applied in
    order.

    ``product`` is the first product of attention. Each of ``factors`` multiplies or divides it.
    With a ``cap``, the operand is ``cap * tanh(scale * product * factors)`` before the terms.
    """

    product: View
    scale: float = 1.0
    factors: tuple[ScoreFactor, ...] = ()
    terms: tuple[ScoreTerm, ...] = ()
    cap: float | None = None

    def multiplied_by(self, factor: float) -> Scores:
        """Return the scores, including their terms, multiplied by a number."""
        terms = tuple(t.multiplied_by(factor) for t in self.terms)
        if self.cap is None:
            return replace(self, scale=self.scale * factor, terms=terms)
        return replace(self, cap=self.cap * factor, terms=terms)


@dataclass(frozen=True)
class ScoreStep:
    """An operation on scores that multiplies by a number, multiplies by an array, or applies a
    mask.

    ``index`` is the operand of the operation that is the scores. ``number`` is 1, ``factor`` and
    ``term`` are None if the operation does not have them.
    """

    index: int
    number: float = 1.0
    factor: ScoreFactor | None = None
    term: ScoreTerm | None = None

    def apply(self, scores: Scores) -> Scores | str:
        """Return the scores after the operation, or the reason why attention has no such operation.

        The reason is returned for a multiplication by an array after a mask or a cap.
        """
        if self.factor is not None:
            if scores.terms or scores.cap is not None:
                return "the scores are masked, or capped, before they are multiplied"
            return replace(scores, factors=(*scores.factors, self.factor))
        added = () if self.term is None else (self.term,)
        scaled = scores.multiplied_by(self.number)
        return replace(scaled, terms=(*scaled.terms, *added))


def match_scores(logits: Value, context: MatchContext, reasons: list[str]) -> Iterator[Scores]:
    """Yield each way to see the operand of a softmax as scores of a product of queries and keys.

    Reasons why other ways are no scores are appended to ``reasons``.
    """
    yield from _match_scores(logits, look_through(view_of(logits)), context, reasons)


def _match_scores(
    value: Value, view: View, context: MatchContext, reasons: list[str]
) -> Iterator[Scores]:
    """Yield the scores that a value is, from the operation that computes the base of its view.

    ``view`` is a view of ``value``. No other node may read ``value`` or anything up to the product.
    """
    op = view.op()
    if op not in (*_SCORE_STEPS, ops.einsum, ops.tanh, ops.reshape):
        reasons.append(f"between the first product and the softmax stands {op or 'an input'}")
    elif not is_only_read_through(value, view.base, context):
        reasons.append("the scores are used elsewhere")
    elif op is ops.einsum:
        yield from _match_product(view, reasons)
    elif op is ops.reshape:
        yield from _match_reshaped(view, context, reasons)
    elif op is ops.tanh:
        yield from _match_capped(view, context, reasons)
    else:
        steps = _SCORE_STEPS[op](view)
        if not steps:
            reasons.append(f"a {op} between the first product and the softmax is not understood")
        for step in steps:
            scored = view.node().inputs[step.index]
            for inner in _match_scores(scored, operand(view, step.index), context, reasons):
                inner_scores = step.apply(inner)
                if isinstance(inner_scores, Scores):
                    yield inner_scores
                else:
                    reasons.append(inner_scores)


def _match_product(view: View, reasons: list[str]) -> Iterator[Scores]:
    """Yield the first product as scores if ``view`` has each of its elements once.

    Axes may be split or merged.
    """
    if covers_base(view):
        yield Scores(view)
    else:
        reasons.append("the scores are a part of the first product, or repeat it")


def covers_base(view: View) -> bool:
    """Return True if a view has every element of its base exactly once."""
    repeated = any(factor.axis is None for group in view.groups for factor in group)
    return not repeated and all(
        factors is not None and dims.is_same_dim(dims.size_product([f.size for f in factors]), size)
        for factors, size in zip(
            map(view.nested_factors, range(view.base.rank)), view.base.shape, strict=True
        )
    )


def _match_reshaped(view: View, context: MatchContext, reasons: list[str]) -> Iterator[Scores]:
    """Yield the scores before a reshape that splits or merges axes for a mask.

    An example is a mask of windows.
    """
    inner = view_of_operand(view)
    if inner is None:
        reasons.append("a reshape between the first product and the softmax is not understood")
    else:
        yield from _match_scores(view.node().inputs[0], look_through(inner), context, reasons)


def _match_capped(view: View, context: MatchContext, reasons: list[str]) -> Iterator[Scores]:
    """Yield ``tanh`` of scores as scores with a cap of 1.

    The scores may have no terms before it, because the operator adds masks after the cap.
    """
    for inner in _match_scores(view.node().inputs[0], operand(view, 0), context, reasons):
        if inner.terms or inner.cap is not None:
            reasons.append("the scores are masked, or capped, before they are capped")
        else:
            yield replace(inner, cap=1.0)


def _multiplication_steps(view: View) -> list[ScoreStep]:
    """Return the steps of a product, one for each operand that a node computes, as the scores."""
    parts = operands(view)
    return [_multiply_step(i, parts[1 - i], ops.mul) for i in (0, 1) if parts[i].op()]


def _division_steps(view: View) -> list[ScoreStep]:
    """Return the step of a quotient, whose first operand is the scores."""
    return [_multiply_step(0, operand(view, 1), ops.div)]


def _multiply_step(index: int, factor: View, op: Op) -> ScoreStep:
    """Return the step that multiplies or divides (``op``) the scores by ``factor``.

    A moderate number is multiplied into the scale. An array, or a number that is huge or tiny, is
    kept as a factor.
    """
    number = scalar(factor.base)
    if number is None or not is_moderate(np.asarray(number), allow_zero=False):
        return ScoreStep(index, factor=(op, factor))
    return ScoreStep(index, float(number) if op is ops.mul else 1 / float(number))


def _addition_steps(view: View) -> list[ScoreStep]:
    """Return the steps of a sum, with each operand as the scores and the other one as a mask."""
    terms = [AdditiveMask(v, view.base.dtype) for v in operands(view)]
    return [ScoreStep(i, term=terms[1 - i]) for i in (0, 1)]


def _subtraction_steps(view: View) -> list[ScoreStep]:
    """Return the step of a difference, whose second operand is a mask."""
    return [ScoreStep(0, term=AdditiveMask(operand(view, 1), view.base.dtype, -1.0))]


def _fill_steps(view: View) -> list[ScoreStep]:
    """Return the steps of a selection (``select_n``) between scores and a known number.

    A step is a mask that replaces scores by the number, with the index of the operand that is the
    scores. If both cases of the selection are known numbers, each of them is the scores in one
    step. The list is empty if no case is a known number, if there are more than two cases, or if
    the condition is not Boolean.

    ``view`` is a view of the result of the selection.
    """
    return [ScoreStep(index, term=filled) for index, filled in match_fills(view)]


def match_fills(view: View) -> list[tuple[int, FillMask]]:
    """Return the fill masks of a selection (``select_n``) between an array and a known number.

    The base of ``view`` must be the result of a selection. Each mask comes with the index of the
    operand whose elements it replaces, 1 or 2. If both cases are known numbers, there are two
    masks. The list is empty for other selections.
    """
    condition, *cases = operands(view)
    if len(cases) != 2 or condition.base.dtype != np.bool_:
        return []
    numbers = [(v.base, bound_scalar(v.base)) for v in cases]
    return [
        (2 - i, FillMask(condition, view.base.dtype, float(number), bool(i), value))
        for i, (value, number) in enumerate(numbers)
        if number is not None
    ]


def _conversion_steps(view: View) -> list[ScoreStep]:
    """Return the step of a conversion between floats, or no step if its rounding is intended."""
    return [ScoreStep(0)] if has_ignorable_rounding(view.node()) else []


_SCORE_STEPS: dict[Op, Callable[[View], list[ScoreStep]]] = {
    ops.mul: _multiplication_steps,
    ops.div: _division_steps,
    ops.add: _addition_steps,
    ops.sub: _subtraction_steps,
    ops.select_n: _fill_steps,
    ops.convert_element_type: _conversion_steps,
}
