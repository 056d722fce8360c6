"""Which elements of a result are wrong, and which nobody can judge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from converter.errors import ConverterError
from converter.frontend.array_forms import graph_numbers, is_key, key_numbers
from converter.frontend.diagnostics import RAISED
from converter.ir.complex_pairs import is_complex, packed, real_dtype
from converter.ir.dtypes import is_float
from converter.jax_versions import enable_x64
from converter.verify.noise import Exact, Noise

ROUNDING = 16
"""Units in the last place that an element may be off whatever the graph. Of what ONNX Runtime
1.31.1 and XLA compute in one step, XLA's `sinh` and `cosh` were furthest from the truth: 13."""

SCATTER = 4
"""How many times the scatter of perturbed evaluations an element may be off. Of the right ones
among 250 random programs, the furthest was off once the scatter of four evaluations."""

RUNS = 32
"""So many perturbed evaluations have to leave a difference unexplained; few are needed where a
result is right, for what is explained is not asked again."""

FLUSHED = float(np.finfo(np.float32).smallest_normal)
"""What XLA takes for zero if it is below."""

COARSE = 256
"""Units in the last place of the largest element, where there is no graph to evaluate."""


@dataclass(frozen=True)
class Judgement:
    """Judgement of each element of an output; the masks have its shape.

    All that is in none of them is as near to JAX as rounding explains. ``either`` is right although
    only one of both numbers is finite, or they are other infinities: roundings decide which. Where
    ``open`` holds they could explain the difference, but nothing says that they do.
    """

    wrong: np.ndarray
    open: np.ndarray
    either: np.ndarray


def first(mask: np.ndarray) -> list[tuple[int, ...]]:
    """The place of the first element of a mask, if there is any."""
    return [tuple(map(int, place)) for place in np.argwhere(mask)[:1]]


class Judge:
    """Judges results on one set of inputs; evaluates the graph as often as it takes to say so.

    ``function`` is what the graph was traced from: where roundings lead to infinity or NaN, it is
    evaluated in float64.
    """

    def __init__(
        self,
        noise: Noise | None,
        inputs: Sequence[Any],
        name: str = "",
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name
        self.inputs = [np.asarray(graph_numbers(x)) for x in inputs]
        self._given = list(inputs)
        self._noise = noise
        self._function = function
        self._known: list[list[np.ndarray]] = []
        self._is_endless = False

    def judge(self, output: int, got: np.ndarray, expected: np.ndarray) -> Judgement:
        """Judge an output: integers have to be equal, floats may be off by rounding.

        Both parts of a complex number, which are an axis of ``got``, may be off as the larger may.
        """
        off, own = _gap(got, packed(expected)), _rounding(expected)
        none = np.zeros(off.shape, bool)
        if self._noise is None:  # a rounding of the largest element, for all
            return Judgement(off > COARSE / ROUNDING * own.max(initial=0.0), none, none)
        bad, reach = off > own, own
        for run in range(1, RUNS + 1):
            if not bad.any():
                break
            reach = np.maximum(reach, own + SCATTER * self._scatter(run, output, expected))
            bad = off > reach
        wrong, is_open, either = none.copy(), none.copy(), none.copy()
        if bad.any():
            seen = np.stack([np.asarray(self.run(i)[output])[bad] for i in range(RUNS + 1)])
            pair = np.asarray(got)[bad], np.asarray(packed(expected))[bad]
            if expected.dtype.kind in "biu":
                wrong[bad] = ~(_is_choice(pair[0], seen) & _is_choice(pair[1], seen))
            else:
                truth, near = None, reach[bad]
                if self._truth is not None:
                    truth = self._truth[output][bad]
                    # A moved matrix may have no factors, so that no evaluation says how far.
                    is_alone = ~np.isfinite(_wide(seen[1:])).any(0)
                    rows = _row_error(expected, self._truth[output])[bad]
                    near = np.where(is_alone, np.maximum(near, rows), near)
                wrong[bad], is_open[bad], either[bad] = _settle(*pair, seen, truth, near)
        return Judgement(wrong, is_open, either)

    def _scatter(self, run: int, output: int, expected: np.ndarray) -> np.ndarray:
        """How far one moved evaluation is from the others; nowhere infinitely."""
        gap = _gap(self.run(run)[output], self.run(0)[output])
        gap = np.where(np.isfinite(gap), gap, 0.0)
        return gap.max(-1, keepdims=True) + 0 * gap if is_complex(expected.dtype) else gap

    def run(self, run: int) -> list[np.ndarray]:
        """The outputs with nothing moved, and then with one error after the other.

        Where errors keep a loop from ending, floats are NaN, as where they lead out of the finite
        numbers, and integers as if nothing had been moved.
        """
        assert self._noise is not None
        exact = self._exact
        self._known = self._known or [exact.outputs]
        while len(self._known) <= run:
            moved = self._noise.moved(self.inputs, len(self._known), exact)
            self._is_endless = self._is_endless or moved is None
            self._known.append(moved or [_unknown(y) for y in exact.outputs])
        return self._known[run]

    @cached_property
    def _exact(self) -> Exact:
        assert self._noise is not None
        return self._noise.exact(self.inputs)

    @cached_property
    def _truth(self) -> list[np.ndarray] | None:
        """The outputs in float64; none where the function cannot be evaluated in it, or where its
        loops may not end in numbers that are a little off."""
        if self._function is None or self._is_endless:
            return None
        try:
            with enable_x64(True):
                results = self._function(*jax.device_put([_in_float64(x) for x in self._given]))
                leaves = [packed(np.asarray(key_numbers(x))) for x in jax.tree.leaves(results)]
        except (*RAISED, ConverterError):
            return None
        shapes = [np.shape(y) for y in self.run(0)]
        return leaves if [y.shape for y in leaves] == shapes else None


def _unknown(output: np.ndarray) -> np.ndarray:
    return np.full_like(output, np.nan) if is_float(output.dtype) else output


def _row_error(expected: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """How far JAX is from float64 in the row of each element, several times over.

    What factors a matrix is off by its largest numbers, also where it has small ones.
    """
    off = _gap(packed(expected), truth)
    off = np.where(np.isfinite(off), off, 0.0)
    return SCATTER * (off.max(-1, keepdims=True) + 0 * off if off.ndim > 1 else off)


def _in_float64(x: Any) -> Any:
    if is_key(x):
        return x
    array = np.asarray(x)
    if is_complex(array.dtype):
        return array.astype(np.complex128)
    return array.astype(np.float64) if is_float(array.dtype) else array


def _is_choice(got: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Whether integers are among those that moved evaluations give.

    Where these are many, what lies between them is possible too.
    """
    low, high = seen.min(0), seen.max(0)
    are_two = ((seen == low) | (seen == high)).all(0)
    return np.asarray((seen == got).any(0) | (~are_two & (low <= got) & (got <= high)))


def _settle(
    got: np.ndarray,
    expected: np.ndarray,
    seen: np.ndarray,
    truth: np.ndarray | None,
    reach: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of elements that the scatter does not explain: which are wrong, open, or right either way.

    ``seen`` are the moved evaluations. Where all of them are finite, or all the same infinity or
    NaN, the element is wrong, unless XLA took what leads to it for zero, and the file, which did
    not, is beside the ``truth``. Else it is right if it is as near to the ``truth`` as JAX is. If
    it is not, moved evaluations that end as it does excuse it where JAX gives no number either, or
    another one than the truth; where JAX is right, it is open.
    """
    type_, (got, expected, seen) = expected.dtype, map(_wide, (got, expected, seen))
    is_shifting = ~_alike(seen, seen[0]).all(0)
    is_right, is_far, is_lost = np.zeros((3, *got.shape), bool)
    if truth is not None:
        is_right, is_far, is_lost = _beside_truth(
            got, expected, _wide(truth), reach, jnp.finfo(type_)
        )
    could_be = _could_be(got, seen, reach) & _could_be(expected, seen, reach)
    could_be &= ~np.isinf(expected) | _beside_a_pole(got, seen)
    excused = is_right | (could_be & (is_far | ~np.isfinite(expected)))
    is_open = is_shifting & could_be & ~excused
    wrong = ~is_lost & (~is_shifting | ~(excused | is_open))
    both = np.isfinite(got) & np.isfinite(expected)
    return wrong, is_open, ~wrong & ~is_open & ~both


def _beside_truth(
    got: np.ndarray, expected: np.ndarray, truth: np.ndarray, reach: np.ndarray, info: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where a file is as near to the truth as JAX is, where JAX is far from it, and where JAX has
    instead of it zero, or the infinity that a zero leads to, and the file does not."""
    size = np.where(np.isfinite(truth), abs(truth), 0.0)
    own = ROUNDING * float(info.eps) * size
    off = _gap(expected, truth)
    rounded = np.maximum(reach, own)
    allowed = rounded + SCATTER * np.where(np.isfinite(off), off, 0.0)
    # What is nearly as large as the largest number may be rounded to infinity.
    is_edge = np.isinf(got) & (np.sign(got) == np.sign(truth)) & (size + own >= float(info.max))
    is_right = (_gap(got, truth) <= allowed) | is_edge
    is_far = off > np.maximum(own, FLUSHED)
    is_zero = (expected == 0) | np.isinf(expected)
    return is_right, is_far, is_far & is_zero & (_gap(got, truth) <= rounded)


def _could_be(got: np.ndarray, seen: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Whether moved evaluations end as a result does: the same infinity, NaN, or such a number."""
    is_number = np.isfinite(seen)
    low = np.where(is_number, seen, np.inf).min(0)
    high = np.where(is_number, seen, -np.inf).max(0)
    with np.errstate(invalid="ignore", over="ignore"):
        far = SCATTER * np.where(is_number.any(0), high - low, 0.0) + reach
        is_among = (low - far <= got) & (got <= high + far)
    return np.where(np.isfinite(got), is_among, (_alike(seen, got) & ~is_number).any(0))


def _beside_a_pole(got: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Whether a number in place of infinity is as large as those of moved evaluations: near a pole
    it is reciprocals that scatter."""
    least = np.where(np.isfinite(seen), abs(seen), np.inf).min(0)
    return np.asarray(~np.isfinite(got) | (abs(got) * (1 + SCATTER) >= least))


def _alike(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether both are numbers, the same infinity, or NaN."""
    numbers = np.isfinite(one) & np.isfinite(other)
    return np.asarray(numbers | (one == other) | (np.isnan(one) & np.isnan(other)))


def _gap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far apart by element; infinitely where they do not agree on what is no finite number.

    Integers and booleans are the same or infinitely far apart.
    """
    if other.dtype.kind in "biu":
        return np.where(one == other, 0.0, np.inf)
    a, b = _wide(one), _wide(other)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf)
    return np.where(same, 0.0, finite)


def _rounding(expected: np.ndarray) -> np.ndarray:
    """A few units in the last place of each element."""
    if expected.dtype.kind in "biu":
        return np.zeros(expected.shape)
    if is_complex(expected.dtype):
        with np.errstate(over="ignore"):
            size = np.abs(expected).astype(real_dtype(expected.dtype))
        return np.maximum(_rounding(packed(expected)), _rounding(size)[..., None])
    info, size = jnp.finfo(expected.dtype), np.abs(_wide(expected))
    size = np.where(np.isfinite(size), size, 0.0)
    return ROUNDING * (float(info.eps) * size + max(float(info.smallest_subnormal), FLUSHED))


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)
