"""Masks of scores as one array that is added to all scores, and the conditions for it.

A term that is added to the scores can be added as a mask. A number that fills hidden scores can be
added if the score, which is then added to it, makes no difference. This holds in a row with visible
scores. In a row without any it holds if the number absorbs all scores: the weights are equal then,
as in JAX.

In a row whose mask is -inf throughout, ONNX's weights are zero. A runtime may do the same if no
element of the row is above the lowest number of the dtype. JAX has NaN or equal weights there. A
mask that may have such rows is lifted (``lift_hidden_rows``): zero is subtracted from all other
rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from converter.fuse.attention.scores import AdditiveMask, FillMask, ScoreTerm
from converter.fuse.attention.weights import AttentionWeights
from converter.fuse.dependence import constant_array, depends_on_parameters_only, is_const
from converter.fuse.norm import is_in_normal_range
from converter.fuse.reductions import reduction_axes
from converter.ir import Value, dims, ops
from converter.ir.axes import View

ABSORBING = -1e30
"""Below this number, ``number + score`` is ``number`` in float32 for all realistic scores."""

VANISHING = -1e4
"""Below this number, exp(number - largest score) is zero for all realistic scores."""

LARGEST_MASK = 1 << 22
"""The largest number of elements of a mask that is computed to find rows without visible scores."""


@dataclass(frozen=True)
class Mask:
    """An array that is added to the scores: ``terms`` applied to zero, in ``dtype``.

    - `needs_lifting`: whether rows of very low numbers have to be raised before the mask is used
      (see `lift_hidden_rows`).
    - `zeroing_mask`: the mask of weights that are set to zero after the softmax, or None. The
      result of a row without other weights is zero.
    """

    terms: tuple[ScoreTerm, ...]
    dtype: np.dtype
    needs_lifting: bool
    zeroing_mask: FillMask | None = None

    def along(self, logical: View) -> Mask | str:
        """Return the mask with its arrays along the logical axes.

        ``logical`` is a view of the softmax along its logical axes. Return the reason for a near
        miss if the arrays cannot be seen along them.
        """
        terms = [t.along(logical) for t in self.terms]
        zeroed = None if self.zeroing_mask is None else self.zeroing_mask.along(logical)
        logical_terms = [t for t in terms if t is not None]
        if len(logical_terms) < len(terms) or (self.zeroing_mask is not None and zeroed is None):
            return "a mask splits an axis of the scores in another way than the products"
        return replace(self, terms=tuple(logical_terms), zeroing_mask=zeroed)


def combine_masks(
    terms: Sequence[ScoreTerm], columns: int, dtype: np.dtype, weights: AttentionWeights
) -> Mask | str | None:
    """Return the terms of scores as one mask that can be added to them.

    Return a text, the reason for a near miss, if the sum of scores and mask would give other
    results than the program. Return None if there are no terms.

    **Arguments**

    - `terms`: the additions and fillings of the scores, in the order of the program.
    - `columns`: the axis of the softmax.
    - `dtype`: the dtype of queries and keys.
    - `weights`: the softmax, with the weights that are set to zero after it.
    """
    if weights.zeroing_mask is not None and (reason := _nonzero_reason(weights, terms, columns)):
        return reason
    if not terms:
        return None
    if len({t.dtype for t in terms}) > 1:
        return "masks are applied in two precisions"
    rounded_terms = [t.rounded(t.dtype) if isinstance(t, FillMask) else t for t in terms]
    factors = [(t.coefficient, t.dtype) for t in rounded_terms if isinstance(t, AdditiveMask)]
    if not all(number and is_in_normal_range(number, dtype) for number, dtype in factors):
        return "a mask is multiplied by what its dtype cannot hold"
    fills = [t for t in rounded_terms if isinstance(t, FillMask)]
    fill_leaves_visible = len(fills) == 1 and _has_visible_rows(fills[0], columns)
    zeroed = None if fill_leaves_visible else weights.zeroing_mask
    has_visible_rows = fill_leaves_visible or zeroed is not None
    mask = _absorb_fills(rounded_terms, has_visible_rows)
    if isinstance(mask, str):
        return mask
    return replace(
        _narrow(_drop_lifting(mask, has_visible_rows), has_visible_rows, dtype), zeroing_mask=zeroed
    )


def _nonzero_reason(weights: AttentionWeights, terms: Sequence[ScoreTerm], columns: int) -> str:
    """Return why weights that the program sets to zero may differ from zero before, or "" if they
    cannot.

    They are zero before if ``terms`` fill the same scores with low numbers. The result is also ""
    if exactly the rows without visible scores are set to zero. ``weights`` must have a
    ``zeroing_mask``. ``columns`` is the axis of the softmax.
    """
    fills = [t for t in terms if isinstance(t, FillMask)]
    zeroed = weights.zeroing_mask
    if len(fills) == 1 and zeroed is not None and _is_of_rows(zeroed, fills[0], columns):
        return ""
    if zeroed is None or not fills or not all(zeroed.hides_like(t) for t in fills):
        return "between the softmax and the second product weights are hidden that it does not hide"
    if weights.is_multiplied_by_zero and any(t.number == -math.inf for t in fills):
        return "weights are multiplied by zero where a row that is hidden throughout is NaN"
    if not (all(t.number == -math.inf for t in fills) or _are_terms_above_fills(terms)):
        return "what is added to the scores may be below what hidden ones are filled with"
    return ""


def _is_of_rows(zeroed: FillMask, fill: FillMask, columns: int) -> bool:
    """Return True if ``zeroed`` sets exactly the rows to zero in which ``fill`` leaves no score
    visible.

    ``columns`` is the axis of the softmax.
    """
    reduced_axes = reduction_axes(zeroed.view, fill.view, ops.reduce_or)
    return reduced_axes == (columns,) and not (zeroed.hidden or fill.hidden)


def _absorb_fills(terms: Sequence[ScoreTerm], has_visible_rows: bool) -> Mask | str:
    """Return the mask with fill numbers that may be added to scores instead of replacing them.

    Return the reason for a near miss if there are no such numbers. ``has_visible_rows`` is True if
    every row has a visible score, or if the weights of other rows are set to zero. Otherwise a fill
    number must be so low that a score added to it makes no difference. If all fills have the same
    higher number, it is lowered to `ABSORBING`, and a mask of float16 becomes one of float32.
    """
    dtype = terms[0].dtype
    fills = [t for t in terms if isinstance(t, FillMask)]
    weak_numbers = [f.number for f in fills if not _absorbs(f.number, dtype)]
    if not weak_numbers or (has_visible_rows and _are_terms_above_fills(terms)):
        high_numbers = [n for n in weak_numbers if not n <= VANISHING]
        return _too_high(high_numbers[0]) if high_numbers else Mask(tuple(terms), dtype, True)
    if not max(weak_numbers) <= VANISHING:
        return _too_high(max(weak_numbers))
    adds_after_fill = any(isinstance(t, AdditiveMask) for t in terms[terms.index(fills[0]) :])
    if len({f.number for f in fills}) > 1 or adds_after_fill or not _are_terms_above_fills(terms):
        return (
            "a row may be hidden throughout, where it matters how low the fill value "
            f"{weak_numbers[0]:g} is beside other masks"
        )
    lower = [replace(t, number=ABSORBING) if isinstance(t, FillMask) else t for t in terms]
    return Mask(tuple(lower), np.dtype("float32") if dtype.name == "float16" else dtype, True)


def _too_high(fill: float) -> str:
    """Return the reason for a near miss that a fill number is too high for weights of zero."""
    return f"the mask's fill value {fill:g} is not negative enough to vanish"


def _absorbs(fill: float, dtype: np.dtype) -> bool:
    """Return True if adding a score to the fill number does not change it in ``dtype``."""
    return fill == -math.inf or (fill <= ABSORBING and float(jnp.finfo(dtype).max) > 1e38)


def _has_visible_rows(fill: FillMask, columns: int) -> bool:
    """Return True if the array of ``fill`` is constant and leaves a visible score in every row.

    ``columns`` is the axis of the softmax. False is returned for arrays that are too large to
    compute.
    """
    value = fill.view.base
    if not dims.all_static(value.shape) or math.prod(value.shape) > LARGEST_MASK:
        return False
    condition = constant_array(value)
    if condition is None:
        return False
    visible, axis = np.asarray(condition, bool) != fill.hidden, fill.view.axes[columns]
    return bool((visible if axis is None else visible.any(axis=axis)).all())


def _are_terms_above_fills(terms: Sequence[ScoreTerm]) -> bool:
    """Return True if every added term is far above the fill numbers, or depends on a parameter.

    ``terms`` must contain a fill if they contain an added term. A constant term is far above the
    fill numbers if all of its numbers are above half of the largest one. Parameters are accepted
    because they are learned biases, which are small.
    """
    fills = [t.number for t in terms if isinstance(t, FillMask)]
    return all(
        _lowest_number(t) > max(fills) / 2 or _is_parameter(t.view.base)
        for t in terms
        if isinstance(t, AdditiveMask)
    )


def _is_parameter(value: Value) -> bool:
    """Return True if a value depends on parameters and constants, and is not a constant itself."""
    return depends_on_parameters_only(value) and not is_const(value)


def _lowest_number(term: AdditiveMask) -> float:
    """Return the lowest number that a mask adds, or -inf if it is not constant or has NaN."""
    if not is_const(term.view.base):
        return -math.inf
    array = np.asarray(term.view.base.const).astype(np.float64) * term.coefficient
    return float(array.min(initial=math.inf)) if not np.isnan(array).any() else -math.inf


def _drop_lifting(mask: Mask, has_visible_rows: bool) -> Mask:
    """Return the mask without lifting if this makes no difference, otherwise the mask itself.

    Lifting makes no difference if every row has a sum of terms above the lowest number of the
    dtype. If there may be rows without visible scores (``has_visible_rows`` is False), finite fill
    numbers are raised to achieve this. The mask is returned unchanged if a fill number is -inf
    then, or if an added term is no constant above an eighth of the lowest number.
    """
    lowest = float(jnp.finfo(mask.dtype).min)
    fills = [t for t in mask.terms if isinstance(t, FillMask)]
    if any(isinstance(t, AdditiveMask) and not _lowest_number(t) > lowest / 8 for t in mask.terms):
        return mask
    if has_visible_rows:
        return replace(mask, needs_lifting=False)
    if any(f.number == -math.inf for f in fills):
        return mask
    higher = [
        replace(t, number=_raise_fill(t.number, lowest)) if t in fills else t for t in mask.terms
    ]
    return Mask(tuple(higher), mask.dtype, False)


def _raise_fill(fill: float, lowest: float) -> float:
    """Return a number between the fill number and half of it, above the lowest number of the dtype.

    The order of fill numbers is preserved. A number above half of ``lowest`` is returned unchanged.
    """
    return max(fill, fill / 2 + lowest / 4)


def _narrow(mask: Mask, has_visible_rows: bool, dtype: np.dtype) -> Mask:
    """Return the mask in the dtype of the operands if that is narrower and has low enough numbers.

    The mask may only fill scores. ``dtype`` is that of the operands. It has to be bfloat16, or can
    be any narrower dtype if ``has_visible_rows`` is True. Otherwise return the mask itself.
    """
    fills = [t for t in mask.terms if isinstance(t, FillMask)]
    can_narrow = dtype.name == "bfloat16" or has_visible_rows
    if len(fills) == len(mask.terms) and can_narrow and dtype.itemsize < mask.dtype.itemsize:
        return replace(mask, terms=tuple(t.rounded(dtype) for t in fills), dtype=dtype)
    return mask
