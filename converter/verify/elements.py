"""Judge which elements of a result are right, wrong or open.

An element is open if rounding could explain its difference, but there is no evidence that it does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from converter.errors import ConverterError
from converter.frontend.array_forms import is_key, key_numbers, to_graph_array
from converter.frontend.diagnostics import DIMENSION_ERRORS
from converter.ir.complex_pairs import is_complex, pack_complex, real_dtype
from converter.ir.dtypes import is_float
from converter.jax_versions import enable_x64
from converter.verify.noise import PerturbedEvaluation, UnperturbedResult

ROUNDING_UNITS = 16
"""Units in the last place that an element may differ by in any graph. Among operations that ONNX
Runtime 1.31.1 and XLA compute in one step, XLA's `sinh` and `cosh` have the largest error: 13."""

SPREAD_FACTOR = 4
"""Multiple of the spread of the perturbed evaluations that an element may differ by. Among the
right elements of 250 random programs, the largest difference was one spread of four evaluations."""

MAX_PERTURBED_RUNS = 32
"""Number of perturbed evaluations before a difference counts as unexplained. A right result needs
few, because elements that are explained are not considered again."""

FLUSH_THRESHOLD = float(np.finfo(np.float32).smallest_normal)
"""Magnitude below which XLA flushes numbers to zero."""

COARSE_ROUNDING = 256
"""Tolerance in units in the last place of the largest element, used if there is no graph to
evaluate."""


@dataclass(frozen=True)
class Judgement:
    """Decision about each element of an output, as three Boolean masks of the output's shape.

    An element that is in none of the masks is right, and finite unless the file and JAX have the
    same infinity or NaN.

    Arguments:
        is_wrong: elements whose difference is not explained by rounding.
        is_open: elements whose difference could be explained by rounding, without evidence that it
            is.
        rounding_decides: right elements for which the rounding error determines whether the result
            is finite, infinite or NaN, or which infinity it is. The results of the file and of JAX
            differ there, and at least one of them is not finite.
    """

    is_wrong: np.ndarray
    is_open: np.ndarray
    rounding_decides: np.ndarray


def first_position(mask: np.ndarray) -> list[tuple[int, ...]]:
    """Return a list with the position of the first true element of a mask, or an empty list if
    none is true."""
    return [tuple(map(int, position)) for position in np.argwhere(mask)[:1]]


class Judge:
    """Judge of the results that a file computes for one set of inputs.

    It evaluates the graph with random rounding errors only as often as a decision needs.

    Arguments:
        noise: perturbed evaluations of the traced graph; None if there is no graph.
        inputs: the inputs that the results belong to.
        name: name of the sample, used in messages.
        function: the function that the graph was traced from. It is evaluated in float64 where
            rounding leads to infinity or NaN.
    """

    def __init__(
        self,
        noise: PerturbedEvaluation | None,
        inputs: Sequence[Any],
        name: str = "",
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name
        self.inputs = [np.asarray(to_graph_array(x)) for x in inputs]
        self._original_inputs = list(inputs)
        self._noise = noise
        self._function = function
        self._evaluations: list[list[np.ndarray]] = []
        self._has_unfinished_loop = False

    def judge(self, output_index: int, actual: np.ndarray, expected: np.ndarray) -> Judgement:
        """Return for each element of an output whether it is right, wrong or open.

        Integers and Booleans have to be equal, unless rounding errors in the program can change
        them. Floats may differ by their rounding error, which is estimated from perturbed
        evaluations of the graph. Without a graph, floats may differ by ``COARSE_ROUNDING`` units in
        the last place of the largest element, and integers have to be equal.

        Arguments:
            output_index: position of the output among the outputs of the function.
            actual: the array of the file. A complex output has its real and imaginary parts on the
                last axis. Both may differ by the tolerance of the larger one.
            expected: the array of JAX, of a complex dtype for a complex output.

        Returns:
            Masks of the shape of ``actual``.
        """
        difference = _absolute_difference(actual, pack_complex(expected))
        rounding = _rounding_error(expected)
        no_element = np.zeros(difference.shape, bool)
        if self._noise is None:
            # Without perturbed evaluations, all elements get a tolerance from the largest one.
            coarse_tolerance = COARSE_ROUNDING / ROUNDING_UNITS * rounding.max(initial=0.0)
            return Judgement(difference > coarse_tolerance, no_element, no_element)
        unexplained, tolerance = difference > rounding, rounding
        for run_index in range(1, MAX_PERTURBED_RUNS + 1):
            if not unexplained.any():
                break
            spread = SPREAD_FACTOR * self._perturbation_spread(run_index, output_index, expected)
            tolerance = np.maximum(tolerance, rounding + spread)
            unexplained = difference > tolerance
        if not unexplained.any():
            return Judgement(no_element, no_element.copy(), no_element.copy())
        return self._judge_unexplained(output_index, actual, expected, unexplained, tolerance)

    def _judge_unexplained(
        self,
        output_index: int,
        actual: np.ndarray,
        expected: np.ndarray,
        unexplained: np.ndarray,
        tolerance: np.ndarray,
    ) -> Judgement:
        """Judge the elements of an output that differ by more than the tolerance.

        Arguments:
            output_index: position of the output.
            actual: the array of the file.
            expected: the array of JAX.
            unexplained: mask of the elements to judge. Other elements are right.
            tolerance: largest difference of each element that rounding explains.
        """
        wrong, is_open, rounding_decides = (np.zeros(unexplained.shape, bool) for _ in range(3))
        runs = [np.asarray(self.run(i)[output_index]) for i in range(MAX_PERTURBED_RUNS + 1)]
        evaluations = np.stack([result[unexplained] for result in runs])
        pair = np.asarray(actual)[unexplained], np.asarray(pack_complex(expected))[unexplained]
        if expected.dtype.kind in "biu":
            possible = [_is_perturbed_integer(numbers, evaluations) for numbers in pair]
            wrong[unexplained] = ~(possible[0] & possible[1])
            return Judgement(wrong, is_open, rounding_decides)
        truth, limits = None, tolerance[unexplained]
        if self._float64_outputs is not None:
            truth = self._float64_outputs[output_index][unexplained]
            # A matrix may have no factorization after it is perturbed. Then the evaluations do not
            # determine a tolerance.
            is_never_finite = ~np.isfinite(_to_float64(evaluations[1:])).any(0)
            rows = _row_rounding_error(expected, self._float64_outputs[output_index])[unexplained]
            limits = np.where(is_never_finite, np.maximum(limits, rows), limits)
        judged = _classify_unexplained(*pair, evaluations, truth, limits)
        wrong[unexplained], is_open[unexplained], rounding_decides[unexplained] = judged
        return Judgement(wrong, is_open, rounding_decides)

    def _perturbation_spread(
        self, run_index: int, output_index: int, expected: np.ndarray
    ) -> np.ndarray:
        """Return the absolute difference of each element between one perturbed evaluation and the
        unperturbed one.

        Infinite differences are treated as zero. Both parts of a complex number get the larger
        difference.

        Arguments:
            run_index: number of the perturbed evaluation, from 1.
            output_index: position of the output.
            expected: the array of JAX, whose dtype determines whether the output is complex.
        """
        difference = _absolute_difference(
            self.run(run_index)[output_index], self.run(0)[output_index]
        )
        difference = np.where(np.isfinite(difference), difference, 0.0)
        return (
            difference.max(-1, keepdims=True) + 0 * difference
            if is_complex(expected.dtype)
            else difference
        )

    def run(self, run_index: int) -> list[np.ndarray]:
        """Return the outputs of one evaluation of the graph, which is computed on first use.

        Run 0 is unperturbed. Every other run has other random rounding errors. If a loop does not
        end because of the errors, floats are NaN and integers have the values of run 0.
        """
        assert self._noise is not None
        exact = self._unperturbed
        self._evaluations = self._evaluations or [exact.outputs]
        while len(self._evaluations) <= run_index:
            perturbed = self._noise.evaluate_perturbed(self.inputs, len(self._evaluations), exact)
            self._has_unfinished_loop = self._has_unfinished_loop or perturbed is None
            self._evaluations.append(perturbed or [_undetermined_output(y) for y in exact.outputs])
        return self._evaluations[run_index]

    @cached_property
    def _unperturbed(self) -> UnperturbedResult:
        """The results of the graph without perturbations."""
        assert self._noise is not None
        return self._noise.evaluate_exact(self.inputs)

    @cached_property
    def _float64_outputs(self) -> list[np.ndarray] | None:
        """The outputs of the function for the inputs in float64.

        None if the function is not known or cannot be evaluated in float64, if its outputs then
        have other shapes, or if a loop did not end in a perturbed evaluation.
        """
        if self._function is None or self._has_unfinished_loop:
            return None
        try:
            with enable_x64(True):
                results = self._function(
                    *jax.device_put([_to_float64_input(x) for x in self._original_inputs])
                )
                leaves = [
                    pack_complex(np.asarray(key_numbers(x))) for x in jax.tree.leaves(results)
                ]
        except (*DIMENSION_ERRORS, ConverterError):
            return None
        shapes = [np.shape(y) for y in self.run(0)]
        return leaves if [y.shape for y in leaves] == shapes else None


def _undetermined_output(output: np.ndarray) -> np.ndarray:
    """Return NaN in the shape of an output of floats; other outputs are returned unchanged."""
    return np.full_like(output, np.nan) if is_float(output.dtype) else output


def _row_rounding_error(expected: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return for each element ``SPREAD_FACTOR`` times the largest difference between JAX and
    float64 along the last axis.

    In a vector, it is the difference of each element alone. Infinite differences are treated as
    zero. A matrix factorization has errors relative to its largest numbers, also in its small
    elements.
    """
    difference = _absolute_difference(pack_complex(expected), truth)
    difference = np.where(np.isfinite(difference), difference, 0.0)
    return SPREAD_FACTOR * (
        difference.max(-1, keepdims=True) + 0 * difference if difference.ndim > 1 else difference
    )


def _to_float64_input(x: Any) -> Any:
    """Return floats in float64 and complex numbers in complex128; integers and PRNG keys are
    returned unchanged."""
    if is_key(x):
        return x
    array = np.asarray(x)
    if is_complex(array.dtype):
        return array.astype(np.complex128)
    return array.astype(np.float64) if is_float(array.dtype) else array


def _is_perturbed_integer(integers: np.ndarray, evaluations: np.ndarray) -> np.ndarray:
    """Return a mask of the ``integers`` [elements] that rounding errors can lead to.

    ``evaluations`` are the evaluations of the graph [runs, elements]. An integer is possible if it
    is the result of one of them. Where they have more than two different results, all integers
    between the smallest and the largest are possible too.
    """
    low, high = evaluations.min(0), evaluations.max(0)
    are_two = ((evaluations == low) | (evaluations == high)).all(0)
    return np.asarray(
        (evaluations == integers).any(0) | (~are_two & (low <= integers) & (integers <= high))
    )


def _classify_unexplained(
    actual: np.ndarray,
    expected: np.ndarray,
    evaluations: np.ndarray,
    truth: np.ndarray | None,
    tolerance: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three masks of elements outside of the tolerance: wrong, open, and right although the
    file or JAX is not finite there.

    An element is wrong if all evaluations are finite there, or if all of them are the same infinity
    or NaN. There is one exception: the element is right if XLA flushed an intermediate number to
    zero and the file is close to the result in float64.

    For all other elements, these rules are applied in this order:

    - The element is right if the file is as close to the result in float64 as JAX.
    - It is wrong if rounding errors cannot lead to the number of the file, or not to that of JAX
      (``_is_reachable``, ``_is_plausible_near_pole``).
    - It is right if JAX's number is not finite or not accurate.
    - It is open.

    Without results in float64, no number counts as close to them or as not accurate.

    Arguments:
        actual: the numbers of the file, outside of the tolerance.
        expected: the numbers of JAX.
        evaluations: the evaluations of the graph [runs, elements], all but the first one perturbed.
        truth: the results of the function in float64; None if they are not known.
        tolerance: largest difference of each element that rounding explains.
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
    """Return three masks that compare the file and JAX with the result in float64, ``truth``.

    Arguments:
        actual: the numbers of the file.
        expected: the numbers of JAX.
        truth: the results of the function in float64.
        tolerance: largest difference of each element that rounding explains.
        info: the ``finfo`` of the output's dtype.

    Returns:
        Three masks. The first is true if the file is as close to the truth as JAX: it may differ by
        the tolerance plus ``SPREAD_FACTOR`` times JAX's difference, or be the infinity to which a
        number close to the largest finite one is rounded. The second is true if JAX is inaccurate.
        The third is true if JAX flushed a number to zero: JAX's result is then inaccurate and zero,
        or an infinity that is caused by a zero, and the file has the true result.
    """
    magnitude = np.where(np.isfinite(truth), abs(truth), 0.0)
    truth_rounding = ROUNDING_UNITS * float(info.eps) * magnitude
    jax_error = _absolute_difference(expected, truth)
    rounding = np.maximum(tolerance, truth_rounding)
    allowed = rounding + SPREAD_FACTOR * np.where(np.isfinite(jax_error), jax_error, 0.0)
    # A number close to the largest finite one may be rounded to infinity.
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


def _is_reachable(
    results: np.ndarray, evaluations: np.ndarray, tolerance: np.ndarray
) -> np.ndarray:
    """Return a mask of the results that rounding errors can lead to.

    An infinity or NaN is reachable if it is the result of one of the ``evaluations`` [runs,
    elements]. A finite number is reachable if it is between the smallest and the largest finite
    evaluation, or outside by at most the tolerance plus ``SPREAD_FACTOR`` times their range.
    """
    is_number = np.isfinite(evaluations)
    low = np.where(is_number, evaluations, np.inf).min(0)
    high = np.where(is_number, evaluations, -np.inf).max(0)
    with np.errstate(invalid="ignore", over="ignore"):
        margin = SPREAD_FACTOR * np.where(is_number.any(0), high - low, 0.0) + tolerance
        is_in_range = (low - margin <= results) & (results <= high + margin)
    return np.where(
        np.isfinite(results),
        is_in_range,
        (_have_same_class(evaluations, results) & ~is_number).any(0),
    )


def _is_plausible_near_pole(actual: np.ndarray, evaluations: np.ndarray) -> np.ndarray:
    """Return a mask of the elements at which the result of the file is plausible where JAX has
    infinity.

    A result is plausible if it is not finite, or if ``1 + SPREAD_FACTOR`` times its magnitude is at
    least the smallest magnitude of a finite evaluation. Near a pole, rounding errors change the
    reciprocals of the numbers, so that they do not explain a small finite number.
    """
    least = np.where(np.isfinite(evaluations), abs(evaluations), np.inf).min(0)
    return np.asarray(~np.isfinite(actual) | (abs(actual) * (1 + SPREAD_FACTOR) >= least))


def _have_same_class(first_array: np.ndarray, second_array: np.ndarray) -> np.ndarray:
    """Return a mask of the elements of the same class in both arrays.

    The classes are finite numbers, each infinity, and NaN.
    """
    are_finite = np.isfinite(first_array) & np.isfinite(second_array)
    return np.asarray(
        are_finite
        | (first_array == second_array)
        | (np.isnan(first_array) & np.isnan(second_array))
    )


def _absolute_difference(first_array: np.ndarray, second_array: np.ndarray) -> np.ndarray:
    """Return the absolute difference of each element in float64.

    It is zero where both numbers are NaN or the same infinity. It is infinite everywhere else where
    a number is not finite. If ``second_array`` has integers or Booleans, the difference is zero
    where the arrays are equal and infinite elsewhere.
    """
    if second_array.dtype.kind in "biu":
        return np.where(first_array == second_array, 0.0, np.inf)
    a, b = _to_float64(first_array), _to_float64(second_array)
    are_equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf)
    return np.where(are_equal, 0.0, differences)


def _rounding_error(expected: np.ndarray) -> np.ndarray:
    """Return ``ROUNDING_UNITS`` units in the last place of each element, plus a constant.

    The constant is ``ROUNDING_UNITS`` times the largest number that XLA may flush to zero. It is
    the result where an element is not finite. The result is zero for integers and Booleans. For a
    complex array it has a last axis of size two. Both parts of a complex number get the units of
    the larger of the part and the absolute value.
    """
    if expected.dtype.kind in "biu":
        return np.zeros(expected.shape)
    if is_complex(expected.dtype):
        with np.errstate(over="ignore"):
            size = np.abs(expected).astype(real_dtype(expected.dtype))
        return np.maximum(_rounding_error(pack_complex(expected)), _rounding_error(size)[..., None])
    info, size = jnp.finfo(expected.dtype), np.abs(_to_float64(expected))
    size = np.where(np.isfinite(size), size, 0.0)
    return ROUNDING_UNITS * (
        float(info.eps) * size + max(float(info.smallest_subnormal), FLUSH_THRESHOLD)
    )


def _to_float64(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)
