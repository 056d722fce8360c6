"""Masks of scores as one array that is added to all scores, and the conditions for it.

A term that is added to the scores can be added as a mask. A number that fills hidden scores can be
added if the score, which is then added to it, makes no difference. This holds in a row with visible
scores. In a row without any it holds if the number absorbs all scores: the weights are equal then,
as in JAX.

In a row whose mask is -inf throughout, ONNX's weights are zero. A runtime may do the same if no
element of the row is above the lowest number of the dtype. JAX has NaN or equal weights there. A
mask that may have such rows is lifted (``lift``): zero is subtracted from all other rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from converter.fuse.attention.scores import AdditiveMask, FillMask, ScoreTerm
from converter.fuse.attention.weights import AttentionWeights
from converter.fuse.dependence import is_const, is_weight, known
from converter.fuse.norm import fits
from converter.fuse.product_terms import reduction
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

    Arguments:
        lifted: whether the mask has to be lifted.
        zeroed: the mask of weights that are zero. The result of a row without others is zero.
    """

    terms: tuple[ScoreTerm, ...]
    dtype: np.dtype
    lifted: bool
    zeroed: FillMask | None = None

    def along(self, logical: View) -> Mask | str:
        """Return the mask along logical axes, which are a view of its own ones."""
        terms = [t.along(logical) for t in self.terms]
        zeroed = None if self.zeroed is None else self.zeroed.along(logical)
        logical_terms = [t for t in terms if t is not None]
        if len(logical_terms) < len(terms) or (self.zeroed is not None and zeroed is None):
            return "a mask splits an axis of the scores in another way than the products"
        return replace(self, terms=tuple(logical_terms), zeroed=zeroed)


def prove_masks(
    terms: Sequence[ScoreTerm], columns: int, dtype: np.dtype, weights: AttentionWeights
) -> Mask | str | None:
    """Return the mask for operands of ``dtype``, or the reason why there is none. Return None if
    there are no terms."""
    if weights.zeroed is not None and (reason := _nonzero_reason(weights, terms, columns)):
        return reason
    if not terms:
        return None
    if len({t.dtype for t in terms}) > 1:
        return "masks are applied in two precisions"
    rounded_terms = [t.rounded(t.dtype) if isinstance(t, FillMask) else t for t in terms]
    factors = [(t.coefficient, t.dtype) for t in rounded_terms if isinstance(t, AdditiveMask)]
    if not all(number and fits(number, dtype) for number, dtype in factors):
        return "a mask is multiplied by what its dtype cannot hold"
    fills = [t for t in rounded_terms if isinstance(t, FillMask)]
    full = len(fills) == 1 and _has_visible_rows(fills[0], columns)
    zeroed = None if full else weights.zeroed
    open_ = full or zeroed is not None
    mask = _absorb_fills(rounded_terms, open_)
    if isinstance(mask, str):
        return mask
    return replace(_narrow(_drop_lifting(mask, open_), open_, dtype), zeroed=zeroed)


def _nonzero_reason(weights: AttentionWeights, terms: Sequence[ScoreTerm], columns: int) -> str:
    """Return the reason why weights that are set to zero may not have been zero before, or an
    empty string."""
    fills = [t for t in terms if isinstance(t, FillMask)]
    zeroed = weights.zeroed
    if len(fills) == 1 and zeroed is not None and _is_of_rows(zeroed, fills[0], columns):
        return ""
    if zeroed is None or not fills or not all(zeroed.hides_like(t) for t in fills):
        return "between the softmax and the second product weights are hidden that it does not hide"
    if weights.times and any(t.number == -math.inf for t in fills):
        return "weights are multiplied by zero where a row that is hidden throughout is NaN"
    if not (all(t.number == -math.inf for t in fills) or _are_terms_mild(terms)):
        return "what is added to the scores may be below what hidden ones are filled with"
    return ""


def _is_of_rows(zeroed: FillMask, fill: FillMask, columns: int) -> bool:
    """Return True if exactly the rows without visible scores are set to zero."""
    reduced_axes = reduction(zeroed.view, fill.view, ops.reduce_or)
    return reduced_axes == (columns,) and not (zeroed.hidden or fill.hidden)


def _absorb_fills(terms: Sequence[ScoreTerm], open_: bool) -> Mask | str:
    """Return the mask with numbers that may be added, or the reason why there is none. ``open_`` is
    True if every row has visible scores."""
    dtype = terms[0].dtype
    fills = [t for t in terms if isinstance(t, FillMask)]
    weak = [f.number for f in fills if not _absorbs(f.number, dtype)]
    if not weak or (open_ and _are_terms_mild(terms)):
        high = [n for n in weak if not n <= VANISHING]
        return _too_high(high[0]) if high else Mask(tuple(terms), dtype, True)
    if not max(weak) <= VANISHING:
        return _too_high(max(weak))
    on_top = any(isinstance(t, AdditiveMask) for t in terms[terms.index(fills[0]) :])
    if len({f.number for f in fills}) > 1 or on_top or not _are_terms_mild(terms):
        return (
            "a row may be hidden throughout, where it matters how low the fill value "
            f"{weak[0]:g} is beside other masks"
        )
    lower = [replace(t, number=ABSORBING) if isinstance(t, FillMask) else t for t in terms]
    return Mask(tuple(lower), np.dtype("float32") if dtype.name == "float16" else dtype, True)


def _too_high(fill: float) -> str:
    return f"the mask's fill value {fill:g} is not negative enough to vanish"


def _absorbs(fill: float, dtype: np.dtype) -> bool:
    return fill == -math.inf or (fill <= ABSORBING and float(jnp.finfo(dtype).max) > 1e38)


def _has_visible_rows(fill: FillMask, columns: int) -> bool:
    """Return True if every row is known to have visible scores."""
    value = fill.view.base
    if not dims.all_static(value.shape) or math.prod(value.shape) > LARGEST_MASK:
        return False
    condition = known(value)
    if condition is None:
        return False
    visible, axis = np.asarray(condition, bool) != fill.hidden, fill.view.axes[columns]
    return bool((visible if axis is None else visible.any(axis=axis)).all())


def _are_terms_mild(terms: Sequence[ScoreTerm]) -> bool:
    """Return True if all added terms are far above the fill numbers, or are learnt biases."""
    fills = [t.number for t in terms if isinstance(t, FillMask)]
    return all(
        _lowest_number(t) > max(fills) / 2 or _is_parameter(t.view.base)
        for t in terms
        if isinstance(t, AdditiveMask)
    )


def _is_parameter(value: Value) -> bool:
    return is_weight(value) and not is_const(value)


def _lowest_number(term: AdditiveMask) -> float:
    """Return the lowest number that is added, or -inf if it is not known."""
    if not is_const(term.view.base):
        return -math.inf
    array = np.asarray(term.view.base.const).astype(np.float64) * term.coefficient
    return float(array.min(initial=math.inf)) if not np.isnan(array).any() else -math.inf


def _drop_lifting(mask: Mask, open_: bool) -> Mask:
    """Return the mask without lifting if all rows are known to be above the lowest number."""
    lowest = float(jnp.finfo(mask.dtype).min)
    fills = [t for t in mask.terms if isinstance(t, FillMask)]
    if any(isinstance(t, AdditiveMask) and not _lowest_number(t) > lowest / 8 for t in mask.terms):
        return mask
    if open_:
        return replace(mask, lifted=False)
    if any(f.number == -math.inf for f in fills):
        return mask
    higher = [replace(t, number=_raised(t.number, lowest)) if t in fills else t for t in mask.terms]
    return Mask(tuple(higher), mask.dtype, False)


def _raised(fill: float, lowest: float) -> float:
    """Return a number above the lowest number; the order of raised numbers is kept."""
    return max(fill, fill / 2 + lowest / 4)


def _narrow(mask: Mask, open_: bool, dtype: np.dtype) -> Mask:
    """Return the mask in the dtype of the operands if it only fills, and the dtype has numbers that
    are low enough."""
    fills = [t for t in mask.terms if isinstance(t, FillMask)]
    low = dtype.name == "bfloat16" or open_
    if len(fills) == len(mask.terms) and low and dtype.itemsize < mask.dtype.itemsize:
        return replace(mask, terms=tuple(t.rounded(dtype) for t in fills), dtype=dtype)
    return mask
