"""Whether terms mean the same when they are added to all scores as one mask, and what it takes.

A number that is *added* is as good in a mask. One that *fills* hidden scores is not quite: in the
mask the score comes on top. That makes no difference where a row shows something besides, or where
the number absorbs every score that is added to it, so that a row that is hidden throughout is the
average that JAX makes of equal numbers.

ONNX has zeros where a row of the mask is -inf throughout, and a runtime may where nothing in it is
above the lowest number of its dtype; JAX has NaN there, or an average. A mask that may
have such rows is *lifted* (``lift``), by what is zero for all other rows.
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
"""Below this, ``number + score`` is ``number`` in float32 for every score that is not absurd."""

VANISHING = -1e4
"""Below this, exp(number - highest score) is zero for scores that are not absurd."""

LARGEST_MASK = 1 << 22
"""Elements of a mask that are computed to see whether it leaves something in every row."""


@dataclass(frozen=True)
class Mask:
    """``terms`` applied to zero, in ``dtype``; to be lifted, or known not to need it.

    Of a row that ``zeroed`` hides throughout the result is zero.
    """

    terms: tuple[ScoreTerm, ...]
    dtype: np.dtype
    lifted: bool
    zeroed: FillMask | None = None

    def along(self, logical: View) -> Mask | str:
        """Return the mask along logical axes, which are a view of its own ones."""
        terms = [t.along(logical) for t in self.terms]
        zeroed = None if self.zeroed is None else self.zeroed.along(logical)
        known = [t for t in terms if t is not None]
        if len(known) < len(terms) or (self.zeroed is not None and zeroed is None):
            return "a mask splits an axis of the scores in another way than the products"
        return replace(self, terms=tuple(known), zeroed=zeroed)


def prove_masks(
    terms: Sequence[ScoreTerm], columns: int, dtype: np.dtype, weights: AttentionWeights
) -> Mask | str | None:
    """The mask for operands of ``dtype``, or why there is none; no terms need none."""
    if weights.zeroed is not None and (reason := _not_zero_already(weights, terms, columns)):
        return reason
    if not terms:
        return None
    if len({t.dtype for t in terms}) > 1:
        return "masks are applied in two precisions"
    settled = [t.held(t.dtype) if isinstance(t, FillMask) else t for t in terms]
    factors = [(t.coefficient, t.dtype) for t in settled if isinstance(t, AdditiveMask)]
    if not all(number and fits(number, dtype) for number, dtype in factors):
        return "a mask is multiplied by what its dtype cannot hold"
    fills = [t for t in settled if isinstance(t, FillMask)]
    full = len(fills) == 1 and _leaves_all_rows(fills[0], columns)
    zeroed = None if full else weights.zeroed
    open_ = full or zeroed is not None
    mask = _absorbing(settled, open_)
    if isinstance(mask, str):
        return mask
    return replace(_narrowed(_unlifted(mask, open_), open_, dtype), zeroed=zeroed)


def _not_zero_already(weights: AttentionWeights, terms: Sequence[ScoreTerm], columns: int) -> str:
    """Why the weights that are set to zero would not be in a row that shows something."""
    fills = [t for t in terms if isinstance(t, FillMask)]
    zeroed = weights.zeroed
    if len(fills) == 1 and zeroed is not None and _is_of_rows(zeroed, fills[0], columns):
        return ""
    if zeroed is None or not fills or not all(zeroed.hides_like(t) for t in fills):
        return "between the softmax and the second product weights are hidden that it does not hide"
    if weights.times and any(t.number == -math.inf for t in fills):
        return "weights are multiplied by zero where a row that is hidden throughout is NaN"
    if not (all(t.number == -math.inf for t in fills) or _mild(terms)):
        return "what is added to the scores may be below what hidden ones are filled with"
    return ""


def _is_of_rows(zeroed: FillMask, fill: FillMask, columns: int) -> bool:
    """Whether zero stands in the rows that are filled throughout."""
    shown = reduction(zeroed.view, fill.view, ops.reduce_or)
    return shown == (columns,) and not (zeroed.hidden or fill.hidden)


def _absorbing(terms: Sequence[ScoreTerm], open_: bool) -> Mask | str:
    """The terms with fills that may be added; ``open_`` where the fill leaves something in every
    row."""
    dtype = terms[0].dtype
    fills = [t for t in terms if isinstance(t, FillMask)]
    weak = [f.number for f in fills if not _absorbs(f.number, dtype)]
    if not weak or (open_ and _mild(terms)):
        high = [n for n in weak if not n <= VANISHING]
        return _too_high(high[0]) if high else Mask(tuple(terms), dtype, True)
    if not max(weak) <= VANISHING:
        return _too_high(max(weak))
    on_top = any(isinstance(t, AdditiveMask) for t in terms[terms.index(fills[0]) :])
    if len({f.number for f in fills}) > 1 or on_top or not _mild(terms):
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


def _leaves_all_rows(fill: FillMask, columns: int) -> bool:
    """Known to leave something in every row."""
    value = fill.view.base
    if not dims.all_static(value.shape) or math.prod(value.shape) > LARGEST_MASK:
        return False
    which = known(value)
    if which is None:
        return False
    shown, axis = np.asarray(which, bool) != fill.hidden, fill.view.axes[columns]
    return bool((shown if axis is None else shown.any(axis=axis)).all())


def _mild(terms: Sequence[ScoreTerm]) -> bool:
    """What is added is known to be far above the fills, or is a bias that was learnt."""
    fills = [t.number for t in terms if isinstance(t, FillMask)]
    return all(
        _least(t) > max(fills) / 2 or _is_learnt(t.view.base)
        for t in terms
        if isinstance(t, AdditiveMask)
    )


def _is_learnt(value: Value) -> bool:
    return is_weight(value) and not is_const(value)


def _least(term: AdditiveMask) -> float:
    """The lowest number that is added, -inf where that is not known."""
    if not is_const(term.view.base):
        return -math.inf
    array = np.asarray(term.view.base.const).astype(np.float64) * term.coefficient
    return float(array.min(initial=math.inf)) if not np.isnan(array).any() else -math.inf


def _unlifted(mask: Mask, open_: bool) -> Mask:
    """The mask without lifting, where all rows are known to be above the lowest number."""
    lowest = float(jnp.finfo(mask.dtype).min)
    fills = [t for t in mask.terms if isinstance(t, FillMask)]
    if any(isinstance(t, AdditiveMask) and not _least(t) > lowest / 8 for t in mask.terms):
        return mask
    if open_:
        return replace(mask, lifted=False)
    if any(f.number == -math.inf for f in fills):
        return mask
    higher = [replace(t, number=_raised(t.number, lowest)) if t in fills else t for t in mask.terms]
    return Mask(tuple(higher), mask.dtype, False)


def _raised(fill: float, lowest: float) -> float:
    """Above the lowest number, in the same order as before."""
    return max(fill, fill / 2 + lowest / 4)


def _narrowed(mask: Mask, open_: bool, dtype: np.dtype) -> Mask:
    """In the operands' dtype where that is the same: fills alone, of which it has low ones."""
    fills = [t for t in mask.terms if isinstance(t, FillMask)]
    low = dtype.name == "bfloat16" or open_
    if len(fills) == len(mask.terms) and low and dtype.itemsize < mask.dtype.itemsize:
        return replace(mask, terms=tuple(t.held(dtype) for t in fills), dtype=dtype)
    return mask
