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

ROUNDING_UNITS = 16
"""Units in the last place that an element may be off whatever the graph. Of what ONNX Runtime
1.31.1 and XLA compute in one step, XLA's `sinh` and `cosh` were furthest from the truth: 13."""

SPREAD_FACTOR = 4
"""How many times the scatter of perturbed evaluations an element may be off. Of the right ones
among 250 random programs, the furthest was off once the scatter of four evaluations."""

MAX_PERTURBED_RUNS = 32
"""So many perturbed evaluations have to leave a difference unexplained; few are needed where a
result is right, for what is explained is not asked again."""

FLUSH_THRESHOLD = float(np.finfo(np.float32).smallest_normal)
"""What XLA takes for zero if it is below."""

COARSE_ROUNDING = 256
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
    return [tuple(map(int, position)) for position in np.argwhere(mask)[:1]]


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
        self._original_inputs = list(inputs)
        self._noise = noise
        self._function = function
        self._evaluations: list[list[np.ndarray]] = []
        self._has_unfinished_loop = False

    def judge(self, output: int, actual: np.ndarray, expected: np.ndarray) -> Judgement:
        """Judge an output: integers have to be equal, floats may be off by rounding.

        Both parts of a complex number, which are an axis of ``got``, may be off as the larger may.
        """
        difference, rounding = (
            _absolute_difference(actual, packed(expected)),
            _rounding_error(expected),
        )
        no_element = np.zeros(difference.shape, bool)
        if self._noise is None:  # a rounding of the largest element, for all
            return Judgement(
                difference > COARSE_ROUNDING / ROUNDING_UNITS * rounding.max(initial=0.0),
                no_element,
                no_element,
            )
        unexplained, tolerance = difference > rounding, rounding
        for run in range(1, MAX_PERTURBED_RUNS + 1):
            if not unexplained.any():
                break
            tolerance = np.maximum(
                tolerance,
                rounding + SPREAD_FACTOR * self._perturbation_spread(run, output, expected),
            )
            unexplained = difference > tolerance
        wrong, is_open, either = no_element.copy(), no_element.copy(), no_element.copy()
        if unexplained.any():
            evaluations = np.stack(
                [
                    np.asarray(self.run(i)[output])[unexplained]
                    for i in range(MAX_PERTURBED_RUNS + 1)
                ]
            )
            pair = np.asarray(actual)[unexplained], np.asarray(packed(expected))[unexplained]
            if expected.dtype.kind in "biu":
                wrong[unexplained] = ~(
                    _is_perturbed_integer(pair[0], evaluations)
                    & _is_perturbed_integer(pair[1], evaluations)
                )
            else:
                truth, tolerance = None, tolerance[unexplained]
                if self._float64_outputs is not None:
                    truth = self._float64_outputs[output][unexplained]
                    # A moved matrix may have no factors, so that no evaluation says how far.
                    is_never_finite = ~np.isfinite(_to_float64(evaluations[1:])).any(0)
                    rows = _row_rounding_error(expected, self._float64_outputs[output])[unexplained]
                    tolerance = np.where(is_never_finite, np.maximum(tolerance, rows), tolerance)
                wrong[unexplained], is_open[unexplained], either[unexplained] = (
                    _classify_unexplained(*pair, evaluations, truth, tolerance)
                )
        return Judgement(wrong, is_open, either)

    def _perturbation_spread(self, run: int, output: int, expected: np.ndarray) -> np.ndarray:
        """How far one moved evaluation is from the others; nowhere infinitely."""
        difference = _absolute_difference(self.run(run)[output], self.run(0)[output])
        difference = np.where(np.isfinite(difference), difference, 0.0)
        return (
            difference.max(-1, keepdims=True) + 0 * difference
            if is_complex(expected.dtype)
            else difference
        )

    def run(self, run: int) -> list[np.ndarray]:
        """The outputs with nothing moved, and then with one error after the other.

        Where errors keep a loop from ending, floats are NaN, as where they lead out of the finite
        numbers, and integers as if nothing had been moved.
        """
        assert self._noise is not None
        exact = self._unperturbed
        self._evaluations = self._evaluations or [exact.outputs]
        while len(self._evaluations) <= run:
            moved = self._noise.evaluate_perturbed(self.inputs, len(self._evaluations), exact)
            self._has_unfinished_loop = self._has_unfinished_loop or moved is None
            self._evaluations.append(moved or [_undetermined_output(y) for y in exact.outputs])
        return self._evaluations[run]

    @cached_property
    def _unperturbed(self) -> Exact:
        assert self._noise is not None
        return self._noise.evaluate_exact(self.inputs)

    @cached_property
    def _float64_outputs(self) -> list[np.ndarray] | None:
        """The outputs in float64; none where the function cannot be evaluated in it, or where its
        loops may not end in numbers that are a little off."""
        if self._function is None or self._has_unfinished_loop:
            return None
        try:
            with enable_x64(True):
                results = self._function(
                    *jax.device_put([_to_float64_input(x) for x in self._original_inputs])
                )
                leaves = [packed(np.asarray(key_numbers(x))) for x in jax.tree.leaves(results)]
        except (*RAISED, ConverterError):
            return None
        shapes = [np.shape(y) for y in self.run(0)]
        return leaves if [y.shape for y in leaves] == shapes else None


def _undetermined_output(output: np.ndarray) -> np.ndarray:
    return np.full_like(output, np.nan) if is_float(output.dtype) else output


def _row_rounding_error(expected: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """How far JAX is from float64 in the row of each element, several times over.

    What factors a matrix is off by its largest numbers, also where it has small ones.
    """
    difference = _absolute_difference(packed(expected), truth)
    difference = np.where(np.isfinite(difference), difference, 0.0)
    return SPREAD_FACTOR * (
        difference.max(-1, keepdims=True) + 0 * difference if difference.ndim > 1 else difference
    )


def _to_float64_input(x: Any) -> Any:
    if is_key(x):
        return x
    array = np.asarray(x)
    if is_complex(array.dtype):
        return array.astype(np.complex128)
    return array.astype(np.float64) if is_float(array.dtype) else array


def _is_perturbed_integer(actual: np.ndarray, evaluations: np.ndarray) -> np.ndarray:
    """Whether integers are among those that moved evaluations give.

    Where these are many, what lies between them is possible too.
    """
    low, high = evaluations.min(0), evaluations.max(0)
    are_two = ((evaluations == low) | (evaluations == high)).all(0)
    return np.asarray(
        (evaluations == actual).any(0) | (~are_two & (low <= actual) & (actual <= high))
    )


def _classify_unexplained(
    actual: np.ndarray,
    expected: np.ndarray,
    evaluations: np.ndarray,
    truth: np.ndarray | None,
    tolerance: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of elements that the scatter does not explain: which are wrong, open, or right either way.

    ``seen`` are the moved evaluations. Where all of them are finite, or all the same infinity or
    NaN, the element is wrong, unless XLA took what leads to it for zero, and the file, which did
    not, is beside the ``truth``. Else it is right if it is as near to the ``truth`` as JAX is. If
    it is not, moved evaluations that end as it does excuse it where JAX gives no number either, or
    another one than the truth; where JAX is right, it is open.
    """
    type_, (actual, expected, evaluations) = (
        expected.dtype,
        map(_to_float64, (actual, expected, evaluations)),
    )
    changes_class = ~_have_same_class(evaluations, evaluations[0]).all(0)
    is_right, is_jax_inaccurate, is_flushed_by_jax = np.zeros((3, *actual.shape), bool)
    if truth is not None:
        is_right, is_jax_inaccurate, is_flushed_by_jax = _compare_with_float64(
            actual, expected, _to_float64(truth), tolerance, jnp.finfo(type_)
        )
    is_possible = _is_reachable(actual, evaluations, tolerance) & _is_reachable(
        expected, evaluations, tolerance
    )
    is_possible &= ~np.isinf(expected) | _is_plausible_near_pole(actual, evaluations)
    is_excused = is_right | (is_possible & (is_jax_inaccurate | ~np.isfinite(expected)))
    is_open = changes_class & is_possible & ~is_excused
    wrong = ~is_flushed_by_jax & (~changes_class | ~(is_excused | is_open))
    are_finite = np.isfinite(actual) & np.isfinite(expected)
    return wrong, is_open, ~wrong & ~is_open & ~are_finite


def _compare_with_float64(
    actual: np.ndarray, expected: np.ndarray, truth: np.ndarray, tolerance: np.ndarray, info: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where a file is as near to the truth as JAX is, where JAX is far from it, and where JAX has
    instead of it zero, or the infinity that a zero leads to, and the file does not."""
    magnitude = np.where(np.isfinite(truth), abs(truth), 0.0)
    truth_rounding = ROUNDING_UNITS * float(info.eps) * magnitude
    jax_error = _absolute_difference(expected, truth)
    rounding = np.maximum(tolerance, truth_rounding)
    allowed = rounding + SPREAD_FACTOR * np.where(np.isfinite(jax_error), jax_error, 0.0)
    # What is nearly as large as the largest number may be rounded to infinity.
    is_overflow = (
        np.isinf(actual)
        & (np.sign(actual) == np.sign(truth))
        & (magnitude + truth_rounding >= float(info.max))
    )
    is_right = (_absolute_difference(actual, truth) <= allowed) | is_overflow
    is_jax_inaccurate = jax_error > np.maximum(truth_rounding, FLUSH_THRESHOLD)
    is_zero = (expected == 0) | np.isinf(expected)
    return (
        is_right,
        is_jax_inaccurate,
        is_jax_inaccurate & is_zero & (_absolute_difference(actual, truth) <= rounding),
    )


def _is_reachable(actual: np.ndarray, evaluations: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
    """Whether moved evaluations end as a result does: the same infinity, NaN, or such a number."""
    is_number = np.isfinite(evaluations)
    low = np.where(is_number, evaluations, np.inf).min(0)
    high = np.where(is_number, evaluations, -np.inf).max(0)
    with np.errstate(invalid="ignore", over="ignore"):
        margin = SPREAD_FACTOR * np.where(is_number.any(0), high - low, 0.0) + tolerance
        is_in_range = (low - margin <= actual) & (actual <= high + margin)
    return np.where(
        np.isfinite(actual),
        is_in_range,
        (_have_same_class(evaluations, actual) & ~is_number).any(0),
    )


def _is_plausible_near_pole(actual: np.ndarray, evaluations: np.ndarray) -> np.ndarray:
    """Whether a number in place of infinity is as large as those of moved evaluations: near a pole
    it is reciprocals that scatter."""
    least = np.where(np.isfinite(evaluations), abs(evaluations), np.inf).min(0)
    return np.asarray(~np.isfinite(actual) | (abs(actual) * (1 + SPREAD_FACTOR) >= least))


def _have_same_class(first_array: np.ndarray, second_array: np.ndarray) -> np.ndarray:
    """Whether both are numbers, the same infinity, or NaN."""
    are_finite = np.isfinite(first_array) & np.isfinite(second_array)
    return np.asarray(
        are_finite
        | (first_array == second_array)
        | (np.isnan(first_array) & np.isnan(second_array))
    )


def _absolute_difference(first_array: np.ndarray, second_array: np.ndarray) -> np.ndarray:
    """How far apart by element; infinitely where they do not agree on what is no finite number.

    Integers and booleans are the same or infinitely far apart.
    """
    if second_array.dtype.kind in "biu":
        return np.where(first_array == second_array, 0.0, np.inf)
    a, b = _to_float64(first_array), _to_float64(second_array)
    are_equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf)
    return np.where(are_equal, 0.0, differences)


def _rounding_error(expected: np.ndarray) -> np.ndarray:
    """A few units in the last place of each element."""
    if expected.dtype.kind in "biu":
        return np.zeros(expected.shape)
    if is_complex(expected.dtype):
        with np.errstate(over="ignore"):
            size = np.abs(expected).astype(real_dtype(expected.dtype))
        return np.maximum(_rounding_error(packed(expected)), _rounding_error(size)[..., None])
    info, size = jnp.finfo(expected.dtype), np.abs(_to_float64(expected))
    size = np.where(np.isfinite(size), size, 0.0)
    return ROUNDING_UNITS * (
        float(info.eps) * size + max(float(info.smallest_subnormal), FLUSH_THRESHOLD)
    )


def _to_float64(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)
